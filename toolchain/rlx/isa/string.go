package isa

import (
	"strconv"
	"strings"
)

// String is the word in assembler's terms, branches with their distance.
func (i Inst) String() string { return i.format(0, false) }

// At is the word in assembler's terms as it stands at address pc, branches with
// their target.
func (i Inst) At(pc uint32) string { return i.format(pc, true) }

// format follows Args: d, s, t are register fields, n the number in the rt
// field or (behind a t) in the rd field, a a shift distance, i and u the low half with and without sign,
// o offset and base, p a branch's and j a jump's target, c the code of a break.
func (i Inst) format(pc uint32, known bool) string {
	if i.Word == NOP {
		return "nop"
	}
	if i.Args == "" {
		return i.Name
	}
	b := append(make([]byte, 0, 32), i.Name...)
	reg := func(n uint32) {
		b = append(b, '$')
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	for n, a := range strings.Split(i.Args, ",") {
		if n == 0 {
			b = append(b, ' ')
		} else {
			b = append(b, ',')
		}
		switch a {
		case "d":
			reg(i.RD())
		case "s":
			reg(i.RS())
		case "t":
			reg(i.RT())
		case "n":
			f := i.RT()
			if n > 0 {
				f = i.RD()
			}
			reg(f)
		case "a":
			b = strconv.AppendUint(b, uint64(i.Word>>6&31), 10)
		case "c":
			b = strconv.AppendUint(b, uint64(i.Word>>16&(1<<10-1)), 10) // break 7 is gcc's division by zero
		case "i":
			b = strconv.AppendInt(b, int64(i.Imm()), 10)
		case "u":
			b = append(b, "0x"...)
			b = strconv.AppendUint(b, uint64(i.Word&0xffff), 16)
		case "o":
			b = strconv.AppendInt(b, int64(i.Imm()), 10)
			b = append(b, '(')
			reg(i.RS())
			b = append(b, ')')
		case "p", "j":
			target, _ := i.Target(pc)
			switch {
			case known:
				b = append(b, "0x"...)
				b = strconv.AppendUint(b, uint64(target), 16)
			case a == "p":
				b = append(b, '.')
				if i.Imm() >= -1 {
					b = append(b, '+')
				}
				b = strconv.AppendInt(b, 4+int64(i.Imm())*4, 10)
			default:
				b = append(b, "0x"...)
				b = strconv.AppendUint(b, uint64(i.Word&(1<<26-1))<<2, 16)
			}
		}
	}
	return string(b)
}
