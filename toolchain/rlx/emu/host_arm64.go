package emu

// System calls that package syscall does not wrap on linux/arm64.
const (
	hostFSTATAT = 79
	hostPPOLL   = 73
)
