//go:build ignore

/*
 * The least that a bridge can be: one poll, two buffers, one client. What the
 * gateway's bridge is measured against, on the host and, compiled for MIPS
 * without a libc, on the emulated board. It is part of no image.
 *
 *   loop DEVICE PORT
 *
 * It serves DEVICE, whose rate it leaves as it is, on TCP port PORT of every
 * IPv4 address, one client after the other, and ends by a signal. It knows no
 * takeover, no end that waits for what was said last, no counters, no log.
 */
#include <stddef.h>

#ifdef __mips__
enum {
	EXIT = 4001, READ = 4003, WRITE = 4004, OPEN = 4005, CLOSE = 4006, IOCTL = 4054, FCNTL = 4055, ACCEPT = 4168,
	BIND = 4169, LISTEN = 4174, SETSOCKOPT = 4181, SOCKET = 4183, POLL = 4188,
};
enum { O_RDWR_ = 2, O_NOCTTY_ = 0x800, O_NONBLOCK_ = 0x80, F_SETFL_ = 4 };
enum { STREAM = 2, SOCKET_LEVEL = 0xffff, REUSEADDR = 4 };
enum { GET_TERMIOS = 0x540d, SET_TERMIOS = 0x540e, MIN_AT = 4, TIME_AT = 5, CC = 23 };

static long sys(long n, long a, long b, long c, long d, long e)
{
	register long v0 __asm__("$2") = n;
	register long a0 __asm__("$4") = a;
	register long a1 __asm__("$5") = b;
	register long a2 __asm__("$6") = c;
	register long a3 __asm__("$7") = d;

	__asm__ volatile("addiu $29, $29, -32\n\tsw %[e], 16($29)\n\tsyscall\n\taddiu $29, $29, 32"
			 : "+r"(v0), "+r"(a3)
			 : "r"(a0), "r"(a1), "r"(a2), [e] "r"(e)
			 : "$1", "$3", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$24", "$25", "hi", "lo", "memory");
	return a3 ? -v0 : v0;
}
#else
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	EXIT = SYS_exit, READ = SYS_read, WRITE = SYS_write, OPEN = SYS_open, CLOSE = SYS_close, IOCTL = SYS_ioctl,
	FCNTL = SYS_fcntl, ACCEPT = SYS_accept, BIND = SYS_bind, LISTEN = SYS_listen, SETSOCKOPT = SYS_setsockopt,
	SOCKET = SYS_socket, POLL = SYS_poll,
};
enum { O_RDWR_ = 2, O_NOCTTY_ = 0400, O_NONBLOCK_ = 04000, F_SETFL_ = 4 };
enum { STREAM = 1, SOCKET_LEVEL = 1, REUSEADDR = 2 };
enum { GET_TERMIOS = 0x5401, SET_TERMIOS = 0x5402, MIN_AT = 6, TIME_AT = 5, CC = 19 };

static long sys(long n, long a, long b, long c, long d, long e)
{
	long r = syscall(n, a, b, c, d, e);

	return r < 0 ? -errno : r;
}
#endif

enum { INET = 2, TCP = 6, NODELAY = 1, AGAIN = 11 };
enum { IN = 1, OUT = 4 };

struct pollfd_ { int fd; short events, revents; };
struct termios_ { unsigned iflag, oflag, cflag, lflag; unsigned char line, cc[CC]; };
struct address { unsigned short family; unsigned char port[2], rest[12]; };
struct buffer { long from, to; char bytes[4096]; };

static struct buffer to_uart, to_client;

static void die(const char *why)
{
	long n = 0;

	while (why[n] != 0)
		n++;
	sys(WRITE, 2, (long)why, n, 0, 0);
	sys(EXIT, 1, 0, 0, 0, 0);
}

static int open_uart(const char *path)
{
	long fd = sys(OPEN, (long)path, O_RDWR_ | O_NOCTTY_ | O_NONBLOCK_, 0, 0, 0);
	struct termios_ t;

	if (fd < 0 || sys(IOCTL, fd, GET_TERMIOS, (long)&t, 0, 0) < 0)
		die("loop: cannot open the device\n");
	t.iflag = t.oflag = t.lflag = 0;
	t.cflag = (t.cflag & 0x100f) | 0x8b0; /* the rate; CS8, CREAD, CLOCAL */
	t.cc[MIN_AT] = 1;
	t.cc[TIME_AT] = 0;
	if (sys(IOCTL, fd, SET_TERMIOS, (long)&t, 0, 0) < 0)
		die("loop: cannot set the device up\n");
	return fd;
}

static int open_port(const char *digits)
{
	long fd = sys(SOCKET, INET, STREAM, 0, 0, 0);
	struct address a = { .family = INET };
	int on = 1, port = 0;

	while (*digits != 0)
		port = port * 10 + *digits++ - '0';
	a.port[0] = port >> 8;
	a.port[1] = port;
	sys(SETSOCKOPT, fd, SOCKET_LEVEL, REUSEADDR, (long)&on, sizeof on);
	if (fd < 0 || sys(BIND, fd, (long)&a, sizeof a, 0, 0) < 0 || sys(LISTEN, fd, 4, 0, 0, 0) < 0)
		die("loop: cannot listen\n");
	return fd;
}

/* Moves bytes; 0 is an end or an error of one of the two. */
static int fill(int fd, struct buffer *b)
{
	long n = sys(READ, fd, (long)b->bytes, sizeof b->bytes, 0, 0);

	if (n > 0) {
		b->from = 0;
		b->to = n;
	}
	return n > 0 || n == -AGAIN;
}

static int drain(int fd, struct buffer *b)
{
	long n = sys(WRITE, fd, (long)(b->bytes + b->from), b->to - b->from, 0, 0);

	if (n > 0)
		b->from += n;
	return n >= 0 || n == -AGAIN;
}

static void serve(int uart, int client)
{
	struct pollfd_ p[2] = { { uart, 0, 0 }, { client, 0, 0 } };

	to_uart.from = to_uart.to = to_client.from = to_client.to = 0;
	for (;;) {
		int uart_waits = to_uart.from < to_uart.to, client_waits = to_client.from < to_client.to;

		p[0].events = (client_waits ? 0 : IN) | (uart_waits ? OUT : 0);
		p[1].events = (uart_waits ? 0 : IN) | (client_waits ? OUT : 0);
		if (sys(POLL, (long)p, 2, -1, 0, 0) <= 0)
			continue;
		if (p[0].revents & OUT && !drain(uart, &to_uart))
			return;
		if (p[1].revents & OUT && !drain(client, &to_client))
			return;
		if (p[0].revents & ~OUT && !client_waits && (!fill(uart, &to_client) || !drain(client, &to_client)))
			return;
		if (p[1].revents & ~OUT && !uart_waits && (!fill(client, &to_uart) || !drain(uart, &to_uart)))
			return;
	}
}

static void run(int argc, char **argv)
{
	int uart, port;

	if (argc != 3)
		die("usage: loop DEVICE PORT\n");
	uart = open_uart(argv[1]);
	port = open_port(argv[2]);
	for (;;) {
		long client = sys(ACCEPT, port, 0, 0, 0, 0);
		int on = 1;

		if (client < 0)
			continue;
		sys(SETSOCKOPT, client, TCP, NODELAY, (long)&on, sizeof on);
		sys(FCNTL, client, F_SETFL_, O_NONBLOCK_, 0, 0);
		serve(uart, client);
		sys(CLOSE, client, 0, 0, 0, 0);
	}
}

#ifdef __mips__
__attribute__((used)) static void begin(long *stack)
{
	run(stack[0], (char **)(stack + 1));
}

__asm__(".globl __start\n__start:\n\tmove $4, $29\n\taddiu $29, $29, -32\n\tjal begin\n");
#else
int main(int argc, char **argv)
{
	run(argc, argv);
}
#endif
