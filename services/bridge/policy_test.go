//go:build linux

package bridge

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/handoff"
)

func TestSniff(t *testing.T) {
	tests := []struct {
		says string
		want verdict
	}{
		{"", undecided},
		{"S", undecided},
		{"SSH", undecided},
		{"SSH-", isSSH},
		{"SSH-2.0-OpenSSH_9.2", isSSH},
		{"SSHX", isOther},
		{"ssh-", isOther},
		{"\x1a\xc0\x38\xbc\x7e", isRadio},         // ASH: cancel and RST (UG101)
		{"\xc0\x38\xbc\x7e", isRadio},             // ASH: RST alone
		{"\x11\x1a\xc0", isRadio},                 // ASH behind an XON
		{"\x7e\x80\x01\x02\xea\xf0\x7e", isRadio}, // Spinel in HDLC
		{"\x14\x00\x0a", isRadio},                 // CPC
		// What people and tools say to a boot loader or a command line.
		{"\r\n", isOther},
		{"\n", isOther},
		{"\r\n\r", isOther},
		{"3", isOther},
		{"1", isOther},
		{"version\r\n", isOther},
		{"bootloader reboot\r\n", isOther},
		{"\x00", isOther},
		{"\x01\x01\xfe", isOther}, // an XMODEM block
		{"GET", isOther},
		{"GET / HTTP/1.1\r\n", isForeign},
		{"\x16\x03\x01\x02\x00\x01", isForeign},
		{"\r\n\r\n", isForeign},
	}
	for _, tt := range tests {
		if got := sniff([]byte(tt.says)); got != tt.want {
			t.Errorf("%q is %d, want %d", tt.says, got, tt.want)
		}
	}
	for _, f := range foreign {
		if len(f) > sniffBytes || sniff([]byte(f)) != isForeign || sniff([]byte(f+"\x1a\xc0")) != isForeign {
			t.Errorf("%q is not found to be foreign", f)
		}
	}
}

func TestStanding(t *testing.T) {
	const now = 100 * time.Second
	prefixes := func(all ...string) []netip.Prefix {
		p := []netip.Prefix{}
		for _, s := range all {
			p = append(p, netip.MustParsePrefix(s))
		}
		return p
	}
	onLink := func() ([]netip.Prefix, error) { return nil, nil }
	local, list := Options{OnLink: onLink}, Options{OnLink: onLink, Allow: prefixes("203.0.113.7/32", "fe80::/10", "10.1.0.0/16")}
	nobody := Options{OnLink: onLink, Allow: prefixes()}
	fresh := links{prefixes: prefixes("198.51.100.0/24", "2001:db8:1::/64"), at: now - linksFor + 1}
	old, none := fresh, links{at: never}
	old.at--
	tests := []struct {
		peer string
		o    Options
		on   links
		want standing
	}{
		{"127.0.0.1", local, none, inside},
		{"::1", local, none, inside},
		{"::ffff:127.0.0.1", nobody, none, inside},
		{"10.255.0.1", local, none, inside},
		{"172.31.0.1", local, none, inside},
		{"172.32.0.1", local, fresh, outside},
		{"192.168.178.2", local, none, inside},
		{"::ffff:192.168.178.2", local, none, inside},
		{"169.254.3.4", local, none, inside},
		{"fe80::1%2", local, none, inside},
		{"fd00::1", local, none, inside},
		{"2001:db8:1::5", local, fresh, inside},
		{"2001:db8:2::5", local, fresh, outside},
		{"198.51.100.9", local, fresh, inside},
		{"::ffff:198.51.100.9", local, fresh, inside},
		{"198.51.101.9", local, fresh, outside},
		{"100.64.0.1", local, fresh, outside},
		{"198.51.100.9", local, old, asking},
		{"198.51.100.9", local, none, asking},
		{"198.51.100.9", Options{}, fresh, outside},
		{"203.0.113.7", list, none, inside},
		{"203.0.113.8", list, fresh, outside},
		{"10.1.2.3", list, none, inside},
		{"10.2.2.3", list, none, outside},
		{"198.51.100.9", list, fresh, outside},
		{"fe80::1%2", list, none, inside},
		{"127.0.0.1", nobody, none, inside},
		{"10.1.2.3", nobody, none, outside},
	}
	for _, tt := range tests {
		if got := tt.o.standing(netip.MustParseAddr(tt.peer), &tt.on, now); got != tt.want {
			t.Errorf("%s, list %v, links %v: %d, want %d", tt.peer, tt.o.Allow, tt.on, got, tt.want)
		}
	}
}

// stranger is a listening address of this machine that is neither loopback nor
// private, added to the loopback interface for the test: what connects from it
// to it comes from there.
func stranger(t *testing.T, addr string) netip.Addr {
	t.Helper()
	if out, err := exec.Command("ip", "addr", "add", addr+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("ip addr add (needs root): %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "addr", "del", addr+"/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Errorf("ip addr del: %v: %s", err, out)
		}
	})
	return netip.MustParseAddr(addr)
}

// Who is on no network of the gateway has no radio, and may speak SSH.
func TestStrangers(t *testing.T) {
	tests := []struct {
		name   string
		addr   string
		onLink func() ([]netip.Prefix, error)
		allow  []netip.Prefix
		in     bool
		reason string
	}{
		{"outside", "203.0.113.61", func() ([]netip.Prefix, error) { return []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, nil }, nil, false, outsideLink},
		{"on a network", "203.0.113.62", func() ([]netip.Prefix, error) { return []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, nil }, nil, true, ""},
		{"networks not known", "203.0.113.63", func() ([]netip.Prefix, error) { return nil, unix.EACCES }, nil, false, outsideLink},
		{"listed", "203.0.113.64", nil, []netip.Prefix{netip.MustParsePrefix("203.0.113.64/32")}, true, ""},
		{"not listed", "203.0.113.65", nil, []netip.Prefix{netip.MustParsePrefix("203.0.113.64/32")}, false, outsideList},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := stranger(t, tt.addr)
			var path string
			g := start(t, func(g *gateway, o *Options) {
				o.Bind, o.OnLink, o.Allow = at, tt.onLink, tt.allow
				path = g.sshService(o)
			}).open()
			c := g.dial()
			write(t, c, []byte("\x1ahello"))
			if tt.in {
				if got := string(g.radioHears(6)); got != "\x1ahello" {
					t.Errorf("radio heard %q", got)
				}
				return
			}
			ends(t, c)
			g.radioHearsNothing()
			g.says("connection from "+c.LocalAddr().String(), tt.reason)
			s := g.status()
			if s.NotAllowed != 1 || s.Refused != 1 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], tt.addr+": "+tt.reason) {
				t.Errorf("%d not allowed, %d refused, warnings %q", s.NotAllowed, s.Refused, s.Warnings)
			}
			c = g.dial()
			write(t, c, []byte("SSH-2.0-x\r\n"))
			if got := string(readN(t, taken(t, path), 9)); got != "SSH-2.0-x" {
				t.Errorf("the SSH service got %q", got)
			}
		})
	}
}

// While the networks are looked up the loop sleeps, and a newcomer that is gone
// by then takes the radio from nobody.
func TestWaitForTheNetworks(t *testing.T) {
	at := stranger(t, "203.0.113.66")
	var asked atomic.Int32
	answer := make(chan struct{})
	g := start(t, func(_ *gateway, o *Options) {
		o.Bind = netip.IPv4Unspecified()
		o.OnLink = func() ([]netip.Prefix, error) {
			asked.Add(1)
			<-answer
			return []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, nil
		}
	}).open()
	defer close(answer)
	client := dial(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), g.b.Addr().Port()))
	g.active(client)
	c := dial(t, netip.AddrPortFrom(at, g.b.Addr().Port()))
	write(t, c, []byte("\x1ahello"))
	g.until("look-up", func() bool { return asked.Load() == 1 && g.status().Pending == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := -1
	if err := g.b.do(ctx, func(l *loop) { told, _ = rawPoll(l.fds[atOthers:l.used], 0) }); err != nil || told != 0 {
		t.Errorf("%v: poll reports %d of those that wait", err, told)
	}
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	g.until("end of the newcomer", func() bool { return g.status().Pending == 0 })
	g.active(client)
	if s := g.status(); s.Takeovers != 0 || s.TxBytes != 0 {
		t.Errorf("%d takeovers, %d bytes to the radio", s.Takeovers, s.TxBytes)
	}
}

// sshService makes the socket of an SSH service, and the bridge use it.
func (g *gateway) sshService(o *Options) (path string) {
	g.t.Helper()
	path = filepath.Join(g.root, handoff.SSH)
	o.SSH = func(fd int) error { return handoff.Send(path, fd) }
	fd, err := handoff.Listen(path)
	if err != nil {
		g.t.Fatal(err)
	}
	listeners[path] = os.NewFile(uintptr(fd), path)
	g.t.Cleanup(func() { listeners[path].Close(); delete(listeners, path) })
	return path
}

// listeners are the sockets of SSH services; tests here are not parallel.
var listeners = map[string]*os.File{}

// taken is the next connection that came over.
func taken(t *testing.T, path string) net.Conn {
	t.Helper()
	l, err := net.FileListener(listeners[path])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := l.(*net.UnixListener)
	u.SetDeadline(time.Now().Add(patience))
	c, err := handoff.Take(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// SSH goes over with every byte, in however many pieces and however late it
// comes, and neither the radio nor its client notice (INV 4, 7).
func TestSSHIsHandedOver(t *testing.T) {
	const banner = "SSH-2.0-OpenSSH_9.2\r\nand more"
	for cut := 0; cut < 6; cut++ {
		for _, late := range []bool{false, true} {
			for _, busy := range []bool{false, true} {
				t.Run(strconv.Itoa(cut)+" bytes first, late "+strconv.FormatBool(late)+", busy "+strconv.FormatBool(busy), func(t *testing.T) {
					var path string
					g := start(t, func(g *gateway, o *Options) {
						path = g.sshService(o)
						if !late {
							o.Limits.Claim = time.Minute
						}
					}).open()
					var x *net.TCPConn
					if busy {
						x = g.dial()
						write(t, x, []byte{0x1a})
						g.active(x)
						g.radioHears(1)
					}
					c := g.dial()
					if late && !busy {
						g.active(c) // it came in by silence
					}
					if cut > 0 {
						write(t, c, []byte(banner[:cut]))
					}
					if cut < 4 {
						g.radioHearsNothing()
					}
					write(t, c, []byte(banner[cut:]))
					over := taken(t, path)
					if got := string(readN(t, over, len(banner))); got != banner {
						t.Errorf("the SSH service got %q", got)
					}
					if over.RemoteAddr().String() != c.LocalAddr().String() {
						t.Errorf("it comes from %v, not %v", over.RemoteAddr(), c.LocalAddr())
					}
					write(t, over, []byte("answer"))
					if got := string(readN(t, c, 6)); got != "answer" {
						t.Errorf("the client got %q", got)
					}
					over.Close()
					ends(t, c)
					g.radioHearsNothing()
					s := g.status()
					if s.SSH != 1 || s.Takeovers != 0 || s.Refused != 0 || s.TxBytes != map[bool]uint64{true: 1}[busy] {
						t.Errorf("status %+v", s)
					}
					if busy {
						g.active(x)
					} else if s.Client != nil {
						t.Errorf("client %v", s.Client)
					}
				})
			}
		}
	}
}

// It is there whatever the radio does.
func TestSSHWithoutARadio(t *testing.T) {
	for name, change := range map[string]func(o *Options){
		"UART broken": func(o *Options) {
			o.Open = func(context.Context) (Port, func(), error) { return nil, nil, errors.New("no such device") }
		},
		"Thread mode": func(o *Options) { o.Unavailable = inThreadMode },
	} {
		t.Run(name, func(t *testing.T) {
			var path string
			g := start(t, func(g *gateway, o *Options) { path = g.sshService(o); change(o) })
			c := g.dial()
			write(t, c, []byte("SSH-2.0-x\r\n"))
			if got := string(readN(t, taken(t, path), 11)); got != "SSH-2.0-x\r\n" {
				t.Errorf("the SSH service got %q", got)
			}
			raw := g.dial()
			write(t, raw, []byte{0x1a})
			ends(t, raw)
		})
	}
}

// What cannot be handed over is closed, and said; nothing waits for it.
func TestSSHServiceIsFull(t *testing.T) {
	var path string
	g := start(t, func(g *gateway, o *Options) { path = g.sshService(o) }).open()
	x := g.client()
	for range handoff.Backlog { // more at once than there are slots
		write(t, g.dial(), []byte("SSH-2.0-x\r\n"))
	}
	g.until("hand-over", func() bool { return g.status().SSH == handoff.Backlog })
	c := g.dial()
	write(t, c, []byte("SSH-2.0-x\r\n"))
	ends(t, c)
	g.says("connection from "+c.LocalAddr().String(), "it speaks SSH: hand a connection over", handoff.ErrBusy.Error())
	for range handoff.Backlog {
		taken(t, path)
	}
	listeners[path].Close()
	c = g.dial()
	write(t, c, []byte("SSH-2.0-x\r\n"))
	ends(t, c)
	g.until("refusal", func() bool { return g.status().Refused == 2 })
	listeners[path], _ = os.Open(os.DevNull)
	g.active(x)
}

// tool runs a program against the port; its exit status does not matter.
func (g *gateway) tool(name string, args ...string) string {
	g.t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		g.t.Fatalf("%v: test/deps/deps.sh test", err)
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if ctx.Err() != nil {
		g.t.Fatalf("%s: %v\n%s", name, ctx.Err(), out)
	}
	g.t.Logf("%s: %v", name, err)
	return string(out)
}

// INV 4, 7: the tools that look at ports evict nobody and tell the radio
// nothing, whether somebody is on the line or not.
func TestProbingTools(t *testing.T) {
	for _, busy := range []bool{true, false} {
		g := start(t, func(g *gateway, o *Options) {
			o.Bind = netip.MustParseAddr("127.0.0.1")
			path := g.sshService(o)
			l, err := net.FileListener(listeners[path])
			if err != nil {
				t.Fatal(err)
			}
			context.AfterFunc(t.Context(), func() { l.Close() })
			go func() { // a server that hangs up on everybody
				for {
					c, err := handoff.Take(l.(*net.UnixListener))
					if err != nil {
						return
					}
					c.Close()
				}
			}()
		}).open()
		var c *net.TCPConn
		if busy {
			c = g.client()
		}
		port := strconv.Itoa(int(g.b.Addr().Port()))
		g.tool("ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-p", port, "127.0.0.1", "true")
		if s := g.status(); s.SSH != 1 {
			t.Errorf("%d SSH connections, want ssh's", s.SSH)
		}
		g.tool("ssh-keyscan", "-T", "2", "-p", port, "127.0.0.1")
		out := g.tool("nmap", "-n", "-Pn", "-sT", "-sV", "-p", port, "127.0.0.1")
		if !strings.Contains(out, port+"/tcp open") {
			t.Errorf("nmap said:\n%s", out)
		}
		g.radioHearsNothing()
		s := g.status()
		if s.TxBytes != 0 || s.Takeovers != 0 || s.Connects < 20 {
			t.Errorf("busy %v: status %+v", busy, s)
		}
		if busy {
			g.active(c)
		}
		// And the radio is there for who means it.
		next := g.dial()
		write(t, next, []byte{0x1a, 0xc0})
		if got := g.radioHears(2); string(got) != "\x1a\xc0" {
			t.Errorf("radio heard % x", got)
		}
		g.stop()
	}
}

// A client that came in by silence and turns out to be none.
func TestForeignAfterSilence(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
	ends(t, c)
	g.says(c.LocalAddr().String(), notForRadio)
	g.radioHearsNothing()
}

func TestTakeoverPolicy(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Takeover = "never" }).open()
	probe := g.client() // by silence: what has it keeps it from nobody
	first := g.dial()
	write(t, first, []byte{0x1a})
	ends(t, probe)
	g.says("client "+probe.LocalAddr().String(), "replaced by "+first.LocalAddr().String())
	g.radioHears(1)
	second := g.dial()
	write(t, second, []byte{0x1a})
	ends(t, second)
	g.says(second.LocalAddr().String(), first.LocalAddr().String()+" has the radio, and BRIDGE_TAKEOVER=never")
	g.radioHearsNothing()
	g.active(first)
	first.Close()
	third := g.dial()
	write(t, third, []byte{0x1a})
	g.active(third)
}

func TestContention(t *testing.T) {
	a, b, c := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	type step struct {
		at               time.Duration
		loser, winner    netip.Addr
		contention, news bool
	}
	tests := []struct {
		name  string
		steps []step
		text  string
	}{
		{"in turns", []step{{0, a, b, false, false}, {20 * time.Second, b, a, false, false}, {60 * time.Second, a, b, true, true}, {61 * time.Second, b, a, true, false}}, "192.0.2.1 and 192.0.2.2 take"},
		{"the other way round", []step{{0, b, a, false, false}, {1, a, b, false, false}, {2, b, a, true, true}}, "192.0.2.1 and 192.0.2.2 take"},
		{"too slow", []step{{0, a, b, false, false}, {20 * time.Second, b, a, false, false}, {60*time.Second + 1, a, b, false, false}, {80 * time.Second, b, a, true, true}}, "192.0.2.1"},
		{"three hosts", []step{{0, a, b, false, false}, {1, b, c, false, false}, {2, c, a, false, false}, {3, a, b, false, false}, {4, b, c, false, false}}, ""},
		{"three hosts in turns", []step{
			{0, a, b, false, false},
			{1, b, c, false, false},
			{2, c, a, false, false},
			{3, a, b, false, false},
			{4, b, c, false, false},
			{5, c, a, false, false},
			{6, a, b, true, true},
			{7, b, c, true, true},
			{8, c, a, true, true},
			{9, a, b, true, false},
			{10, b, c, true, false},
			{11, c, a, true, false},
		}, "192.0.2.1 and 192.0.2.3"},
		{"two programs on one host", []step{{0, a, a, false, false}, {1, a, a, false, false}, {2, a, a, true, true}}, "two programs on 192.0.2.1"},
		{"said again", []step{{0, a, b, false, false}, {1, b, a, false, false}, {2, a, b, true, true}, {11 * time.Minute, b, a, false, false}, {11*time.Minute + 1, a, b, false, false}, {11*time.Minute + 2, b, a, true, true}}, "192.0.2.1"},
		{"another pair is news", []step{{0, a, b, false, false}, {1, b, a, false, false}, {2, a, b, true, true}, {3, b, c, false, false}, {4, c, b, false, false}, {5, b, c, true, true}}, "192.0.2.2 and 192.0.2.3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			on := takeovers{seen: never}
			for i, s := range tt.steps {
				if c, n := on.add(s.loser, s.winner, s.at); c != s.contention || n != s.news {
					t.Errorf("step %d: %v, %v; want %v, %v", i, c, n, s.contention, s.news)
				}
			}
			if (on.seen != never) != (tt.text != "") || tt.text != "" && !strings.HasPrefix(on.text(), tt.text) {
				t.Errorf("seen %v: %s", on.seen, on.text())
			}
		})
	}
}

func TestContentionIsSaid(t *testing.T) {
	g := start(t, nil).open()
	var last *net.TCPConn
	for i := range 5 { // four takeovers
		c := g.dial()
		write(t, c, []byte{0x1a})
		g.active(c)
		g.radioHears(1)
		if last != nil {
			ends(t, last)
		}
		last = c
		if s := g.status(); len(s.Warnings) != map[bool]int{true: 1}[i >= 3] || s.Contentions != uint64(max(0, i-2)) {
			t.Errorf("after %d: %d, %q", i, s.Contentions, s.Warnings)
		}
	}
	said := 0
	for _, l := range g.lines() {
		if strings.HasPrefix(l, "warning: two programs on ::1 take the radio from each other in turns") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times", said)
	}
}

// Clients that come and go without end leave the log readable.
func TestSessionLines(t *testing.T) {
	b := budget{lines: sessionLines, every: sessionLineEvery}
	var said []string
	log := func(line string) { said = append(said, line) }
	now := time.Hour
	for range 100 {
		b.log(log, "x", now)
	}
	if len(said) != sessionLines {
		t.Fatalf("%d lines at once, want %d", len(said), sessionLines)
	}
	b.log(log, "y", now+sessionLineEvery-1)
	if len(said) != sessionLines {
		t.Fatalf("a line too early: %q", said[sessionLines:])
	}
	b.log(log, "z", now+sessionLineEvery)
	b.log(log, "z", now+sessionLineEvery)
	if len(said) != sessionLines+1 || said[sessionLines] != "z (and 61 more since the last such line)" {
		t.Fatalf("after one interval %q", said[sessionLines:])
	}
	said = nil
	for range 2 * sessionLines { // after a long time, no more than at first
		b.log(log, "x", now+time.Hour)
	}
	if len(said) != sessionLines || said[0] != "x (and 1 more since the last such line)" {
		t.Errorf("%d lines after an hour, the first %q", len(said), said[0])
	}
}

// A crowd of newcomers is taken slowly while there is a client, which is not to pay
// for them, and at once while there is none. Nobody is left out.
func TestCrowd(t *testing.T) {
	const crowd = crowdAtOnce + 24
	for _, busy := range []bool{true, false} {
		t.Run("busy "+strconv.FormatBool(busy), func(t *testing.T) {
			g := start(t, func(g *gateway, o *Options) { g.sshService(o) }).open()
			before := uint64(0)
			if busy {
				x := g.client()
				defer g.active(x)
				before = g.status().Connects
			}
			began := time.Now()
			for range crowd {
				write(t, g.dial(), []byte("SSH-2.0-x\r\n"))
			}
			g.until("all of them", func() bool { return g.status().Connects == before+crowd })
			took := time.Since(began)
			// Those behind the first have waited for their turn.
			if least := (crowd - crowdAtOnce - 2) * crowdEvery; busy && took < least {
				t.Errorf("%d were taken within %v, want %v or more", crowd, took, least)
			}
			if !busy && g.status().Client != nil {
				t.Error("one of them became the client")
			}
		})
	}
	// What is found by a loop of its own, with the clock as an argument.
	l := &loop{}
	l.client.fd = -1
	for range 1000 {
		if l.crowded(time.Second) || l.acceptAt != 0 {
			t.Fatal("somebody waits although there is no client")
		}
		l.crowd += crowdEvery
	}
	l.crowd, l.client.fd = 0, 3
	taken := 0
	for now := time.Duration(0); now < 10*time.Second; now += time.Millisecond {
		for !l.crowded(now) {
			l.crowd += crowdEvery
			taken++
		}
		if wait := l.acceptAt - now; wait <= 0 || wait > crowdEvery+1 {
			t.Fatalf("at %v it is to wait for %v", now, wait)
		}
	}
	if want := crowdAtOnce + int(10*time.Second/crowdEvery); taken < want-2 || taken > want+1 {
		t.Errorf("%d were taken in 10 s, want %d", taken, want)
	}
}
