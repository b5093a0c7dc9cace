package edits

// cryptoEdits take out what crypto costs a board of 32 MiB although it is
// never used there.
var cryptoEdits = []Edit{
	{
		Name: "no array for jitter entropy", File: "crypto/internal/fips140/drbg/entropy_fips140.go",
		Why: `The entropy source of FIPS 140-3 mode has a scratch buffer of 32 MiB in .noptrbss,
linked into every program that imports a crypto package. Where that is not backed
by memory it costs nothing, but a board of 32 MiB without overcommit refuses to
exec such a program. As on Wasm, which has its own file for the same reason, the
mode is not supported; outside of it the bytes come from getrandom, as before.`,
		Old: `//go:build !wasm

package drbg
`,
		New: `//go:build !wasm && !mips

package drbg
`,
	},
	{
		Name: "FIPS mode says that it is not supported", File: "crypto/internal/fips140/fips140.go",
		Why: "So that GODEBUG=fips140=on fails at the start with a reason, and not at the first key.",
		Old: `	case runtime.GOARCH == "wasm",
`,
		New: `	case runtime.GOARCH == "wasm",
		runtime.GOARCH == "mips", // no memory for the CPU jitter entropy source
`,
	},
	{
		Name: "no section of its own for FIPS mode", File: "cmd/internal/obj/fips140.go",
		Why: `What FIPS mode checks at the start lies apart, so that the linker can sum it up: a
layout by what a boot touches has a hole there, and the start of the packages in it,
which every program runs that links them, is some blocks of flash to read.`,
		Old: `	if buildcfg.GOARCH == "wasm" {
		return false
	}
`,
		New: `	if buildcfg.GOARCH == "wasm" || buildcfg.GOARCH == "mips" { // the mode is not supported
		return false
	}
`,
	},
}
