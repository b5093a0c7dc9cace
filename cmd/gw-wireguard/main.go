// Command gw-wireguard is the gateway's WireGuard tunnel, as an add-on in
// /userdata/system/addons: the rootfs has no room for it. gwinit runs it as the
// service wireguard, and gwctl wg for keys.
//
//	gw-wireguard service
//	gw-wireguard genkey [-json]
//	gw-wireguard pubkey [-] [-json]
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/notify"
	"gwinit/internal/supervisor"
	"gwinit/services/wireguard"
	"gwinit/services/wireguard/conf"
)

const (
	// niceness lets the bridge, and what people type, go before packets that
	// are encrypted.
	niceness = 5
	// gcPercent keeps garbage small: a tunnel makes little, and the kernel of
	// these boards takes no memory back.
	gcPercent = 10
	// logEvery bounds what a peer that cannot be reached has logged.
	logEvery = 10 * time.Second
	// maxKeyFile is more than a key takes on standard input.
	maxKeyFile = 4 << 10
)

var errUsage = errors.New("usage: gw-wireguard service|genkey|pubkey [-] [-json]; people use gwctl wg")

func main() {
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return a == "-json" })
	err := run(args, len(args) < len(os.Args)-1)
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "wireguard: %v\n", err)
	if errors.Is(err, wireguard.ErrPointless) {
		os.Exit(supervisor.ExitPointless)
	}
	os.Exit(1)
}

func run(args []string, asJSON bool) error {
	switch {
	case slices.Equal(args, []string{"service"}):
		return service()
	case slices.Equal(args, []string{"genkey"}):
		return printKey("private_key", wireguard.NewKey(), asJSON)
	case slices.Equal(args, []string{"pubkey"}), slices.Equal(args, []string{"pubkey", "-"}):
		k, err := privateKey(len(args) == 2)
		if err != nil {
			return err
		}
		return printKey("public_key", wireguard.PublicKey(k), asJSON)
	}
	return errUsage
}

// privateKey reads the one of the gateway, or one from standard input.
func privateKey(stdin bool) (conf.Key, error) {
	if stdin {
		b, err := io.ReadAll(io.LimitReader(bufio.NewReader(os.Stdin), maxKeyFile))
		if err != nil {
			return conf.Key{}, fmt.Errorf("standard input: %w", err)
		}
		return conf.ParseKey(strings.TrimSpace(string(b)))
	}
	b, err := os.ReadFile(wireguard.File)
	if err != nil {
		return conf.Key{}, err
	}
	c, _ := conf.Parse(string(b))
	if c.PrivateKey.Zero() {
		return conf.Key{}, fmt.Errorf("%s has no PrivateKey; gwctl wg genkey makes one", wireguard.File)
	}
	return c.PrivateKey, nil
}

func printKey(name string, k conf.Key, asJSON bool) error {
	text := k.String()
	if asJSON {
		text = `{"` + name + `":"` + text + `"}`
	}
	_, err := fmt.Println(text)
	return err
}

// service is the tunnel, under gwinit's supervision.
func service() error {
	debug.SetGCPercent(gcPercent)
	// The group is this process's own. It is a matter of speed only.
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, niceness)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	conn, err := notify.FromEnv()
	if err != nil {
		return err
	}
	defer conn.Close()
	s := wireguard.New(wireguard.Options{
		Logf:   limited(func(line string) { fmt.Fprintln(os.Stderr, line) }),
		Status: func(text string) { _ = conn.Status(text) },
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	return s.Run(ctx, func() {
		serving.Go(func() {
			if err := conn.Serve(ctx, func(_ context.Context, method string, _ []byte) ([]byte, error) { return call(s, method) }); err != nil {
				fmt.Fprintf(os.Stderr, "wireguard: %v\n", err)
				cancel() // gwinit is gone
			}
		})
		_ = conn.Ready("")
	})
}

// call answers gwinit.
func call(s *wireguard.Service, method string) ([]byte, error) {
	switch method {
	case "show", "text":
		st, err := s.State()
		if err != nil {
			return nil, err
		}
		if method == "text" {
			return json.Marshal(st.Text())
		}
		return json.Marshal(st)
	case "warnings":
		return json.Marshal(s.Warnings())
	case "reload":
		if err := s.Reload(); err != nil {
			return nil, err
		}
		return []byte("{}"), nil
	}
	return nil, fmt.Errorf("wireguard has no method %q; it has show, text, warnings, reload", method)
}

// limited passes on a line that was not told lately, and says how many there
// were. It remembers a few.
func limited(log func(string)) func(string, ...any) {
	type told struct {
		line string
		at   time.Time
		left int
	}
	var mu sync.Mutex // guards recent
	var recent [8]told
	return func(format string, a ...any) {
		line := fmt.Sprintf(format, a...)
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		oldest := 0
		for i := range recent {
			t := &recent[i]
			if t.line == line && now.Sub(t.at) < logEvery {
				t.left++
				return
			}
			if t.line == line {
				oldest = i
				break
			}
			if t.at.Before(recent[oldest].at) {
				oldest = i
			}
		}
		text := line
		if t := recent[oldest]; t.line == line && t.left > 0 {
			text += " (and " + strconv.Itoa(t.left) + " more like it)"
		}
		recent[oldest] = told{line: line, at: now}
		log(text)
	}
}
