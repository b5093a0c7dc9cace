//go:build linux

package kernelengine

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/kernelbridge"
	"gwinit/internal/kernelbridge/kernelbridgetest"
	"gwinit/internal/radiolock"
	"gwinit/internal/radiouart"
)

// usual is what a box has before.
var usual = map[string]string{
	"tcp_keepalive_time": "7200", "tcp_keepalive_intvl": "75", "tcp_keepalive_probes": "9", "tcp_retries2": "15",
}

// quick is what an armed engine makes of it.
var quick = map[string]string{
	"tcp_keepalive_time": "15", "tcp_keepalive_intvl": "5", "tcp_keepalive_probes": "3", "tcp_retries2": "6",
}

func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"run", sysctlDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	setSysctls(t, root, usual)
	return root
}

func setSysctls(t *testing.T, root string, all map[string]string) {
	t.Helper()
	for name, v := range all {
		if err := os.WriteFile(filepath.Join(root, sysctlDir, name), []byte(v+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func sysctlsAre(t *testing.T, root string, want map[string]string) {
	t.Helper()
	got := make(map[string]string)
	for name := range usual {
		v, err := readSysctl(root, name)
		if err != nil {
			t.Error(err)
		}
		got[name] = v
	}
	if !maps.Equal(got, want) {
		t.Errorf("the kernel's times are %v, want %v", got, want)
	}
}

// box is a running engine over a fake driver, in a bubble of time.
type box struct {
	t      *testing.T
	root   string
	driver *kernelbridgetest.Driver
	e      *Engine
	loan   *radiolock.Loan

	cancel context.CancelFunc
	ended  chan error

	mu   sync.Mutex // guards the following
	log  []string
	said []string
}

const releasedText = "the radio is released"

// inBubble runs f with a box that is armed unless prepare prevents that.
func inBubble(t *testing.T, prepare func(*box, *Options), f func(*box)) {
	t.Helper()
	root := newRoot(t)
	synctest.Test(t, func(t *testing.T) {
		b := &box{t: t, root: root, driver: kernelbridgetest.NewDriver(true), ended: make(chan error, 1)}
		loan, err := radiolock.OpenLoan(root)
		if err != nil {
			t.Fatal(err)
		}
		b.loan = loan
		o := Options{
			Root: root, Settings: kernelbridge.Settings{TTY: "/dev/ttyS1", Baud: 460800, Flow: "hw", Port: 8888},
			Owner: "bridge", Released: releasedText, Loan: loan, Limits: DefaultLimits(),
			Log:     func(s string) { b.add(&b.log, s) },
			Changed: func(_ bool, s string) { b.add(&b.said, s) },
		}
		if prepare != nil {
			prepare(b, &o)
		}
		o.Driver = kernelbridge.Over(b.driver)
		if b.e, err = New(o); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		b.cancel = cancel
		go func() { b.ended <- b.e.Run(ctx) }()
		synctest.Wait()
		f(b)
		if b.cancel != nil {
			b.stop(nil)
		}
		if t.Failed() {
			t.Logf("log:\n%s", strings.Join(b.lines(&b.log), "\n"))
		}
	})
}

func (b *box) stop(want error) {
	b.t.Helper()
	b.cancel()
	b.cancel = nil
	if err := <-b.ended; !errors.Is(err, want) || want == nil && err != nil {
		b.t.Errorf("Run: %v, want %v", err, want)
	}
}

func (b *box) add(to *[]string, line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, line)
}

func (b *box) lines(of *[]string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(*of)
}

// logged counts the lines with text.
func (b *box) logged(text string) (n int) {
	for _, l := range b.lines(&b.log) {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

func (b *box) pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

func (b *box) status() api.Bridge {
	b.t.Helper()
	s, err := b.e.Status(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *box) owner(want string) {
	b.t.Helper()
	if h, err := radiolock.Look(b.root); err != nil || h.Name != want {
		b.t.Errorf("owner %+v, %v; want %q", h, err, want)
	}
}

func TestArmAndStop(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		t := b.t
		const has = "the kernel's bridge has /dev/ttyS1 at 460800 baud, flow control hw, on 0.0.0.0:8888"
		if w := b.driver.Writes(); !slices.Equal(w, []string{"baud=460800", "enable=1"}) {
			t.Errorf("wrote %q", w)
		}
		b.owner("bridge")
		sysctlsAre(t, b.root, quick)
		if got := b.lines(&b.said); !slices.Equal(got, []string{has}) {
			t.Errorf("said %q", got)
		}
		b.driver.Count(kernelbridge.Stats{Rx: 10, Tx: 20, DropsNoClient: 3, XOFF: 4, XON: 5})
		got, want := b.status(), api.Bridge{
			Engine: "kernel", Listen: "0.0.0.0:8888", UART: "/dev/ttyS1", UARTOpen: true, Baud: 460800, Flow: "hw",
			RxBytes: 10, TxBytes: 20, Discarded: 3, Kernel: &api.BridgeKernel{XOFF: 4, XON: 5},
		}
		if *got.Kernel != *want.Kernel || len(got.Warnings) != 0 {
			t.Errorf("counters %+v, warnings %q", *got.Kernel, got.Warnings)
		}
		got.Kernel, want.Kernel = nil, nil
		if got.Engine != want.Engine || got.Listen != want.Listen || got.UART != want.UART || !got.UARTOpen || got.UARTErr != "" ||
			got.Baud != want.Baud || got.Flow != want.Flow || got.RxBytes != 10 || got.TxBytes != 20 || got.Discarded != 3 {
			t.Errorf("status %+v, want %+v", got, want)
		}
		b.stop(nil)
		if b.driver.Armed() {
			t.Error("armed after the end")
		}
		b.owner("")
		sysctlsAre(t, b.root, usual)
		if v := b.driver.Value("flow_control"); v != "1" {
			t.Errorf("flow_control is %s, not what it was", v)
		}
		if _, err := os.Stat(filepath.Join(b.root, beforePath)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what was before is still noted: %v", err)
		}
		if _, err := b.e.Status(t.Context()); !errors.Is(err, ErrEnded) {
			t.Errorf("status after the end: %v", err)
		}
	})
}

func TestSettingsThatCannotBe(t *testing.T) {
	s := kernelbridge.Settings{TTY: "/dev/ttyS1", Baud: 460800, Bind: netip.IPv6Loopback(), Port: 8888}
	if _, err := New(Options{Settings: s}); !errors.Is(err, kernelbridge.ErrSettings) {
		t.Errorf("got %v", err)
	}
}

func TestClampIsSaid(t *testing.T) {
	inBubble(t, func(b *box, _ *Options) { b.driver = kernelbridgetest.NewDriver(false) }, func(b *box) {
		t := b.t
		s := b.status()
		if !s.UARTOpen || s.Flow != "sw" || !slices.Equal(s.Warnings, []string{clampNote}) || b.logged(clampNote) != 1 {
			t.Errorf("flow %s, open %v, warnings %q", s.Flow, s.UARTOpen, s.Warnings)
		}
	})
}

// What arming needs may come later; nothing is left behind until then.
func TestArmThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		fail, mend func(*kernelbridgetest.Driver)
		why        string
	}{
		"port taken": {
			func(d *kernelbridgetest.Driver) { d.FailArm(unix.EADDRINUSE) }, func(d *kernelbridgetest.Driver) { d.FailArm(nil) },
			"address already in use",
		},
		"armed reads 0": {
			func(d *kernelbridgetest.Driver) { d.SetDeaf(true) }, func(d *kernelbridgetest.Driver) { d.SetDeaf(false) },
			"armed reads 0",
		},
		"a setting refused": {
			func(d *kernelbridgetest.Driver) { d.FailWrite("baud", unix.EINVAL) }, func(d *kernelbridgetest.Driver) { d.FailWrite("baud", nil) },
			"baud=460800: invalid argument",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *box, _ *Options) { tt.fail(b.driver) }, func(b *box) {
				t := b.t
				b.pass(time.Minute)
				if s := b.status(); s.UARTOpen || !strings.Contains(s.UARTErr, tt.why) {
					t.Errorf("open %v: %s", s.UARTOpen, s.UARTErr)
				}
				if n := b.logged(tt.why); n != 1 {
					t.Errorf("said %d times in a minute of attempts", n)
				}
				tt.mend(b.driver)
				b.pass(2 * (b.e.o.Limits.RetryMax + radiouart.DisarmLimit))
				if s := b.status(); !s.UARTOpen {
					t.Errorf("still not armed: %s", s.UARTErr)
				}
			})
		})
	}
}

// A radio that somebody else has is waited for, and the driver left alone.
func TestRadioInUse(t *testing.T) {
	var lock *radiolock.Lock
	inBubble(t, func(b *box, _ *Options) {
		t := b.t
		var err error
		if lock, err = radiolock.Acquire(b.root, "flash"); err != nil {
			t.Fatal(err)
		}
		b.driver.SetArmed(true) // by it
	}, func(b *box) {
		t := b.t
		b.pass(time.Minute)
		if s := b.status(); s.UARTOpen || !strings.Contains(s.UARTErr, "in use by flash") {
			t.Errorf("open %v: %s", s.UARTOpen, s.UARTErr)
		}
		if w := b.driver.Writes(); len(w) != 0 {
			t.Errorf("wrote %q", w)
		}
		lock.Release()
		b.pass(b.e.o.Limits.RetryMax)
		if w := b.driver.Writes(); !slices.Equal(w, []string{"enable=0", "baud=460800", "enable=1"}) {
			t.Errorf("wrote %q", w)
		}
		b.owner("bridge")
	})
}

// Losses are one line an interval, with numbers; bytes for nobody are none.
func TestAlarm(t *testing.T) {
	const text = "has lost"
	inBubble(t, nil, func(b *box) {
		t := b.t
		lim := b.e.o.Limits
		b.driver.Count(kernelbridge.Stats{Rx: 1 << 33, DropsNoClient: 7, XOFF: 1})
		b.pass(lim.Alarm)
		if b.logged(text) != 0 || len(b.status().Warnings) != 0 {
			t.Errorf("alarm about nothing: %q", b.status().Warnings)
		}
		b.driver.Count(kernelbridge.Stats{DropsErr: 11, TxPauseTimeouts: 1})
		b.pass(lim.Watch)
		first := "the kernel's bridge has lost 11 bytes from the radio, which the client did not take in time (drops_err), " +
			"1 times its patience with an XOFF of the radio (tx_pause_timeouts); the engine user holds back instead: gwctl config set radio.BRIDGE_ENGINE=user"
		if w := b.status().Warnings; !slices.Equal(w, []string{first}) || b.logged(first) != 1 {
			t.Errorf("warnings %q", w)
		}
		for range 11 { // the rest of the interval
			b.driver.Count(kernelbridge.Stats{DropsTx: 2})
			b.pass(lim.Watch)
		}
		if n := b.logged(text); n != 1 {
			t.Errorf("%d alarms in an interval", n)
		}
		b.pass(lim.Watch)
		if b.logged("has lost 22 bytes to the radio") != 1 || b.logged(text) != 2 {
			t.Errorf("after the interval: %q", b.lines(&b.log))
		}
		b.pass(lim.Alarm + lim.Watch)
		if w := b.status().Warnings; len(w) != 0 || b.logged(text) != 2 {
			t.Errorf("an interval without losses: %q", w)
		}
		if k := b.status().Kernel; k.DropsErr != 11 || k.DropsTx != 22 || k.TxPauseTimeouts != 1 {
			t.Errorf("counters %+v", k)
		}
	})
}

// The driver's counters begin anew at every arming, ours do not, and no loss is
// told twice.
func TestCountersOverArmings(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		t := b.t
		b.driver.Count(kernelbridge.Stats{Rx: 100, DropsErr: 5})
		b.pass(b.e.o.Limits.Watch)
		b.driver.SetArmed(false)
		b.pass(b.e.o.Limits.Watch)
		if b.logged("somebody has disarmed it") != 1 {
			t.Errorf("log %q", b.lines(&b.log))
		}
		b.pass(time.Second)
		if !b.driver.Armed() {
			t.Error("not armed again")
		}
		b.driver.Count(kernelbridge.Stats{Rx: 1})
		if s := b.status(); s.RxBytes != 101 || s.Kernel.DropsErr != 5 {
			t.Errorf("rx %d, drops %d", s.RxBytes, s.Kernel.DropsErr)
		}
		// Armed anew by somebody else between two looks.
		if err := errors.Join(b.driver.Write("enable", "0"), b.driver.Write("enable", "1")); err != nil {
			t.Fatal(err)
		}
		b.pass(b.e.o.Limits.Alarm)
		if s := b.status(); s.RxBytes != 101 || b.logged("has lost") != 1 {
			t.Errorf("rx %d, log %q", s.RxBytes, b.lines(&b.log))
		}
	})
}

// While a radio pin is pulsed the driver answers nobody: a status does not wait
// for it, and nothing is made of it.
func TestPulse(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		t := b.t
		b.driver.Count(kernelbridge.Stats{Rx: 9})
		b.pass(b.e.o.Limits.Watch)
		end := b.driver.Pulse()
		began := time.Now()
		s := b.status()
		if d := time.Since(began); d != b.e.o.Limits.Answer || s.RxBytes != 9 || len(s.Warnings) != 1 {
			t.Errorf("after %v: rx %d, warnings %q", d, s.RxBytes, s.Warnings)
		}
		time.Sleep(1200 * time.Millisecond)
		end()
		b.pass(3 * b.e.o.Limits.Watch)
		if s := b.status(); !s.UARTOpen || len(s.Warnings) != 0 || b.logged("cannot be watched") != 0 {
			t.Errorf("after the pulse: open %v, warnings %q", s.UARTOpen, s.Warnings)
		}
		// One that does not end is said once, and is no reason to let go.
		end = b.driver.Pulse()
		b.pass(time.Minute)
		if n := b.logged("cannot be watched"); n != 1 {
			t.Errorf("said %d times", n)
		}
		end()
	})
}

func TestLiveChanges(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		t := b.t
		s := b.e.settings
		s.Baud, s.Flow, s.Port, s.Bind = 115200, "sw", 8889, netip.MustParseAddr("127.0.0.1")
		if err := b.e.Configure(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		want := []string{"baud=460800", "enable=1", "baud=115200", "flow_control=2", "bind_addr=127.0.0.1", "port=8889"}
		if w := b.driver.Writes(); !slices.Equal(w, want) {
			t.Errorf("wrote %q, want %q", w, want)
		}
		if s := b.status(); s.Baud != 115200 || s.Flow != "sw" || s.Listen != "127.0.0.1:8889" {
			t.Errorf("status %+v", s)
		}
		// Not set any more: what the device tree said.
		s.Flow = ""
		if err := b.e.Configure(t.Context(), s); err != nil || b.driver.Value("flow_control") != "1" {
			t.Errorf("flow_control %s, %v", b.driver.Value("flow_control"), err)
		}
		s.Baud = 1
		if err := b.e.Configure(t.Context(), s); !errors.Is(err, kernelbridge.ErrSettings) {
			t.Errorf("1 baud: %v", err)
		}
		// Rolled back by the driver, which goes on with what it had.
		b.driver.FailWrite("baud", unix.EIO)
		s.Baud = 230400
		if err := b.e.Configure(t.Context(), s); !errors.Is(err, unix.EIO) {
			t.Errorf("got %v", err)
		}
		if st := b.status(); !st.UARTOpen || len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "baud=230400: input/output error") {
			t.Errorf("open %v, warnings %q", st.UARTOpen, st.Warnings)
		}
		b.driver.FailWrite("baud", nil)
		if err := b.e.Configure(t.Context(), s); err != nil || len(b.status().Warnings) != 0 || b.driver.Value("baud") != "230400" {
			t.Errorf("%v, warnings %q", err, b.status().Warnings)
		}
		for _, w := range b.driver.Writes()[2:] {
			if strings.HasPrefix(w, "enable") {
				t.Errorf("a live change wrote %s", w)
			}
		}
	})
}

// A rebuild of the listener that fails and cannot be undone disarms the driver.
func TestLiveChangeThatDisarms(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		t := b.t
		b.driver.FailRollback("port", unix.EADDRINUSE)
		s := b.e.settings
		s.Port = 8889
		if err := b.e.Configure(t.Context(), s); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "armed again") {
			t.Errorf("got %v", err)
		}
		b.pass(b.e.o.Limits.Watch + b.e.o.Limits.RetryMin)
		if st := b.status(); st.UARTOpen || !strings.Contains(st.UARTErr, "port=8889: address already in use") || len(st.Warnings) != 0 {
			t.Errorf("open %v: %s, warnings %q", st.UARTOpen, st.UARTErr, st.Warnings)
		}
		b.driver.FailWrite("port", nil)
		b.pass(b.e.o.Limits.RetryMax)
		if st := b.status(); !st.UARTOpen || st.Listen != "0.0.0.0:8889" {
			t.Errorf("open %v on %s", st.UARTOpen, st.Listen)
		}
	})
}

// A reload does not wait for ever for a driver that does not answer.
func TestLiveChangeDuringAPulse(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		end := b.driver.Pulse()
		s := b.e.settings
		s.Baud = 230400
		if err := b.e.Configure(b.t.Context(), s); !errors.Is(err, context.DeadlineExceeded) {
			b.t.Errorf("got %v", err)
		}
		end()
	})
}

func TestRelease(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		t := b.t
		b.driver.Count(kernelbridge.Stats{Rx: 5})
		if err := b.e.Release(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		b.owner("")
		sysctlsAre(t, b.root, usual)
		synctest.Wait()
		if s := b.status(); b.driver.Armed() || s.UARTOpen || s.UARTErr != releasedText || s.RxBytes != 5 || b.e.Lent() == 0 {
			t.Errorf("armed %v, status %+v", b.driver.Armed(), s)
		}
		other, err := radiolock.Acquire(b.root, "flash")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.e.Take(t.Context()); err != nil || b.e.Lent() != 0 {
			t.Errorf("%v, lent for %v", err, b.e.Lent())
		}
		b.pass(time.Second)
		if s := b.status(); b.driver.Armed() || !strings.Contains(s.UARTErr, "in use by flash") {
			t.Errorf("armed %v, status %+v", b.driver.Armed(), s)
		}
		other.Release()
		b.pass(b.e.o.Limits.RetryMax)
		if !b.driver.Armed() {
			t.Error("not armed again")
		}
		b.owner("bridge")
		sysctlsAre(t, b.root, quick)
	})
}

// A bridge that starts during a release keeps it.
func TestStartsReleased(t *testing.T) {
	inBubble(t, func(b *box, _ *Options) {
		t := b.t
		if err := b.loan.Begin(time.Hour); err != nil {
			t.Fatal(err)
		}
	}, func(b *box) {
		t := b.t
		if s := b.status(); b.driver.Armed() || s.UARTErr != releasedText {
			t.Errorf("armed %v, status %+v", b.driver.Armed(), s)
		}
		if got := b.lines(&b.said); !slices.Equal(got, []string{notArmed + releasedText}) {
			t.Errorf("said %q", got)
		}
		if err := b.e.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !b.driver.Armed() {
			t.Error("not armed")
		}
	})
}

// An end while the driver does not answer is no failure, if it gives up in time.
func TestStopWhileArming(t *testing.T) {
	var end func()
	inBubble(t, func(b *box, _ *Options) { end = b.driver.Pulse() }, func(b *box) {
		b.stop(nil)
		end()
		b.owner("")
	})
}

func TestStopDuringAPulse(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		end := b.driver.Pulse()
		time.AfterFunc(1200*time.Millisecond, end)
		b.stop(nil)
		if b.driver.Armed() {
			b.t.Error("armed after the end")
		}
		b.owner("")
	})
}

func TestDriverThatKeepsTheUART(t *testing.T) {
	inBubble(t, nil, func(b *box) {
		t := b.t
		b.driver.SetStuck(true)
		if err := b.e.Release(t.Context(), time.Hour); !errors.Is(err, kernelbridge.ErrStillArmed) {
			t.Errorf("release: %v", err)
		}
		if err := b.e.Take(t.Context()); err != nil {
			t.Error(err)
		}
		b.driver.SetStuck(false)
		b.pass(time.Minute)
		b.driver.SetStuck(true)
		b.stop(kernelbridge.ErrStillArmed)
	})
}

// Without the kernel's times there is a bridge all the same.
func TestNoSysctls(t *testing.T) {
	inBubble(t, func(b *box, _ *Options) {
		t := b.t
		if err := os.Remove(filepath.Join(b.root, sysctlDir, "tcp_retries2")); err != nil {
			t.Fatal(err)
		}
	}, func(b *box) {
		t := b.t
		if !b.driver.Armed() || b.logged("tcp_retries2: no such file") != 1 {
			t.Errorf("armed %v, log %q", b.driver.Armed(), b.lines(&b.log))
		}
		if v, err := readSysctl(b.root, "tcp_keepalive_time"); v != "15" || err != nil {
			t.Errorf("the others: %s, %v", v, err)
		}
	})
}

// The one after a killed engine knows what there was before both.
func TestAfterAKilledOne(t *testing.T) {
	inBubble(t, func(b *box, _ *Options) {
		t := b.t
		b.driver.SetArmed(true)
		setSysctls(t, b.root, quick)
		noted := before{"flow_control": "none"}
		for name, v := range usual {
			noted[name] = v
		}
		if err := noted.note(b.root); err != nil {
			t.Fatal(err)
		}
	}, func(b *box) {
		t := b.t
		if w := b.driver.Writes(); !slices.Equal(w, []string{"enable=0", "baud=460800", "enable=1"}) {
			t.Errorf("wrote %q", w)
		}
		setSysctls(t, b.root, map[string]string{"tcp_retries2": "8"}) // by hand: stays
		b.stop(nil)
		want := maps.Clone(usual)
		want["tcp_retries2"] = "8"
		sysctlsAre(t, b.root, want)
		if v := b.driver.Value("flow_control"); v != "0" {
			t.Errorf("flow_control is %s", v)
		}
	})
}

func TestRestoreWithoutAnything(t *testing.T) {
	if err := Restore(t.Context(), newRoot(t)); err != nil {
		t.Error(err)
	}
}

func TestParseBefore(t *testing.T) {
	got := parseBefore("tcp_retries2=15\nflow_control=sw\ntcp_syncookies=0\n../x=1\ntcp_keepalive_time=\nnoise")
	if want := (before{"tcp_retries2": "15", "flow_control": "sw"}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzParseBefore(f *testing.F) {
	f.Add("tcp_retries2=15\nflow_control=sw\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, value := range parseBefore(text) {
			if value == "" || strings.Contains(value, "\n") || name != flowBefore && usual[name] == "" {
				t.Errorf("%q: %q=%q", text, name, value)
			}
		}
	})
}
