// Package iperf3 is a server for real iperf3 clients: TCP and UDP, in either
// direction and in both. Package proto has what is said on the wire.
//
// One thread does everything. While a test runs it stays in the system-call state
// of Go's scheduler (see pump), so that a piece of data costs the calls that move
// it and nothing else: a goroutine that waits in poll(2) in the usual way has the
// runtime's monitor thread woken with every wakeup of its own.
//
// It serves one test at a time, refuses others meanwhile as iperf3 does, needs
// no timer while nobody is there, and never authenticates anybody.
package iperf3
