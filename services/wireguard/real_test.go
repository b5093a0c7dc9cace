package wireguard_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"gwinit/internal/netdev/netlab"
	"gwinit/services/wireguard"
	"gwinit/services/wireguard/conf"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// limit is for what the protocol does in its own time on a loaded machine.
const limit = 60 * time.Second

// port is the stock peer's; ours is the next one.
const port = 51820

// lab is a gateway here and a host at the other end of a cable, which has the
// module's own tunnel as it is: stock devices, sockets and interface.
type lab struct {
	t    *testing.T
	root string
	host *netlab.Peer

	ours, theirs conf.Key // private
	stock        *device.Device
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Fatalf("%v: these tests need a kernel with CONFIG_TUN", err)
	}
	l := &lab{t: t, root: t.TempDir(), ours: wireguard.NewKey(), theirs: wireguard.NewKey()}
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	l.host = netlab.Cable(t, "eth0", "eth0")
	for _, a := range []string{"192.0.2.1/24", "192.0.2.5/24", "fd01::1/64"} {
		netlab.Run(t, "ip", "addr", "add", a, "dev", "eth0", "nodad")
	}
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	l.host.Run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
	l.host.Run("ip", "addr", "add", "fd01::2/64", "dev", "eth0", "nodad")
	l.within(func() {
		dev, err := tun.CreateTUN("wgh", 1420)
		if err != nil {
			t.Fatal(err)
		}
		l.stock = device.NewDevice(newStill(dev), conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, "stock: "))
		l.tell("private_key=%s\nlisten_port=%d\npublic_key=%s\nallowed_ip=10.9.0.2/32\nallowed_ip=fd09::2/128\n",
			hexKey(l.theirs), port, hexKey(wireguard.PublicKey(l.ours)))
		if err := l.stock.Up(); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(l.stock.Close)
	for _, a := range []string{"10.9.0.1/24", "fd09::1/64"} {
		l.host.Run("ip", "addr", "add", a, "dev", "wgh", "nodad")
	}
	l.host.Run("ip", "link", "set", "wgh", "up")
	return l
}

// still is an interface of whose state its tunnel does not hear. It would end at the
// news that the interface is down, as it was when it was made, and begin again at
// those that it is up, then with sockets of whatever namespace that goroutine is in.
type still struct {
	tun.Device
	none chan tun.Event
	once sync.Once
}

func newStill(d tun.Device) *still {
	go func() {
		for range d.Events() { // until it is closed
		}
	}()
	return &still{Device: d, none: make(chan tun.Event)}
}

func (s *still) Events() <-chan tun.Event { return s.none }

func (s *still) Close() error {
	s.once.Do(func() { close(s.none) })
	return s.Device.Close()
}

func hexKey(k conf.Key) string { return hex.EncodeToString(k[:]) }

// within runs f in the host's namespace: sockets and interfaces belong to that
// of the thread that makes them.
func (l *lab) within(f func()) {
	l.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		l.t.Fatal(err)
	}
	defer here.Close()
	there, err := os.Open("/proc/" + l.host.PID() + "/ns/net")
	if err != nil {
		l.t.Fatal(err)
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		l.t.Fatal(err)
	}
	defer func() {
		if err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // a thread of another namespace must not go on
		}
	}()
	f()
}

// tell changes the stock device.
func (l *lab) tell(format string, a ...any) {
	l.t.Helper()
	if err := l.stock.IpcSet(fmt.Sprintf(format, a...)); err != nil {
		l.t.Fatal(err)
	}
}

// stockSays is a value of the stock device's only peer.
func (l *lab) stockSays(key string) string {
	l.t.Helper()
	text, err := l.stock.IpcGet()
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), "="); k == key {
			return v
		}
	}
	return ""
}

// write makes one of the gateway's files.
func (l *lab) write(name string, mode os.FileMode, format string, a ...any) {
	l.t.Helper()
	path := filepath.Join(l.root, "userdata/etc", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, format, a...), mode); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		l.t.Fatal(err)
	}
}

// tunnelFile writes wg0.conf with the stock device as the only peer. more is
// of the peer.
func (l *lab) tunnelFile(more string) {
	l.write("wireguard/wg0.conf", 0o600, "[Interface]\nPrivateKey = %s\nListenPort = %d\nAddress = 10.9.0.2/24, fd09::2/64\n\n[Peer]\nPublicKey = %s\nAllowedIPs = 10.9.0.0/24, fd09::/64\n%s",
		l.ours, port+1, wireguard.PublicKey(l.theirs), more)
}

// run has the service run until the end of the test, or until stop.
func (l *lab) run(o wireguard.Options) (s *wireguard.Service, stop func()) {
	l.t.Helper()
	o.Root = l.root
	o.Logf = l.t.Logf
	if o.Poll == 0 {
		o.Poll = 50 * time.Millisecond
	}
	s = wireguard.New(o)
	ctx, cancel := context.WithCancel(l.t.Context())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		l.t.Fatalf("it ended: %v", err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Errorf("it ended with %v", err)
		}
	})
	l.t.Cleanup(stop)
	return s, stop
}

// state is the tunnel's, whose only peer it returns.
func state(t *testing.T, s *wireguard.Service) (wireguard.State, wireguard.PeerState) {
	t.Helper()
	st, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Peers) != 1 {
		t.Fatalf("%d peers", len(st.Peers))
	}
	return st, st.Peers[0]
}

// await waits for something that comes by itself.
func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	end := time.Now().Add(limit)
	for !there() {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// echo serves TCP connections at an address of the host's.
func (l *lab) echo(addr string) {
	l.t.Helper()
	var ln net.Listener
	l.within(func() {
		var err error
		if ln, err = net.Listen("tcp", addr); err != nil {
			l.t.Fatal(err)
		}
	})
	ctx, cancel := context.WithCancel(l.t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { c.Close() })
			serving.Go(func() {
				defer stop()
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	l.t.Cleanup(func() {
		ln.Close()
		cancel()
		serving.Wait()
	})
}

// exchange sends n bytes to an echo and wants them back.
func exchange(t *testing.T, addr string, n int) {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	sent, got := make([]byte, n), make([]byte, n)
	rand.Read(sent)
	var failed atomic.Pointer[error]
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := c.Write(sent); err != nil {
			failed.Store(&err)
		}
	})
	_, err = io.ReadFull(c, got)
	sending.Wait()
	if p := failed.Load(); p != nil {
		err = errors.Join(err, *p)
	}
	if err != nil || !bytes.Equal(sent, got) {
		t.Fatalf("%d bytes by %s: %v, the same %v", n, addr, err, bytes.Equal(sent, got))
	}
}

// The tunnel by IPv4 and by IPv6, both inside, with the MTU of the file and
// routes to what peers may have.
func TestTunnel(t *testing.T) {
	for _, endpoint := range []string{"192.0.2.2:51820", "[fd01::2]:51820"} {
		t.Run(endpoint, func(t *testing.T) {
			l := newLab(t)
			l.tunnelFile("AllowedIPs = 10.77.0.0/16\nEndpoint = " + endpoint + "\n")
			l.write("wireguard.conf", 0o644, "MTU=1300\nROUTES=172.31.0.0/24,192.0.2.0/24\n")
			s, stop := l.run(wireguard.Options{})
			l.echo("10.9.0.1:7")
			l.echo("[fd09::1]:7")
			exchange(t, "10.9.0.1:7", 1<<20)
			exchange(t, "[fd09::1]:7", 1<<20)
			st, p := state(t, s)
			if !p.Connected || p.Handshake == nil || p.Endpoint != endpoint || p.RxBytes < 2<<20 || p.TxBytes < 2<<20 || p.Name != "" {
				t.Errorf("peer %+v", p)
			}
			if st.Interface != "wg0" || st.ListenPort != port+1 || st.MTU != 1300 || st.PublicKey != wireguard.PublicKey(l.ours).String() {
				t.Errorf("state %+v", st)
			}
			if text := netlab.Run(t, "ip", "link", "show", "wg0"); !strings.Contains(text, "mtu 1300") || !strings.Contains(text, "qlen 64") {
				t.Errorf("link: %s", text)
			}
			text := netlab.Run(t, "ip", "-4", "route", "show")
			for _, want := range []string{"10.77.0.0/16 dev wg0", "172.31.0.0/24 dev wg0", "192.0.2.0/24 dev eth0"} {
				if !strings.Contains(text, want) {
					t.Errorf("no route %s in\n%s", want, text)
				}
			}
			if w := st.Warnings; len(w) != 1 || !strings.Contains(w[0], "192.0.2.0/24") || !strings.Contains(w[0], "leads elsewhere") {
				t.Errorf("warnings %q", w)
			}
			if told := st.Text(); strings.Contains(told, l.ours.String()) || !strings.Contains(told, "latest handshake: ") {
				t.Errorf("text\n%s", told)
			}
			stop()
			if _, err := net.InterfaceByName("wg0"); err == nil {
				t.Error("the interface is still there")
			}
		})
	}
}

// A peer that may have any address gets what is sent into the tunnel, and not the
// default route: the tunnel's own packets would go into the tunnel.
func TestDefaultRouteIsLeftAlone(t *testing.T) {
	l := newLab(t)
	l.tunnelFile("AllowedIPs = 0.0.0.0/0, ::/0\nEndpoint = 192.0.2.2:51820\n")
	s, _ := l.run(wireguard.Options{})
	l.echo("10.9.0.1:7")
	l.echo("[fd09::1]:7")
	exchange(t, "10.9.0.1:7", 1000)
	exchange(t, "[fd09::1]:7", 1000)
	st, p := state(t, s)
	if !slices.Contains(p.AllowedIPs, netip.MustParsePrefix("0.0.0.0/0")) || len(st.Warnings) != 0 || len(st.Routes) != 0 {
		t.Errorf("state %+v", st)
	}
	for _, family := range []string{"-4", "-6"} {
		if text := netlab.Run(t, "ip", family, "route", "show", "default"); text != "" {
			t.Errorf("default route: %s", text)
		}
	}
}

// What the host sends to our second address is answered from there.
func TestAnswersFromTheSameAddress(t *testing.T) {
	for _, at := range []string{"192.0.2.5:51821", "[fd01::1]:51821"} {
		t.Run(at, func(t *testing.T) {
			l := newLab(t)
			l.tunnelFile("")
			l.run(wireguard.Options{})
			l.echo("10.9.0.1:7")
			l.tell("public_key=%s\nendpoint=%s\npersistent_keepalive_interval=1\n", hexKey(wireguard.PublicKey(l.ours)), at)
			exchange(t, "10.9.0.1:7", 1000)
			if got := l.stockSays("endpoint"); got != at {
				t.Errorf("answered from %s, want %s", got, at)
			}
		})
	}
}

// The host gets another address, and sends: the gateway answers there.
func TestRoaming(t *testing.T) {
	l := newLab(t)
	l.tunnelFile("Endpoint = 192.0.2.2:51820\n")
	s, _ := l.run(wireguard.Options{})
	l.echo("10.9.0.1:7")
	exchange(t, "10.9.0.1:7", 1000)
	l.host.Run("ip", "addr", "add", "192.0.2.3/24", "dev", "eth0")
	l.host.Run("ip", "addr", "del", "192.0.2.2/24", "dev", "eth0")
	l.host.Run("ip", "addr", "replace", "192.0.2.3/24", "dev", "eth0")
	l.tell("public_key=%s\nendpoint=192.0.2.1:51821\npersistent_keepalive_interval=1\n", hexKey(wireguard.PublicKey(l.ours)))
	await(t, "the new address", func() bool { _, p := state(t, s); return p.Endpoint == "192.0.2.3:51820" })
	exchange(t, "10.9.0.1:7", 1000)
}

// A name is looked up until it is there, and again when who is behind it does
// not answer; the address that failed is not the first to be tried.
func TestNames(t *testing.T) {
	l := newLab(t)
	l.tunnelFile("Endpoint = home.test:51820\nPersistentKeepalive = 1\n")
	var answer atomic.Pointer[[]netip.Addr]
	var asked atomic.Int32
	s, _ := l.run(wireguard.Options{
		Stale: time.Second,
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host != "home.test" {
				t.Errorf("asked for %q", host)
			}
			asked.Add(1)
			if a := answer.Load(); a != nil {
				return *a, nil
			}
			return nil, errors.New("no such host")
		},
	})
	await(t, "the first question", func() bool { return asked.Load() > 0 })
	await(t, "a warning", func() bool { return len(s.Warnings()) == 1 })
	if w := s.Warnings(); !strings.Contains(w[0], "the name home.test gives no address: no such host") {
		t.Errorf("warnings %q", w)
	}
	if st, p := state(t, s); p.Endpoint != "" || p.Name != "home.test:51820" || !strings.Contains(st.Text(), "which gives no address") {
		t.Errorf("peer %+v in\n%s", p, st.Text())
	}
	answer.Store(&[]netip.Addr{netip.MustParseAddr("192.0.2.2")})
	await(t, "a session", func() bool { _, p := state(t, s); return p.Connected })
	if w := s.Warnings(); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
	// The host moves and says nothing.
	l.host.Run("ip", "addr", "add", "192.0.2.3/24", "dev", "eth0")
	l.host.Run("ip", "addr", "del", "192.0.2.2/24", "dev", "eth0")
	l.host.Run("ip", "addr", "replace", "192.0.2.3/24", "dev", "eth0")
	answer.Store(&[]netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")})
	await(t, "the other address", func() bool { _, p := state(t, s); return p.Endpoint == "192.0.2.3:51820" })
	answer.Store(&[]netip.Addr{netip.MustParseAddr("192.0.2.3")})
	await(t, "it again, if the first was tried meanwhile", func() bool { _, p := state(t, s); return p.Endpoint == "192.0.2.3:51820" })
	l.echo("10.9.0.1:7")
	exchange(t, "10.9.0.1:7", 1000)
}

// With a keepalive the host learns where we are without anything being sent
// through the tunnel.
func TestKeepalive(t *testing.T) {
	l := newLab(t)
	l.tunnelFile("Endpoint = 192.0.2.2:51820\nPersistentKeepalive = 1\n")
	l.run(wireguard.Options{})
	await(t, "our address", func() bool { return l.stockSays("endpoint") == "192.0.2.1:51821" })
	before := l.stockSays("rx_bytes")
	await(t, "another keepalive", func() bool { return l.stockSays("rx_bytes") != before })
}

// A reload with another private key: the host has to be told, and everything
// goes on. A reload of the same files leaves the session alone.
func TestReload(t *testing.T) {
	l := newLab(t)
	l.tunnelFile("Endpoint = 192.0.2.2:51820\n")
	s, _ := l.run(wireguard.Options{})
	l.echo("10.9.0.1:7")
	exchange(t, "10.9.0.1:7", 1000)
	handshake := l.stockSays("last_handshake_time_nsec")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	exchange(t, "10.9.0.1:7", 1000)
	if got := l.stockSays("last_handshake_time_nsec"); got != handshake {
		t.Error("a reload of the same files ended the session")
	}

	old := wireguard.PublicKey(l.ours)
	l.ours = wireguard.NewKey()
	l.tell("public_key=%s\nremove=true\npublic_key=%s\nallowed_ip=10.9.0.2/32\n", hexKey(old), hexKey(wireguard.PublicKey(l.ours)))
	l.tunnelFile("Endpoint = 192.0.2.2:51820\nAllowedIPs = 10.78.0.0/16\n")
	l.write("wireguard.conf", 0o644, "MTU=1280\nADDRESS=10.10.0.2/24\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	exchange(t, "10.9.0.1:7", 1000)
	st, _ := state(t, s)
	if st.MTU != 1280 || st.PublicKey != wireguard.PublicKey(l.ours).String() {
		t.Errorf("state %+v", st)
	}
	if text := netlab.Run(t, "ip", "addr", "show", "dev", "wg0"); !strings.Contains(text, "10.10.0.2/24") || !strings.Contains(text, "mtu 1280") {
		t.Errorf("link: %s", text)
	}
	if text := netlab.Run(t, "ip", "route"); !strings.Contains(text, "10.78.0.0/16 dev wg0") {
		t.Errorf("routes: %s", text)
	}

	// Without its peer nobody comes any more; what belonged to it is gone.
	l.write("wireguard/wg0.conf", 0o600, "[Interface]\nPrivateKey = %s\nListenPort = %d\n", l.ours, port+1)
	l.write("wireguard.conf", 0o644, "")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	st, err := s.State()
	if err != nil || len(st.Peers) != 0 || len(st.Routes) != 0 || len(st.Addresses) != 0 || st.MTU != wireguard.DefaultMTU {
		t.Errorf("state %+v, %v", st, err)
	}
	if text := netlab.Run(t, "ip", "route"); strings.Contains(text, "10.78") {
		t.Errorf("routes: %s", text)
	}
	afresh := func() {
		l.tell("public_key=%s\nremove=true\npublic_key=%[1]s\nallowed_ip=10.9.0.2/32\nendpoint=192.0.2.1:51821\npersistent_keepalive_interval=1\n", hexKey(wireguard.PublicKey(l.ours)))
	}
	afresh()
	const initiation = 148 // bytes; the next comes when 5 s have brought no answer
	await(t, "a second attempt", func() bool {
		n, err := strconv.Atoi(l.stockSays("tx_bytes"))
		return err == nil && n >= 2*initiation
	})
	if got := l.stockSays("rx_bytes"); got != "0" {
		t.Errorf("who is no peer any more had %s bytes of answers", got)
	}
	l.tunnelFile("")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	afresh()
	await(t, "a session of who is a peer again", func() bool { return l.stockSays("rx_bytes") != "0" })

	l.write("wireguard/wg0.conf", 0o600, "[Interface]\nPrivateKey = %s\n", l.ours)
	l.write("wireguard.conf", 0o644, "INTERFACE=other\n")
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "gwctl restart wireguard") {
		t.Errorf("another interface: %v", err)
	}
}

// A private key that others can read is taken from them, and said.
func TestFileMode(t *testing.T) {
	l := newLab(t)
	l.tunnelFile("")
	path := filepath.Join(l.root, "userdata/etc/wireguard/wg0.conf")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	s, _ := l.run(wireguard.Options{})
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "open to others than root (mode 0644)") {
		t.Errorf("warnings %q", w)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// What another start would not help is told apart from what it may.
func TestPointless(t *testing.T) {
	l := newLab(t)
	run := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return wireguard.New(wireguard.Options{Root: l.root}).Run(ctx, func() {})
	}
	if err := run(); !errors.Is(err, wireguard.ErrPointless) || !strings.Contains(err.Error(), "there is no /userdata/etc/wireguard/wg0.conf") {
		t.Errorf("no file: %v", err)
	}
	l.write("wireguard/wg0.conf", 0o600, "[Interface]\nPrivateKey = none\n")
	if err := run(); !errors.Is(err, wireguard.ErrPointless) || !strings.Contains(err.Error(), "gwctl wg genkey") {
		t.Errorf("no key: %v", err)
	}
	l.tunnelFile("")
	c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port + 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(); err == nil || errors.Is(err, wireguard.ErrPointless) || !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a port in use: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Errorf("all is well: %v", err)
	}
}

// Junk at the port, and datagrams larger than any packet, change nothing.
func TestJunk(t *testing.T) {
	l := newLab(t)
	l.tunnelFile("Endpoint = 192.0.2.2:51820\n")
	s, _ := l.run(wireguard.Options{})
	var c net.Conn
	l.within(func() {
		var err error
		if c, err = net.Dial("udp", "192.0.2.1:51821"); err != nil {
			t.Fatal(err)
		}
	})
	defer c.Close()
	junk := make([]byte, 60000)
	for i := range 2000 {
		rand.Read(junk[:200])
		copy(junk, []byte{byte(i % 6), 0, 0, 0}) // the messages' types, and others
		n := []int{0, 3, 32, 64, 92, 148, 1400, len(junk)}[i%8]
		if _, err := c.Write(junk[:n]); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
	l.echo("10.9.0.1:7")
	exchange(t, "10.9.0.1:7", 100000)
	if _, p := state(t, s); !p.Connected || p.Endpoint != "192.0.2.2:51820" {
		t.Errorf("peer %+v", p)
	}
}
