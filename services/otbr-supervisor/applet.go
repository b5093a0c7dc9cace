//go:build linux

package otbr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/notify"
	"gwinit/internal/radiouart"
	"gwinit/internal/supervisor"
	"gwinit/services/otbr-supervisor/otctl"
)

// Applet returns the service's command. writable tells why nothing can be written
// to /userdata, or nil.
func Applet(writable func() error) applet.Applet {
	return applet.Applet{
		Name: "otbr", Group: applet.Service, Summary: "the Thread border router, by the agent in /userdata",
		Usage: "otbr\nRuns " + agentPath + " on the radio's UART, while radio.conf says\nMODE=otbr, and keeps its network. gwinit starts it; gwctl thread is what people\ntype.",
		Run:   func(ctx context.Context, std applet.IO, args []string) error { return run(ctx, std, args, writable) },
	}
}

func run(ctx context.Context, std applet.IO, args []string, writable func() error) error {
	if len(args) > 0 {
		return applet.Usagef("otbr takes no arguments")
	}
	conn, err := notify.FromEnv()
	if err != nil {
		return err
	}
	defer conn.Close()
	log := func(text string) { fmt.Fprintln(std.Err, text) }
	board := rtl8196e.Detect("")
	if r, _ := config.LoadRadio("", board); r.Mode != config.ModeOTBR {
		log("otbr: radio.conf does not say MODE=otbr: gwctl radio mode otbr")
		return applet.Exit(supervisor.ExitPointless)
	}
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	defer stop()
	s := New(Options{
		Board: board, Times: DefaultTimes(), Sockets: otctl.Paths(threadInterface), Unsuitable: unsuitable,
		Probe: func(ctx context.Context, device string, baud int, flow string) (string, error) {
			return probeRadio(ctx, device, baud, flow, board.Radio.BaseBaud)
		},
		Writable: writable,
		Ready:    func(text string) { _ = conn.Ready(text) },
		Status:   func(text string) { _ = conn.Status(text) },
		Alive:    func() { _ = conn.Watchdog() },
		Log:      log,
	})
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() {
		if err := conn.Serve(ctx, s.Call); err != nil {
			log("otbr: " + err.Error())
			cancel() // gwinit is gone
		}
	})
	err = s.Run(ctx, radiouart.New(""))
	if err != nil {
		log("otbr: " + err.Error())
		if errors.Is(err, errPointless) || errors.Is(err, ErrFailed) {
			return applet.Exit(supervisor.ExitPointless)
		}
		return applet.Exit(1)
	}
	return nil
}

// JoinParams go with the method "join".
type JoinParams struct {
	Dataset string `json:"dataset"` // active operational dataset, TLVs in hex
	Replace bool   `json:"replace"` // also when there is a network
}

// TableParams go with the method "table".
type TableParams struct {
	Name string `json:"name"` // neighbours, children, routing
}

// Call answers gwinit: show, text, dataset, table, join, save, warnings.
func (s *Service) Call(ctx context.Context, method string, params []byte) ([]byte, error) {
	switch method {
	case "show":
		return json.Marshal(s.State())
	case "text":
		return json.Marshal(s.State().text())
	case "warnings":
		return json.Marshal(s.Warnings())
	case "dataset":
		text, err := s.Dataset(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(text)
	case "table":
		var p TableParams
		if err := decode(params, &p); err != nil {
			return nil, err
		}
		text, err := s.Table(ctx, p.Name)
		if err != nil {
			return nil, err
		}
		return json.Marshal(text)
	case "join":
		var p JoinParams
		if err := decode(params, &p); err != nil {
			return nil, err
		}
		if err := s.Join(ctx, p); err != nil {
			return nil, err
		}
		return []byte("{}"), nil
	case "save":
		if err := s.Save(ctx); err != nil {
			return nil, err
		}
		return []byte("{}"), nil
	}
	return nil, fmt.Errorf("otbr has no method %q; it has show, text, dataset, table, join, save, warnings", method)
}

func decode(params []byte, to any) error {
	if err := json.Unmarshal(params, to); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("parameters: %w", err)
	}
	return nil
}
