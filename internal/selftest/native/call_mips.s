#include "textflag.h"

// func call(f *frame)
//
// Go keeps nothing in registers over a call but g (R30), the stack pointer and
// what the linker uses, so that the code called may have the rest. While it
// runs, the goroutine is at no safe point: its stack does not move.
TEXT ·call(SB), NOSPLIT, $8-4
	MOVW	f+0(FP), R8
	MOVW	0(R8), R25
	MOVW	4(R8), R4
	MOVW	8(R8), R5
	MOVW	12(R8), R6
	MOVW	16(R8), R7
	JAL	(R25)
	MOVW	f+0(FP), R8
	MOVW	R2, 20(R8)
	MOVW	R3, 24(R8)
	RET
