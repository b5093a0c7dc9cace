// Package otbr keeps otbr-agent, the Thread border router of OpenThread, running
// in MODE=otbr: it owns the radio's UART (INV 5), looks the box over before each
// start, starts the agent as the firmware of before did, finds out whether it
// works, and keeps what a Thread node must not forget (package threaddata).
//
// # The agent's life
//
//	check     executable, tun device, IPv6, the radio; what is wrong says what to do
//	start     Thread settings in memory, sysctls, the agent
//	ready     the control socket and REST answer, the radio's version was read
//	ended     by itself, not ready in time, or REST silent for a minute
//
// After an end the radio is reset and the agent started again, later each time
// (machine.go). Five in a row get one cold reset, which holds the radio in reset
// for longer; five more, and the service has failed, with an incident in flash.
// Nothing here reboots the box (INV 8).
//
// # What it does not do
//
// It speaks no Thread, changes no firewall, and does not look at the agent by the
// control socket all the time: that serves one session, and would end that of
// somebody who types.
package otbr
