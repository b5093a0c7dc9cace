//go:build linux && !mips

package selftest

// time64 has nothing to look for where time always has 64 bits.
func time64(*env) {}
