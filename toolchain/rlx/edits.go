package main

// edit is one change of a file below GOROOT/src: old, which stands there
// exactly once, becomes new.
type edit struct {
	name string
	file string
	why  string
	old  string
	new  string
}

// edits are the faults of Go's 32-bit MIPS runtime that matter on one core at
// 400 MHz. Each is also worth sending to the Go project.
var edits = []edit{
	{
		name: "usleep's nanoseconds",
		file: "runtime/sys_linux_mipsx.s",
		why: `nanosleep got usec-1000*sec as its nanoseconds: a thousandth of what was
asked for. The monitor thread, which sleeps 20 us to 10 ms, hardly slept at all.`,
		old: `	MOVW	R3, 24(R29)
	MOVW	$1000, R4
	MULU	R3, R4
	MOVW	LO, R4
	SUBU	R4, R5
	MOVW	R5, 28(R29)

	// nanosleep(&ts, 0)
`,
		new: `	MOVW	R3, 24(R29)
	MOVW	$1000000, R4
	MULU	R3, R4
	MOVW	LO, R4
	SUBU	R4, R5
	MOVW	$1000, R4
	MULU	R5, R4
	MOVW	LO, R5
	MOVW	R5, 28(R29)

	// nanosleep(&ts, 0)
`,
	},
	{
		name: "timespec's padding",
		file: "runtime/defs_linux_mipsx.go",
		why: `The kernel's __kernel_timespec has 64-bit nanoseconds. On a big-endian
machine their low half is behind the padding, not before it: futex_time64 saw
no nanoseconds, a wait of 0.9 s returned at once, and whoever waited turned into
a loop that took the whole CPU. (Little-endian mipsle needs the old order; this
edit is for GOARCH=mips only, as is everything that is built with it.)`,
		old: `	tv_nsec int32
	_       [4]byte // the C ABI aligns int64 to 8 bytes
}`,
		new: `	_       [4]byte // the high half of the nanoseconds
	tv_nsec int32
}`,
	},
	{
		name: "no walk over the table of functions",
		file: "runtime/symtab.go",
		why: `Every process checked at its start that the linker sorted this table, and
with that read all of it from flash, through its decompressor.`,
		old: `	for i := 0; i < nftab; i++ {
		// NOTE: ftab[nftab].entry is legal`,
		new: `	for i := nftab; i < nftab; i++ {
		// NOTE: ftab[nftab].entry is legal`,
	},
	{
		name: "the lock of 64-bit atomics yields",
		file: "internal/runtime/atomic/atomic_mipsx.s",
		why: `The lock behind every 64-bit atomic spun until its time slice was over when
its holder had been preempted, which on one core cannot go on meanwhile. It
now gives the CPU away. The system call takes no memory and keeps R29 and R30.`,
		old: `	LL	(R1), R4
	BNE	R4, check_again
	SC	R3, (R1)
	BEQ	R3, try_lock
	SYNC
	RET

TEXT ·spinUnlock`,
		new: `	LL	(R1), R4
	BNE	R4, yield
	SC	R3, (R1)
	BEQ	R3, try_lock
	SYNC
	RET
yield:
	MOVW	$4162, R2 // sched_yield
	SYSCALL
	MOVW	state+0(FP), R1
	MOVW	$1, R2
	JMP	try_lock

TEXT ·spinUnlock`,
	},
}
