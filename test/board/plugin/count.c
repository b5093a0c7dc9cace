/*
 * QEMU plugin: counts guest instructions from the first one at an address
 * (kernel_execve: the kernel starts init) until a TCP port is listened on.
 *
 *   start=ADDR         where counting begins
 *   listen=FROM-TO     inet_csk_listen_start: its 16-bit accesses are to the
 *                      socket's port, and the value tells which
 *   port=N             ends the count
 *   ram=PATH           the file behind guest RAM, to read that value
 *   class=FROM-TO      kernel code that counts as decompression; repeatable
 *   counts=PATH        a file of three 64-bit words, host's byte order, that the
 *                      counts are kept in: decompress, kernel, user
 *   record=PATH        notes each word below 16 MiB of address space, where the
 *                      one program of this userland lies in every process, when
 *                      it is first run, read or written from the start on (the
 *                      kernel's accesses on its behalf too), and writes the
 *                      file at QEMU's end: lines "ADDRESS ORDER KIND", hex,
 *                      decimal, KIND a sum of 1 (run), 2 (memory) and 4 (only
 *                      after the listen)
 *
 * It says "gwcount: EVENT decompress kernel user" through -d plugin.
 * The prototypes are of plugin API version 1; Debian packages no header.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { CB_NO_REGS };
enum { INLINE_ADD_U64 };
enum { MEM_RW = 3 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
	void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *,
	void (*)(unsigned, void *), int flags, void *);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *,
	int op, void *ptr, uint64_t imm);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
	void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *), int flags, int rw, void *);
extern unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t,
	void (*)(qemu_plugin_id_t, void *), void *);
extern void qemu_plugin_outs(const char *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { DECOMPRESS, KERNEL, USER, CLASSES };
struct range { uint64_t from, to; };

static struct range class_[512], listen_;
static int classes;
static uint64_t start, own_count[CLASSES], *count = own_count;
static unsigned port;
static bool started;
static bool late;
static const uint8_t *ram;
static size_t ram_size;

enum { PROGRAM_END = 16 << 20 };
enum { RUN = 1, MEMORY = 2, LATE = 4 };
static struct touch { uint32_t order; uint8_t kind; } touched[PROGRAM_END / 4];
static uint32_t touches;
static const char *record;

static void say(const char *event)
{
	char line[160];

	snprintf(line, sizeof line, "gwcount: %s %llu %llu %llu\n", event,
		 (unsigned long long)count[DECOMPRESS], (unsigned long long)count[KERNEL],
		 (unsigned long long)count[USER]);
	qemu_plugin_outs(line);
}

static void on_start(unsigned cpu, void *data)
{
	(void)cpu, (void)data;
	if (started)
		return;
	started = true;
	memset(count, 0, sizeof own_count);
	say("start");
}

static void on_listen(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	uint64_t at = vaddr - 0x80000000; /* KSEG0 */

	(void)cpu, (void)data;
	if (!started || qemu_plugin_mem_size_shift(info) != 1 || vaddr < 0x80000000 || at + 2 > ram_size)
		return;
	if ((unsigned)(ram[at] << 8 | ram[at + 1]) == port) {
		say("listen");
		port = ~0u;
		late = true;
	}
}

static void touch(uint64_t vaddr, int kind)
{
	struct touch *t;

	if (!started || vaddr >= PROGRAM_END)
		return;
	t = &touched[vaddr / 4];
	if (t->order == 0) {
		t->order = ++touches;
		t->kind = late ? LATE : 0;
	}
	t->kind |= kind;
}

static void on_run(unsigned cpu, void *vaddr)
{
	(void)cpu;
	touch((uintptr_t)vaddr, RUN);
}

static void on_memory(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	(void)cpu, (void)data, (void)info;
	touch(vaddr, MEMORY);
}

static void write_record(qemu_plugin_id_t id, void *data)
{
	FILE *f = fopen(record, "w");

	(void)id, (void)data;
	for (size_t i = 0; f != NULL && i < PROGRAM_END / 4; i++)
		if (touched[i].order != 0)
			fprintf(f, "%zx %u %d\n", i * 4, touched[i].order, touched[i].kind);
	if (f == NULL || fclose(f) != 0)
		fprintf(stderr, "gwcount: cannot write %s\n", record);
}

static bool in(struct range r, uint64_t pc)
{
	return r.from <= pc && pc < r.to;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn) & 0xffffffff;
		int class = pc < 0x80000000 ? USER : KERNEL;

		for (int c = 0; class == KERNEL && c < classes; c++)
			if (in(class_[c], pc))
				class = DECOMPRESS;
		if (pc == start)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_start, CB_NO_REGS, NULL);
		if (in(listen_, pc))
			qemu_plugin_register_vcpu_mem_cb(insn, on_listen, CB_NO_REGS, MEM_RW, NULL);
		if (record != NULL && class == USER)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_run, CB_NO_REGS, (void *)(uintptr_t)pc);
		if (record != NULL && class != DECOMPRESS)
			qemu_plugin_register_vcpu_mem_cb(insn, on_memory, CB_NO_REGS, MEM_RW, NULL);
		qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &count[class], 1);
	}
}

static bool parse_range(const char *s, struct range *r)
{
	char *end;

	r->from = strtoull(s, &end, 0);
	if (*end != '-')
		return false;
	r->to = strtoull(end + 1, &end, 0);
	return *end == 0;
}

static void *map(const char *path, bool writable, size_t *size)
{
	struct stat st;
	int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	void *p = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		p = mmap(NULL, st.st_size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
		*size = st.st_size;
	}
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	size_t size;

	(void)info;
	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		bool ok = value != NULL;

		if (ok) {
			*value++ = 0;
			if (!strcmp(argv[i], "start"))
				start = strtoull(value, NULL, 0);
			else if (!strcmp(argv[i], "listen"))
				ok = parse_range(value, &listen_);
			else if (!strcmp(argv[i], "port"))
				port = atoi(value);
			else if (!strcmp(argv[i], "ram"))
				ok = (ram = map(value, false, &ram_size)) != NULL;
			else if (!strcmp(argv[i], "counts"))
				ok = (count = map(value, true, &size)) != NULL && size >= sizeof own_count;
			else if (!strcmp(argv[i], "record"))
				record = strdup(value);
			else if (!strcmp(argv[i], "class") && classes < (int)(sizeof class_ / sizeof class_[0]))
				ok = parse_range(value, &class_[classes++]);
			else
				ok = false;
		}
		if (!ok) {
			fprintf(stderr, "gwcount: bad argument %s\n", argv[i]);
			return -1;
		}
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	if (record != NULL)
		qemu_plugin_register_atexit_cb(id, write_record, NULL);
	return 0;
}
