package edits

// assemblerFiles are the passes that the edits below call.
var assemblerFiles = []string{"cmd/internal/obj/mips", "cmd/internal/obj/rlx.go"}

// assemblerEdits make cmd/internal/obj/mips emit only what a MIPS-I core
// without load interlock executes, from whatever source.
var assemblerEdits = []Edit{
	{
		Name: "lower instructions", File: "cmd/internal/obj/mips/asm0.go",
		Why: "MUL with a destination and TEQ came with MIPS32 and MIPS II; MULT with MFLO, and BREAK, do the same on every core.",
		Old: `	c := ctxt0{ctxt: ctxt, newprog: newprog, cursym: cursym, autosize: int32(p.To.Offset + ctxt.Arch.FixedFrameSize)}
`,
		New: `	c := ctxt0{ctxt: ctxt, newprog: newprog, cursym: cursym, autosize: int32(p.To.Offset + ctxt.Arch.FixedFrameSize)}
	c.rlxLower()
`,
	},
	{
		Name: "pad delays", File: "cmd/internal/obj/mips/asm0.go",
		Why: "Before MIPS II a load's result is not there for the next instruction, and HI and LO must not be written within two instructions of a read. SYNC traps on these cores, and one in-order core needs none.",
		Old: `	pc := int64(0)
	p.Pc = pc
`,
		New: `	c.rlxPad()

	pc := int64(0)
	p.Pc = pc
`,
	},
	{
		Name: "know REGTMP's range", File: "cmd/internal/obj/mips/asm0.go",
		Why: "An instruction that fills a delay between the load of REGTMP and its use does not name REGTMP, but must not be preempted there either.",
		Old: `	return p.From.Reg == REGTMP || p.To.Reg == REGTMP || p.Reg == REGTMP
`,
		New: `	return p.From.Reg == REGTMP || p.To.Reg == REGTMP || p.Reg == REGTMP || p.Mark&rlxUnsafe != 0
`,
	},
	{
		Name: "check each word", File: "cmd/internal/obj/mips/asm0.go",
		Why: "A word that the core does not have, or one too early after another, is an assembly error that names the line, whoever wrote it.",
		Old: `	// Mark nonpreemptible instruction sequences.
`,
		New: `	c.rlxCheck()

	// Mark nonpreemptible instruction sequences.
`,
	},
	{
		Name: "schedule", File: "cmd/internal/obj/mips/asm0.go",
		Why: "Most delays can be filled with work instead of NOPs.",
		Old: `	c.rlxPad()
`,
		New: `	c.rlxSchedule()
	c.rlxPad()
`,
	},
	{
		Name: "one store of LR", File: "cmd/internal/obj/mips/obj0.go",
		Why: "The second store of LR in a prologue is for a signal that comes before there is a signal stack, which cgo alone makes possible.",
		Old: `				q = obj.Appendp(q, newprog)
				q.As = mov
				q.Pos = p.Pos
				q.From.Type = obj.TYPE_REG
				q.From.Reg = REGLINK
				q.To.Type = obj.TYPE_MEM
				q.To.Offset = 0
				q.To.Reg = REGSP
`,
		New: `				if c.rlx() {
					break
				}
				q = obj.Appendp(q, newprog)
				q.As = mov
				q.Pos = p.Pos
				q.From.Type = obj.TYPE_REG
				q.From.Reg = REGLINK
				q.To.Type = obj.TYPE_MEM
				q.To.Offset = 0
				q.To.Reg = REGSP
`,
	},
	{
		Name: "use the stack check's delay", File: "cmd/internal/obj/mips/obj0.go",
		Why: "The copy of LR for morestack fits between the load of the stack guard and its use.",
		Old: `	q1.To.SetTarget(p)

	return p
`,
		New: `	q1.To.SetTarget(p)
	c.rlxEarly(startPred, framesize)

	return p
`,
	},
	{
		Name: "no thread pointer", File: "runtime/tls_mipsx.s",
		Why: "RDHWR is not in the core, and is executed under cgo only, which this port does not have.",
		Old: `TEXT runtime·save_g(SB),NOSPLIT|NOFRAME,$0-0
	MOVB	runtime·iscgo(SB), R23
	BEQ	R23, nocgo

	MOVW	R3, R23
	MOVW	g, runtime·tls_g(SB) // TLS relocation clobbers R3
	MOVW	R23, R3

nocgo:
	RET

TEXT runtime·load_g(SB),NOSPLIT|NOFRAME,$0-0
	MOVW	runtime·tls_g(SB), g // TLS relocation clobbers R3
	RET
`,
		New: `TEXT runtime·save_g(SB),NOSPLIT|NOFRAME,$0-0
#ifndef GOARCH_mips
	MOVB	runtime·iscgo(SB), R23
	BEQ	R23, nocgo

	MOVW	R3, R23
	MOVW	g, runtime·tls_g(SB) // TLS relocation clobbers R3
	MOVW	R23, R3

nocgo:
#endif
	RET

TEXT runtime·load_g(SB),NOSPLIT|NOFRAME,$0-0
#ifndef GOARCH_mips
	MOVW	runtime·tls_g(SB), g // TLS relocation clobbers R3
#endif
	RET
`,
	},
}
