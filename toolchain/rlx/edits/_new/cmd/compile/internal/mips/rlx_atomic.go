package mips

import (
	"cmd/compile/internal/ssagen"
	"cmd/internal/obj"
	"cmd/internal/obj/mips"
)

// endLink emits an SC that ends whatever link there is: on a core whose link
// flag has no address, a flag left set lets an SC of interrupted code succeed
// that must fail. The word below the stack pointer, to which it may store, is
// nobody's: MIPS has no red zone, and a signal's frame there is gone before the
// interrupted code goes on.
func endLink(s *ssagen.State) *obj.Prog {
	p := s.Prog(mips.ASC)
	p.From.Type = obj.TYPE_REG
	p.From.Reg = mips.REGTMP
	p.To.Type = obj.TYPE_MEM
	p.To.Reg = mips.REGSP
	p.To.Offset = -4
	return p
}
