//go:build linux

// Package sshd serves SSH sessions. Connections come from other processes of
// the box, which accepted them and found that they speak SSH (package
// handoff); one process has all sessions, is started by PID 1 when the first
// one waits, and ends by itself when there was none for a while.
//
// The package knows nothing of SSH: what a session is, is given as Sessions.
// That of sub-package server is the real one. The one that is here, Greeting, is
// for a build without it and honest about itself: it exchanges the
// identification lines of RFC 4253, 4.2, and ends. It has no keys, offers no
// algorithm and lets nobody in (INV 7).
package sshd
