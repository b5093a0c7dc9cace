//go:build linux

package sshd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/handoff"
	"gwinit/internal/notify"
)

const (
	// maxSessions is bounded by memory.
	maxSessions = 8
	// idleTime is how long the process waits for another session. It is more
	// than what PID 1 takes for an end that came too soon (10 s).
	idleTime = 20 * time.Second
	// logEvery bounds the log: who connects again and again gets a line a
	// second.
	logEvery = time.Second
)

// Applet returns the service's command.
func Applet() applet.Applet {
	return applet.Applet{
		Name: "sshd", Group: applet.Service, Summary: "SSH sessions",
		Usage: `sshd
Serves the SSH sessions that other services hand over. gwinit starts it when one
waits; it takes no options, and ends when there was none for a while.`,
		Run: func(ctx context.Context, std applet.IO, args []string) error {
			if len(args) > 0 {
				return applet.Usagef("sshd takes no arguments")
			}
			ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
			defer stop()
			return run(ctx, limited(logEvery, func(line string) { fmt.Fprintln(std.Err, line) }))
		},
	}
}

func run(ctx context.Context, log func(string)) error {
	conn, err := notify.FromEnv()
	if err != nil {
		return err
	}
	defer conn.Close()
	fd, ok := conn.FD(handoff.StoredName)
	if !ok {
		return errors.New("no socket to take sessions from: gwinit starts this when one waits")
	}
	f := os.NewFile(uintptr(fd), handoff.SSH)
	l, err := net.FileListener(f)
	f.Close() // FileListener has a duplicate
	if err != nil {
		return fmt.Errorf("use the socket of sessions: %w", err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("use the socket of sessions: it is a %T", l)
	}
	if err := conn.Ready(""); err != nil {
		return err
	}
	s := Server{Session: greeting(log), Max: maxSessions, Idle: idleTime, Log: log}
	return s.Serve(ctx, u)
}

// limited passes on a line in every, and says how many it left out.
func limited(every time.Duration, log func(string)) func(string) {
	var mu sync.Mutex // guards the rest
	var last time.Time
	left := 0
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if !last.IsZero() && now.Sub(last) < every {
			left++
			return
		}
		if left > 0 {
			line += " (and " + strconv.Itoa(left) + " more since the last such line)"
		}
		last, left = now, 0
		log(line)
	}
}
