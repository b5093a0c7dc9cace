package pid1

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/controltest"
	"gwinit/internal/logring"
	"gwinit/internal/notify"
	"gwinit/internal/supervisor"
	"gwinit/internal/supervisor/supervisortest"
)

// Who is asked is one that is essential and answers.
func TestQuestionsAreForEssentialServices(t *testing.T) {
	var essential []string
	board, _ := rtl8196e.ByID(rtl8196e.Lidl)
	for _, s := range services(board) {
		if s.Essential && s.TTY == "" && s.Socket == "" {
			essential = append(essential, s.Name)
		}
	}
	for _, name := range essential {
		if questions[name] == "" {
			t.Errorf("%s is essential and never asked for a sign of life", name)
		}
	}
	if len(questions) != len(essential) {
		t.Errorf("asked are %v, essential %v", questions, essential)
	}
}

// rounds plays n rounds, in which those named give signs of life, and returns
// what came of them: f fed, - not, r:NAME restarted, !:NAMES reset.
func rounds(h *health, n int, alive ...string) string {
	out := ""
	for range n {
		for _, name := range alive {
			h.seen(name)
		}
		feed, _, restart, reset := h.round()
		for _, name := range restart {
			out += "r:" + name + " "
		}
		if reset != "" {
			out += "!:" + reset + " "
		}
		if feed {
			out += "f"
		} else {
			out += "-"
		}
	}
	return out
}

func TestHealth(t *testing.T) {
	tests := []struct {
		name string
		play func(h *health) string
		want string
	}{
		{"all live", func(h *health) string { return rounds(h, 20, "bridge", partControl) }, strings.Repeat("f", 20)},
		{"silent below the limit", func(h *health) string {
			return rounds(h, 4, partControl) + rounds(h, 5, "bridge", partControl)
		}, "fffffffff"},
		{"a service is restarted first", func(h *health) string {
			return rounds(h, 6, partControl) + rounds(h, 6, "bridge", partControl)
		}, "fffffr:bridge fffffff"},
		{"then it is a reset", func(h *health) string { return rounds(h, 12, partControl) }, "fffffr:bridge ffffff!:bridge -"},
		{"a restart long ago", func(h *health) string {
			rounds(h, 6, partControl)
			rounds(h, mildRounds, "bridge", partControl)
			return rounds(h, 6, partControl)
		}, "ffffr:bridge ff"},
		{
			"PID 1 itself, as long as a service with its restart", func(h *health) string { return rounds(h, 13, "bridge") },
			"fffffffffff!:" + partControl + " -!:" + partControl + " -",
		},
		{"the budget forbids it", func(h *health) string {
			s := rounds(h, 12, "bridge")
			h.forbidden()
			if got := rounds(h, tryRounds, "bridge"); got != strings.Repeat("f", tryRounds) {
				return "not fed regardless: " + got
			}
			return s + rounds(h, 1, "bridge") + rounds(h, 1, "bridge", partControl)
		}, "fffffffffff!:" + partControl + " -!:" + partControl + " -f"},
		{"nobody to watch yet", func(*health) string { return rounds(&health{}, 10) }, "ffffffffff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &health{}
			h.watch("bridge", true)
			h.watch(partControl, false)
			if got := tt.play(h); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// One question at a time, and none to who gave a sign just now.
func TestHealthAsks(t *testing.T) {
	h := &health{}
	h.watch("bridge", true)
	var asked []int
	for i := 1; i <= 8; i++ {
		if _, ask, _, _ := h.round(); len(ask) > 0 {
			asked = append(asked, i)
		}
		if i == 6 {
			h.mu.Lock()
			h.vitals["bridge"].asked = false
			h.mu.Unlock()
		}
	}
	if !slices.Equal(asked, []int{2, 8}) {
		t.Errorf("asked in rounds %v", asked)
	}
}

// A box that is starved answers late, and late is soon enough: a question that is
// answered just before the verdict counts, and no second one is asked meanwhile.
func TestHealthOfAStarvedBox(t *testing.T) {
	h := &health{}
	h.watch("bridge", true)
	h.watch(partControl, false)
	if got := h.vitals["bridge"].patience(); got != 40*time.Second {
		t.Errorf("a service has %v for an answer", got)
	}
	if got := h.vitals[partControl].patience(); got != 100*time.Second {
		t.Errorf("PID 1 has %v for an answer", got)
	}
	answered := func(name string) {
		h.mu.Lock()
		h.vitals[name].asked = false
		h.mu.Unlock()
		h.seen(name)
	}
	for i := range 600 { // 100 minutes
		feed, ask, restart, reset := h.round()
		if !feed || restart != nil || reset != "" {
			t.Fatalf("round %d: fed %v, restarted %q, reset for %q", i, feed, restart, reset)
		}
		// Asked in the second round after a sign, it answers in the fifth, and
		// PID 1 in the eleventh.
		if i%5 == 4 {
			answered("bridge")
		}
		if i%11 == 10 {
			answered(partControl)
		}
		want := 0
		if i%5 == 1 {
			want++
		}
		if i%11 == 1 {
			want++
		}
		if len(ask) != want {
			t.Fatalf("round %d: asked %q", i, ask)
		}
	}
}

// withBridge runs a supervisor whose bridge is up.
func withBridge(t *testing.T, test func(*testing.T, *supervisor.Supervisor, *supervisortest.Process)) {
	synctest.Test(t, func(t *testing.T) {
		l := &supervisortest.Launcher{}
		ring := logring.New(0, func() (int64, int64) { return 1, 0 })
		sup, err := supervisor.New(supervisor.Options{Launcher: l, Ring: ring}, []supervisor.Spec{{Name: svcBridge, Argv: []string{"gw"}, Essential: true}})
		if err != nil {
			t.Fatal(err)
		}
		sup.Boot()
		p := l.Process(svcBridge)
		p.Ready()
		test(t, sup, p)
		stop, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		sup.StopAll(stop)
		l.Wait()
	})
}

// reply answers the first call that a process was sent.
func reply(p *supervisortest.Process, failed bool) {
	id, _, _, err := notify.ParseCall([]byte(p.Sent()[0]))
	if err != nil {
		panic(err)
	}
	p.Say(notify.Message{Answer: true, Failed: failed, ID: id, Body: []byte("{}")})
}

func TestServiceAlive(t *testing.T) {
	tests := []struct {
		name string
		do   func(*supervisortest.Process)
		want bool
	}{
		{"answers", func(p *supervisortest.Process) { reply(p, false) }, true},
		{"answers with an error", func(p *supervisortest.Process) { reply(p, true) }, true},
		{"says nothing", func(*supervisortest.Process) {}, false},
		{"ended", func(p *supervisortest.Process) { p.Exit(1) }, true}, // it is started again
		{"ends by itself, and hangs", func(p *supervisortest.Process) { p.Say(notify.Message{Stopping: true}) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			withBridge(t, func(t *testing.T, sup *supervisor.Supervisor, p *supervisortest.Process) {
				got := make(chan bool, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				go func() { got <- serviceAlive(ctx, sup, svcBridge) }()
				synctest.Wait()
				tt.do(p)
				if alive := <-got; alive != tt.want {
					t.Errorf("alive %v, want %v", alive, tt.want)
				}
			})
		})
	}
}

// One question waits for its answer until the verdict.
func TestLateAnswer(t *testing.T) {
	for after, want := range map[time.Duration]int{39 * time.Second: 0, 41 * time.Second: 3} {
		withBridge(t, func(t *testing.T, sup *supervisor.Supervisor, p *supervisortest.Process) {
			in := &initd{sup: sup, feeding: context.Background()}
			in.health.watch(svcBridge, true)
			in.health.vitals[svcBridge].asked = true
			in.health.vitals[svcBridge].rounds = 3
			asked := make(chan struct{})
			go func() { defer close(asked); in.ask(svcBridge) }()
			time.Sleep(after)
			reply(p, false)
			<-asked
			if v := in.health.vitals[svcBridge]; v.rounds != want || v.asked {
				t.Errorf("after %v: %+v, want %d rounds", after, *v, want)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	path := controltest.Start(t, &controltest.Backend{}, control.Options{})
	if !answers(t.Context(), path) {
		t.Error("a server that answers counts as dead")
	}
	if answers(t.Context(), path+".none") {
		t.Error("a socket that is not there counts as alive")
	}
}

func TestFailedNames(t *testing.T) {
	all := []api.Service{
		{Name: "userdata", State: "done"},
		{Name: "bridge", State: "backoff", Since: 11},
		{Name: "core", State: "backoff", Since: 1},
		{Name: "x", State: "failed"},
		{Name: "console", State: "stopped"},
	}
	if got := failedNames(all); got != "bridge\nx\n" {
		t.Errorf("got %q", got)
	}
}

// INV 8: no reset without the budget's leave, and INV 1: no wait for its flash.
func TestHealthReset(t *testing.T) {
	for name, tt := range map[string]struct {
		draw   func() error
		reboot bool
		warns  string
	}{
		"allowed":         {func() error { return nil }, true, ""},
		"spent":           {func() error { return errors.New("the budget is spent") }, false, "bridge: no sign of life, and no reset for it: the budget is spent"},
		"the flash hangs": {func() error { time.Sleep(time.Hour); return nil }, false, "bridge: no sign of life, and no reset for it: the flash does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &initd{ring: logring.New(0, func() (int64, int64) { return 1, 0 })}
				in.health.watch(svcBridge, false)
				in.resetting.Store(true)
				start := time.Now()
				var asked []api.ShutdownArgs
				in.healthReset(svcBridge, tt.draw, func(a api.ShutdownArgs) error { asked = append(asked, a); return nil })
				if took := time.Since(start); took > drawWait {
					t.Errorf("took %v", took)
				}
				if (len(asked) == 1 && asked[0].Action == "reboot") != tt.reboot || len(asked) > 1 {
					t.Errorf("shutdowns %v", asked)
				}
				if got := strings.Join(in.warnings(), "|"); got != tt.warns {
					t.Errorf("warnings %q, want %q", got, tt.warns)
				}
				if fed := rounds(&in.health, 20) == strings.Repeat("f", 20); fed == tt.reboot {
					t.Errorf("fed regardless: %v", fed)
				}
				if in.resetting.Load() {
					t.Error("no other can follow")
				}
				time.Sleep(time.Hour) // the flash comes back
			})
		})
	}
}

func TestRunWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			runWatchdog(ctx, nil, func() bool { n++; return true })
		}()
		time.Sleep(time.Minute + time.Second)
		cancel()
		<-done
		if n != 6 {
			t.Errorf("asked %s times in a minute", strconv.Itoa(n))
		}
	})
}
