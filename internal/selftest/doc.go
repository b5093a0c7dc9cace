// Package selftest is `gw selftest`: it shows on the real core what cannot be
// shown elsewhere. One file in /tmp of a gateway, whatever firmware runs there.
//
// It tries the CPU's rules by machine code of its own (what the instruction
// after a load sees, HI and LO, LL and SC over interrupts, signals and other
// threads), the atomics, clock, threads and memory as Go programs use them,
// and lists what the kernel has. Each group runs in a process of its own, so
// that a crash or a hang is a line of the report and not its end.
//
// It changes nothing: it opens no UART, no flash, no watchdog and no network
// connection, writes no file, and takes at most a quarter of the memory in
// hand. It proves nothing about a CPU that it does not run on: QEMU passes with
// code that the RTL8196E computes wrongly.
package selftest
