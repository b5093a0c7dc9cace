//go:build linux

package otbr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/incident"
	"gwinit/internal/radiolock"
	"gwinit/internal/radioreset"
	"gwinit/internal/radiouart"
	"gwinit/services/otbr-supervisor/otbrtest"
	"gwinit/services/otbr-supervisor/threaddata"
)

// behaviourEnv has the test binary become the fake agent.
const behaviourEnv = "OTBR_TEST_BEHAVIOUR"

func TestMain(m *testing.M) {
	if path := os.Getenv(behaviourEnv); path != "" {
		os.Exit(otbrtest.Main(path, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// limit is for what takes its time on a loaded machine.
const limit = 2 * time.Minute

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// rig is a box in a folder, with the fake agent as its agent.
type rig struct {
	t    *testing.T
	root string
	o    Options
	s    *Service
	ctx  context.Context
	end  context.CancelFunc
	done chan error

	mu     sync.Mutex // guards the following
	logged []string
	holds  []time.Duration // of the reset line
	ready  []string
	status []string
	probe  error
	full   error // why nothing can be written
}

// fast are Times by which a test takes no longer than it must. Ask is long: a
// loaded machine must not make an agent silent that is none.
func fast() Times {
	return Times{
		Poll: 20 * time.Millisecond, Rising: 10 * time.Millisecond, Ready: limit, Silent: limit, Ask: limit, Stop: limit,
		Cold: 7 * time.Millisecond, Settle: time.Millisecond, UARTTry: 5 * time.Millisecond, Kick: time.Hour, Delays: 1000,
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	// A short path: that of a socket has 108 bytes at most.
	root, err := os.MkdirTemp("", "otbr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	r := &rig{t: t, root: root, done: make(chan error, 1)}
	board, _ := rtl8196e.ByID(rtl8196e.Lidl)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	r.o = Options{
		Root: root, Board: board, Times: fast(), Sockets: []string{filepath.Join(root, "agent.sock")}, RESTPort: uint16(port),
		Reset: func(_ context.Context, hold time.Duration) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.holds = append(r.holds, hold)
			return nil
		},
		Probe: func(context.Context, string, int, string) (string, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return "probed", r.probe
		},
		Writable: func() error { return r.full },
		Ready:    r.note(&r.ready),
		Status:   r.note(&r.status),
		Alive:    func() {},
		Log:      r.note(&r.logged),
	}
	for _, dir := range []string{"run", "dev/net", "tmp", "userdata/etc", "userdata/usr/bin", "proc/sys/net/ipv6/conf/all", "proc/sys/net/ipv6/conf/eth0"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, root, "dev/net/tun", "")
	put(t, root, "userdata/etc/radio.conf", "MODE=otbr\nOTBR_REST_BIND=127.0.0.1\n")
	put(t, root, "proc/sys/net/ipv6/conf/all/forwarding", "0\n")
	put(t, root, "proc/sys/net/ipv6/conf/eth0/accept_ra", "2\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	put(t, root, "userdata/usr/bin/otbr-agent", fmt.Sprintf("#!/bin/sh\nexec env %s=%s/behaviour %s \"$@\"\n", behaviourEnv, root, self))
	if err := os.Chmod(filepath.Join(root, "userdata/usr/bin/otbr-agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.behave(otbrtest.Behaviour{})
	return r
}

func (r *rig) note(to *[]string) func(string) {
	return func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		*to = append(*to, text)
	}
}

func (r *rig) behave(b otbrtest.Behaviour) {
	r.t.Helper()
	b.Socket = r.o.Sockets[0]
	text, err := json.Marshal(b)
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.root, "behaviour")
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) start() {
	r.t.Helper()
	r.ctx, r.end = context.WithCancel(context.Background())
	r.s = New(r.o)
	go func() { r.done <- r.s.Run(r.ctx, radiouart.New(r.root)) }()
	r.t.Cleanup(func() {
		r.end()
		select {
		case <-r.done:
		case <-time.After(limit):
			r.t.Error("it does not end")
		}
	})
}

// stop ends it, in order.
func (r *rig) stop() {
	r.t.Helper()
	r.end()
	if err := r.ended(); err != nil {
		r.t.Errorf("it ended with %v", err)
	}
}

func (r *rig) ended() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(limit):
		r.t.Fatalf("it does not end; logged:\n%s", strings.Join(r.log(), "\n"))
	}
	return nil
}

func (r *rig) log() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.logged)
}

func (r *rig) await(what string, there func() bool) {
	r.t.Helper()
	for end := time.Now().Add(limit); !there(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("in vain: %s; %+v; logged:\n%s", what, r.s.State(), strings.Join(r.log(), "\n"))
		}
	}
}

func (r *rig) awaitState(state string) {
	r.t.Helper()
	r.await(state, func() bool { return r.s.State().State == state })
}

func (r *rig) said(words string) bool {
	return slices.ContainsFunc(r.log(), func(l string) bool { return strings.Contains(l, words) })
}

func (r *rig) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(r.root, name))
	return string(b)
}

func (r *rig) flash() uint32 {
	return otbrtest.Counter([]byte(r.read("userdata/thread/" + otbrtest.Name)))
}

func (r *rig) resets() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.holds)
}

// A fresh box: ready without a network, then one is joined; what it is told, what
// it sets, and what is left at the end.
func TestReadyAndJoin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.behave(otbrtest.Behaviour{Words: "hello from the agent", Power: 3})
	r.start()
	r.awaitState(stReady)
	if h, err := radiolock.Look(r.root); err != nil || h.Name != Owner {
		t.Errorf("the UART is %q's, %v", h.Name, err)
	}
	want := []string{
		"-d", "4", "-I", "wpan0", "-B", "eth0", "--rest-listen-address", "127.0.0.1", "--rest-listen-port", strconv.Itoa(int(r.o.RESTPort)),
		"--vendor-name", "Lidl", "--model-name", "Silvercrest", "--data-path", r.root + Memory,
		"spinel+hdlc+uart:///dev/ttyS1?uart-baudrate=460800&uart-flow-control=true",
	}
	if got := strings.Split(r.read("behaviour.args"), "\n"); !slices.Equal(got, want) {
		t.Errorf("the agent gets %q", got)
	}
	st := r.s.State()
	if st.Role != "disabled" || st.RCPVersion != otbrtest.RCP || st.Network != "" || st.Starts != 1 || st.RESTOpen {
		t.Errorf("%+v", st)
	}
	if !r.said("agent: hello from the agent") {
		t.Errorf("the agent's words are not in the log: %q", r.log())
	}
	for name, value := range map[string]string{"all/forwarding": "1", "eth0/accept_ra": "2\n"} {
		if got := r.read("proc/sys/net/ipv6/conf/" + name); got != value {
			t.Errorf("%s is %q", name, got)
		}
	}
	// The kernel of this box has no route information.
	if w := r.s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "accept_ra_rt_info_max_plen=64: the kernel has it not: Thread networks behind") {
		t.Errorf("warnings %q", w)
	}
	if got := r.read("behaviour.commands"); got != "rcp version\nlog level 2\ntxpower 4\ntxpower\n" {
		t.Errorf("asked %q", got)
	}
	if _, err := r.s.Dataset(t.Context()); !errors.Is(err, errNoDataset) {
		t.Errorf("a dataset: %v", err)
	}
	dataset := fmt.Sprintf("%x", otbrtest.Dataset)
	for _, bad := range []string{"", "xyz", "0102", dataset + "0"} {
		if err := r.s.Join(t.Context(), JoinParams{Dataset: bad}); err == nil {
			t.Errorf("%q is joined", bad)
		}
	}
	if err := r.s.Join(t.Context(), JoinParams{Dataset: dataset + "\n"}); err != nil {
		t.Fatal(err)
	}
	r.await("leader", func() bool { return r.s.State().Role == "leader" })
	// The LED is told after the state has the role.
	r.await("the LED's role", func() bool { return r.read("run/thread-role") == "leader\n" })
	if got := r.flash(); got != otbrtest.Ahead+threaddata.Margin {
		t.Errorf("flash has the counter %d", got)
	}
	st = r.s.State()
	if st.Network != "fake" || st.Channel != 15 || st.PANID != "0x1234" || st.ExtPANID != fmt.Sprintf("%x", "ABCDEFGH") {
		t.Errorf("%+v", st)
	}
	if got, err := r.s.Dataset(t.Context()); got != dataset || err != nil {
		t.Errorf("dataset %q, %v", got, err)
	}
	if err := r.s.Join(t.Context(), JoinParams{Dataset: dataset}); err == nil || !strings.Contains(err.Error(), `network "fake"`) {
		t.Errorf("joined again: %v", err)
	}
	if got, err := r.s.Table(t.Context(), "routing"); err != nil || !strings.HasPrefix(got, "br state:\n  running\nbr omrprefix:\n  InvalidCommand\n") {
		t.Errorf("routing %q, %v", got, err)
	}
	if got, err := r.s.Table(t.Context(), "children"); err != nil || got != "| ID  | RLOC16 |\n+-----+--------+\n" {
		t.Errorf("children %q, %v", got, err)
	}
	r.stop()
	if got := r.flash(); got != otbrtest.Ahead {
		t.Errorf("at the end flash has the counter %d", got)
	}
	if err := r.s.Save(t.Context()); err != nil {
		t.Errorf("saved once more: %v", err)
	}
	if h, _ := radiolock.Look(r.root); h.Name != "" {
		t.Errorf("the UART is still %q's", h.Name)
	}
	if r.read("run/thread-role") != "" || r.read("proc/sys/net/ipv6/conf/all/forwarding") != "1" {
		t.Error("the role is left, or forwarding is off although the mode stays")
	}
	if got := r.resets(); got != nil {
		t.Errorf("the radio was reset: %v", got)
	}
}

// Whatever answers is asked for the dataset; the last is what is saved.
func TestDatasetWithoutControlSocket(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put(t, r.root, "userdata/thread/"+otbrtest.Name, string(otbrtest.Settings(5)))
	r.start()
	r.awaitState(stReady)
	want := fmt.Sprintf("%x", otbrtest.Dataset)
	sock := r.o.Sockets[0]
	if err := os.Rename(sock, sock+".away"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.s.Dataset(t.Context()); got != want || err != nil {
		t.Errorf("by REST: %q, %v", got, err)
	}
	if _, err := r.s.Table(t.Context(), "children"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("children: %v", err)
	}
	r.stop()
	if got, err := r.s.Dataset(t.Context()); got != want || err != nil {
		t.Errorf("without an agent: %q, %v", got, err)
	}
}

// The mode is changed: what was set for it is taken back.
func TestModeChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start()
	r.awaitState(stReady)
	put(t, r.root, "userdata/etc/radio.conf", "MODE=zigbee\n")
	r.stop()
	if got := r.read("proc/sys/net/ipv6/conf/all/forwarding"); got != "0" {
		t.Errorf("forwarding is %q", got)
	}
}

// The bridge has the radio for a moment longer.
func TestWaitsForTheRadio(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lock, err := radiolock.Acquire(r.root, "bridge")
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	r.await("word of the bridge", func() bool { return r.said("in use by bridge") })
	if st := r.s.State(); st.State != stWaiting || st.Starts != 0 {
		t.Errorf("%+v", st)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	r.awaitState(stReady)
	r.stop()
}

// What no start helps says what does.
func TestPointless(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(r *rig) error
		want  string
	}{
		{"no agent", func(r *rig) error { return os.Remove(r.root + agentPath) }, "copy the agent of the firmware before there"},
		{"not executable", func(r *rig) error { return os.Chmod(r.root+agentPath, 0o644) }, "chmod 755"},
		{"no tun", func(r *rig) error { return os.Remove(r.root + "/dev/net/tun") }, "CONFIG_TUN"},
		{"no IPv6", func(r *rig) error { return os.RemoveAll(r.root + "/proc/sys/net/ipv6") }, "CONFIG_IPV6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if err := tt.spoil(r); err != nil {
				t.Fatal(err)
			}
			r.start()
			if err := r.ended(); !errors.Is(err, errPointless) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
			if r.resets() != nil {
				t.Error("the radio was reset")
			}
		})
	}
}

// An agent that ends again and again: resets, one that is cold, and failure, each
// step written down first, with the agent's last words.
func TestFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.probe = errors.New("silence")
	r.behave(otbrtest.Behaviour{Exit: 6, Words: "RadioSpinelNoResponse"})
	r.start()
	err := r.ended()
	if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "exit status 6; RadioSpinelNoResponse; before its start: the radio gives no answer by Spinel at 460800 baud, flow control hw (silence)") {
		t.Errorf("%v", err)
	}
	want := slices.Concat(slices.Repeat([]time.Duration{radioreset.Hold}, 4), []time.Duration{r.o.Times.Cold}, slices.Repeat([]time.Duration{radioreset.Hold}, 4))
	if got := r.resets(); !slices.Equal(got, want) {
		t.Errorf("resets %v, want %v", got, want)
	}
	all := incident.Numbers(r.root)
	if len(all) != 2 {
		t.Fatalf("%d incidents", len(all))
	}
	for i, want := range []string{"the radio gets a cold reset: ", "has failed: "} {
		text := r.read(strings.TrimPrefix(incident.Path("", all[i]), "/"))
		if !strings.Contains(text, want) || !strings.Contains(text, "exit status 6") || !strings.Contains(text, "\nRadioSpinelNoResponse\n") {
			t.Errorf("incident %d: %s", i, text)
		}
	}
	if r.read("run/thread-role") != "" {
		t.Error("the role is left")
	}
}

// One bad end is followed by a reset and a good start.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put(t, r.root, "userdata/thread/"+otbrtest.Name, string(otbrtest.Settings(5)))
	r.start()
	r.awaitState(stReady)
	pid := r.s.State().AgentPID
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.await("another agent", func() bool { s := r.s.State(); return s.State == stReady && s.AgentPID != pid && s.Starts == 2 })
	if st := r.s.State(); !strings.Contains(st.LastEnd, "signal: killed") || st.Role != "leader" {
		t.Errorf("%+v", st)
	}
	if got := r.resets(); !slices.Equal(got, []time.Duration{radioreset.Hold}) {
		t.Errorf("resets %v", got)
	}
	r.stop()
}

// Without a way to the reset line the agent is started again all the same, and
// people are told.
func TestRestartWithoutResetLine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Reset = nil // the box's: there is no GPIO chip in the folder
	r.start()
	r.awaitState(stReady)
	if err := unix.Kill(r.s.State().AgentPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.await("another agent", func() bool { s := r.s.State(); return s.State == stReady && s.Starts == 2 })
	if w := strings.Join(r.s.Warnings(), "\n"); !strings.Contains(w, "the radio is not reset: /dev/gpiochip0: ") {
		t.Errorf("warnings %q", w)
	}
	r.stop()
}

// An agent whose REST is silent hangs, and one that ignores SIGTERM is killed.
func TestHang(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Times.Silent, r.o.Times.Ask, r.o.Times.Stop = 3*time.Second, time.Second, 10*time.Millisecond
	r.start()
	r.awaitState(stReady)
	r.behave(otbrtest.Behaviour{Mute: true, Term: true})
	r.await("word of it", func() bool {
		return r.said("the agent hangs: no answer for 3s (REST: GET /node/state: context deadline exceeded")
	})
	r.behave(otbrtest.Behaviour{})
	r.await("another agent", func() bool { s := r.s.State(); return s.State == stReady && s.Starts >= 2 })
	r.stop()
}

// Ready is all three: REST, the control socket, the radio's version.
func TestNotReady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		b    otbrtest.Behaviour
		want string
	}{
		{"REST", otbrtest.Behaviour{Mute: true}, "REST: "},
		{"control socket", otbrtest.Behaviour{Deaf: true}, "control socket: "},
		{"radio", otbrtest.Behaviour{NoRCP: true}, "the radio's version: ask the agent for \"rcp version\": the agent refuses (35): InvalidCommand; GET /node/coprocessor/version: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.o.Times.Ready, r.o.Times.Ask = 2*time.Second, 500*time.Millisecond
			r.behave(tt.b)
			r.start()
			r.await("word of it", func() bool {
				return slices.ContainsFunc(r.log(), func(l string) bool {
					return strings.Contains(l, "the agent was not ready within 2s: "+tt.want)
				})
			})
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.ready) != 0 {
				t.Errorf("it said ready: %q", r.ready)
			}
		})
	}
}

// A power that the chip has not is told.
func TestPower(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.behave(otbrtest.Behaviour{Power: 2})
	r.start()
	r.awaitState(stReady)
	if w := strings.Join(r.s.Warnings(), "\n"); !strings.Contains(w, "the radio sends with 2 dBm instead of 4 dBm (radio.OTBR_TXPOWER)") {
		t.Errorf("warnings %q", w)
	}
	if n := strings.Count(r.read("behaviour.commands"), "txpower 4\n"); n != powerTries {
		t.Errorf("set %d times", n)
	}
	r.stop()
}

// The children register again, once in a boot, and only if there are any.
func TestKick(t *testing.T) {
	t.Parallel()
	for _, child := range []bool{true, false} {
		r := newRig(t)
		r.o.Times.Kick, r.o.Times.KickHold = 10*time.Millisecond, 20*time.Millisecond
		put(t, r.root, "userdata/thread/"+otbrtest.Name, string(otbrtest.Settings(5)))
		r.behave(otbrtest.Behaviour{Child: child})
		r.start()
		r.await("the look at children", func() bool { return strings.Contains(r.read("behaviour.commands"), "child table\n") })
		if child {
			r.await("the server again", func() bool {
				return strings.HasSuffix(r.read("behaviour.commands"), "srp server disable\nsrp server enable\n")
			})
		}
		// Another agent of this boot is left alone.
		if err := unix.Kill(r.s.State().AgentPID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.await("another agent", func() bool { s := r.s.State(); return s.State == stReady && s.Starts == 2 && s.Role == "leader" })
		r.stop()
		got := r.read("behaviour.commands")
		if n := strings.Count(got, "child table\n"); n != 1 || strings.Contains(got, "srp server") != child {
			t.Errorf("child %v: %q", child, got)
		}
	}
}

// What the agent uses up is ahead in flash all the time, over restarts of each
// part, and what is in memory is not replaced by what is older.
func TestCounters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put(t, r.root, "userdata/thread/"+otbrtest.Name, string(otbrtest.Settings(5)))
	r.behave(otbrtest.Behaviour{Frames: 500_000})
	r.start()
	r.awaitState(stReady)
	memory := func() uint32 { return otbrtest.Counter([]byte(r.read("tmp/thread/" + otbrtest.Name))) }
	for _, goal := range []uint32{threaddata.Margin, 2 * threaddata.Margin} {
		r.await("frames", func() bool {
			m := memory()
			if f := r.flash(); f < m {
				t.Fatalf("flash has %d, memory has %d", f, m)
			}
			return m > goal
		})
		if goal == threaddata.Margin {
			if err := unix.Kill(r.s.State().AgentPID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			r.await("another agent", func() bool { s := r.s.State(); return s.State == stReady && s.Starts == 2 })
		}
	}
	before := memory()
	r.stop()
	if f := r.flash(); f < before || f != memory() {
		t.Errorf("at the end flash has %d, memory %d, before %d", f, memory(), before)
	}
}

// A box whose flash takes nothing runs, and says so; once it does, all is saved.
func TestFullFlash(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put(t, r.root, "userdata/thread/"+otbrtest.Name, string(otbrtest.Settings(5)))
	// A folder where the generation is written aside.
	blocks := filepath.Join(r.root, "userdata/thread/..generation-1.new")
	if err := os.Mkdir(blocks, 0o755); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.awaitState(stReady)
	if w := strings.Join(r.s.Warnings(), "\n"); !strings.Contains(w, "the Thread network cannot be saved, a power cut takes back what has changed since: ") {
		t.Errorf("warnings %q", w)
	}
	if err := os.Remove(blocks); err != nil {
		t.Fatal(err)
	}
	r.await("a save", func() bool { return r.flash() == 5+threaddata.Margin })
	r.await("no warning", func() bool { return !strings.Contains(strings.Join(r.s.Warnings(), "\n"), "cannot be saved") })
	r.stop()
}

// Without knowing what network there is no agent starts: it would begin another.
func TestUnreadNetwork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put(t, r.root, "userdata/thread", "a file")
	r.start()
	if err := r.ended(); !errors.Is(err, ErrFailed) || !errors.Is(err, threaddata.ErrUnread) {
		t.Errorf("%v", err)
	}
	if r.s.State().Starts != 0 {
		t.Error("the agent was started")
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	s := New(Options{Root: t.TempDir(), Times: fast(), Log: func(string) {}})
	for _, tt := range []struct{ method, params, err string }{
		{"show", "", ""},
		{"warnings", "", ""},
		{"save", "", ""},
		{"dataset", "", "no Thread network"},
		{"table", `{"name":"x"}`, `no table "x"`},
		{"table", `{`, "parameters: "},
		{"join", `{"dataset":"00"}`, "not an active operational dataset"},
		{"join", `[]`, "parameters: "},
		{"dance", "", "no method"},
	} {
		got, err := s.Call(t.Context(), tt.method, []byte(tt.params))
		if tt.err == "" && (err != nil || !json.Valid(got)) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %s, %v", tt.method, got, err)
		}
	}
}

func TestSyslogText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"<28>Dec  1 10:11:12 otbr-agent[123]: [WARN]-NCP---: RCP is gone\n": "[WARN]-NCP---: RCP is gone",
		"<28>otbr-agent: hello":                 "hello",
		"<28>Dec  1 10:11:12 two words: no tag": "two words: no tag",
		"no priority: at all":                   "no priority: at all",
		"<28>":                                  "",
		"<28>a: \x1b[31mred\x00":                " [31mred",
		"<28>a: " + strings.Repeat("x", 400):    strings.Repeat("x", maxLogLine),
	} {
		if got := syslogText([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func FuzzSyslogText(f *testing.F) {
	f.Add([]byte("<28>Dec  1 10:11:12 otbr-agent[123]: hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := syslogText(b); len(got) > maxLogLine || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7F }) {
			t.Fatalf("%q", got)
		}
	})
}

func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	l := lines{say: func(s string) { got = append(got, s) }}
	for _, part := range []string{"one\ntw", "o\n", strings.Repeat("x", maxLogLine+1), "\nend\n"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if want := []string{"one", "two", strings.Repeat("x", maxLogLine), "", "end"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
