#include "textflag.h"

// The use stands behind the load.
TEXT ·loadUse(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVW	(R1), R2
	ADDU	$1, R2
	MOVW	R2, ret+4(FP)
	RET

// Something independent stands in front of the load, or behind its use.
TEXT ·loadFill(SB), NOSPLIT|NOFRAME, $0-12
	MOVW	p+0(FP), R1
	MOVW	n+4(FP), R3
	ADDU	$1, R3
	MOVW	(R1), R2
	ADDU	R3, R2
	MOVW	R2, ret+8(FP)
	RET

// A store of what has just been loaded.
TEXT ·loadStore(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVW	q+4(FP), R2
	MOVW	(R1), R3
	MOVW	R3, (R2)
	RET

// Two loads of one register must not race.
TEXT ·loadTwice(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVW	0(R1), R2
	MOVW	4(R1), R2
	MOVW	R2, ret+4(FP)
	RET

// The two halves of an unaligned load need nothing between them.
TEXT ·unaligned(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVW	$0, R2
	MOVWL	0(R1), R2
	MOVWR	3(R1), R2
	MOVW	R2, ret+4(FP)
	RET

// A branch reads what has just been loaded.
TEXT ·loadBranch(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVW	(R1), R2
	BEQ	R2, zero
	MOVW	$1, R2
zero:
	MOVW	R2, ret+4(FP)
	RET

// A store must not pass an access that may fault.
TEXT ·faultOrder(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVW	q+4(FP), R2
	NOR	R0, R0
	MOVW	R0, 0(R1)
	MOVW	4(R2), R3
	ADDU	R3, R3, R4
	MOVW	R4, 4(R1)
	RET

// An offset of more than 16 bits takes three words and REGTMP.
TEXT ·far(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVBU	40003(R1), R2
	MOVW	R2, ret+4(FP)
	RET

// SYNC keeps loads and stores apart and leaves no word.
TEXT ·barrier(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVW	4(R1), R2
	SYNC
	MOVW	0(R1), R3
	ADDU	R2, R3
	MOVW	R3, ret+4(FP)
	RET

// MUL is made of MULT and MFLO.
TEXT ·product(SB), NOSPLIT|NOFRAME, $0-12
	MOVW	a+0(FP), R1
	MOVW	b+4(FP), R2
	MUL	R1, R2, R3
	MOVW	R3, ret+8(FP)
	RET

// HI and LO rest for two instructions after they were read.
TEXT ·twoProducts(SB), NOSPLIT|NOFRAME, $0-16
	MOVW	a+0(FP), R1
	MOVW	b+4(FP), R2
	MULU	R1, R2
	MOVW	HI, R3
	MULU	R2, R2
	MOVW	LO, R4
	MOVW	R3, hi+8(FP)
	MOVW	R4, lo+12(FP)
	RET

// UNDEF is BREAK.
TEXT ·trap(SB), NOSPLIT|NOFRAME, $0-0
	UNDEF
	RET

// REGTMP is loaded and used: no preemption between.
TEXT ·tmp(SB), NOSPLIT|NOFRAME, $0-8
	MOVW	p+0(FP), R1
	MOVW	(R1), R23
	ADDU	$1, R23
	MOVW	R23, ret+4(FP)
	RET
