package edits

// compilerEdits keep cmd/compile from asking for what the core does not have.
var compilerEdits = []Edit{
	{
		Name: "no CLZ", File: "cmd/compile/internal/ssagen/intrinsics.go",
		Why: "CLZ came with MIPS32. Without an intrinsic the functions' own Go code is compiled.",
		Old: `	alias("internal/runtime/sys", "OnesCount64", "math/bits", "OnesCount64", all...)
`,
		New: `	alias("internal/runtime/sys", "OnesCount64", "math/bits", "OnesCount64", all...)
	for _, pkg := range []string{"math/bits", "internal/runtime/sys"} {
		for _, fn := range []string{"Len", "Len8", "Len16", "Len32", "Len64", "TrailingZeros8", "TrailingZeros16", "TrailingZeros32", "TrailingZeros64"} {
			delete(intrinsics, intrinsicKey{sys.ArchMIPS, pkg, fn})
		}
	}
`,
	},
	{
		Name: "the last register", File: "cmd/compile/internal/ssa/regalloc.go",
		Why: "What rlxPick remembers.",
		Old: `	ZeroIntReg  register
	allocatable regMask
`,
		New: `	ZeroIntReg  register
	rlxLast     register
	allocatable regMask
`,
	},
	{
		Name: "not the last register again", File: "cmd/compile/internal/ssa/regalloc.go",
		Why: "The lowest free register is mostly the one that has just become free, so a load must wait for the instruction before it and cannot be moved away from its use.",
		Old: `		r := pickReg(mask &^ s.used)
`,
		New: `		r := s.rlxPick(mask &^ s.used)
`,
	},
	{
		Name: "how registers are picked", File: "cmd/compile/internal/base/debug.go",
		Why: "-gcflags=-d=regpick=1 picks the lowest register and makes less flash, 2 goes round and makes faster code: one is for what runs rarely, the other for what always does.",
		Old: "	RangeFuncCheck ",
		New: "	RegPick               int    `help:\"mips: 1 picks the lowest free register, 2 goes round them, 0 takes the lowest but the last\" concurrent:\"ok\"`\n	RangeFuncCheck ",
	},
	{
		Name: "cheap multiplications", File: "cmd/compile/internal/ssa/rewriteMIPS.go",
		Why: "Without MUL a product takes MULT and MFLO, whose result is late; most constants, like an element's size, take two or three shifts and additions.",
		Old: `	// match: (MUL (MOVWconst [c]) (MOVWconst [d]))
`,
		New: `	if rlxMul(v) {
		return true
	}
	// match: (MUL (MOVWconst [c]) (MOVWconst [d]))
`,
	},
	{
		Name: "zeros of 64 bits by halves", File: "math/bits/bits.go",
		Why: "On 32 bits the product of 64 takes three multiplications.",
		Old: `func TrailingZeros64(x uint64) int {
`,
		New: `func TrailingZeros64(x uint64) int {
	if UintSize == 32 {
		if lo := uint32(x); lo != 0 {
			return int(deBruijn32tab[(lo&-lo)*deBruijn32>>(32-5)])
		}
		return 32 + TrailingZeros32(uint32(x>>32))
	}
`,
	},
	{
		Name: "the runtime's zeros of 64 bits by halves", File: "internal/runtime/sys/intrinsics.go",
		Why: "As in math/bits; the bit sets of maps use it.",
		Old: `func TrailingZeros64(x uint64) int {
`,
		New: `func TrailingZeros64(x uint64) int {
	if ^uintptr(0)>>63 == 0 {
		if lo := uint32(x); lo != 0 {
			return int(deBruijn32tab[(lo&-lo)*deBruijn32>>(32-5)])
		}
		return 32 + TrailingZeros32(uint32(x>>32))
	}
`,
	},
	{
		Name: "length of 64 bits by halves", File: "math/bits/bits.go",
		Why: "On 32 bits each shift and comparison of 64 takes several instructions.",
		Old: `func Len64(x uint64) (n int) {
`,
		New: `func Len64(x uint64) (n int) {
	if UintSize == 32 {
		y := uint32(x >> 32)
		if y != 0 {
			n = 32
		} else {
			y = uint32(x)
		}
		if y >= 1<<16 {
			y >>= 16
			n += 16
		}
		if y >= 1<<8 {
			y >>= 8
			n += 8
		}
		return n + int(len8tab[uint8(y)])
	}
`,
	},
	{
		Name: "the runtime's length of 64 bits by halves", File: "internal/runtime/sys/intrinsics.go",
		Why: "As in math/bits; softfloat's additions use it.",
		Old: `func Len64(x uint64) (n int) {
`,
		New: `func Len64(x uint64) (n int) {
	if ^uintptr(0)>>63 == 0 {
		y := uint32(x >> 32)
		if y != 0 {
			n = 32
		} else {
			y = uint32(x)
		}
		if y >= 1<<16 {
			y >>= 16
			n += 16
		}
		if y >= 1<<8 {
			y >>= 8
			n += 8
		}
		return n + int(len8tab[uint8(y)])
	}
`,
	},
}
