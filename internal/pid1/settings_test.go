package pid1

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/logring"
	"gwinit/internal/supervisor"
	"gwinit/internal/supervisor/supervisortest"
)

// A change of a setting restarts services that there are.
func TestSettingsRestartServices(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range services(rtl8196e.Board{}) {
		names = append(names, s.Name)
	}
	restart := map[string]string{}
	for _, s := range config.Settings() {
		for _, name := range s.Restart {
			restart[name] = s.Name
		}
	}
	for name, setting := range restart {
		if !slices.Contains(names, name) {
			t.Errorf("%s restarts %s; there are %v", setting, name, names)
		}
	}
	if len(restart) == 0 {
		t.Error("no setting restarts anything")
	}
}

func TestTryRestart(t *testing.T) {
	tests := []struct {
		name    string
		safe    bool                                     // safe mode
		before  func(*backend, *supervisortest.Launcher) // brings it into its state
		from    string                                   // that state
		starts  int                                      // by the try-restart
		to      string                                   // the state that is answered
		options func(spec *supervisor.Spec)              // of the service; nil: none
	}{
		{name: "running", from: "running", starts: 1, to: "running"},
		{
			name: "stopped by hand", from: "stopped", to: "stopped",
			before: func(b *backend, _ *supervisortest.Launcher) { _ = b.sup.Stop(context.Background(), "bridge") },
		},
		{name: "left out by safe mode", safe: true, from: "stopped", to: "stopped"},
		{
			name: "failed", from: "failed", to: "failed",
			before: func(_ *backend, l *supervisortest.Launcher) { l.Process("bridge").Exit(125) },
		},
		{
			name: "in backoff", from: "backoff", starts: 1, to: "running",
			before: func(_ *backend, l *supervisortest.Launcher) { l.Process("bridge").Exit(1) },
		},
		{
			name: "done", from: "done", to: "done", options: func(s *supervisor.Spec) { s.Oneshot = true },
			before: func(_ *backend, l *supervisortest.Launcher) { l.Process("bridge").Exit(0) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := supervisor.Spec{Name: "bridge", Argv: []string{"gw", "bridge"}}
				if tt.options != nil {
					tt.options(&spec)
				}
				l := &supervisortest.Launcher{}
				ring := logring.New(0, func() (int64, int64) { return 1, 0 })
				sup, err := supervisor.New(supervisor.Options{Launcher: l, Ring: ring, Safe: tt.safe}, []supervisor.Spec{spec})
				if err != nil {
					t.Fatal(err)
				}
				b := &backend{in: &initd{}, sup: sup, ring: ring}
				ready := func() {
					synctest.Wait()
					if b.service("bridge").State == "starting" && !spec.Oneshot {
						l.Process("bridge").Ready()
						synctest.Wait()
					}
				}
				sup.Boot()
				ready()
				if tt.before != nil {
					tt.before(b, l)
					synctest.Wait()
				}
				if s := b.service("bridge"); s.State != tt.from {
					t.Fatalf("state %s, want %s", s.State, tt.from)
				}
				started := len(l.Names())
				type answer struct {
					s   api.Service
					err error
				}
				got := make(chan answer, 1)
				go func() {
					s, err := b.Service(t.Context(), api.ServiceArgs{Name: "bridge", Action: "try-restart"})
					got <- answer{s, err}
				}()
				ready()
				if a := <-got; a.err != nil || a.s.Name != "bridge" || a.s.State != tt.to {
					t.Errorf("answered %+v, %v; want state %s", a.s, a.err, tt.to)
				}
				if n := len(l.Names()) - started; n != tt.starts {
					t.Errorf("started %d times, want %d", n, tt.starts)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if left := sup.StopAll(ctx); left != nil {
					t.Errorf("left behind: %v", left)
				}
				l.Wait()
			})
		})
	}
}

// Under memory pressure the bridge is the last to go, what somebody types or
// uploads the first; and whoever writes files for people is bounded.
func TestOrderUnderMemoryPressure(t *testing.T) {
	score, limit := map[string]int{}, map[string]uint64{}
	for _, s := range services(rtl8196e.Board{}) {
		score[s.Name], limit[s.Name] = s.OOMScoreAdj, s.FileLimit
	}
	for _, order := range [][2]string{{svcBridge, svcCore}, {svcCore, svcUserdata}, {svcUserdata, svcSSHD}, {svcSSHD, svcConsole}} {
		if score[order[0]] >= score[order[1]] {
			t.Errorf("%s (%d) goes before %s (%d)", order[0], score[order[0]], order[1], score[order[1]])
		}
	}
	for name, score := range score {
		if name != svcBridge && score <= -900 {
			t.Errorf("%s (%d) goes after the bridge", name, score)
		}
	}
	for _, name := range []string{svcSSHD, svcConsole} {
		if limit[name] != 8<<20 {
			t.Errorf("%s writes files of %d bytes", name, limit[name])
		}
	}
	if limit[svcBridge] != 0 || limit[svcCore] != 0 {
		t.Error("a service has the shells' limit")
	}
}
