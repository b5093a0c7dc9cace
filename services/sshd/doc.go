//go:build linux

// Package sshd serves SSH sessions. Connections come from other processes of
// the box, which accepted them and found that they speak SSH (package
// handoff); one process has all sessions, is started by PID 1 when the first
// one waits, and ends by itself when there was none for a while.
//
// The package knows nothing of SSH: what a session is, is given as Sessions.
// That of sub-package server is the real one.
package sshd
