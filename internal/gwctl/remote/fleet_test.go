//go:build linux

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/gwctl/fleet/fleettest"
)

// fakeUserland is what a gateway answers to gwctl update.
type fakeUserland struct {
	st    api.UpdateStatus
	code  string // it refuses updates
	calls int
}

func (u *fakeUserland) exec(command string, in io.Reader) string {
	u.calls++
	b, err := json.Marshal(u.st)
	switch {
	case err != nil:
		return err.Error()
	case command == "gwctl update status -json":
		return string(b) + "\n"
	case u.code != "":
		return fmt.Sprintf(`{"error":{"code":%q,"message":"no"}}`+"\n", u.code)
	}
	n, err := io.Copy(io.Discard, in)
	if err != nil {
		return err.Error()
	}
	u.st.Version, u.st.Running, u.st.Next = "2.0", "b", "b"
	u.st.Slots = append(u.st.Slots, api.UpdateSlot{Name: "b", Version: "2.0", SHA256: "", Bytes: n})
	return fmt.Sprintf(`{"version":"2.0","slot":"b","bytes":%d}`+"\n", n)
}

// The words of a gateway as a rollout and an agent take them.
func TestUpdater(t *testing.T) {
	u := &fakeUserland{st: api.UpdateStatus{
		Version: "1.0", Running: "a", Next: "a", Try: "b", Board: "lidl", Kernel: "6.18.1", Failed: "0.9", Reason: "it\x1b[31m hangs",
		Slots: []api.UpdateSlot{{Name: "a", Version: "1.0", SHA256: "aa"}, {Name: "b", Version: "2.0", SHA256: "bb"}},
	}}
	g := updater{box: direct{u}}
	st, err := g.State(t.Context())
	want := fleet.State{Version: "1.0", SHA256: "aa", Trying: "2.0", Failed: "0.9", Reason: "it[31m hangs", Board: "lidl", Kernel: "6.18.1"}
	if err != nil || st != want {
		t.Errorf("%+v, %v", st, err)
	}
	for code, refused := range map[string]bool{api.CodeFailed: true, api.CodeBusy: false} {
		u.code = code
		err := g.Send(t.Context(), strings.NewReader("x"), 1)
		if err == nil || errors.As(err, new(fleet.Refused)) != refused {
			t.Errorf("%s: %v", code, err)
		}
	}
	u.code, u.st.Try = "", ""
	if err := g.Send(t.Context(), strings.NewReader("x"), 1); err != nil {
		t.Error(err)
	}
	if o, err := g.Wait(t.Context(), "2.0"); err != nil || !o.Committed {
		t.Errorf("%+v, %v", o, err)
	}
}

// direct is a gateway without a network.
type direct struct{ u *fakeUserland }

func (d direct) Command(_ context.Context, in io.Reader, args ...string) ([]byte, error) {
	if in == nil {
		in = bytes.NewReader(nil)
	}
	return []byte(d.u.exec("gwctl "+strings.Join(args, " "), in)), nil
}

func TestRollsOut(t *testing.T) {
	one, two := make([]target, 1), make([]target, 2)
	for line, want := range map[string][2]bool{
		"update f": {false, true}, "update status": {false, false}, "update -h": {false, false}, "update -canary 2 f": {true, true},
		"update -max-unavailable=3 f": {true, true}, "status": {false, false}, "logs update": {false, false},
	} {
		args := strings.Fields(line)
		if got := [2]bool{rollsOut(one, args), rollsOut(two, args)}; got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// Five hundred gateways by SSH get an update, sixteen at a time, and those that
// cannot be reached are named; the second time nobody gets it.
func TestFleetUpdate(t *testing.T) {
	const all = 500
	w := newWorkstation(t)
	w.r.known = &known{accept: true}
	w.r.times.handshake = 10 * time.Second // of a machine with other work
	number := func(ip net.IP) int { ip = ip.To4(); return int(ip[2])*250 + int(ip[3]) - 1 }
	f := newFleet(t, w.key, func(ip net.IP) string {
		if number(ip)%100 == 17 {
			return "refusing"
		}
		return ""
	})
	var mu sync.Mutex // guards lands and what is in them
	lands := map[int]*fakeUserland{}
	busy, most := map[int]bool{}, 0
	f.exec = func(ip net.IP, command string, in io.Reader) string {
		mu.Lock()
		n := number(ip)
		u := lands[n]
		if u == nil {
			u = &fakeUserland{st: api.UpdateStatus{Version: "1.0", Running: "factory", Next: "factory", Board: "lidl", Kernel: "6.18.1"}}
			lands[n] = u
		}
		sends := !strings.Contains(command, "status")
		if sends {
			busy[n] = true
			most = max(most, len(busy))
		}
		mu.Unlock()
		if sends { // outside of the lock: it takes its time
			b, err := io.ReadAll(in)
			if err != nil {
				return err.Error()
			}
			in = bytes.NewReader(b)
		}
		mu.Lock()
		defer mu.Unlock()
		delete(busy, n)
		return u.exec(command, in)
	}
	var targets []target
	for n := range all {
		host := fmt.Sprintf("127.0.%d.%d", n/250, n%250+1)
		targets = append(targets, target{name: fmt.Sprintf("gw%03d", n), user: "root", host: host, port: f.l.Addr().(*net.TCPAddr).Port})
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	file := fleettest.Bundle(t, "2.0", 128<<10)
	begin := time.Now()
	err := w.r.rollout(t.Context(), targets, []string{"update", "-max-unavailable", "16", "-canary", "2", file})
	t.Logf("%d gateways in %v, %d connections at most", all, time.Since(begin), f.most.Load())
	const want = "495 of 500 run the update\n5 not reached: gw017, gw117, gw217, gw317, gw417\n  gw017: "
	if !errors.Is(err, applet.Exit(1)) || !strings.HasPrefix(w.out.String(), want) {
		t.Errorf("%v: %s", err, w.out.String())
	}
	if most > 16 || f.most.Load() > 2*askedAtOnce {
		t.Errorf("%d at a time, %d connections", most, f.most.Load())
	}
	calls := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, u := range lands {
			n += u.calls
		}
		return n
	}
	before := calls()
	w.out.Reset()
	if err := w.r.rollout(t.Context(), targets, []string{"update", file}); !errors.Is(err, applet.Exit(1)) || !strings.HasPrefix(w.out.String(), want) {
		t.Errorf("again: %v: %s", err, w.out.String())
	}
	if n := calls() - before; n != 495 {
		t.Errorf("the second time took %d questions, want one for each", n)
	}
}

// askedAtOnce is how many a rollout asks at a time.
const askedAtOnce = 32
