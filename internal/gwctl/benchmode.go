package gwctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/wait"
)

const benchMore = `  on       stop everything but the address and the button, and serve iperf3
    -for TIME      for so long at most (30m)
    -peer ADDR     for this host only; by SSH: for where you are
    -port N        the bench's port (5201)
    -profile NAME  the Ethernet driver's; leave: as it is (bench)
    -y             although a radio client is connected
    -stay          go on until it ends, which ctrl-c has it do; by SSH it always
                   does, and nobody else gets in
  off      everything as it was before
  status   what is stopped, until when, and what the box did while at rest
  verify   is it quiet? measure for -for TIME (1m)
`

// benchMode steers bench mode.
func benchMode(e *env, f *flag.FlagSet) func([]string) error {
	var a api.BenchArgs
	var long time.Duration
	timeFlag(f, &long, "for")
	f.StringVar(&a.Peer, "peer", "", "")
	f.IntVar(&a.Port, "port", 0, "")
	f.StringVar(&a.Profile, "profile", "", "")
	f.BoolVar(&a.Drop, "y", false, "")
	f.BoolVar(&a.Stay, "stay", false, "")
	return func(args []string) error {
		a.Action = strings.Join(args, " ")
		a.Seconds = int(long.Seconds())
		switch a.Action {
		case api.BenchOn:
			a.Stay = a.Stay || e.fromAfar()
			return e.benchOn(a)
		case api.BenchOff, api.BenchStatus, api.BenchVerify, api.BenchCounters:
		default:
			return applet.Usagef("bench-mode takes on, off, status or verify")
		}
		a = api.BenchArgs{Action: a.Action, Seconds: a.Seconds}
		data, err := e.ask(api.OpBench, a)
		var b api.Bench
		if err == nil && a.Action != api.BenchCounters {
			err = decode(e.name, data, &b)
		}
		if err == nil && a.Action == api.BenchVerify {
			// It is not asked while it measures.
			wait.For(e.ctx, time.Duration(b.Measuring*float64(time.Second))+time.Second)
			if data, err = e.ask(api.OpBench, api.BenchArgs{Action: api.BenchStatus}); err == nil {
				err = decode(e.name, data, &b)
			}
		}
		if err != nil {
			return err
		}
		if err := e.bench(data); err != nil {
			return err
		}
		if a.Action == api.BenchVerify && (b.Load == nil || !b.Load.Quiet) {
			return applet.Exit(1)
		}
		return nil
	}
}

// benchOn turns it on, and with a.Stay waits for its end.
func (e *env) benchOn(a api.BenchArgs) error {
	c, err := e.open()
	if err != nil {
		return err
	}
	defer c.Close()
	if a.Peer == "" {
		a.Peer = e.peer() // known since there is a login
	}
	ctx, stop := signal.NotifyContext(e.ctx, os.Interrupt)
	defer stop()
	state := ""
	err = c.Stream(ctx, api.OpBench, a, func(r api.Reply) error {
		var b api.Bench
		if err := decode(e.name, r.Data, &b); err != nil {
			return err
		}
		if b.State == state && r.More {
			return nil
		}
		state = b.State
		if err := e.bench(r.Data); err != nil || e.json || !r.More || state != api.BenchIsOn {
			return err
		}
		_, err := io.WriteString(e.std.Out, "until then, or ctrl-c\n")
		return err
	})
	var told *api.Error
	if errors.As(err, &told) && told.Code == api.CodeConfirm && !a.Drop && e.yes(told.Message) {
		a.Drop = true
		return e.benchOn(a)
	}
	if ctx.Err() != nil && e.ctx.Err() == nil { // ctrl-c
		data, err := e.askIn(context.WithoutCancel(e.ctx), api.OpBench, api.BenchArgs{Action: api.BenchOff})
		if err != nil {
			return err
		}
		return e.bench(data)
	}
	return err
}

// yes asks who sits at a terminal.
func (e *env) yes(question string) bool {
	in, ok := e.std.In.(*os.File)
	if !ok || e.json || !isTerminal(in) {
		return false
	}
	fmt.Fprint(e.std.Err, question+". Go on? [y/N] ")
	line, _ := bufio.NewReader(in).ReadString('\n')
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
}

// fromAfar tells whether this gwctl came by the network: then bench mode closes
// the door behind it.
func (e *env) fromAfar() bool {
	_, ok := e.ctx.Value(redialKey{}).(func())
	return ok || os.Getenv("SSH_CONNECTION") != ""
}

// peer is where this gwctl is, as the gateway sees it; "": not known.
func (e *env) peer() string {
	if addr, ok := e.ctx.Value(peerKey{}).(func() string); ok {
		return addr()
	}
	at, _, _ := strings.Cut(os.Getenv("SSH_CONNECTION"), " ")
	return at
}

// peerKey is that of a context's value.
type peerKey struct{}

// WithPeer tells a command what this computer's address is, as soon as there is a
// connection to the gateway.
func WithPeer(ctx context.Context, addr func() string) context.Context {
	return context.WithValue(ctx, peerKey{}, addr)
}

// bench shows an answer.
func (e *env) bench(data json.RawMessage) error {
	var b api.Bench
	if e.json || decode(e.name, data, &b) != nil || b.State == "" {
		return e.print(data)
	}
	return e.write(func(out *bytes.Buffer) { screen{out, e.colour()}.bench(&b) })
}

// bench writes what it is.
func (s screen) bench(b *api.Bench) {
	text := b.State
	if b.Left > 0 {
		text += ", for " + duration(b.Left) + " more"
	}
	if b.Why != "" {
		text += ": " + b.Why
	}
	s.row("bench", text)
	if b.Door == "" {
		return
	}
	s.row("door", b.Door)
	s.list("stopped", b.Stopped...)
	s.row("driver", "profile "+b.Profile)
	text = fmt.Sprintf("%d, and %d refused", b.Runs, b.Refused)
	if b.Run != nil {
		text += "; one goes on with " + b.Run.Peer
	}
	s.row("runs", text)
	if b.Lost > 0 {
		s.alarm("control", "lost for "+duration(b.Lost)+": it ends at "+duration(api.BenchLostSeconds)+" without a run")
	}
	if b.Measuring > 0 {
		s.row("rest", "measured for "+duration(b.Measuring)+" more")
	}
	if l := b.Load; l != nil {
		text = fmt.Sprintf("%.3f %% CPU and %.2f wakeups/s in user space within %.0f s; %.2f %% busy; packets/s %.1f in, %.1f out",
			l.CPU, l.Wakeups, l.Seconds, l.Busy, l.Rx, l.Tx)
		if l.Quiet {
			s.row("rest", text)
		} else {
			s.alarm("rest", text+": not quiet")
		}
		s.list("", l.By...)
	}
	s.list("", b.Notes...)
}
