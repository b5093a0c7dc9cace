package client

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds the wait for a place in the server's backlog.
const dialTimeout = 5 * time.Second

// Dial connects to the control socket at path. It waits, 5 s at most, while
// the server's backlog is full. Its errors wrap what connect(2) said.
//
// It does without package net, so that the box's binary does not carry net
// for this alone (150 KB compressed).
func Dial(ctx context.Context, path string) (*Client, error) {
	timeout := dialTimeout
	if t, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(t))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	fail := func(call string, err error) (*Client, error) {
		unix.Close(fd)
		return nil, os.NewSyscallError(call, err)
	}
	// A nonblocking connect would fail at once on a full backlog; a blocking
	// one honours the send timeout (net/unix/af_unix.c).
	tv := unix.NsecToTimeval(max(timeout, time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv); err != nil {
		return fail("setsockopt", err)
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if !errors.Is(err, unix.EINTR) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fail("connect", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fail("fcntl", err)
	}
	return New(os.NewFile(uintptr(fd), path)), nil
}
