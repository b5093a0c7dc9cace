// Package benchmode is what a gateway does while its network is measured: next to
// nothing. It runs in a process of its own, instead of the services that PID 1 has
// stopped for it (internal/pid1, bench.go); when this process ends, for whatever
// reason, those are started again (INV 9).
//
// It makes sure that nothing else is left, has the Ethernet driver set up, the
// kernel forget what it has learnt of earlier connections, and the door closed;
// lets the box come to rest, measures that it has, and runs the iperf3 server
// (services/iperf3), in a process of its own as well. It has no ticker: between
// two runs nothing of it is woken up.
//
// It ends when its time is over, by PID 1's wish, by the button, or so long after
// the control connection was lost and the last run has ended.
package benchmode
