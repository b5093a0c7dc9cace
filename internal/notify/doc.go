// Package notify is the line between PID 1 and a service process: readiness,
// status, the descriptor store, and calls from PID 1 that the service answers.
//
// # Transport
//
// Each service gets one end of an AF_UNIX SOCK_SEQPACKET pair; its number is in
// GW_NOTIFY_FD. Descriptors that an earlier process of the service has stored
// come back as GW_FDS="name=4,name2=5". A message is one packet of at most
// MaxMessage bytes.
//
// # Messages from the service
//
// Lines KEY=value as sd_notify(3) has them, any number in one packet:
//
//	READY=1                      it does its job now
//	STATUS=text                  one line for people
//	WATCHDOG=1                   it is alive
//	STOPPING=1                   it is about to end by itself
//	FDSTORE=1, FDNAME=name       keep the one descriptor sent along (SCM_RIGHTS)
//	FDSTOREREMOVE=1, FDNAME=name forget it
//
// or, alone in its packet, the answer to a call:
//
//	REPLY=id\n<JSON>
//	ERROR=id\n<text>
//
// # Messages to the service
//
//	CALL=id method\n<JSON parameters>
//
// The package does not interpret JSON, starts no goroutine that outlives a
// call, and uses neither package net nor the runtime's poller: the bridge has
// it in its process.
package notify

import "errors"

// Names of the environment variables that a service is started with.
const (
	EnvSocket = "GW_NOTIFY_FD"
	EnvStored = "GW_FDS"
)

// Limits of the protocol.
const (
	MaxMessage = 60 << 10 // bytes in a packet: fits into one line of the control protocol
	MaxStatus  = 200      // bytes of a STATUS text; the rest is cut
	MaxName    = 32       // bytes of a descriptor's or method's name
	MaxStored  = 16       // descriptors kept for one service
)

// Errors of this package.
var (
	ErrMalformed = errors.New("malformed notification")
	ErrTooLong   = errors.New("message is too long")
	ErrName      = errors.New("name is not 1 to 32 letters, digits, '-', '_' or '.'")
	ErrClosed    = errors.New("the other side of the notification socket is gone")
)

// ValidName reports whether s can name a descriptor or a method.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
