// Package core is the process that holds the services which are rarely active:
// a process of their own each would cost more memory than they use. Which ones
// share it is the table in Run. It has no logic of its own.
package core

import (
	"context"
	"encoding/json"
	"fmt"
	"os/signal"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/notify"
	"gwinit/services/eth"
)

// Applet is the process, as PID 1 starts it.
func Applet() applet.Applet {
	return applet.Applet{
		Name: "core", Group: applet.Service,
		Summary: "the rarely active services in one process: eth",
		Usage: `core
Brings the network up and keeps it up. gwinit starts it; it takes no options.`,
		Run: func(ctx context.Context, _ applet.IO, args []string) error {
			if len(args) > 0 {
				return applet.Usagef("core takes no arguments")
			}
			ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
			defer stop()
			return run(ctx)
		},
	}
}

func run(ctx context.Context) error {
	conn, err := notify.FromEnv()
	if err != nil {
		return err
	}
	net := eth.New(eth.Options{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- net.Run(ctx) }()
	go func() {
		ended <- conn.Serve(ctx, func(_ context.Context, method string, _ []byte) ([]byte, error) {
			switch method {
			case "status":
				return json.Marshal(net.Status())
			case "warnings":
				return json.Marshal(warnings())
			}
			return nil, fmt.Errorf("core has no method %q; it has status, warnings", method)
		})
	}()
	if err := conn.Ready("eth"); err != nil {
		return err
	}
	// Both end only because ctx ended, or for an error that a new process mends.
	err = <-ended
	cancel()
	if second := <-ended; err == nil {
		err = second
	}
	return err
}

// warnings are what is wrong in the configuration, in words.
func warnings() []string {
	_, found := config.Load("", rtl8196e.Detect(""))
	lines := make([]string, 0, len(found))
	for _, w := range found {
		lines = append(lines, w.String())
	}
	return lines
}
