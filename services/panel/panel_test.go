//go:build linux

package panel

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/factoryreset"
	"gwinit/internal/gpio/gpiotest"
	"gwinit/internal/kernelbridge"
	"gwinit/internal/radiolock"
)

// box is a Box that writes down what it was asked.
type box struct {
	mu       sync.Mutex // guards the following
	calls    []string
	client   bool
	noBridge error
	onTake   func()
}

func (b *box) note(call string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
}

func (b *box) list() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.calls, ", ")
}

func (b *box) Client(context.Context) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, "client?")
	return b.client, b.noBridge
}

func (b *box) Release(_ context.Context, d time.Duration) error {
	b.note("release " + d.String())
	return b.noBridge
}

func (b *box) Take(context.Context) error {
	if b.onTake != nil {
		b.onTake()
	}
	b.note("take")
	return nil
}

func (b *box) Reboot(_ context.Context, mode string) error {
	b.note("reboot " + mode)
	return nil
}

// rig is a panel on a fake board.
type rig struct {
	*testing.T
	root   string
	chip   *gpiotest.Chip
	box    *box
	svc    *Service
	start  time.Time
	online bool

	mu  sync.Mutex // guards the following
	log []string
}

const (
	lineButton = iota
	lineNRST
)

// newRig makes the board; run starts the service.
func newRig(t *testing.T) *rig {
	r := &rig{T: t, root: t.TempDir(), box: &box{}, start: time.Now(), online: true}
	r.chip = gpiotest.New("/dev/gpiochip0",
		gpiotest.Line{Name: rtl8196e.LineButton, Level: true}, gpiotest.Line{Name: rtl8196e.LineRadioNRST, Level: true})
	class(t, r.path("sys/class/leds/status"), gatewayTriggers)
	r.put("sys/class/net/eth0/led_mode", "bright\n")
	r.put("userdata/etc/leds.conf", "MODE=dim\n")
	r.put("run/x", "")
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.root, name) }

func (r *rig) put(name, text string) {
	r.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) get(name string) string {
	b, err := os.ReadFile(r.path(name))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// run starts the service, to be called in a bubble, until the end of the test.
func (r *rig) run(change func(*Options)) {
	board, _ := rtl8196e.ByID(rtl8196e.Lidl)
	o := Options{
		Root: r.root, Board: board, Port: 8888, Kernel: r.chip, Box: r.box,
		Online: func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.online },
		Uptime: func() time.Duration { return time.Since(r.start) },
		Log: func(line string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.log = append(r.log, line)
		},
	}
	if change != nil {
		change(&o)
	}
	r.svc = New(o)
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan error, 1)
	go func() { done <- r.svc.Run(ctx) }()
	r.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.Error(err)
		}
		if n := r.chip.OpenFDs(); n != 0 {
			r.Errorf("%d lines are not given back", n)
		}
	})
	r.pass(time.Second)
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// press presses the button for a time, and waits a little.
func (r *rig) press(d time.Duration) {
	r.chip.SetLevel(lineButton, false)
	r.pass(d)
	r.chip.SetLevel(lineButton, true)
	r.pass(time.Second)
}

func (r *rig) logged(text string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.log, func(line string) bool { return strings.Contains(line, text) }) {
		r.Errorf("the log does not say %q:\n%s", text, strings.Join(r.log, "\n"))
	}
}

func (r *rig) shows(want, pattern string) {
	r.Helper()
	if got := shown(r.T, r.path("sys/class/leds/status")); got != want || r.svc.Status().Pattern != pattern {
		r.Errorf("the LED shows %q (%s), want %q (%s)", got, r.svc.Status().Pattern, want, pattern)
	}
}

func TestRadioResetByPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var during []bool
		r.box.onTake = func() {
			during = r.chip.Line(lineNRST).Driven
			if h, err := radiolock.Look(r.root); h.Name != "" || err != nil {
				t.Errorf("given back while %q has it, %v", h.Name, err)
			}
		}
		r.run(nil)
		r.press(6 * time.Second)
		if got := r.box.list(); got != "release 30s, take" {
			t.Errorf("asked %s", got)
		}
		if !slices.Equal(during, []bool{true, false}) {
			t.Errorf("the reset line was driven %v", during)
		}
		if l := r.chip.Line(lineNRST); !l.Level || l.Flags != 0 {
			t.Errorf("the reset line is left %+v", l)
		}
		r.logged("the radio was reset")
		r.logged("let go now to reset the radio")
	})
}

func TestRadioResetOfAHeldRadio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.box.noBridge = errors.New("the bridge does not run")
		lock, err := radiolock.Acquire(r.root, "otbr")
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Release()
		r.run(nil)
		r.press(6 * time.Second)
		r.logged("the radio is not reset: the radio is in use by otbr")
		if d := r.chip.Line(lineNRST).Driven; d != nil {
			t.Errorf("driven %v", d)
		}
		lock.Release()
		// Without a bridge, and nobody has it: it is reset all the same.
		r.press(6 * time.Second)
		r.logged("the radio was reset")
		if got := r.box.list(); got != "release 30s, release 30s" {
			t.Errorf("asked %s", got)
		}
	})
}

// The driver of today's firmware is let do what it does, and its LED's
// brightness is set.
func TestKernelDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put(kernelbridge.Dir+"/nrst_pulse", "")
		r.put(kernelbridge.Dir+"/status_led_brightness", "255\n")
		r.put("userdata/etc/radio.conf", "BRIDGE_ENGINE=kernel\n")
		r.run(nil)
		r.shows("uart-bridge-client ? ? ?", "client")
		if got := r.get(kernelbridge.Dir + "/status_led_brightness"); got != "60" {
			t.Errorf("brightness %s, want 60", got)
		}
		r.press(6 * time.Second)
		if got := r.get(kernelbridge.Dir + "/nrst_pulse"); got != "1" {
			t.Errorf("nrst_pulse holds %q", got)
		}
		if got := r.box.list(); got != "" {
			t.Errorf("the client's bridge was bothered: %s", got)
		}
		r.put("userdata/etc/radio.conf", "BRIDGE_ENGINE=user\n")
		r.put("userdata/etc/leds.conf", "MODE=off\n")
		r.svc.Reload()
		r.pass(time.Second)
		r.shows("none 0 ? ?", "off")
		r.press(6 * time.Second)
		if got := r.box.list(); got != "release 30s, take" {
			t.Errorf("asked %s", got)
		}
	})
}

func TestFactoryResetByButton(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run(nil)
		r.press(21 * time.Second)
		if _, err := os.Stat(r.path(factoryreset.Path)); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("not confirmed, and asked for: %v", err)
		}
		if p := r.svc.Status().Pattern; p != "button" {
			t.Errorf("pattern %s", p)
		}
		r.press(1500 * time.Millisecond)
		if _, err := os.Stat(r.path(factoryreset.Path)); err != nil {
			t.Error(err)
		}
		if got := r.box.list(); got != "reboot " {
			t.Errorf("asked %q", got)
		}
		r.logged("the factory reset is confirmed")
	})
}

func TestFactoryResetNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if err := os.RemoveAll(r.path("userdata")); err != nil {
			t.Fatal(err)
		}
		r.run(nil)
		r.press(21 * time.Second)
		r.press(1500 * time.Millisecond)
		r.logged("ask for a factory reset: ")
		if got := r.box.list(); got != "" {
			t.Errorf("rebooted without having asked for it: %s", got)
		}
	})
}

func TestEnrolment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run(nil)
		for range 3 {
			r.press(1500 * time.Millisecond)
		}
		until, err := strconv.ParseInt(r.get(EnrolPath), 10, 64)
		if left := time.Duration(until) - time.Since(r.start); err != nil || left > enrolFor || left < enrolFor-2*time.Second {
			t.Errorf("open for %v, %v", left, err)
		}
		if st := r.svc.Status(); st.Pattern != "enrolment" || st.Enrol > enrolFor.Seconds() || st.Enrol < enrolFor.Seconds()-10 {
			t.Errorf("status %+v", st)
		}
		if got := r.box.list(); got != "" {
			t.Errorf("asked %s", got)
		}
		// Who has enrolled a key ends it.
		if err := os.Remove(r.path(EnrolPath)); err != nil {
			t.Fatal(err)
		}
		r.pass(lookEvery)
		r.shows("none 0 ? ?", "off")
		for range 3 {
			r.press(1500 * time.Millisecond)
		}
		r.pass(enrolFor)
		r.shows("none 0 ? ?", "off")
		r.logged("the time to enrol a key is over")
	})
}

// A restart of core ends no enrolment.
func TestEnrolmentOverARestart(t *testing.T) {
	for text, want := range map[string]string{"60000000000\n": "enrolment", "1\n": "off", "soon\n": "off", "": "off"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.put(EnrolPath, text)
			r.run(nil)
			if st := r.svc.Status(); st.Pattern != want {
				t.Errorf("%q: status %+v", text, st)
			}
			r.pass(time.Minute)
			if st := r.svc.Status(); st.Pattern != "off" || st.Enrol != 0 {
				t.Errorf("%q: a minute later: %+v", text, st)
			}
		})
	}
}

func TestHeldFromPowerUp(t *testing.T) {
	for name, tt := range map[string]struct {
		mode string
		want string
		old  bool // core was started before in this boot
	}{
		"normal": {"normal", "reboot factory", false}, "factory already": {"factory", "", false}, "a restart of core": {"normal", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if tt.old {
					r.put("run/panel.started", "")
				}
				r.chip.SetLevel(lineButton, false)
				r.run(func(o *Options) { o.BootMode = tt.mode })
				r.pass(4 * time.Second)
				r.chip.SetLevel(lineButton, true)
				r.pass(time.Second)
				if got := r.box.list(); got != tt.want {
					t.Errorf("asked %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestPatterns(t *testing.T) {
	const connected = "0: 0:22B8 0:C822 01\n"
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.online = false
		r.run(nil)
		if got := r.get("sys/class/net/eth0/led_mode"); got != "dim" {
			t.Errorf("the LAN LED is %s", got)
		}
		r.pass(30 * time.Second)
		r.shows("none 0 ? ?", "off") // a boot is no fault
		r.pass(31 * time.Second)
		if p := r.svc.Status().Pattern; p != "no address" {
			t.Errorf("pattern %s", p)
		}
		r.mu.Lock()
		r.online = true
		r.mu.Unlock()
		// A connection that is no client's: one that has said nothing yet.
		r.put("proc/net/tcp6", connected)
		r.pass(lookEvery)
		r.shows("none 0 ? ?", "off")
		r.box.mu.Lock()
		r.box.client = true
		r.box.mu.Unlock()
		r.pass(lookEvery)
		r.shows("none 60 ? ?", "client")
		before := r.box.list()
		r.pass(time.Minute)
		if now := r.box.list(); now != before {
			t.Errorf("the bridge was asked again: %s", now)
		}
		r.put(api.FailedPath, "bridge\n")
		r.pass(lookEvery)
		r.shows("heartbeat 60 ? ?", "failed service")
		r.put(api.FailedPath, "")
		r.put("proc/net/tcp6", "")
		r.pass(lookEvery)
		r.shows("none 0 ? ?", "off")

		// The more important of two is shown.
		pattern := func(want string) {
			r.Helper()
			r.pass(lookEvery)
			if got := r.svc.Status().Pattern; got != want {
				r.Errorf("pattern %s, want %s", got, want)
			}
		}
		r.mu.Lock()
		r.online = false
		r.mu.Unlock()
		pattern("no address")
		r.put(api.BenchPath, "")
		pattern("bench mode")
		r.put(api.TrialPath, "")
		pattern("trial update")
		r.put(api.FailedPath, "bridge\n")
		pattern("failed service")
		r.put(api.FailedPath, "")
		pattern("trial update")
		remove := func(name string) {
			r.Helper()
			if err := os.Remove(r.path(name)); err != nil {
				r.Fatal(err)
			}
		}
		remove(api.TrialPath)
		pattern("bench mode")
		remove(api.BenchPath)
		pattern("no address")
	})
}

// INV 11: without chip and LEDs it runs and says so.
// In Thread mode the LED is lit while the box is part of a network, by what the
// border router says and as long as it is there.
func TestThreadRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put("userdata/etc/radio.conf", "MODE=otbr\n")
		r.put("proc/net/tcp", "0: 0:22B8 0:C822 01\n")
		r.box.client = true // a client that waits for its end
		r.run(nil)
		r.pass(lookEvery)
		r.shows("none 0 ? ?", "off")
		lock, err := radiolock.Acquire(r.root, "otbr")
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range []struct {
			name, shown string
		}{{"disabled", "off"}, {"detached", "off"}, {"child", "client"}, {"router", "client"}, {"leader", "client"}, {"lead", "off"}} {
			r.put(api.RolePath, role.name+"\n")
			r.pass(lookEvery)
			if got := r.svc.Status().Pattern; got != role.shown {
				t.Errorf("role %s: pattern %s", role.name, got)
			}
		}
		r.put(api.RolePath, "leader\n")
		r.pass(lookEvery)
		r.shows("none 60 ? ?", "client")
		// A border router that was killed leaves its role, and no lock.
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		r.pass(lookEvery)
		r.shows("none 0 ? ?", "off")
		if got := r.box.list(); got != "" {
			t.Errorf("the bridge was asked: %s", got)
		}
	})
}

func TestNothingThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.chip = gpiotest.New("/dev/none")
		if err := os.RemoveAll(r.path("sys")); err != nil {
			t.Fatal(err)
		}
		r.run(nil)
		st := r.svc.Status()
		if st.Button != "" || !strings.Contains(st.ButtonProblem, "no such GPIO chip") || !slices.Equal(st.Missing, []string{"status", "lan"}) || st.LEDs != nil {
			t.Errorf("status %+v", st)
		}
		r.logged("the button does nothing: ")
	})
}

func TestLineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run(nil)
		if st := r.svc.Status(); st.Button != "/dev/gpiochip0 line 0, looked at 10 times a second" || st.Mode != "dim" || !slices.Equal(st.LEDs, []string{"status", "lan"}) {
			t.Errorf("status %+v", st)
		}
		r.chip.Fail(unix.EIO)
		r.pass(time.Second)
		if st := r.svc.Status(); st.Button != "" || !strings.Contains(st.ButtonProblem, "input/output error") {
			t.Errorf("status %+v", st)
		}
		r.logged("the button does nothing any more")
	})
}

// With an interrupt, nobody looks at a button that rests.
func TestEdges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.chip = gpiotest.New("/dev/gpiochip0", gpiotest.Line{Name: rtl8196e.LineButton, Level: true, IRQ: true})
		changes := make(chan struct{}, 1)
		ended := false
		t.Cleanup(func() {
			if !ended {
				t.Error("still waits for edges")
			}
		})
		r.run(func(o *Options) {
			o.Edges = func(int) (<-chan struct{}, func()) { return changes, func() { ended = true } }
		})
		if st := r.svc.Status(); st.Button != "/dev/gpiochip0 line 0, looked at by its interrupt" {
			t.Errorf("status %+v", st)
		}
		r.chip.SetLevel(lineButton, false)
		changes <- struct{}{}
		r.pass(1500 * time.Millisecond)
		r.chip.SetLevel(lineButton, true)
		changes <- struct{}{}
		r.pass(time.Second)
		r.logged("pressed for 1.5s, 1 of 3")
	})
}

// The reader of events ends when it is told to, and tells of each once.
func TestEdgeReader(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	changes, end := edges(p[0])
	if _, err := unix.Write(p[1], make([]byte, 48)); err != nil {
		t.Fatal(err)
	}
	<-changes
	end()
	if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETFD, 0); err != nil {
		t.Errorf("the line's descriptor was closed: %v", err)
	}
}
