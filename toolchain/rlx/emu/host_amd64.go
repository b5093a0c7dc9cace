package emu

// System calls that package syscall does not wrap on linux/amd64.
const (
	hostFSTATAT = 262
	hostPPOLL   = 271
)
