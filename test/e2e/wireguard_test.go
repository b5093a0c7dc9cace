//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/blake2s"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"

	"gwinit/internal/addon"
	"gwinit/internal/api"
	"gwinit/internal/netdev/netlab"
	"gwinit/services/wireguard"
	"gwinit/services/wireguard/conf"
	"gwinit/test/board"
	"gwinit/test/stockwg"
)

// The network that the gateway is in, and the tunnel's: what the host has, and
// what the gateway has.
const (
	lanHost, lanGateway = "192.0.2.1", "192.0.2.50"
	tunHost, tunGateway = "10.9.0.1", "10.9.0.2"
	tunPort             = 51820 // both ends'
	addonFile           = "gw-wireguard"
	addonsBin           = "../../build/addons/"
)

// patience is for what the protocol and its timers do in their own time on a
// loaded machine.
const patience = 5 * time.Minute

// site is a board on a network of its own, with a server that gives it an address
// and knows names. The test is in a network namespace of its own for that.
type site struct {
	t     *testing.T
	m     *board.Machine
	p     *person
	hosts string // the server's names
	pid   string // file with the server's process ID
}

// newSite boots a board there that somebody has an SSH key for.
func newSite(t *testing.T, change func(*board.Config)) *site {
	t.Helper()
	for _, file := range []string{addonFile, addonFile + ".sha256"} {
		if _, err := os.Stat(addonsBin + file); err != nil {
			t.Fatalf("%v: `make addons` builds it", err)
		}
	}
	dir := t.TempDir()
	l := &site{t: t, hosts: filepath.Join(dir, "hosts"), pid: filepath.Join(dir, "pid")}
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	netlab.Run(t, "ip", "tuntap", "add", "tap0", "mode", "tap")
	netlab.Run(t, "ip", "addr", "add", lanHost+"/24", "dev", "tap0")
	netlab.Run(t, "ip", "link", "set", "tap0", "up")
	if err := os.WriteFile(l.hosts, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	netlab.Start(t, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--no-resolv", "--no-hosts", "--addn-hosts="+l.hosts,
		"--interface=tap0", "--bind-interfaces", "--pid-file="+l.pid, "--dhcp-leasefile="+filepath.Join(dir, "leases"),
		"--dhcp-range="+lanGateway+","+lanGateway+",1h", "--log-facility=-")
	l.m = start(t, func(c *board.Config) {
		c.Forward, c.Netdev = nil, "tap,ifname=tap0,script=no,downscript=no"
		if change != nil {
			change(c)
		}
	})
	shell(t, l.m)
	await(t, l.m, "everything running", settled)
	l.p = newPerson(t, l.m)
	key, err := os.ReadFile(l.p.file("id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, l.m, "mkdir -p /userdata/ssh && echo '"+strings.TrimSpace(string(key))+"' >/userdata/ssh/authorized_keys")
	return l
}

// name has the server know home.test at an address; "": not at all.
func (l *site) name(addr string) {
	l.t.Helper()
	text := ""
	if addr != "" {
		text = addr + " home.test\n"
	}
	if err := os.WriteFile(l.hosts, []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
	pid, err := os.ReadFile(l.pid)
	if err != nil {
		l.t.Fatal(err)
	}
	netlab.Run(l.t, "kill", "-HUP", strings.TrimSpace(string(pid)))
}

// by runs one of OpenSSH's programs with the gateway at port 22.
func (l *site) by(in io.Reader, program string, args ...string) string {
	l.t.Helper()
	out, errs, err := l.p.tryAt("22", in, program, args...)
	if err != nil {
		l.t.Fatalf("%s %q: %v\n%s%s", program, args, err, out, errs)
	}
	return out
}

// install brings the add-on in as docs/wireguard.md says.
func (l *site) install() {
	l.t.Helper()
	l.by(nil, "ssh", "root@"+lanGateway, "mkdir -p "+addon.Dir)
	l.by(nil, "scp", addonsBin+addonFile, addonsBin+addonFile+".sha256", "root@"+lanGateway+":"+addon.Dir+"/")
	l.by(nil, "ssh", "root@"+lanGateway, "chmod 755 "+addon.Dir+"/"+addonFile)
}

// tunnelFile writes wg0.conf on the gateway. peers is all below [Interface].
func (l *site) tunnelFile(private, peers string) {
	l.t.Helper()
	text := fmt.Sprintf("[Interface]\nPrivateKey = %s\nListenPort = %d\n%s", private, tunPort, peers)
	l.by(strings.NewReader(text), "ssh", "root@"+lanGateway, "umask 077; mkdir -p /userdata/etc/wireguard && cat >"+conf.File+" && chmod 600 "+conf.File)
}

// stock makes the host's end, which lets the gateway in.
func (l *site) stock(gateway conf.Key) *stockwg.Peer {
	l.t.Helper()
	p, err := stockwg.New("wgh", tunHost+"/24", tunPort)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(p.Close)
	l.tell(p, "public_key=%s\nallowed_ip=%s/32\n", stockwg.Hex(gateway), tunGateway)
	return p
}

func (l *site) tell(p *stockwg.Peer, format string, a ...any) {
	l.t.Helper()
	if err := p.Tell(format, a...); err != nil {
		l.t.Fatal(err)
	}
}

func (l *site) says(p *stockwg.Peer, key string) string {
	l.t.Helper()
	v, err := p.Says(key)
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

// show is gwctl wg show.
func (l *site) show() wireguard.State {
	l.t.Helper()
	return answer[wireguard.State](l.t, l.m, "gwctl -json wg show")
}

// until waits for a state of the tunnel.
func (l *site) until(what string, ok func(wireguard.State) bool) wireguard.State {
	l.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		s := l.show()
		if ok(s) {
			return s
		}
		if time.Now().After(end) {
			l.t.Fatalf("never seen: %s; the tunnel: %+v; the log:\n%s", what, s, run(l.t, l.m, "gwctl logs wireguard"))
		}
	}
}

// up brings the tunnel up. On a host that has no time for the board its program is
// looked through for longer than gwctl waits, which then says so.
func (l *site) up() (out string) {
	l.t.Helper()
	out, code, err := l.m.Console().RunCommand("gwctl wg up", patience)
	if err != nil {
		l.t.Fatal(err)
	}
	if code != 0 && !strings.Contains(out, "no answer within") {
		l.t.Fatalf("gwctl wg up: exit status %d:\n%s", code, out)
	}
	await(l.t, l.m, "the tunnel", func(s api.Status) bool { return service(l.t, s, "wireguard").State == "running" })
	if code != 0 {
		out = run(l.t, l.m, "gwctl wg show")
	}
	return out
}

func connected(s wireguard.State) bool { return len(s.Peers) > 0 && s.Peers[0].Connected }

// client connects to the radio's port through the tunnel.
func (l *site) client() net.Conn {
	l.t.Helper()
	c, err := net.DialTimeout("tcp", net.JoinHostPort(tunGateway, strconv.Itoa(board.BridgePort)), patience)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

// through passes bytes both ways between the radio and a client that comes
// through the tunnel, and runs a command by SSH through it.
func (l *site) through(radio, c net.Conn) {
	l.t.Helper()
	for _, conn := range []net.Conn{c, radio} {
		_ = conn.SetDeadline(time.Now().Add(patience)) // of a socket that is open
	}
	sent, got := make([]byte, 16<<10), make([]byte, 16<<10)
	rand.Read(sent)
	sent[0] = 0x1a // as ASH begins
	for _, way := range [2][2]net.Conn{{c, radio}, {radio, c}} {
		failed := make(chan error, 1)
		go func() { _, err := way[0].Write(sent); failed <- err }()
		_, err := io.ReadFull(way[1], got)
		if err == nil {
			err = <-failed
		}
		if err != nil {
			l.t.Fatalf("%v; the bridge says:\n%s", err, run(l.t, l.m, "gwctl logs -n 10 bridge"))
		}
		if !bytes.Equal(got, sent) {
			l.t.Error("the bytes differ")
		}
	}
	for end := time.Now().Add(patience); ; wait(time.Second) {
		var s api.Status
		if err := json.Unmarshal([]byte(l.by(nil, "ssh", "root@"+tunGateway, "gwctl status -json")), &s); err != nil {
			l.t.Fatal(err)
		}
		if s.Bridge != nil && s.Bridge.Client != nil && strings.HasPrefix(s.Bridge.Client.Addr, tunHost+":") {
			break
		}
		// A bridge that had no time to answer is in no status.
		if s.Bridge != nil || time.Now().After(end) {
			l.t.Fatalf("the bridge's client is not who came through the tunnel: %+v", s.Bridge)
		}
	}
	run(l.t, l.m, "ping -c 2 "+tunHost)
}

// A tunnel's whole life with the files of today's firmware, by this process on a
// kernel without WireGuard.
func TestWireGuard(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	path, err := incumbentKernel()
	if err != nil {
		t.Fatal(err)
	}
	tunnelLife(t, newSite(t, func(c *board.Config) { c.Kernel = path }), wireguard.EngineUser)
}

// The same by the kernel's own device, behind the firewall.
func TestWireGuardOfTheKernel(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newSite(t, nil)
	run(t, l.m, "gwctl config set gateway.FIREWALL=1")
	tunnelLife(t, l, wireguard.EngineKernel)
	f := answer[api.Firewall](t, l.m, "gwctl firewall -json")
	if f.State != "on" {
		t.Fatalf("firewall %+v", f)
	}
}

func tunnelLife(t *testing.T, l *site, engine string) {
	off := func() {
		t.Helper()
		s := status(t, l.m)
		if svc := service(t, s, "wireguard"); svc.State != "idle" && svc.State != "stopped" || svc.PID != 0 {
			t.Errorf("it is %+v", svc)
		}
		if open := run(t, l.m, "netstat -uln; ip link"); strings.Contains(open, ":"+strconv.Itoa(tunPort)+" ") || strings.Contains(open, "wg0") {
			t.Errorf("a port or an interface without being asked:\n%s", open)
		}
		if got := run(t, l.m, "gwctl config get wireguard.ENABLED"); got != "0" {
			t.Errorf("ENABLED=%s", got)
		}
	}
	off()
	if out, code, err := l.m.Console().RunCommand("gwctl wg up", time.Minute); err != nil || code != 1 || !strings.Contains(out, "copy gw-wireguard and gw-wireguard.sha256 into "+addon.Dir) {
		t.Errorf("without the add-on: status %d, %v: %s", code, err, out)
	}
	off()
	l.install()

	// The files as today's firmware has them: addresses and routes beside the
	// keys, which are in wg(8)'s own form.
	private := run(t, l.m, "gwctl wg genkey")
	ours, err := conf.ParseKey(private)
	if err != nil {
		t.Fatalf("genkey: %q: %v", private, err)
	}
	peer := l.stock(wireguard.PublicKey(ours))
	l.tunnelFile(private, fmt.Sprintf("\n[Peer]\nPublicKey = %s\nEndpoint = home.test:%d\nAllowedIPs = %s/32, 10.77.0.0/24\nPersistentKeepalive = 1\n", peer.Public, tunPort, tunHost))
	// On a host that has no time for the board TCP waits twice as long for each packet
	// that is lost, and the bridge takes a client that takes nothing for gone.
	run(t, l.m, "gwctl config set radio.BRIDGE_STALL_S=3600 wireguard.ADDRESS="+tunGateway+"/24 wireguard.ROUTES=10.77.0.0/24")
	if got := run(t, l.m, "gwctl wg pubkey"); got != wireguard.PublicKey(ours).String() {
		t.Errorf("pubkey %q, want %q", got, wireguard.PublicKey(ours))
	}

	// A name that nobody knows yet is looked up until somebody does.
	if out := l.up(); !strings.Contains(out, "home.test:51820") {
		t.Errorf("up says\n%s", out)
	}
	l.until("a warning about the name", func(s wireguard.State) bool {
		return len(s.Warnings) == 1 && strings.Contains(s.Warnings[0], "the name home.test gives no address")
	})
	l.name(lanHost)
	s := l.until("a session", connected)
	if s.Engine != engine || s.Interface != "wg0" || s.MTU != wireguard.DefaultMTU || s.ListenPort != tunPort || len(s.Warnings) != 0 ||
		!slices.Equal(s.Addresses, []netip.Prefix{netip.MustParsePrefix(tunGateway + "/24")}) || s.Peers[0].Endpoint != fmt.Sprintf("%s:%d", lanHost, tunPort) {
		t.Errorf("the tunnel %+v", s)
	}
	if routes := run(t, l.m, "ip route"); !strings.Contains(routes, "10.77.0.0/24 dev wg0") {
		t.Errorf("routes:\n%s", routes)
	}
	radio, c := wire(t, l.m), l.client()
	l.through(radio, c)
	text := run(t, l.m, "gwctl wg show")
	if !strings.Contains(text, "latest handshake: ") || strings.Contains(text, private) {
		t.Errorf("show says\n%s", text)
	}
	if w := status(t, l.m).Warnings; len(w) != 0 {
		t.Errorf("warnings %q", w)
	}

	// Keepalives come without anything to send.
	before := l.says(peer, "rx_bytes")
	for end := time.Now().Add(patience); l.says(peer, "rx_bytes") == before; wait(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no keepalive")
		}
	}

	// The host gets another address, and sends from there.
	netlab.Run(t, "ip", "addr", "add", "192.0.2.3/24", "dev", "tap0")
	netlab.Run(t, "ip", "route", "replace", "192.0.2.0/24", "dev", "tap0", "src", "192.0.2.3")
	l.tell(peer, "public_key=%s\nendpoint=%s:%d\npersistent_keepalive_interval=1\n", stockwg.Hex(wireguard.PublicKey(ours)), lanGateway, tunPort)
	l.until("the new address", func(s wireguard.State) bool { return s.Peers[0].Endpoint == fmt.Sprintf("192.0.2.3:%d", tunPort) })
	l.through(radio, c) // the same connection

	// It moves without a word: after 135 s without an answer the name is looked
	// up again, where the host is now.
	l.tell(peer, "public_key=%s\nremove=true\npublic_key=%[1]s\nallowed_ip=%s/32\n", stockwg.Hex(wireguard.PublicKey(ours)), tunGateway)
	netlab.Run(t, "ip", "addr", "add", "192.0.2.4/24", "dev", "tap0")
	netlab.Run(t, "ip", "route", "replace", "192.0.2.0/24", "dev", "tap0", "src", "192.0.2.4") // before its source goes
	netlab.Run(t, "ip", "addr", "del", "192.0.2.3/24", "dev", "tap0")
	l.name("192.0.2.4")
	moved := time.Now()
	l.until("the name's new address", func(s wireguard.State) bool {
		return s.Peers[0].Endpoint == fmt.Sprintf("192.0.2.4:%d", tunPort) && connected(s)
	})
	t.Logf("followed the name after %v", time.Since(moved).Round(time.Second))
	l.through(radio, c) // still the same

	// Down is down, over a reboot; up is up, over a reboot.
	run(t, l.m, "gwctl wg down")
	off()
	if engine == wireguard.EngineKernel { // the reboots are TestWireGuard's
		l.up()
		l.until("a session", connected)
		l.through(radio, l.client())
		return
	}
	reboot(t, l.m, "gwctl reboot")
	await(t, l.m, "everything running", settled)
	off()
	l.up()
	l.until("a session", connected)
	reboot(t, l.m, "gwctl reboot")
	await(t, l.m, "everything running, the tunnel too", func(s api.Status) bool {
		return settled(s) && service(t, s, "wireguard").State == "running"
	})
	l.until("a session after a boot", connected)
	l.through(radio, l.client())
}

// What a tunnel has of its own on a 32 MiB box, however much comes: all the
// peers there can be send as fast as they can, others send handshakes with a
// right first code and junk, and the gateway sends, too. It comes in waves, behind each
// of which the board is asked: within one the host's packets leave its CPU to nobody.
func TestWireGuardFlood(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	const mostKiB, wave = 4096, 3 * time.Second
	waves := 12
	if soak {
		waves = 200
	}
	path, err := incumbentKernel()
	if err != nil {
		t.Fatal(err)
	}
	l := newSite(t, func(c *board.Config) { c.Kernel = path })
	l.install()
	private := run(t, l.m, "gwctl wg genkey")
	ours, err := conf.ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := wireguard.PublicKey(ours)
	var peers strings.Builder
	var flooders []*flooder
	for i := range conf.MaxPeers {
		f := &flooder{tun: tuntest.NewChannelTUN(), addr: fmt.Sprintf("10.9.0.%d", 100+i)}
		if f.peer, err = stockwg.Over(f.tun.TUN(), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.peer.Close)
		l.tell(f.peer, "public_key=%s\nallowed_ip=%s/32\nendpoint=%s:%d\n", stockwg.Hex(public), tunGateway, lanGateway, tunPort)
		fmt.Fprintf(&peers, "\n[Peer]\nPublicKey = %s\nAllowedIPs = %s/32\n", f.peer.Public, f.addr)
		flooders = append(flooders, f)
	}
	l.tunnelFile(private, peers.String())
	run(t, l.m, "gwctl config set wireguard.ADDRESS="+tunGateway+"/24")
	l.up()
	radio, client := wire(t, l.m), net.Conn(nil)
	if client, err = net.DialTimeout("tcp", net.JoinHostPort(lanGateway, strconv.Itoa(board.BridgePort)), patience); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before := status(t, l.m)
	own := func(s api.Status) uint64 { return service(t, s, "wireguard").Anon }
	t.Logf("at rest with %d peers: %d KiB of its own, %d KiB of the board available", len(flooders), own(before), before.Memory.Available)

	// Everybody has a session before others try to keep them from it.
	for _, f := range flooders {
		f.tun.Outbound <- datagram(netip.MustParseAddr(f.addr), netip.MustParseAddr(tunGateway), 8)
	}
	l.until("sixteen sessions", func(s wireguard.State) bool {
		return !slices.ContainsFunc(s.Peers, func(p wireguard.PeerState) bool { return !p.Connected })
	})
	end := make(chan struct{})
	var flooding sync.WaitGroup
	var packets, junk atomic.Int64
	var high sync.RWMutex // held for writing between the waves
	high.Lock()
	for _, f := range flooders {
		flooding.Go(func() { f.flood(end, &high, &packets) })
		flooding.Go(func() { f.drain(end) })
	}
	flooding.Go(func() { floodPort(t, end, &high, public, &junk) })
	run(t, l.m, "(nc -u -w 600 "+flooders[0].addr+" 9 </dev/zero >/dev/null 2>&1 &) ; true") // outward
	most, trips := uint64(0), 0
	for range waves {
		high.Unlock()
		wait(wave)
		high.Lock()
		most = max(most, own(status(t, l.m)))
		msg, got := fmt.Appendf(nil, "\x1aunder a flood %d", trips), make([]byte, 64)
		for _, way := range [2][2]net.Conn{{client, radio}, {radio, client}} {
			_ = way[1].SetReadDeadline(time.Now().Add(patience)) // of a socket that is open
			if _, err := way[0].Write(msg); err != nil {
				t.Fatal(err)
			}
			if n, err := io.ReadFull(way[1], got[:len(msg)]); err != nil || !bytes.Equal(got[:n], msg) {
				t.Fatalf("%q became %q: %v", msg, got[:n], err)
			}
		}
		trips++
	}
	close(end)
	high.Unlock()
	flooding.Wait()
	run(t, l.m, "killall nc")
	after := await(t, l.m, "quiet", settled)
	t.Logf("%d packets through the tunnel and %d at the port in %d waves of %v; %d round trips of the radio's; at most %d KiB of its own, %d afterwards; %d KiB of the board available",
		packets.Load(), junk.Load(), waves, wave, trips, most, own(after), after.Memory.Available)
	if packets.Load() == 0 || junk.Load() == 0 || most == 0 {
		t.Error("there was no flood")
	}
	if most > mostKiB {
		t.Errorf("the tunnel had %d KiB of its own, want at most %d", most, mostKiB)
	}
	for _, svc := range after.Services {
		if svc.Restarts != service(t, before, svc.Name).Restarts {
			t.Errorf("%s was restarted", svc.Name)
		}
	}
	var rx uint64
	for _, p := range l.show().Peers {
		rx += p.RxBytes
	}
	t.Logf("%d bytes came in", rx)
	if rx < 64<<10 { // sessions alone are some KiB
		t.Error("nothing came through the tunnel")
	}
	if out := run(t, l.m, "dmesg"); strings.Contains(out, "ut of memory") || strings.Contains(out, "allocation failure") {
		t.Errorf("memory ran out:\n%s", out)
	}
	run(t, l.m, "ping -c 1 "+lanHost)
}

// flooder is a stock peer without an interface.
type flooder struct {
	tun  *tuntest.ChannelTUN
	peer *stockwg.Peer
	addr string // in the tunnel
}

// flood sends UDP datagrams to a port where nobody listens, until end is closed.
func (f *flooder) flood(end <-chan struct{}, high *sync.RWMutex, sent *atomic.Int64) {
	packet := datagram(netip.MustParseAddr(f.addr), netip.MustParseAddr(tunGateway), 1392)
	for {
		high.RLock()
		select {
		case <-end:
			high.RUnlock()
			return
		case f.tun.Outbound <- slices.Clone(packet):
			sent.Add(1)
		}
		high.RUnlock()
	}
}

// drain takes what comes.
func (f *flooder) drain(end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		case <-f.tun.Inbound:
		}
	}
}

// datagram is an IPv4 packet with a UDP datagram of so many bytes.
func datagram(from, to netip.Addr, size int) []byte {
	p := make([]byte, 28+size)
	p[0], p[8], p[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	copy(p[12:], from.AsSlice())
	copy(p[16:], to.AsSlice())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum&0xffff+sum>>16))
	binary.BigEndian.PutUint16(p[20:], 9)
	binary.BigEndian.PutUint16(p[22:], 9)
	binary.BigEndian.PutUint16(p[24:], uint16(8+size))
	return p
}

// floodPort sends from many ports what needs no key of a peer: the beginning of
// handshakes whose first code (mac1, of the public key that anybody may know) is
// right, and what is nothing.
func floodPort(t *testing.T, end <-chan struct{}, high *sync.RWMutex, public conf.Key, sent *atomic.Int64) {
	key := blake2s.Sum256(append([]byte(device.WGLabelMAC1), public[:]...))
	var socks [32]net.Conn
	for i := range socks {
		c, err := net.Dial("udp", net.JoinHostPort(lanGateway, strconv.Itoa(tunPort)))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		socks[i] = c
	}
	b := make([]byte, 1472)
	for i := 0; ; i++ {
		select {
		case <-end:
			return
		default:
		}
		rand.Read(b[:device.MessageInitiationSize])
		n := len(b)
		switch i % 4 {
		case 0, 1: // of four
			copy(b, []byte{device.MessageInitiationType, 0, 0, 0})
			n = device.MessageInitiationSize
			mac, err := blake2s.New128(key[:])
			if err != nil {
				t.Error(err)
				return
			}
			mac.Write(b[:n-32])
			mac.Sum(b[n-32 : n-32])
		case 2:
			copy(b, []byte{device.MessageTransportType, 0, 0, 0})
		}
		high.RLock()
		if _, err := socks[i%len(socks)].Write(b[:n]); err == nil { // else nobody listened just now
			sent.Add(1)
		}
		high.RUnlock()
	}
}
