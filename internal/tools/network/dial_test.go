package network

import (
	"io"
	"net"
	"strings"
	"testing"

	"gwinit/internal/netdev/netlab"
)

func TestNC(t *testing.T) {
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		defer close(got)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			_, _ = c.Write([]byte("you said " + string(b)))
			c.Close()
			got <- string(b)
		}
	}()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	out := make(chan string)
	go func() {
		text, _, _ := call(t, "hello", "nc", host, port)
		out <- text
	}()
	if b := <-got; b != "hello" {
		t.Errorf("received %q", b)
	}
	if text := <-out; text != "you said hello" {
		t.Errorf("printed %q", text)
	}
	go func() { <-got }()
	if _, errs, status := call(t, "", "nc", "-z", host, port); status != 0 || !strings.Contains(errs, "is open") {
		t.Errorf("-z: status %d %q", status, errs)
	}
	l.Close()
	for range got {
	}
	if _, errs, status := call(t, "", "nc", "-w", "1", host, port); status != 1 || !strings.Contains(errs, "refused") {
		t.Errorf("closed port: status %d %q", status, errs)
	}
}

func TestNslookup(t *testing.T) {
	peer := netlab.Cable(t, "eth0", "srv0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	netlab.Run(t, "ip", "addr", "add", "10.6.0.2/24", "dev", "eth0")
	peer.Run("ip", "addr", "add", "10.6.0.1/24", "dev", "srv0")
	peer.Start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--no-resolv", "--no-hosts",
		"--pid-file="+t.TempDir()+"/pid", "--address=/z2m.lan/10.6.0.9", "--address=/z2m.lan/2001:db8::9",
		"--ptr-record=9.0.6.10.in-addr.arpa,z2m.lan", "--local=/lan/")
	waitUDP(t, peer, ":53 ")
	if out := must(t, "nslookup", "z2m.lan.", "10.6.0.1"); !strings.Contains(out, "\t10.6.0.9\n") || !strings.Contains(out, "\t2001:db8::9\n") {
		t.Errorf("%s", out)
	}
	if out := must(t, "nslookup", "10.6.0.9", "10.6.0.1:53"); out != "10.6.0.9\tz2m.lan.\n" {
		t.Errorf("%q", out)
	}
	if _, errs, status := call(t, "", "nslookup", "none.lan.", "10.6.0.1"); status != 1 || !strings.Contains(errs, "none.lan.: no such name") {
		t.Errorf("status %d %q", status, errs)
	}
}

func waitUDP(t *testing.T, p *netlab.Peer, part string) {
	t.Helper()
	p.Run("sh", "-c", "for i in $(seq 100); do ss -nlu | grep -q '"+part+"' && exit; sleep 0.05; done; exit 1")
}
