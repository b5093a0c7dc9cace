package edits

// atomicsEdits make the atomics hold where LL's link flag knows no address and
// an exception may not clear it. docs/atomics.md has the argument.
//
// Two rules make it: whoever leaves an LL sequence has executed an SC, and
// whoever stores atomically has executed an SC before. Where the SC has nothing
// to store it is a dummy to the word below the stack pointer: nothing of this
// thread lives there, and what a signal handler leaves there is done with when
// the interrupted code goes on.
var atomicsEdits = []Edit{
	{
		Name: "Cas leaves by an SC", File: "internal/runtime/atomic/atomic_mipsx.s",
		Why: `Where the compare fails, Cas left with the link flag set by its LL. On a core
whose flag has no address, an SC of whatever was interrupted by this Cas (a
signal handler's) would then succeed, although the word may have changed. Both
ways out now go through a dummy SC; after the real one it finds no link and
stores nothing.`,
		Old: `	MOVW	R5, R3
	LL	(R1), R4	// R4 = *R1
	BNE	R2, R4, cas_fail
	SC	R3, (R1)	// *R1 = R3
	BEQ	R3, try_cas
	SYNC
	MOVB	R3, ret+12(FP)
	RET
cas_fail:
	SYNC
	MOVB	R0, ret+12(FP)
	RET
`,
		New: `	MOVW	R5, R3
	LL	(R1), R4	// R4 = *R1
	BNE	R2, R4, cas_fail
	SC	R3, (R1)	// *R1 = R3
	BEQ	R3, try_cas
	SYNC
	MOVB	R3, ret+12(FP)
	RET
cas_fail:
	SC	R4, -4(R29)	// end the link
	SYNC
	MOVB	R0, ret+12(FP)
	RET
`,
	},
	{
		Name: "Store ends other links", File: "internal/runtime/atomic/atomic_mipsx.s",
		Why: `A store leaves a link flag without an address as it is: an SC that this store's
caller interrupted (a signal handler's, a thread's) would store over it. A
dummy SC ends that link. It stands before the store: interrupted between the
two, whoever goes on finds no link of its own.`,
		Old: `TEXT ·Store(SB),NOSPLIT,$0-8
	MOVW	ptr+0(FP), R1
	MOVW	val+4(FP), R2
	SYNC
`,
		New: `TEXT ·Store(SB),NOSPLIT,$0-8
	MOVW	ptr+0(FP), R1
	MOVW	val+4(FP), R2
	SYNC
	SC	R3, -4(R29)	// end a link that this store breaks
`,
	},
	{
		Name: "Store8 ends other links", File: "internal/runtime/atomic/atomic_mipsx.s",
		Why: "As Store.",
		Old: `TEXT ·Store8(SB),NOSPLIT,$0-5
	MOVW	ptr+0(FP), R1
	MOVB	val+4(FP), R2
	SYNC
`,
		New: `TEXT ·Store8(SB),NOSPLIT,$0-5
	MOVW	ptr+0(FP), R1
	MOVB	val+4(FP), R2
	SYNC
	SC	R3, -4(R29)	// end a link that this store breaks
`,
	},
	{
		Name: "the lock of 64-bit atomics yields", File: "internal/runtime/atomic/atomic_mipsx.go",
		Why: `The lock behind every 64-bit atomic spins on LL. On one core its holder, which was
preempted, cannot go on before the spinner's time slice is over: a wait of
milliseconds for a few instructions. It now gives the CPU away. With it, the user
instructions of one workload fell from 41,000 to 21,500 for each event and its p99
from 4.4-9.3 ms to 2.0-3.6 ms. (On several cores it would spin a little before
that.) Written in Go, it is the compiler's inline atomics: no call to lock, none
to unlock. The lock's word counts, so that Load64 can do without it.`,
		Old: `//go:noescape
func spinLock(state *uint32)

//go:noescape
func spinUnlock(state *uint32)

//go:nosplit
func lockAndCheck(addr *uint64) {
	// ensure 8-byte alignment
	if uintptr(unsafe.Pointer(addr))&7 != 0 {
		panicUnaligned()
	}
	// force dereference before taking lock
	_ = *addr

	spinLock(&lock.state)
}

//go:nosplit
func unlock() {
	spinUnlock(&lock.state)
}
`,
		New: `// yield gives the CPU away: on one core the lock's holder needs it to let go.
func yield()

// lockAndCheck takes the lock: lock.state is odd while it is held, and with each
// turn another number.
//
//go:nosplit
func lockAndCheck(addr *uint64) {
	// ensure 8-byte alignment
	if uintptr(unsafe.Pointer(addr))&7 != 0 {
		panicUnaligned()
	}
	// force dereference before taking lock
	_ = *addr

	for {
		if s := Load(&lock.state); s&1 == 0 && Cas(&lock.state, s, s+1) {
			return
		}
		yield()
	}
}

// unlock leaves an even number, whatever it finds: two holders, which a CPU with
// faulty atomics may make of one, would otherwise leave the lock held for ever.
//
//go:nosplit
func unlock() {
	Store(&lock.state, (Load(&lock.state)|1)+1)
}
`,
	},
	{
		Name: "Load64 takes no lock", File: "internal/runtime/atomic/atomic_mipsx.go",
		Why: `Load64 is the most frequent of the 64-bit atomics by far (the scheduler's and the
timers' times): together with its lock 8 % of the instructions of a program's
start. If nobody held the lock before the two words were read, and nobody took it
until after, they are of one time.`,
		Old: `func Load64(addr *uint64) (val uint64) {
	lockAndCheck(addr)

	val = *addr

	unlock()
	return
}
`,
		New: `func Load64(addr *uint64) (val uint64) {
	if uintptr(unsafe.Pointer(addr))&7 != 0 {
		panicUnaligned()
	}
	for {
		s := Load(&lock.state)
		val = *addr
		if s&1 == 0 && Load(&lock.state) == s {
			return
		}
		if s&1 != 0 {
			yield()
		}
	}
}
`,
	},
	{
		Name: "the lock of 64-bit atomics yields: in assembly", File: "internal/runtime/atomic/atomic_mipsx.s",
		Why: "Lock and unlock are Go now; the system call takes no memory and keeps R29 and R30.",
		Old: `TEXT ·spinLock(SB),NOSPLIT,$0-4
	MOVW	state+0(FP), R1
	MOVW	$1, R2
	SYNC
try_lock:
	MOVW	R2, R3
check_again:
	LL	(R1), R4
	BNE	R4, check_again
	SC	R3, (R1)
	BEQ	R3, try_lock
	SYNC
	RET

TEXT ·spinUnlock(SB),NOSPLIT,$0-4
	MOVW	state+0(FP), R1
	SYNC
	MOVW	R0, (R1)
	SYNC
	RET
`,
		New: `TEXT ·yield(SB),NOSPLIT,$0-0
	MOVW	$4162, R2	// sched_yield
	SYSCALL
	RET
`,
	},
	{
		Name: "inline Cas leaves by an SC", File: "cmd/compile/internal/mips/ssa.go",
		Why: `As Cas in internal/runtime/atomic. Both ways out share the dummy SC: one word
more, and no jump around it.`,
		Old: `		s.Prog(mips.ASYNC)

		p6 := s.Prog(obj.ANOP)
		p2.To.SetTarget(p6)
`,
		New: `		s.Prog(mips.ASYNC)

		p2.To.SetTarget(endLink(s))
`,
	},
	{
		Name: "inline Store ends other links", File: "cmd/compile/internal/mips/ssa.go",
		Why: "As Store in internal/runtime/atomic.",
		Old: `		s.Prog(mips.ASYNC)

		var op obj.As
		switch v.Op {
		case ssa.OpMIPSLoweredAtomicStore8:
`,
		New: `		s.Prog(mips.ASYNC)
		endLink(s)

		var op obj.As
		switch v.Op {
		case ssa.OpMIPSLoweredAtomicStore8:
`,
	},
	{
		Name: "inline Store of zero ends other links", File: "cmd/compile/internal/mips/ssa.go",
		Why: "As Store in internal/runtime/atomic.",
		Old: `	case ssa.OpMIPSLoweredAtomicStorezero:
		s.Prog(mips.ASYNC)

`,
		New: `	case ssa.OpMIPSLoweredAtomicStorezero:
		s.Prog(mips.ASYNC)
		endLink(s)

`,
	},
	{
		Name: "a return from a signal ends the link", File: "runtime/sys_linux_mipsx.s",
		Why: `Whatever a handler stored, atomically or not, the SC that it interrupted now
finds no link and is tried again.`,
		Old: `	MOVW	$runtime·sigtrampgo(SB), R1
	JAL	(R1)
	RET

TEXT runtime·cgoSigtramp`,
		New: `	MOVW	$runtime·sigtrampgo(SB), R1
	JAL	(R1)
	SC	R1, -4(R29)	// end the link of what was interrupted
	RET

TEXT runtime·cgoSigtramp`,
	},
	{
		Name: "a thread's last store ends other links", File: "runtime/sys_linux_mipsx.s",
		Why: `As Store in internal/runtime/atomic. The word below the stack pointer is the
stack's until the store that gives it away.`,
		Old: `	MOVW	$0, R2
	SYNC
	MOVW	R2, (R1)
`,
		New: `	MOVW	$0, R2
	SYNC
	SC	R3, -4(R29)	// end a link that this store breaks
	MOVW	R2, (R1)
`,
	},
}
