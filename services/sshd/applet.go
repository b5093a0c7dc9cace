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
	"gwinit/internal/giveback"
	"gwinit/internal/handoff"
	"gwinit/internal/notify"
)

const (
	// idleTime is how long the process waits for another session. It is more
	// than what PID 1 takes for an end that came too soon (10 s).
	idleTime = 20 * time.Second
	// logEvery bounds what strangers can have logged: a line a second.
	logEvery = time.Second
	// niceness keeps the box usable while strangers have this process compute
	// keys. What runs in a session does not have it.
	niceness = 5
)

// Sessions makes what serves connections, most of them at a time. log takes an
// event, one line, noise one that anybody can cause.
type Sessions func(log, noise func(string)) (session func(ctx context.Context, c net.Conn), most int, err error)

// Applet returns the service's command.
func Applet(sessions Sessions) applet.Applet {
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
			return run(ctx, sessions, func(line string) { fmt.Fprintln(std.Err, line) })
		},
	}
}

func run(ctx context.Context, sessions Sessions, log func(string)) error {
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
	// The group is this process's own. It is a matter of speed only.
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, niceness)
	session, most, err := sessions(log, limited(logEvery, log))
	if err != nil {
		l.Close()
		return err
	}
	if err := conn.Ready(""); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var giving sync.WaitGroup
	defer giving.Wait()
	defer cancel()
	giving.Go(func() { giveback.Run(ctx) })
	s := Server{Session: session, Max: most, Idle: idleTime, Log: limited(logEvery, log)}
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
