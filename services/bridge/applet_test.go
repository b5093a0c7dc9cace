//go:build linux

package bridge

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/kernelbridge/kernelbridgetest"
	"gwinit/internal/notify"
	"gwinit/internal/radiolock"
	"gwinit/internal/tty/ptytest"
)

func conf(t *testing.T, radio string) (root string) {
	t.Helper()
	root = t.TempDir()
	etc := filepath.Join(root, "userdata/etc")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(etc, "radio.conf"), []byte(radio), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestLoad(t *testing.T) {
	type want struct {
		listen, device string
		baud           int
		flow           string
		otbr           bool
	}
	tests := []struct {
		name, conf string
		args       []string
		want       want
	}{
		{"nothing set", "", nil, want{"invalid AddrPort", "/dev/ttyS1", 460800, "", false}},
		{
			"radio.conf", "FIRMWARE_BAUD=691200\nFIRMWARE_FLOW_CTRL=sw\nBRIDGE_BIND=192.168.1.7\n", nil,
			want{"192.168.1.7:8888", "/dev/ttyS1", 691200, "sw", false},
		},
		{
			"arguments win", "FIRMWARE_BAUD=691200\nFIRMWARE_FLOW_CTRL=sw\n",
			[]string{"-port", "8889", "-baud", "892857", "-flow", "none", "-device", "/dev/x", "-bind", "::1"},
			want{"[::1]:8889", "/dev/x", 892857, "none", false},
		},
		{"OTBR", "MODE=otbr\n", nil, want{"invalid AddrPort", "/dev/ttyS1", 460800, "", true}},
		{"OTBR, by hand", "MODE=otbr\n", []string{"-port", "8889"}, want{"invalid AddrPort", "/dev/ttyS1", 460800, "", false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := load(conf(t, tt.conf), tt.args, func(line string) { t.Errorf("warning: %s", line) })
			if err != nil {
				t.Fatal(err)
			}
			listen := "invalid AddrPort"
			if s.options.Bind.IsValid() {
				listen = addrPortOf(s.options).String()
			}
			got := want{listen, s.opener.Device, s.opener.Baud, s.opener.Flow, s.otbr}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestWrongCalls(t *testing.T) {
	for _, args := range [][]string{
		{"-port", "0"},
		{"-port", "65536"},
		{"-port", "x"},
		{"-baud", "1"},
		{"-flow", "rtscts"},
		{"-bind", "gateway"},
		{"8889"},
		{"-nothing"},
	} {
		_, err := load(conf(t, ""), args, func(string) {})
		var usage applet.UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestAnswer(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	answer := answerer(g.b, nil)
	got, err := answer(t.Context(), "status", nil)
	if err != nil || !strings.Contains(string(got), `"addr":"`+c.LocalAddr().String()+`"`) {
		t.Errorf("status: %s, %v", got, err)
	}
	if _, err := answer(t.Context(), "reboot", nil); !errors.Is(err, errMethod) {
		t.Errorf("unknown method: %v", err)
	}
}

// The data path logs: a reader that does not read must not hold it.
func TestLoggerNeverWaits(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	log := logger(w) // Fd makes the pipe blocking
	line := strings.Repeat("x", 999)
	for range 1000 { // a pipe holds 64 of them
		log(line)
	}
	if n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ); err != nil || n == 0 || n%1000 != 0 {
		t.Errorf("%d bytes in the pipe, %v: want whole lines", n, err)
	}
	log = logger(io.Discard)
	log("to something that is no file")
}

// byHand is what somebody typed on a box with the kernel bridge of f.
func byHand(t *testing.T, f *kernelbridgetest.Fake, port uint16) *settings {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(f.Root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, slave := ptytest.Open(t)
	return &settings{
		options: Options{
			Bind: netip.MustParseAddr("127.0.0.1"), Port: port, Listener: -1,
			Log: func(line string) { t.Log(line) }, Limits: DefaultLimits(),
		},
		opener: DeviceOpener{Root: f.Root, Device: slave, Baud: 115200, Flow: "none"},
	}
}

// The kernel bridge is armed again, however the command ends.
func TestRearm(t *testing.T) {
	taken := func(t *testing.T) (int, uint16) {
		fd, at, _, err := listen(netip.MustParseAddr("127.0.0.1"), 0, -1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return fd, at.Port()
	}
	t.Run("after the port stays taken", func(t *testing.T) {
		fd, port := taken(t)
		defer unix.Close(fd)
		f := kernelbridgetest.New(t, true, "1", nil)
		if err := run(t.Context(), nil, byHand(t, f, port)); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("ended with %v", err)
		}
		if w := f.Writes(); !slices.Equal(w, []string{"0", "1"}) {
			t.Errorf("enable got %q", w)
		}
	})
	t.Run("after it keeps the UART", func(t *testing.T) {
		fd, port := taken(t)
		defer unix.Close(fd)
		f := kernelbridgetest.New(t, true, "1", func(*kernelbridgetest.Fake, string) {})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		// Still armed, or the last look at that did not come to an end.
		if err := run(ctx, nil, byHand(t, f, port)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		// armed reads 1 all the time, so that nothing waits for the second.
		end := time.After(patience)
		for !slices.Equal(f.Writes(), []string{"0", "1"}) {
			select {
			case <-time.After(time.Millisecond):
			case <-end:
				t.Fatalf("enable got %q", f.Writes())
			}
		}
	})
	t.Run("after a session", func(t *testing.T) {
		fd, port := taken(t)
		f := kernelbridgetest.New(t, true, "1", func(f *kernelbridgetest.Fake, v string) {
			if v == "0" {
				unix.Close(fd)
			}
			f.SetArmed(v == "1")
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, ready := byHand(t, f, port), make(chan struct{})
		s.options.Log = func(line string) {
			if strings.Contains(line, "is open at") {
				close(ready)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, nil, s) }()
		select {
		case <-ready:
		case err := <-ended:
			t.Fatalf("ended with %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if w := f.Writes(); !slices.Equal(w, []string{"0", "1"}) {
			t.Errorf("enable got %q", w)
		}
	})
}

// With MODE=otbr the port is there, to say so, and the radio is left alone.
func TestThreadMode(t *testing.T) {
	f := kernelbridgetest.New(t, true, "1", nil)
	s := byHand(t, f, 0)
	s.otbr = true
	if err := run(t.Context(), nil, s); !errors.Is(err, errThreadMode) {
		t.Errorf("by hand: %v", err)
	}

	ours, theirs, err := notify.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ours)
	t.Setenv(notify.EnvSocket, strconv.Itoa(theirs))
	conn, err := notify.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	g := &gateway{t: t}
	s.options.Log = g.line
	s.options.Limits.Claim = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, conn, s) }()
	var stored int
	g.until("readiness", func() bool {
		buf := make([]byte, notify.MaxMessage)
		n, fds, err := notify.Receive(ours, buf)
		if err != nil {
			return false // nothing yet
		}
		if len(fds) == 1 {
			stored = fds[0]
		}
		return string(buf[:n]) == "READY=1\nSTATUS=the radio is in Thread (OTBR) mode\n"
	})
	defer unix.Close(stored)
	sa, err := unix.Getsockname(stored)
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []string{"", "\x1a\xc0"} {
		c := dial(t, addrPort(sa))
		write(t, c, []byte(first))
		ends(t, c)
		c.Close()
	}
	g.says("connection from", "closed: the radio is in Thread (OTBR) mode")
	if owner, err := radiolock.Look(f.Root); owner.Name != "" || err != nil {
		t.Errorf("the radio's owner is %+v, %v", owner, err)
	}
	if w := f.Writes(); len(w) != 0 {
		t.Errorf("enable got %q", w)
	}
	call, err := notify.AppendCall(nil, 1, "status", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := notify.SendCall(ours, call); err != nil {
		t.Fatal(err)
	}
	g.until("status", func() bool {
		buf := make([]byte, notify.MaxMessage)
		n, _, err := notify.Receive(ours, buf)
		return err == nil && strings.Contains(string(buf[:n]), "the radio is in Thread (OTBR) mode") &&
			strings.Contains(string(buf[:n]), `"refused":2`)
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Who had SIGHUP ignored, as nohup does, is not ended by it.
func TestEndings(t *testing.T) {
	c := make(chan os.Signal, 1)
	defer func() {
		signal.Notify(c, unix.SIGHUP, unix.SIGINT) // Reset alone leaves them ignored
		signal.Reset(unix.SIGHUP, unix.SIGINT)
	}()
	signal.Ignore(unix.SIGINT)
	signal.Notify(c, unix.SIGHUP)
	if got, want := endings(), []os.Signal{unix.SIGTERM, unix.SIGHUP}; !slices.Equal(got, want) {
		t.Errorf("with SIGINT ignored: %v, want %v", got, want)
	}
	signal.Ignore(unix.SIGHUP)
	if got, want := endings(), []os.Signal{unix.SIGTERM}; !slices.Equal(got, want) {
		t.Errorf("with both ignored: %v, want %v", got, want)
	}
}

type fakeSupervisor struct{ said []string }

func (f *fakeSupervisor) Ready(s string) error { f.said = append(f.said, "ready "+s); return nil }

func (f *fakeSupervisor) Status(s string) error {
	f.said = append(f.said, s)
	return errors.New("gone")
}

func TestAnnouncer(t *testing.T) {
	var f fakeSupervisor
	var logged []string
	changed := announcer(&f, func(s string) { logged = append(logged, s) })
	changed(false, "the UART is not open: no such file")
	changed(true, "ttyS1 at 460800 baud")
	changed(false, "the UART is not open: it hung up")
	want := []string{"ready the UART is not open: no such file", "ttyS1 at 460800 baud", "the UART is not open: it hung up"}
	if !slices.Equal(f.said, want) {
		t.Errorf("said %q, want %q", f.said, want)
	}
	if len(logged) != 2 {
		t.Errorf("logged %q", logged)
	}
}
