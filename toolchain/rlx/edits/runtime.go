package edits

// runtimeEdits are faults of Go's 32-bit MIPS runtime, and costs that only a
// slow single core feels.
var runtimeEdits = []Edit{
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
them as the high half, which it takes to be out of range or, for compat tasks,
nothing: a futex wait of 4.99 s lasts 4 s, one of less than a second returns at
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
}
