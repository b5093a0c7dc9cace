//go:build linux

package otbr

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/services/otbr-supervisor/otctl"
	"gwinit/services/otbr-supervisor/threaddata"
)

// watch looks after one agent. It is for one goroutine.
type watch struct {
	s     *Service
	p     *process
	at    time.Duration // it was started
	ready time.Duration // 0: not yet
	heard time.Duration // REST has answered last
	since time.Duration // it is attached; 0: it is not
	role  string
	why   string // why it is not ready, the last that was seen
	// Until when the SRP server is off; 0: it is not.
	off time.Duration
}

// run returns when the agent has ended ("") or has to: then why.
func (w *watch) run(ctx context.Context) (why string) {
	s := w.s
	save, gone := make(chan chan error), make(chan struct{})
	s.change(func(*State) { s.save, s.gone = save, gone })
	defer close(gone)
	t := time.NewTimer(s.o.Times.Rising)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			// Saved before it is asked to end, which may take what is left of a
			// shutdown's time.
			w.look()
			return "asked to stop"
		case <-w.p.ended:
			return ""
		case done := <-save:
			done <- w.look()
			continue
		case <-t.C:
		}
		s.o.Alive()
		w.look()
		if why = w.step(ctx); why != "" && ctx.Err() == nil {
			return why
		}
		next := s.o.Times.Poll
		if w.ready == 0 {
			next = s.o.Times.Rising
		}
		t.Reset(next)
	}
}

// look saves what is worth it.
func (w *watch) look() error {
	s := w.s
	found, saved, err := s.keeper.Look(s.now())
	s.saved(err)
	if saved && err == nil {
		s.change(func(st *State) {
			st.Saved = "all but what the agent finds out again"
			if found == threaddata.Minor {
				st.Saved = "all"
			}
		})
	}
	return err
}

// step asks the agent how it is. It returns why it has to end, or "".
func (w *watch) step(ctx context.Context) string {
	s := w.s
	role, err := s.http().String(ctx, "/node/state")
	now := s.now()
	if err == nil {
		w.heard = now
		w.took(role, now)
	} else {
		w.why = "REST: " + err.Error()
	}
	if w.ready == 0 {
		if err == nil {
			w.why = w.rise(ctx)
		}
		if w.why == "" {
			w.ready = max(s.now(), 1)
			s.set(stReady)
			s.o.Ready("ready: " + w.role)
			return ""
		}
		if now-w.at >= s.o.Times.Ready {
			return fmt.Sprintf("the agent was not ready within %v: %s", s.o.Times.Ready, w.why)
		}
		return ""
	}
	if now-w.heard >= s.o.Times.Silent {
		return fmt.Sprintf("the agent hangs: no answer for %v (%s)", s.o.Times.Silent, w.why)
	}
	w.kick(ctx, now)
	return ""
}

// took takes the role over.
func (w *watch) took(role string, now time.Duration) {
	role = clean(role)
	switch {
	case !api.Attached(role):
		w.since = 0
	case w.since == 0:
		w.since = max(now, 1)
	}
	if role == w.role {
		return
	}
	s := w.s
	w.role = role
	s.change(func(st *State) { st.Role = role })
	s.role(role)
	s.log("role %s", role)
	if w.ready != 0 {
		s.o.Status(role)
	}
}

// rise finds out whether it is ready: the control socket answers, and the
// radio's version can be read. It sets what is set once. It returns why not.
func (w *watch) rise(ctx context.Context) string {
	s := w.s
	version, err := s.cli().Do(ctx, "rcp version")
	text := strings.Join(version, " ")
	var no *otctl.Refusal
	if errors.As(err, &no) { // it is there, and was built without that
		refused := err
		if text, err = s.http().String(ctx, "/node/coprocessor/version"); err != nil {
			return "the radio's version: " + refused.Error() + "; " + err.Error()
		}
	}
	if err != nil {
		return "control socket: " + err.Error()
	}
	if text == "" {
		return "the radio's version is not known"
	}
	s.change(func(st *State) { st.RCPVersion = clean(text) })
	s.mu.Lock()
	o := s.radio.OTBR
	s.mu.Unlock()
	if _, err := s.cli().Do(ctx, "log level "+strconv.Itoa(o.LogLevel())); err != nil {
		s.log("%v", err)
	}
	s.warn("power", w.power(ctx, o.TxPower()))
	return ""
}

// powerTries is how often the power is set until the chip has it: the firmware
// of before found that it takes several on some.
const powerTries = 10

// power sets the transmit power, and returns what is wrong with it. A chip that
// is asked for more than it can may take a little less.
func (w *watch) power(ctx context.Context, dbm int) string {
	const less = 1
	got := "no answer"
	for range powerTries {
		if _, err := w.s.cli().Do(ctx, "txpower "+strconv.Itoa(dbm)); err != nil {
			return err.Error()
		}
		lines, err := w.s.cli().Do(ctx, "txpower")
		if err != nil {
			return err.Error()
		}
		got = strings.Join(lines, " ")
		number, _, _ := strings.Cut(got, " ")
		if n, err := strconv.Atoi(number); err == nil && n <= dbm && n >= dbm-less {
			return ""
		}
	}
	return fmt.Sprintf("the radio sends with %s instead of %d dBm (radio.OTBR_TXPOWER)", clean(got), dbm)
}

// kick has the children register their services again, once in a boot: what a
// border router knew of them is lost with its memory, and they would come by
// themselves after hours only.
func (w *watch) kick(ctx context.Context, now time.Duration) {
	s := w.s
	switch {
	case w.off != 0:
		if now < w.off {
			return
		}
		if _, err := s.cli().Do(ctx, "srp server enable"); err != nil {
			s.log("%v", err)
			return // it is tried again
		}
		w.off = 0
		s.log("the SRP server is on again")
	case w.since == 0 || now-w.since < s.o.Times.Kick || s.there(kickedPath):
	default:
		children, err := s.cli().Do(ctx, "child table")
		if err != nil {
			s.log("%v", err)
			return
		}
		_ = os.WriteFile(s.path(kickedPath), nil, 0o644)
		if len(children) <= tableHead {
			return
		}
		if _, err := s.cli().Do(ctx, "srp server disable"); err != nil {
			s.log("%v", err)
			return
		}
		w.off = now + s.o.Times.KickHold
		s.log("the SRP server is off for %v, so that the children register again", s.o.Times.KickHold)
	}
}

// tableHead is how many lines a table of the agent's has without an entry.
const tableHead = 2

func addrPort(a netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), port)
}

func pathIn(root, name string) string { return filepath.Join("/", root, name) }
