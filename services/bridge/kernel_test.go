//go:build linux

package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/kernelbridge/kernelbridgetest"
	"gwinit/internal/notify"
	"gwinit/internal/radiolock"
	"gwinit/internal/tty/ptytest"
)

// service is the bridge as PID 1 starts it.
type service struct {
	*gateway
	pid1  int // PID 1's end
	ended chan error
	stop  context.CancelFunc
}

// serve runs s as a service, with stored as the socket of the one before (-1:
// none).
func serve(t *testing.T, s *settings, stored int) *service {
	t.Helper()
	ours, theirs, err := notify.Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(ours) })
	t.Setenv(notify.EnvSocket, strconv.Itoa(theirs))
	if stored >= 0 {
		t.Setenv(notify.EnvStored, storedName+"="+strconv.Itoa(stored))
	}
	conn, err := notify.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	v := &service{gateway: &gateway{t: t}, pid1: ours, ended: make(chan error, 1)}
	s.options.Log = v.line
	ctx, cancel := context.WithCancel(t.Context())
	v.stop = cancel
	go func() {
		v.ended <- run(ctx, conn, s)
		conn.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("log:\n%s", strings.Join(v.lines(), "\n"))
		}
	})
	return v
}

// hears waits for a packet that contains text, and returns it.
func (v *service) hears(text string) (packet string) {
	v.t.Helper()
	v.until("packet with "+text, func() bool {
		buf := make([]byte, notify.MaxMessage)
		n, fds, err := notify.Receive(v.pid1, buf)
		if err != nil {
			return false // nothing yet
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		packet = string(buf[:n])
		return strings.Contains(packet, text)
	})
	return packet
}

func (v *service) call(method, params string) string {
	v.t.Helper()
	call, err := notify.AppendCall(nil, 7, method, []byte(params))
	if err != nil {
		v.t.Fatal(err)
	}
	if err := notify.SendCall(v.pid1, call); err != nil {
		v.t.Fatal(err)
	}
	return strings.TrimPrefix(v.hears("=7\n"), "REPLY=7\n")
}

func (v *service) bridge() (s api.Bridge) {
	v.t.Helper()
	answer := v.call("status", "")
	if err := json.Unmarshal([]byte(answer), &s); err != nil {
		v.t.Errorf("status %q: %v", answer, err)
	}
	return s
}

// bye ends the service in the orderly way.
func (v *service) bye() {
	v.t.Helper()
	v.stop()
	if err := <-v.ended; err != nil {
		v.t.Error(err)
	}
}

func TestKernelEngine(t *testing.T) {
	f := kernelbridgetest.New(t, false, "1", nil)
	s := byHand(t, f, 8888)
	s.kernel = true
	// What the engine user left to PID 1 must not keep the port from the driver.
	old, at, _, err := listen(netip.MustParseAddr("127.0.0.1"), 0, -1, s.options.Limits.Stall)
	if err != nil {
		t.Fatal(err)
	}
	pid1s, err := unix.Dup(old)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pid1s)
	v := serve(t, s, old)
	v.hears("FDSTOREREMOVE=1\nFDNAME=8888\n")
	v.hears("READY=1\nSTATUS=the kernel's bridge has " + s.opener.Device + " at 115200 baud, flow control none, on 127.0.0.1:8888")
	if _, listening := serves(pid1s, at.Addr(), at.Port()); listening {
		t.Error("the old socket still listens")
	}
	if w := f.Writes(); !slices.Equal(w, []string{"1"}) {
		t.Errorf("enable got %q", w)
	}
	for name, want := range map[string]string{"tty": s.opener.Device, "baud": "115200", "flow_control": "0", "bind_addr": "127.0.0.1", "port": "8888"} {
		if got := f.Get(t, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	f.Set("stats", "rx=12 tx=3 drops_nocli=1 drops_err=0 drops_tx=0 xoff=0 xon=0 tx_pause_timeouts=0 later=9")
	if b := v.bridge(); b.Engine != "kernel" || !b.UARTOpen || b.RxBytes != 12 || b.TxBytes != 3 || b.Discarded != 1 || b.Kernel == nil {
		t.Errorf("status %+v", b)
	}
	if h, err := radiolock.Look(f.Root); h.Name != LockOwner || err != nil {
		t.Errorf("owner %+v, %v", h, err)
	}
	if got := v.call("release", `{"seconds":60}`); !strings.HasPrefix(got, `{"releasedSeconds":`) {
		t.Errorf("release: %s", got)
	}
	if h, err := radiolock.Look(f.Root); h.Name != "" || err != nil {
		t.Errorf("owner while released %+v, %v", h, err)
	}
	if got := v.call("take", ""); got != `{"releasedSeconds":0}` {
		t.Errorf("take: %s", got)
	}
	v.until("armed driver", func() bool { return slices.Equal(f.Writes(), []string{"1", "0", "1"}) && v.bridge().UARTOpen })
	v.bye()
	if w := f.Writes(); !slices.Equal(w, []string{"1", "0", "1", "0"}) || f.Get(t, "armed") != "0" || f.Get(t, "flow_control") != "1" {
		t.Errorf("enable got %q, armed %s, flow_control %s", w, f.Get(t, "armed"), f.Get(t, "flow_control"))
	}
}

// What radio.conf says is changed while the driver stays armed.
func TestKernelEngineReloads(t *testing.T) {
	f := kernelbridgetest.New(t, false, "1", nil)
	etc := filepath.Join(f.Root, "userdata/etc")
	for _, dir := range []string{"run", "userdata/etc"} {
		if err := os.MkdirAll(filepath.Join(f.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	radioConf := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(etc, "radio.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	radioConf("BRIDGE_ENGINE=kernel\nFIRMWARE_BAUD=115200\n")
	s, err := load(f.Root, nil, func(line string) { t.Errorf("warning: %s", line) })
	if err != nil {
		t.Fatal(err)
	}
	v := serve(t, &s, -1)
	v.hears("READY=1\n")
	radioConf("BRIDGE_ENGINE=kernel\nFIRMWARE_BAUD=230400\nBRIDGE_BIND=127.0.0.1\n")
	var b api.Bridge
	if err := json.Unmarshal([]byte(v.call("reload", "")), &b); err != nil || b.Baud != 230400 || b.Listen != "127.0.0.1:8888" || !b.UARTOpen {
		t.Errorf("status %+v, %v", b, err)
	}
	if w := f.Writes(); !slices.Equal(w, []string{"1"}) || f.Get(t, "baud") != "230400" || f.Get(t, "bind_addr") != "127.0.0.1" {
		t.Errorf("enable got %q, baud %s, bind_addr %s", w, f.Get(t, "baud"), f.Get(t, "bind_addr"))
	}
	for _, text := range []string{"BRIDGE_ENGINE=user\n", "BRIDGE_ENGINE=kernel\nMODE=otbr\n", "BRIDGE_ENGINE=kernel\nBRIDGE_BIND=::1\n"} {
		radioConf(text)
		if got := v.call("reload", ""); got != "ERROR=7\n"+errRestart.Error() {
			t.Errorf("%q: %s", text, got)
		}
	}
	v.bye()
}

// INV 11: a kernel without the driver has a bridge all the same, and it is said.
func TestKernelEngineFallsBack(t *testing.T) {
	_, slave := ptytest.Open(t)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &settings{
		kernel:  true,
		options: Options{Bind: netip.MustParseAddr("127.0.0.1"), Listener: -1, Limits: DefaultLimits(), UART: slave},
		opener:  DeviceOpener{Root: root, Device: slave, Baud: 115200, Flow: "none"},
	}
	v := serve(t, s, -1)
	v.hears("READY=1\n")
	const text = "BRIDGE_ENGINE=kernel cannot be had, the engine user is used instead: no kernel bridge in this kernel"
	if b := v.bridge(); b.Engine != "user" || !b.UARTOpen || !slices.Equal(b.Warnings, []string{text}) {
		t.Errorf("status %+v", b)
	}
	v.says(text)
	v.bye()
}

// An engine that was killed leaves the driver armed and the lock free. Whoever
// takes the UART next disarms it first, and what it changed is put back.
func TestKernelEngineKilled(t *testing.T) {
	const env = "BRIDGE_TEST_KERNEL_ROOT"
	if root := os.Getenv(env); root != "" {
		s := &settings{
			options: Options{Port: 8888, Log: func(line string) { os.Stdout.WriteString(line + "\n") }},
			opener:  DeviceOpener{Root: root, Device: "/dev/ttyS1", Baud: 230400, Flow: "sw"},
		}
		e, err := newKernelEngine(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal(runKernel(t.Context(), nil, s, e)) // until killed
	}
	f := kernelbridgetest.New(t, false, "1", nil)
	const retries = "proc/sys/net/ipv4/tcp_retries2"
	for _, dir := range []string{"run", "proc/sys/net/ipv4"} {
		if err := os.MkdirAll(filepath.Join(f.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.Root, retries), []byte("15\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKernelEngineKilled$")
	child.Env = append(os.Environ(), env+"="+f.Root)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), "the kernel's bridge has"); {
	}
	if h, err := radiolock.Look(f.Root); h.Name != LockOwner || h.PID != child.Process.Pid || err != nil {
		t.Errorf("owner %+v, %v", h, err)
	}
	child.Process.Kill()
	child.Wait()
	if h, err := radiolock.Look(f.Root); h.Name != "" || err != nil {
		t.Errorf("owner %+v, %v", h, err)
	}
	if f.Get(t, "armed") != "1" || f.Get(t, "flow_control") != "2" {
		t.Fatalf("armed %s, flow_control %s after the kill", f.Get(t, "armed"), f.Get(t, "flow_control"))
	}
	s := byHand(t, f, 0)
	s.opener.Flow = "" // as the driver was before
	v := serve(t, s, -1)
	v.until("UART", func() bool { return v.bridge().UARTOpen })
	if w := f.Writes(); !slices.Equal(w, []string{"1", "0"}) {
		t.Errorf("enable got %q", w)
	}
	b, err := os.ReadFile(filepath.Join(f.Root, retries))
	if got := f.Get(t, "flow_control"); got != "1" || string(b) != "15\n" || err != nil {
		t.Errorf("flow_control %s, tcp_retries2 %q, %v", got, b, err)
	}
	v.bye()
}

// By hand it is always the engine user.
func TestByHandIsUser(t *testing.T) {
	root := conf(t, "BRIDGE_ENGINE=kernel\n")
	for _, tt := range []struct {
		args   []string
		kernel bool
	}{{nil, true}, {[]string{"-port", "8889"}, false}} {
		s, err := load(root, tt.args, func(line string) { t.Errorf("warning: %s", line) })
		if err != nil || s.kernel != tt.kernel {
			t.Errorf("%q: kernel %v, %v", tt.args, s.kernel, err)
		}
	}
	f := kernelbridgetest.New(t, false, "1", nil)
	s := byHand(t, f, 0)
	s.kernel = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, nil, s); err != nil {
		t.Errorf("ended with %v", err)
	}
	if w := f.Writes(); len(w) != 0 {
		t.Errorf("enable got %q", w)
	}
}
