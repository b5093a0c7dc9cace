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
}
