//go:build ignore

/*
 * Both ends of a bridge in one thread: the radio, which is the master of a pty
 * pair (descriptor 3), and the TCP client. A frame goes in at one end, is
 * waited for at the other, and goes back; so nothing else runs than the bridge
 * and this, and no echoing process is part of the figures.
 *
 *   drive PORT PID                PID is the bridge, whose CPU time is read
 *   drive floor SLAVE PORT        is a bridge that knows what comes next: read,
 *                                 write, read, write, no wait for both ends
 *
 * The first says "ready" and takes a phase a line on its standard input:
 *
 *   rtt:SIZE:COUNT:GAP            COUNT frames there and back, GAP us apart
 *   client:BYTES                  from the radio to the client
 *   radio:BYTES                   from the client to the radio
 *   line:SECONDS                  both ways at 892,857 baud
 *
 * For each it prints "BYTES WALL_NS CPU_NS COUNT" and COUNT lines of ns.
 * Bytes are checked against a pattern; a wrong or missing one is an error.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MASTER = 3, PATTERN = 251, ROOM = 1 << 16, MOST = 1 << 20, LINE_BYTES = 89286 };

static unsigned char pattern[ROOM + PATTERN], got[ROOM];
static unsigned samples[MOST];
static clockid_t bridge_cpu;

static void fail(const char *what)
{
	fprintf(stderr, "drive: %s: %s\n", what, errno ? strerror(errno) : "wrong");
	exit(1);
}

static long long ns(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t) < 0)
		fail("clock");
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void put(int fd, const unsigned char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, p, n);

		if (done <= 0)
			fail("write");
		p += done;
		n -= done;
	}
}

/* Reads n bytes, which must be the pattern's from at on. */
static void want(int fd, size_t at, size_t n)
{
	while (n > 0) {
		ssize_t done = read(fd, got, n < ROOM ? n : ROOM);

		errno = done > 0 ? 0 : errno;
		if (done <= 0 || memcmp(got, pattern + at % PATTERN, done) != 0)
			fail(done <= 0 ? "read" : "the bytes");
		at += done;
		n -= done;
	}
}

static int dial(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;

	for (int try = 0; try < 500; try++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
			return fd;
		}
		close(fd);
		usleep(10000);
	}
	fail("connect");
	return -1;
}

/* Sends bytes until one arrives at the radio: the bridge is there. */
static void warm_up(int sock)
{
	struct pollfd p = { .fd = MASTER, .events = POLLIN };
	struct pollfd q = { .fd = sock, .events = POLLIN };

	for (int try = 0; try < 100; try++) {
		put(sock, pattern, 8);
		if (poll(&p, 1, 100) > 0)
			break;
	}
	while (poll(&p, 1, 200) > 0)
		if (read(MASTER, got, ROOM) <= 0)
			fail("read");
	/* What a bridge says to a client of its own accord is not ours. */
	while (poll(&q, 1, 0) > 0)
		if (read(sock, got, ROOM) <= 0)
			fail("read");
}

static size_t round_trips(int sock, size_t size, size_t count, unsigned gap)
{
	if (size > ROOM || count > MOST)
		fail("too many");
	for (size_t i = 0; i < count; i++) {
		long long began = ns(CLOCK_MONOTONIC);

		put(sock, pattern + i % PATTERN, size);
		want(MASTER, i, size);
		put(MASTER, pattern + i % PATTERN, size);
		want(sock, i, size);
		samples[i] = ns(CLOCK_MONOTONIC) - began;
		if (gap)
			usleep(gap);
	}
	return count;
}

/* In a child: the source, at full speed or at the line's. */
static pid_t source(int fd, size_t bytes, bool paced)
{
	pid_t parent = getpid(), child = fork();
	long long began;

	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	began = ns(CLOCK_MONOTONIC);
	for (size_t sent = 0; sent < bytes;) {
		size_t n = bytes - sent, most = 4096;

		if (paced) {
			long long due = (ns(CLOCK_MONOTONIC) - began) * LINE_BYTES / 1000000000 - sent;

			if (due <= 0) {
				usleep(1000);
				continue;
			}
			most = due < 4096 ? due : 4096;
		}
		if (n > most)
			n = most;
		put(fd, pattern + sent % PATTERN, n);
		sent += n;
	}
	_exit(0);
}

static void reap(pid_t child)
{
	int status;

	errno = 0;
	if (waitpid(child, &status, 0) != child || status != 0)
		fail("the source");
}

static void one_way(int from, int to, size_t bytes)
{
	pid_t child = source(from, bytes, false);

	want(to, 0, bytes);
	reap(child);
}

static void both_ways(int sock, size_t bytes)
{
	pid_t a = source(MASTER, bytes, true), b = source(sock, bytes, true);
	pid_t parent = getpid(), sink = fork();

	if (sink == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			want(MASTER, 0, bytes);
		_exit(getppid() != parent);
	}
	want(sock, 0, bytes);
	reap(a);
	reap(b);
	reap(sink);
}

static void phase(int sock, const char *name)
{
	size_t a, b, count = 0, bytes;
	unsigned gap = 0;
	long long wall = ns(CLOCK_MONOTONIC), cpu = ns(bridge_cpu);

	if (sscanf(name, "rtt:%zu:%zu:%u", &a, &b, &gap) == 3) {
		count = round_trips(sock, a, b, gap);
		bytes = 2 * a * b;
	} else if (sscanf(name, "client:%zu", &bytes) == 1) {
		one_way(MASTER, sock, bytes);
	} else if (sscanf(name, "radio:%zu", &bytes) == 1) {
		one_way(sock, MASTER, bytes);
	} else if (sscanf(name, "line:%zu", &a) == 1) {
		both_ways(sock, a * LINE_BYTES);
		bytes = 2 * a * LINE_BYTES;
	} else {
		fail(name);
	}
	wall = ns(CLOCK_MONOTONIC) - wall;
	cpu = ns(bridge_cpu) - cpu;
	printf("%zu %lld %lld %zu\n", bytes, wall, cpu, count);
	for (size_t i = 0; i < count; i++)
		printf("%u\n", samples[i]);
}

static void floor_bridge(const char *slave, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), uart = open(slave, O_RDWR | O_NOCTTY), sock, on = 1;
	ssize_t n;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (uart < 0 || bind(listener, (struct sockaddr *)&a, sizeof a) < 0 || listen(listener, 1) < 0)
		fail("floor");
	sock = accept(listener, NULL, NULL);
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	/* The warm-up, which is one way. */
	if ((n = read(sock, got, ROOM)) <= 0)
		return;
	put(uart, got, n);
	for (;;) {
		size_t back;

		if ((n = read(sock, got, ROOM)) <= 0)
			return;
		put(uart, got, n);
		for (back = n; back > 0; back -= n) {
			if ((n = read(uart, got, ROOM)) <= 0)
				return;
			put(sock, got, n);
		}
	}
}

int main(int argc, char **argv)
{
	char line[80];
	int sock;

	if (argc == 4 && !strcmp(argv[1], "floor")) {
		floor_bridge(argv[2], atoi(argv[3]));
		return 0;
	}
	if (argc != 3)
		fail("usage: drive PORT PID");
	for (size_t i = 0; i < sizeof pattern; i++)
		pattern[i] = i % PATTERN;
	if (clock_getcpuclockid(atoi(argv[2]), &bridge_cpu) != 0)
		fail("the bridge's CPU time");
	sock = dial(atoi(argv[1]));
	warm_up(sock);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) != NULL) {
		line[strcspn(line, "\n")] = 0;
		phase(sock, line);
		fflush(stdout);
	}
	return 0;
}
