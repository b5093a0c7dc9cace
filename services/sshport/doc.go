//go:build linux

// Package sshport is port 22: it accepts what connects there and hands it to
// the SSH service (package handoff), which PID 1 starts when something waits.
// So nothing of SSH is in memory while nobody uses it.
//
// The listening socket is made once in a boot. PID 1 has a duplicate, so that
// neither the end of this process nor that of any other closes the port.
//
// It is also who makes the code by which a gateway without keys gets its first
// one (package enrol). It reads nothing that a connection sends.
package sshport
