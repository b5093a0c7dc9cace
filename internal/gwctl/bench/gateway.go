package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/control/client"
	"gwinit/internal/gwctl"
	"gwinit/internal/wait"
)

const (
	// lostWait is for how long a gateway may be out of reach whose connection was
	// lost in bench mode: it lets nobody in for BenchLostSeconds, then starts what
	// it had stopped.
	lostWait = (api.BenchLostSeconds + 60) * time.Second
	// retryEvery is the pause between two tries to reach it.
	retryEvery = 2 * time.Second
	// enterTime is what a gateway may take until it is at rest, behind the
	// request.
	enterTime = 3 * time.Minute
	askTime   = 45 * time.Second
	// restoreTime is what it may take until all runs again behind bench mode.
	restoreTime = 90 * time.Second
	restorePoll = time.Second
	// controlSocket is control.SocketPath.
	controlSocket = "/run/gwinit.sock"
)

// gateway is the Box by the control protocol.
type gateway struct {
	dial gwctl.Dialer
	args api.BenchArgs
	// wait is for how long it may be out of reach when it is entered, as behind a
	// hook that restarts it.
	wait  time.Duration
	say   func(string, ...any)
	iface string // the Ethernet interface, once Facts was called

	control *client.Client // stays open in bench mode
	changes chan api.Bench // closed when that ends
	ended   error          // why, when changes is closed
	why     string         // the gateway's words for it
	asks    *client.Client
	lost    bool
	running sync.WaitGroup
}

// ask sends one request.
func (g *gateway) ask(ctx context.Context, op string, args any, to any) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if g.asks == nil {
		c, err := g.dial(ctx, controlSocket)
		if err != nil {
			if g.control != nil {
				g.lost = true
				err = fmt.Errorf("%w: %w", errLost, err)
			}
			return err
		}
		g.asks = c
	}
	data, err := g.asks.Do(ctx, op, args)
	if err != nil {
		if !errors.As(err, new(*api.Error)) {
			g.asks.Close()
			g.asks = nil
			g.lost = true
			err = fmt.Errorf("%w: %w", errLost, err)
		}
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("the answer to %s is not understood, is the gateway of another version? %w", op, err)
	}
	return nil
}

// Facts implements Box.
func (g *gateway) Facts(ctx context.Context) (f Facts, err error) {
	var s api.Status
	if err := g.ask(ctx, api.OpStatus, nil, &s); err != nil {
		return f, err
	}
	f.Version, f.Board, f.Hostname, f.Emulated = s.Version, s.Board.ID, s.Hostname, s.Board.Emulated
	f.Interface = "eth0"
	if n := s.Network; n != nil {
		f.Interface, f.SpeedMbit = n.Interface, n.SpeedMbit
	}
	g.iface = f.Interface
	var e api.Ethernet
	if err := g.ask(ctx, api.OpCall, api.CallArgs{Service: "core", Method: "eth"}, &e); err == nil {
		f.Driver = strings.TrimSpace(e.Driver + " " + e.Version)
	}
	return f, nil
}

// Enter implements Box.
func (g *gateway) Enter(ctx context.Context) (Mode, error) {
	patience := g.wait
	if g.lost {
		patience = max(patience, lostWait)
	}
	for until := time.Now().Add(patience); ; {
		m, err := g.enter(ctx)
		var told *api.Error
		busy := errors.As(err, &told) && told.Code == api.CodeBusy
		if err == nil || ctx.Err() != nil || told != nil && !busy || time.Now().After(until) {
			return m, err
		}
		g.say("waiting for the gateway: %v\n", err)
		if !wait.For(ctx, retryEvery) {
			return m, ctx.Err()
		}
	}
}

func (g *gateway) enter(ctx context.Context) (m Mode, err error) {
	g.close()
	g.lost, g.why = false, ""
	c, err := g.dial(ctx, controlSocket)
	if err != nil {
		return m, err
	}
	g.control, g.changes = c, make(chan api.Bench, 64)
	args := g.args
	args.Action, args.Stay = api.BenchOn, true
	changes := g.changes
	g.running.Go(func() {
		defer close(changes)
		err := c.Stream(context.WithoutCancel(ctx), api.OpBench, args, func(r api.Reply) error {
			var b api.Bench
			if err := json.Unmarshal(r.Data, &b); err != nil {
				return fmt.Errorf("the answer to bench is not understood, is the gateway of another version? %w", err)
			}
			select {
			case changes <- b:
			default: // nobody looks: only the end matters, and that is the closing
			}
			return nil
		})
		g.ended = err
	})
	limit := time.NewTimer(enterTime)
	defer limit.Stop()
	state := ""
	for {
		select {
		case <-ctx.Done():
			g.close()
			return m, ctx.Err()
		case <-limit.C:
			g.close()
			return m, fmt.Errorf("the gateway is not in bench mode after %v, but %s", enterTime, state)
		case b, ok := <-changes:
			if !ok {
				err := g.ended
				g.close()
				if err == nil {
					err = errLost
				}
				return m, err
			}
			if b.State != state && b.State != "" {
				state = b.State
				g.say("bench mode: %s\n", state)
			}
			switch b.State {
			case api.BenchIsOff, api.BenchRestoring:
				g.close()
				return m, fmt.Errorf("bench mode did not begin: %s", b.Why)
			case api.BenchIsOn:
				m = Mode{Port: b.Port, Profile: b.Profile, Door: b.Door, Stopped: b.Stopped, Notes: b.Notes}
				if l := b.Load; l != nil {
					m.Load = &Load{Seconds: l.Seconds, CPU: l.CPU, Wakeups: l.Wakeups, Rx: l.Rx, Tx: l.Tx, Quiet: l.Quiet, By: l.By}
				}
				return m, nil
			}
		}
	}
}

// lasting tells whether bench mode goes on, as far as the gateway has said.
func (g *gateway) lasting() error {
	for g.control != nil {
		select {
		case b, ok := <-g.changes:
			if ok {
				g.why = b.Why
				continue
			}
			g.lost = true
			if g.why != "" {
				return fmt.Errorf("%w: bench mode ended: %s", errLost, g.why)
			}
			return fmt.Errorf("%w: bench mode may have ended", errLost)
		default:
			return nil
		}
	}
	return nil
}

// close ends the connections.
func (g *gateway) close() {
	if g.control != nil {
		g.control.Close()
		g.running.Wait()
		g.control = nil
	}
	if g.asks != nil {
		g.asks.Close()
		g.asks = nil
	}
}

// Leave implements Box.
func (g *gateway) Leave(ctx context.Context) error {
	if g.control == nil {
		return nil
	}
	defer g.close()
	var b api.Bench
	if err := g.ask(ctx, api.OpBench, api.BenchArgs{Action: api.BenchOff}, &b); err != nil {
		return fmt.Errorf("end bench mode: %w; it ends by itself %d minutes after the connection", err, api.BenchLostSeconds/60)
	}
	for ended := false; !ended; {
		select {
		case _, ok := <-g.changes:
			ended = !ok
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// What was stopped is started again: its doors are open once it runs.
	for until := time.Now().Add(restoreTime); ; {
		var s api.Status
		err := g.ask(ctx, api.OpBench, api.BenchArgs{Action: api.BenchStatus}, &b)
		if err == nil {
			err = g.ask(ctx, api.OpStatus, nil, &s)
		}
		if err != nil {
			return fmt.Errorf("behind bench mode: %w", err)
		}
		var waits []string
		for _, svc := range s.Services {
			if slices.Contains([]string{"waiting", "starting", "stopping", "backoff"}, svc.State) {
				waits = append(waits, svc.Name+" "+svc.State)
			}
		}
		if b.State == api.BenchIsOff && s.Network != nil && len(waits) == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("behind bench mode the gateway is not as it was before after %v: %s; gwctl status shows it", restoreTime, strings.Join(waits, ", "))
		}
		if !wait.For(ctx, restorePoll) {
			return ctx.Err()
		}
	}
}

// Counters implements Box.
func (g *gateway) Counters(ctx context.Context) (c Counters, err error) {
	if err := g.lasting(); err != nil {
		return c, err
	}
	var b api.BenchCount
	if err := g.ask(ctx, api.OpBench, api.BenchArgs{Action: api.BenchCounters}, &b); err != nil {
		return c, err
	}
	c = Counters{At: b.At, Busy: b.Busy, Total: b.Total, Kernel: b.Kernel, Faults: b.Faults, Driver: map[string]uint64{}}
	for _, d := range b.Driver {
		c.Driver[d.Name] = d.Value
	}
	if c.Device, err = parseDevice(b.Device, g.iface); err != nil {
		return c, err
	}
	c.SNMP, err = parseSNMP(b.SNMP)
	return c, err
}
