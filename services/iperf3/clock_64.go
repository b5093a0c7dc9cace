//go:build linux && (amd64 || arm64 || riscv64 || loong64 || ppc64 || ppc64le || s390x || mips64 || mips64le)

package iperf3

// clock is the monotonic clock, for headers.
//
//go:nosplit
//go:norace
func clock() (sec, usec uint32) {
	t := nanotime()
	return uint32(t / 1e9), uint32(t % 1e9 / 1000)
}
