package pid1

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/logring"
	"gwinit/internal/notify"
	"gwinit/internal/supervisor"
	"gwinit/internal/supervisor/supervisortest"
)

// benchBox is a backend with services that are none, whose calls are answered.
type benchBox struct {
	*backend
	t       *testing.T
	l       *supervisortest.Launcher
	root    string
	settles atomic.Bool       // bench is on at once
	hangs   atomic.Bool       // bench ends by SIGKILL only
	answers map[string]string // by service and method
	calls   []string
}

// inBench runs f in a bubble, with the services of the box but userdata and console.
func inBench(t *testing.T, f func(*benchBox)) {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := &supervisortest.Launcher{}
		ring := logring.New(0, func() (int64, int64) { return 1, 0 })
		sup, err := supervisor.New(supervisor.Options{Launcher: l, Ring: ring, Proc: root}, []supervisor.Spec{
			{Name: svcBridge, Argv: []string{"gw"}, Essential: true},
			{Name: svcCore, Argv: []string{"gw"}, Essential: true},
			{Name: svcTunnel, Argv: []string{"gw"}, Manual: true},
			{Name: "stopped", Argv: []string{"gw"}},
			{Name: svcSSHD, Argv: []string{"gw"}, Manual: true},
			{Name: svcConsole, Argv: []string{"gw"}, Manual: true},
			{Name: svcBench, Argv: []string{"gw"}, Manual: true, Once: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		in := &initd{ring: ring, sup: sup}
		in.bench.root = root
		b := &benchBox{backend: &backend{in: in, sup: sup, ring: ring}, t: t, l: l, root: root, answers: map[string]string{
			"bridge status": `{}`, "core eth": `{"kept":true}`, "bench control": `{}`,
		}}
		b.settles.Store(true)
		l.Deaf = func(name string, s syscall.Signal) bool {
			return b.hangs.Load() && name == svcBench && s != syscall.SIGKILL
		}
		done := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.serve(done)
		}()
		sup.Boot()
		b.want(svcCore, supervisor.Running)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sup.Stop(ctx, "stopped"); err != nil {
			t.Fatal(err)
		}
		before := b.states()
		f(b)
		for name, state := range before {
			if now := b.states()[name]; now != state {
				t.Errorf("%s is %s afterwards, and was %s", name, now, state)
			}
		}
		if _, err := os.Stat(filepath.Join(root, api.BenchPath)); err == nil {
			t.Errorf("%s is left", api.BenchPath)
		}
		close(done)
		<-ended
		l.Deaf = nil
		sup.StopAll(ctx)
		l.Wait()
	})
}

// serve has every process ready, and answers calls, until done.
func (b *benchBox) serve(done <-chan struct{}) {
	ready, answered := map[int]bool{}, map[int]int{}
	for {
		for _, s := range b.sup.Snapshot() {
			p := b.l.Process(s.Name)
			if s.PID == 0 || p == nil || p.PID() != s.PID {
				continue
			}
			if !ready[s.PID] {
				ready[s.PID] = true
				p.Ready()
			}
			sent := p.Sent()
			for _, packet := range sent[answered[s.PID]:] {
				id, method, params, err := notify.ParseCall([]byte(packet))
				if err != nil {
					panic(err)
				}
				b.calls = append(b.calls, strings.TrimSpace(s.Name+" "+method+" "+string(params)))
				body, ok := b.answers[s.Name+" "+method]
				if s.Name == svcBench && method == api.BenchStatus {
					state := api.BenchSettling
					if b.settles.Load() {
						state = api.BenchIsOn
					}
					body, ok = `{"state":"`+state+`","measuringSeconds":1}`, true
				}
				p.Say(notify.Message{Answer: true, Failed: !ok, ID: id, Body: []byte(body)})
			}
			answered[s.PID] = len(sent)
		}
		select {
		case <-done:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (b *benchBox) states() map[string]string {
	all := map[string]string{}
	for _, s := range b.sup.Snapshot() {
		if s.Name != svcBench {
			all[s.Name] = s.State
		}
	}
	return all
}

// want waits for a state.
func (b *benchBox) want(name, state string) {
	b.t.Helper()
	for range 100 {
		if b.service(name).State == state {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatalf("%s is %s and not %s", name, b.service(name).State, state)
}

// ask carries an action out.
func (b *benchBox) ask(args api.BenchArgs) (*api.Bench, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	v, err := b.Bench(ctx, args, nil)
	st, _ := v.(*api.Bench)
	return st, err
}

// off waits until bench mode is over, and returns why.
func (b *benchBox) off() string {
	b.t.Helper()
	st, err := b.in.bench.await(b.t.Context(), api.BenchIsOff)
	if err != nil {
		b.t.Fatal(err)
	}
	return st.Why
}

var benchFor = api.BenchArgs{Action: api.BenchOn, Seconds: 60, Peer: "192.0.2.9", Profile: "bench"}

func TestBenchOnAndOff(t *testing.T) {
	inBench(t, func(b *benchBox) {
		st, err := b.ask(benchFor)
		if err != nil || st.State != api.BenchIsOn {
			t.Fatalf("on: %+v, %v", st, err)
		}
		for _, name := range []string{svcBridge, svcCore} {
			b.want(name, supervisor.Stopped)
		}
		var file api.BenchFile
		text, err := os.ReadFile(filepath.Join(b.root, api.BenchPath))
		if err == nil {
			err = json.Unmarshal(text, &file)
		}
		if err != nil || file.Args != benchFor || strings.Join(file.Stopped, " ") != "bridge core" {
			t.Errorf("what the process is told: %+v, %v", file, err)
		}
		var told *api.Error
		if _, err := b.ask(benchFor); !errors.As(err, &told) || told.Code != api.CodeBusy {
			t.Errorf("a second one: %v", err)
		}
		if _, err := b.Service(b.t.Context(), api.ServiceArgs{Name: svcCore, Action: "start"}); !errors.As(err, &told) || told.Code != api.CodeBusy {
			t.Errorf("start core: %v", err)
		}
		st, err = b.ask(api.BenchArgs{Action: api.BenchOff})
		if err != nil || st.State != api.BenchIsOff || st.Why != "it was turned off" {
			t.Errorf("off: %+v, %v", st, err)
		}
		if st, err = b.ask(api.BenchArgs{Action: api.BenchOff}); err != nil || st.State != api.BenchIsOff {
			t.Errorf("off again: %+v, %v", st, err)
		}
		if _, err := b.ask(api.BenchArgs{Action: api.BenchVerify}); err == nil || !strings.Contains(err.Error(), "bench mode is off") {
			t.Errorf("verify: %v", err)
		}
	})
}

// However it ends, the others are started again.
func TestBenchEnds(t *testing.T) {
	tests := []struct {
		name string
		end  func(*benchBox)
		why  string
	}{
		{"in its own words", func(b *benchBox) {
			b.l.Process(svcBench).Say(notify.Message{HasStatus: true, Status: api.BenchEnded + "the button was pressed"})
			b.l.Process(svcBench).Exit(0)
		}, "the button was pressed"},
		{"by a crash", func(b *benchBox) { b.l.Process(svcBench).Exit(2) }, "exit status 2"},
		{"by PID 1, as its time is over", func(*benchBox) {}, "its time was over"},
		{"although it hangs", func(b *benchBox) {
			b.hangs.Store(true)
		}, "its time was over"},
		{"by hand", func(b *benchBox) { _ = b.sup.Stop(b.t.Context(), svcBench) }, "signal 15"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBench(t, func(b *benchBox) {
				if _, err := b.ask(benchFor); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				tt.end(b)
				if why := b.off(); !strings.Contains(why, tt.why) {
					t.Errorf("it ended: %s; want %s", why, tt.why)
				}
				if took := time.Since(began); took > 60*time.Second+benchGrace+benchHold {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// What does not begin leaves everything as it was, and says why.
func TestBenchDoesNotBegin(t *testing.T) {
	tests := []struct {
		name string
		make func(*benchBox)
		code string
		text string
	}{
		{"a client", func(b *benchBox) { b.answers["bridge status"] = `{"client":{"addr":"192.0.2.1:5"}}` }, api.CodeConfirm, "192.0.2.1:5"},
		{"one that does not die", func(b *benchBox) {
			b.l.Deaf = func(name string, _ syscall.Signal) bool { return name == svcBridge }
			time.AfterFunc(time.Minute, func() { b.l.Process(svcBridge).Exit(0) })
		}, api.CodeFailed, "there is still bridge"},
		{"one that cannot start", func(b *benchBox) {
			b.l.Fail = func(s *supervisor.Spec) error {
				if s.Name == svcBench {
					return errors.New("out of memory")
				}
				return nil
			}
		}, api.CodeFailed, "out of memory"},
		{"sessions", func(b *benchBox) {
			if err := os.WriteFile(filepath.Join(b.root, api.SSHPath), []byte(`{"open":2}`), 0o600); err != nil {
				b.t.Fatal(err)
			}
		}, api.CodeBusy, "2 SSH sessions"},
		{"an update on trial", func(b *benchBox) {
			if err := os.WriteFile(filepath.Join(b.root, api.TrialPath), nil, 0o600); err != nil {
				b.t.Fatal(err)
			}
		}, api.CodeBusy, "on trial"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBench(t, func(b *benchBox) {
				tt.make(b)
				var told *api.Error
				if _, err := b.ask(benchFor); !errors.As(err, &told) || told.Code != tt.code || !strings.Contains(told.Message, tt.text) {
					t.Errorf("on: %v", err)
				}
				if b.in.bench.is() {
					t.Error("it is on")
				}
				time.Sleep(2 * time.Minute) // for the one that dies at last
				b.want(svcBridge, supervisor.Running)
			})
		})
	}
}

// The control connection hears of each change, and its end is told.
func TestBenchStay(t *testing.T) {
	args := benchFor
	args.Stay = true
	inBench(t, func(b *benchBox) {
		b.settles.Store(false)
		time.AfterFunc(5*time.Second, func() { b.settles.Store(true) })
		ctx, leave := context.WithCancel(b.t.Context())
		var mu sync.Mutex
		var states []string // guarded by mu
		got := make(chan error, 1)
		go func() {
			_, err := b.Bench(ctx, args, func(st *api.Bench) error {
				mu.Lock()
				defer mu.Unlock()
				states = append(states, st.State)
				return nil
			})
			got <- err
		}()
		time.Sleep(20 * time.Second)
		mu.Lock()
		s := strings.Join(states, " ")
		mu.Unlock()
		if !strings.HasPrefix(s, "stopping settling") || !strings.HasSuffix(s, " on") {
			t.Errorf("told of %s", s)
		}
		leave()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		calls := strings.Join(b.calls, "\n")
		if !strings.Contains(calls, "bench control true") || !strings.HasSuffix(calls, "bench control false") {
			t.Errorf("the process was told\n%s", calls)
		}
		if !b.in.bench.is() {
			t.Error("it has ended with the connection")
		}
		if _, err := b.ask(api.BenchArgs{Action: api.BenchOff}); err != nil {
			t.Error(err)
		}
	})
	inBench(t, func(b *benchBox) {
		time.AfterFunc(20*time.Second, func() { b.l.Process(svcBench).Exit(0) })
		v, err := b.Bench(b.t.Context(), args, func(*api.Bench) error { return nil })
		if st, ok := v.(*api.Bench); err != nil || !ok || st.State != api.BenchIsOff {
			t.Errorf("the end: %+v, %v", v, err)
		}
	})
}

// What was set of the driver for now only is set again.
func TestBenchKeepsTheTuning(t *testing.T) {
	inBench(t, func(b *benchBox) {
		b.answers["core eth"] = `{"kept":false,"profile":"latency","knobs":"a=1","qdisc":{"wanted":"default"}}`
		b.answers["core eth-set"] = `{}`
		if _, err := b.ask(benchFor); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ask(api.BenchArgs{Action: api.BenchOff}); err != nil {
			t.Fatal(err)
		}
		if calls := strings.Join(b.calls, "\n"); !strings.HasSuffix(calls, `core eth-set {"profile":"latency","knobs":"a=1","qdisc":"default"}`) {
			t.Errorf("asked for\n%s", calls)
		}
	})
}

// The watchdog is fed all the time, and the health is looked after now and then.
func TestBenchSkipsRounds(t *testing.T) {
	var m benchMode
	for range 10 {
		if m.skips() {
			t.Fatal("a round is left out while bench mode is off")
		}
	}
	m.begin()
	looked := 0
	for range 10 * benchRounds {
		if !m.skips() {
			looked++
		}
	}
	if looked != 10 {
		t.Errorf("looked %d times in %d rounds, want 10", looked, 10*benchRounds)
	}
}
