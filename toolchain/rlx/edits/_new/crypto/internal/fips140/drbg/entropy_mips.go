package drbg

// getEntropy is for FIPS 140-3 mode, which fips140.Supported refuses on this
// architecture; outside of it Read asks the kernel.
func getEntropy() *[SeedSize]byte {
	panic("FIPS 140-3 entropy generation is not supported on mips")
}
