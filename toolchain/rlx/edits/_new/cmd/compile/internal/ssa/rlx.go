package ssa

// What makes GOARCH=mips code cheap on a core whose loads arrive one
// instruction late and whose multiplier is slow to hand out its result.

import (
	"cmd/compile/internal/base"
	"math/bits"
)

// Ways to pick a register for mips, -gcflags=-d=regpick=N. The lowest but the
// last is the one without the flag.
const (
	pickLowest = 1
	pickRound  = 2
)

// rlxPick picks a register from a mask that is not empty: for mips the lowest
// one but for the last that was picked, so that of two values that follow each
// other the assembler, which fills the delays of loads, may move one past the
// other. Going round all registers fills twice as many delays, but code then
// repeats itself less: a squashfs of it is a sixth larger; the lowest one, as
// everywhere else, makes the smallest. It stays within R1 to R16, which bounds
// checks can name.
func (s *regAllocState) rlxPick(m regMask) register {
	if s.f.Config.arch != "mips" {
		return pickReg(m)
	}
	const named regMask = 1<<17 - 2 // R1 to R16; the numbers are those of _gen/MIPSOps.go
	if m&named != 0 {
		m &= named
	}
	other := m
	switch base.Debug.RegPick {
	case pickLowest:
	case pickRound:
		other &^= 1<<(s.rlxLast+1) - 1
	default:
		other &^= 1 << s.rlxLast
	}
	if other != 0 {
		m = other
	}
	r := pickReg(m)
	if named>>r&1 != 0 {
		s.rlxLast = r
	}
	return r
}

// rlxMul turns a multiplication by a constant into shifts and additions where
// these are at most four, MULT, MFLO and the constant's load being three and a
// wait.
func rlxMul(v *Value) bool {
	if v.Block.Func.Config.arch != "mips" {
		return false
	}
	x, k := v.Args[0], v.Args[1]
	if x.Op == OpMIPSMOVWconst {
		x, k = k, x
	}
	if k.Op != OpMIPSMOVWconst {
		return false
	}
	c := uint32(auxIntToInt32(k.AuxInt))
	if c < 3 {
		return false // other rules'
	}
	b, t := v.Block, v.Type
	shl := func(x *Value, n int) *Value {
		if n == 0 {
			return x
		}
		y := b.NewValue0(v.Pos, OpMIPSSLLconst, t)
		y.AuxInt = int32ToAuxInt(int32(n))
		y.AddArg(x)
		return y
	}
	// near returns x times k, which is a power of two plus or minus one.
	near := func(x *Value, k uint32) *Value {
		op, n := OpMIPSADD, k-1
		if k&2 != 0 && k != 3 {
			op, n = OpMIPSSUB, k+1
		}
		y := b.NewValue0(v.Pos, op, t)
		y.AddArg2(shl(x, bits.TrailingZeros32(n)), x)
		return y
	}
	isNear := func(k uint32) bool {
		return k >= 3 && ((k-1)&(k-2) == 0 || k+1 != 0 && k&(k+1) == 0)
	}
	low := bits.TrailingZeros32(c)
	odd := c >> low
	if isNear(odd) {
		v.copyOf(shl(near(x, odd), low)) // 2 instructions, or 3
		return true
	}
	if low != 0 {
		return false
	}
	// What follows takes 4 instructions.
	n := bits.TrailingZeros32(odd - 1)
	if r := (odd - 1) >> n; isNear(r) {
		y := b.NewValue0(v.Pos, OpMIPSADD, t)
		y.AddArg2(shl(near(x, r), n), x)
		v.copyOf(y)
		return true
	}
	n = bits.TrailingZeros32(odd + 1)
	if r := (odd + 1) >> n; isNear(r) {
		y := b.NewValue0(v.Pos, OpMIPSSUB, t)
		y.AddArg2(shl(near(x, r), n), x)
		v.copyOf(y)
		return true
	}
	for _, k := range [...]uint32{3, 5, 7, 9, 15, 17, 31, 33, 63, 65, 127, 129} {
		if odd%k == 0 && isNear(odd/k) {
			v.copyOf(near(near(x, k), odd/k))
			return true
		}
	}
	return false
}
