//go:build linux

package bridge

import (
	"context"
	"errors"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"gwinit/internal/kernelbridge"
	"gwinit/internal/notify"
	"gwinit/services/bridge/kernelengine"
)

// kernelSettings are s as the kernel's driver has them.
func (s *settings) kernelSettings() kernelbridge.Settings {
	return kernelbridge.Settings{
		TTY: s.opener.Device, Baud: s.opener.Baud, Flow: s.opener.Flow, Bind: s.options.Bind, Port: s.options.Port,
	}
}

// newKernelEngine returns the engine kernel, or why it cannot be had.
func newKernelEngine(conn *notify.Conn, s *settings) (*kernelengine.Engine, error) {
	driver, err := kernelbridge.Detect(s.opener.Root)
	if err != nil {
		return nil, err
	}
	return kernelengine.New(kernelengine.Options{
		Root: s.opener.Root, Driver: driver, Settings: s.kernelSettings(),
		Owner: LockOwner, Released: Released, Loan: s.loan(),
		Log: s.options.Log, Changed: announcer(conn, s.options.Log), Limits: kernelengine.DefaultLimits(),
	})
}

// runKernel is run with the kernel's driver.
func runKernel(ctx context.Context, conn *notify.Conn, s *settings, e *kernelengine.Engine) error {
	ctx, stop := signal.NotifyContext(ctx, endings()...)
	defer stop()
	log := s.options.Log
	if fd, ok := conn.FD(storedName); ok {
		// A socket of the engine user has the port; see listen.
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		unix.Close(fd)
		if err := conn.RemoveFD(storedName); err != nil {
			log(err.Error())
		}
	}
	serving, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	calls.Go(func() {
		reload := func(ctx context.Context) error { return reloadKernel(ctx, s, e) }
		if err := conn.Serve(serving, answerer(e, reload)); err != nil {
			log("no more calls from PID 1: " + err.Error())
		}
	})
	err := e.Run(ctx)
	cancel()
	calls.Wait()
	return err
}

// errRestart is the answer to a reload of what is read at the start only.
var errRestart = errors.New("the bridge's engine or mode has changed: gwctl restart bridge")

// reloadKernel has the armed driver work with what radio.conf says now.
func reloadKernel(ctx context.Context, s *settings, e *kernelengine.Engine) error {
	now, err := load(s.opener.Root, nil, s.options.Log)
	if err != nil {
		return err
	}
	if !now.kernel || now.otbr {
		return errRestart
	}
	return e.Configure(ctx, now.kernelSettings())
}
