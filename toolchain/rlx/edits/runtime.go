package edits

// runtimeEdits are faults of Go's 32-bit MIPS runtime, and costs that only a
// slow single core feels.
var runtimeEdits = []Edit{
	{
		Name: "no preemption by signal", File: "runtime/signal_unix.go",
		Why: `The tables of the places where a signal may preempt a goroutine take 48 KiB of
flash, and the linker leaves them out. A goroutine is preempted where it calls, as
before Go 1.14: a loop without calls holds its process up to its end.`,
		Old: "const preemptMSupported = true\n",
		New: `const preemptMSupported = GOARCH != "mips"` + "\n",
	},
	{
		Name: "no preemption by another's signal", File: "runtime/signal_unix.go",
		Why: "As above: anybody may send SIGURG.",
		Old: "	if sig == sigPreempt && debug.asyncpreemptoff == 0 && !delayedSignal {\n",
		New: "	if sig == sigPreempt && preemptMSupported && debug.asyncpreemptoff == 0 && !delayedSignal {\n",
	},
	{
		Name: "usleep's nanoseconds", File: "runtime/sys_linux_mipsx.s",
		Why: `usleep passed usec-1000*sec as the nanoseconds: a thousandth of what was asked
for. The monitor thread, which means to sleep 20 us to 10 ms, sleeps 20 ns to
10 us and polls some 14,000 times a second. Seen with strace: usleep(20) shows
tv_nsec=20. The division gives the rest of a second as well, in HI; that times
1000 is the answer. The sleep goes through clock_nanosleep_time64 where the
kernel has it (5.1), so that one without 32-bit time calls sleeps too.`,
		Old: `TEXT runtime·usleep(SB),NOSPLIT,$28-4
	MOVW	usec+0(FP), R3
	MOVW	R3, R5
	MOVW	$1000000, R4
	DIVU	R4, R3
	MOVW	LO, R3
	MOVW	R3, 24(R29)
	MOVW	$1000, R4
	MULU	R3, R4
	MOVW	LO, R4
	SUBU	R4, R5
	MOVW	R5, 28(R29)

	// nanosleep(&ts, 0)
	ADDU	$24, R29, R4
	MOVW	$0, R5
	MOVW	$SYS_nanosleep, R2
	SYSCALL
	RET
`,
		New: `TEXT runtime·usleep(SB),NOSPLIT,$32-4
	MOVW	usec+0(FP), R3
	MOVW	$1000000, R4
	DIVU	R4, R3
	MOVW	LO, R8		// seconds
	MOVW	HI, R9		// microseconds
	MOVW	$1000, R4
	MULU	R4, R9
	MOVW	LO, R9		// nanoseconds

	MOVBU	runtime·use64bitsTimeOn32bits(SB), R1
	BEQ	R1, old
	// struct __kernel_timespec: two 64-bit words.
#ifdef GOARCH_mips
	MOVW	R0, 16(R29)
	MOVW	R8, 20(R29)
	MOVW	R0, 24(R29)
	MOVW	R9, 28(R29)
#else
	MOVW	R8, 16(R29)
	MOVW	R0, 20(R29)
	MOVW	R9, 24(R29)
	MOVW	R0, 28(R29)
#endif
	// clock_nanosleep_time64(CLOCK_MONOTONIC, 0, &ts, 0)
	MOVW	$1, R4
	MOVW	$0, R5
	ADDU	$16, R29, R6
	MOVW	$0, R7
	MOVW	$SYS_clock_nanosleep_time64, R2
	SYSCALL
	BEQ	R7, done
	MOVW	$89, R1		// ENOSYS; a signal's EINTR ends the sleep
	BNE	R1, R2, done
#ifdef GOARCH_mips
	MOVW	20(R29), R8
	MOVW	28(R29), R9
#else
	MOVW	16(R29), R8
	MOVW	24(R29), R9
#endif
old:
	MOVW	R8, 16(R29)
	MOVW	R9, 20(R29)
	// nanosleep(&ts, 0)
	ADDU	$16, R29, R4
	MOVW	$0, R5
	MOVW	$SYS_nanosleep, R2
	SYSCALL
done:
	RET
`,
	},
	{
		Name: "numbers of the 64-bit time calls", File: "runtime/sys_linux_mipsx.s",
		Why: "For usleep, walltime and nanotime1. From arch/mips/kernel/syscalls/syscall_o32.tbl.",
		Old: `#define SYS_tgkill		4266
`,
		New: `#define SYS_tgkill		4266
#define SYS_clock_gettime64	4403
#define SYS_clock_nanosleep_time64	4407
`,
	},
	{
		Name: "walltime beyond 2038", File: "runtime/sys_linux_mipsx.s",
		Why: `clock_gettime fills in 32-bit seconds, and a kernel need not have it any more
(CONFIG_COMPAT_32BIT_TIME). clock_gettime64 is asked first where the kernel has
it (5.1), the old call if not.`,
		Old: `TEXT runtime·walltime(SB),NOSPLIT,$8-12
	MOVW	$0, R4	// CLOCK_REALTIME
	MOVW	$4(R29), R5
`,
		New: `TEXT runtime·walltime(SB),NOSPLIT,$24-12
	MOVBU	runtime·use64bitsTimeOn32bits(SB), R1
	BEQ	R1, old
	MOVW	$0, R4	// CLOCK_REALTIME
	MOVW	$8(R29), R5
	MOVW	$SYS_clock_gettime64, R2
	SYSCALL
	BNE	R7, old
	MOVW	8(R29), R3
	MOVW	12(R29), R4
#ifdef GOARCH_mips
	MOVW	20(R29), R5	// nsec, its low half
#else
	MOVW	16(R29), R5
#endif
	MOVW	$sec+0(FP), R6
	MOVW	R3, 0(R6)
	MOVW	R4, 4(R6)
	MOVW	R5, nsec+8(FP)
	RET
old:
	MOVW	$0, R4	// CLOCK_REALTIME
	MOVW	$4(R29), R5
`,
	},
	{
		Name: "nanotime by the 64-bit call", File: "runtime/sys_linux_mipsx.s",
		Why: `As walltime, for kernels without the 32-bit calls. Seconds since boot fit 32
bits, so the arithmetic stays.`,
		Old: `TEXT runtime·nanotime1(SB),NOSPLIT,$8-8
	MOVW	$1, R4	// CLOCK_MONOTONIC
	MOVW	$4(R29), R5
	MOVW	$SYS_clock_gettime, R2
	SYSCALL
	MOVW	4(R29), R3	// sec
	MOVW	8(R29), R5	// nsec
	// sec is in R3, nsec in R5
`,
		New: `TEXT runtime·nanotime1(SB),NOSPLIT,$24-8
	MOVBU	runtime·use64bitsTimeOn32bits(SB), R1
	BEQ	R1, old
	MOVW	$1, R4	// CLOCK_MONOTONIC
	MOVW	$8(R29), R5
	MOVW	$SYS_clock_gettime64, R2
	SYSCALL
	BNE	R7, old
#ifdef GOARCH_mips
	MOVW	12(R29), R3	// sec, its low half
	MOVW	20(R29), R5	// nsec, its low half
#else
	MOVW	8(R29), R3
	MOVW	16(R29), R5
#endif
	JMP	have
old:
	MOVW	$1, R4	// CLOCK_MONOTONIC
	MOVW	$4(R29), R5
	MOVW	$SYS_clock_gettime, R2
	SYSCALL
	MOVW	4(R29), R3	// sec
	MOVW	8(R29), R5	// nsec
have:
	// sec is in R3, nsec in R5
`,
	},
	{
		Name: "timespec's nanoseconds", File: "runtime/defs_linux_mipsx.go",
		Why: `struct __kernel_timespec (include/uapi/linux/time_types.h) has 64-bit
nanoseconds. Declared as an int32 followed by padding, a big-endian kernel reads
them as the high half, which a 32-bit kernel drops: a futex wait of 4.99 s lasts 4 s, one of less than a second returns at
once, and whoever waits turns into a loop that takes the whole CPU. Seen with
strace: an idle program with one 5 s ticker makes 2,000 futex calls a second.
As an int64 the type is right on both byte orders. itimerspec is two of them.
The rest of the division is computed from its result: a second 64-bit division
costs some hundred instructions here, at every wait.`,
		Old: `	tv_sec  int64
	tv_nsec int32
	_       [4]byte // the C ABI aligns int64 to 8 bytes
}

//go:nosplit
func (ts *timespec) setNsec(ns int64) {
	ts.tv_sec = ns / 1e9
	ts.tv_nsec = int32(ns % 1e9)
}`,
		New: `	tv_sec  int64
	tv_nsec int64
}

//go:nosplit
func (ts *timespec) setNsec(ns int64) {
	ts.tv_sec = ns / 1e9
	ts.tv_nsec = ns - ts.tv_sec*1e9
}`,
	},
	{
		Name: "no walk over the table of functions", File: "runtime/symtab.go",
		Why: `Every process checks at its start that the linker sorted this table, and with
that reads all of it from flash, through the decompressor, before main. The
linker sorts it; a test of the linker is the place to see to that.`,
		Old: `	for i := 0; i < nftab; i++ {
		// NOTE: ftab[nftab].entry is legal`,
		New: `	for i := nftab; i < nftab; i++ {
		// NOTE: ftab[nftab].entry is legal`,
	},
	{
		Name: "file times to 2106", File: "os/stat_linux.go",
		Why: `stat64 of the o32 ABI has 32-bit seconds, into which the kernel puts the low
half of its own. Read as signed they are 1901 from 2038 on; as unsigned they are
right until 2106, which is how far the file systems of such a box (squashfs,
jffs2: unsigned 32-bit seconds) go. Files from before 1970 do not exist there.`,
		Old: `	fs.modTime = time.Unix(fs.sys.Mtim.Unix())
`,
		New: `	sec, nsec := fs.sys.Mtim.Unix()
	if runtime.GOARCH == "mips" {
		sec = int64(uint32(sec))
	}
	fs.modTime = time.Unix(sec, nsec)
`,
	},
	{
		Name: "file times to 2106: import", File: "os/stat_linux.go",
		Why: "For the name of the architecture.",
		Old: `	"internal/filepathlite"
`,
		New: `	"internal/filepathlite"
	"runtime"
`,
	},
	{
		Name: "set file times to 2106", File: "syscall/syscall_linux.go",
		Why: `utimensat takes 32-bit seconds, which from 2038 on are negative: jffs2 stores
1970. utimensat_time64 (5.1) takes them as what os.Chtimes' truncation left:
unsigned, good until 2106. Without it, the old call.`,
		Old: `	return utimensat(_AT_FDCWD, path, (*[2]Timespec)(unsafe.Pointer(&ts[0])), 0)
}

func Futimesat(`,
		New: `	if runtime.GOARCH == "mips" {
		const sysUtimensatTime64 = 4412
		p, err := BytePtrFromString(path)
		if err != nil {
			return err
		}
		var t [2]struct{ sec, nsec int64 } // struct __kernel_timespec
		for i := range t {
			t[i].sec, t[i].nsec = int64(uint32(ts[i].Sec)), int64(ts[i].Nsec)
		}
		dir := _AT_FDCWD
		_, _, e := Syscall6(sysUtimensatTime64, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&t)), 0, 0, 0)
		if e == 0 {
			return nil
		}
		if e != ENOSYS {
			return errnoErr(e)
		}
	}
	return utimensat(_AT_FDCWD, path, (*[2]Timespec)(unsafe.Pointer(&ts[0])), 0)
}

func Futimesat(`,
	},
	{
		Name: "sysmon's first sleep", File: "runtime/proc.go",
		Why: `The monitor thread looks every 20 us, fifty times, after each time that the
program was idle. A look is a nanosleep, two clock reads and two thread switches,
some tens of microseconds at 400 MHz, on the core that the program wants: for each
lone event of an idle program the monitor runs longer than the program. On this
CPU it begins with 1 ms and doubles at once, up to the same 10 ms. What that
delays is taking the P from a system call that blocks while others wait, by a
millisecond; it is 10 ms already whenever the monitor has settled. Preemption
after 10 ms is as before.`,
		Old: `		if idle == 0 { // start with 20us sleep...
			delay = 20
		} else if idle > 50 { // start doubling the sleep after 1ms...
			delay *= 2
		}
`,
		New: `		if idle == 0 { // start with 20us sleep...
			delay = sysmonFirstSleep
		} else if idle > 50*(1-goarch.IsMips) { // start doubling the sleep after 1ms...
			delay *= 2
		}
`,
	},
	{
		Name: "sysmon's first sleep: after a wake-up", File: "runtime/proc.go",
		Why: "As at the top of the loop.",
		Old: `				if syscallWake {
					idle = 0
					delay = 20
				}
`,
		New: `				if syscallWake {
					idle = 0
					delay = sysmonFirstSleep
				}
`,
	},
	{
		Name: "sysmon's first sleep: its length", File: "runtime/proc.go",
		Why: "In one place.",
		Old: `var forcegcperiod int64 = 2 * 60 * 1e9
`,
		New: `var forcegcperiod int64 = 2 * 60 * 1e9

// sysmonFirstSleep is how long sysmon sleeps after it had something to do, in
// microseconds: 1 ms on MIPS, where a look costs a single slow core some tens of
// microseconds.
const sysmonFirstSleep = 20 + 980*goarch.IsMips
`,
	},
	{
		Name: "the count of CPUs does not change", File: "runtime/proc.go",
		Why: `Once a second sysmon asks for the affinity mask, with a buffer of 8 KiB to clear,
and for the cgroup's quota, in case GOMAXPROCS ought to change. This CPU has one
core, and its kernels no cgroups.`,
		Old: `		if debug.updatemaxprocs != 0 && lastgomaxprocs+1e9 <= now {
`,
		New: `		if goarch.IsMips == 0 && debug.updatemaxprocs != 0 && lastgomaxprocs+1e9 <= now {
`,
	},
	{
		Name: "no goroutine for the count of CPUs", File: "runtime/proc.go",
		Why: "It would wait for ever for what sysmon does not find: a stack saved.",
		Old: `		updatemaxprocs.IncNonDefault()
		return
	}

	go updateMaxProcsGoroutine()
`,
		New: `		updatemaxprocs.IncNonDefault()
		return
	}

	if goarch.IsMips == 0 {
		go updateMaxProcsGoroutine()
	}
`,
	},
	{
		Name: "no cgroup at the start", File: "runtime/cgroup_linux.go",
		Why: `Every start opened and parsed /proc/self/cgroup, and the mount table where it
exists, for a CPU quota. With one core there is no smaller GOMAXPROCS; the parsers
and their buffer are not linked any more.`,
		Old: `	c, err := cgroup.OpenCPU(cgroupScratch[:])
`,
		New: `	if goarch.IsMips != 0 {
		return
	}
	c, err := cgroup.OpenCPU(cgroupScratch[:])
`,
	},
	{
		Name: "no cgroup at the start: import", File: "runtime/cgroup_linux.go",
		Why: "For the name of the architecture.",
		Old: `import (
	"internal/runtime/cgroup"
)
`,
		New: `import (
	"internal/goarch"
	"internal/runtime/cgroup"
)
`,
	},
	{
		Name: "a smaller mask of CPUs", File: "runtime/os_linux.go",
		Why: "A mask for 65,536 CPUs is 8 KiB to clear and to touch at each start; 1,024 will do.",
		Old: `	const maxCPUs = 64 * 1024
`,
		New: `	const maxCPUs = 64 * 1024 >> (6 * goarch.IsMips)
`,
	},
	{
		Name: "fewer events at a time", File: "runtime/netpoll_epoll.go",
		Why: `netpoll clears room for 128 events, 2 KiB, at each call, word by word: some
thousands of instructions, most of what a call costs. The scheduler calls it
whenever it finds nothing to run. 16 events are 256 bytes; what does not fit
stays on epoll's list and comes with the next call.`,
		Old: `	var events [128]linux.EpollEvent
`,
		New: `	var events [128 >> (3 * goarch.IsMips)]linux.EpollEvent
`,
	},
	{
		Name: "fewer events at a time: import", File: "runtime/netpoll_epoll.go",
		Why: "For the name of the architecture.",
		Old: `import (
	"internal/runtime/atomic"
	"internal/runtime/syscall/linux"
`,
		New: `import (
	"internal/goarch"
	"internal/runtime/atomic"
	"internal/runtime/syscall/linux"
`,
	},
	{
		Name: "one wake-up for a timer", File: "runtime/netpoll_epoll.go",
		Why: `The scheduler waits for the next timer in epoll_wait, whose milliseconds netpoll
rounds down: it wakes before the timer is due, finds nothing, and waits another
millisecond. Every timer of an idle program costs two wake-ups of the process.
epoll_pwait2 (5.11) takes nanoseconds; without it the rounding goes up, as it
already does below a millisecond.`,
		Old: `	n, errno := linux.EpollWait(epfd, events[:], int32(len(events)), waitms)
`,
		New: `	n, errno := epollWait(epfd, events[:], waitms, delay)
`,
	},
	{
		Name: "smaller pieces for mark bits", File: "runtime/mheap.go",
		Why: `A collection takes its mark bits from pieces of 64 KiB, of which it then clears the
whole: three of them, for this, the last and the next collection, are 192 KiB of every
process that collects. The bits of a heap of 1 MiB are some KiB.`,
		Old: `const gcBitsChunkBytes = uintptr(64 << 10)
`,
		New: `const gcBitsChunkBytes = uintptr(64<<10) >> (3 * goarch.IsMips)
`,
	},
}
