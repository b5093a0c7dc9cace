package conf

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

const (
	keyA = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="
	keyB = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
	keyC = "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0="
)

func key(t *testing.T, s string) Key {
	t.Helper()
	k, err := ParseKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func prefixes(all ...string) (list []netip.Prefix) {
	for _, s := range all {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

// The example of wg(8) with what wg-quick(8) adds.
func TestParse(t *testing.T) {
	t.Parallel()
	got, problems := Parse("\ufeff# home\r\n[interface]\r\nAddress = 10.8.0.2/24, fd00:8::2/64\nPrivateKey = " + keyA + " # mine\nLISTENPORT=51820\nMTU = 1400\n" +
		"\n[Peer]\nPublicKey = " + keyB + "\nEndpoint = vpn.example.org:51820\nAllowedIPs = 10.8.0.1/24, 192.168.7.9\nAllowedIPs = ::ffff:10.9.0.0/112\nPersistentKeepalive = 25\n" +
		"[Peer]\nPublicKey = " + keyC + "\nPresharedKey = " + keyA + "\nEndpoint = [2001:db8::1]:7\nPersistentKeepalive = off\nAllowedIPs =\n")
	want := Config{
		PrivateKey: key(t, keyA), ListenPort: 51820, MTU: 1400, Addresses: prefixes("10.8.0.2/24", "fd00:8::2/64"),
		Peers: []Peer{
			{PublicKey: key(t, keyB), Endpoint: "vpn.example.org:51820", AllowedIPs: prefixes("10.8.0.0/24", "192.168.7.9/32", "10.9.0.0/16"), Keepalive: 25, Line: 8},
			{PublicKey: key(t, keyC), PresharedKey: key(t, keyA), Endpoint: "[2001:db8::1]:7", Line: 14},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(problems) != 0 {
		t.Errorf("problems: %v", problems)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	peer := "[Peer]\nPublicKey=" + keyB + "\n"
	for _, tt := range []struct {
		name, text string
		line       int
		want       string // part of the only problem
	}{
		{"a command", "[Interface]\nPostUp = iptables -A", 2, `PostUp: not used: it is a command`},
		{"name servers", "[Interface]\nDNS = 1.1.1.1", 2, `not used: name servers are those of eth0`},
		{"a short key", "[Interface]\nPrivateKey = YQ==", 2, `PrivateKey: not a key`},
		{"a port", "[Interface]\nListenPort = 65536", 2, `"65536" is not a number from 0 to 65535`},
		{"a sign", "[Interface]\nListenPort = +1", 2, `"+1" is not a number`},
		{"an MTU", "[Interface]\nMTU = 575", 2, `"575" is not a number from 576 to 65535`},
		{"an address", "[Interface]\nAddress = 10.0.0.1/33", 2, `"10.0.0.1/33" is neither`},
		{"no section", "MTU = 1400", 1, "before any [Interface]"},
		{"an unknown section", "[Peers]\nAllowedIPs = nonsense", 1, `"[Peers]" is neither`},
		{"an unknown key", "[Interface]\nPrivatKey = x", 2, "no such key"},
		{"no value", "[Interface]\nPrivateKey", 2, "no KEY = VALUE"},
		{"a peer without a key", "[Peer]\nAllowedIPs = 10.0.0.0/8", 1, "no PublicKey and is left out"},
		{"a peer twice", peer + peer, 3, "the same PublicKey as in line 1"},
		{"allowed twice", peer + "AllowedIPs=10.0.0.0/8\n[Peer]\nPublicKey=" + keyC + "\nAllowedIPs=10.1.0.0/8", 4, "10.0.0.0/8 is of the peer in line 1, too"},
		{"an endpoint without a port", peer + "Endpoint = example.org", 3, "is not HOST:PORT"},
		{"an endpoint with port 0", peer + "Endpoint = example.org:0", 3, "is not HOST:PORT"},
		{"an endpoint without brackets", peer + "Endpoint = 2001:db8::1:51820", 3, "is not HOST:PORT"},
		{"IPv4 in brackets", peer + "Endpoint = [10.0.0.1]:51820", 3, "is not HOST:PORT"},
		{"a long value", peer + "Endpoint = " + strings.Repeat("x", 100), 3, `xxx..."`},
		{"a secret on the wrong line", "[Interface]\n" + keyA, 2, "this line: there is no such key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, problems := Parse(tt.text)
			if len(problems) != 1 || problems[0].Line != tt.line || !strings.Contains(problems[0].Text, tt.want) {
				t.Errorf("problems %v, want one in line %d with %q", problems, tt.line, tt.want)
			}
		})
	}
}

// A peer that is told twice has its first form; the first 16 have room, and of
// one fault a thousand times some are told.
func TestLimits(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range MaxPeers + 2 {
		text.WriteString("[Peer]\nPublicKey = " + Key{byte(i), 1}.String() + "\n")
	}
	c, problems := Parse(text.String())
	if len(c.Peers) != MaxPeers || len(problems) != 2 || !strings.Contains(problems[0].Text, "more than 16 peers") {
		t.Errorf("%d peers, problems %v", len(c.Peers), problems)
	}
	if _, problems = Parse(strings.Repeat("nonsense\n", 1000)); len(problems) != maxProblems+1 {
		t.Errorf("%d problems are told, want %d", len(problems), maxProblems+1)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[Interface]\nPrivateKey=" + keyA + "\nAddress=10.0.0.1/24\n[Peer]\nPublicKey=" + keyB + "\nEndpoint=[::1]:5\nAllowedIPs=::/0,0.0.0.0/0\n")
	f.Add("[Peer]\n[Peer]\n=\n[\n\x00#")
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := Parse(text)
		if len(c.Peers) > MaxPeers || len(problems) > maxProblems+1 {
			t.Fatalf("%d peers, %d problems", len(c.Peers), len(problems))
		}
		for _, p := range problems {
			if p.Line < 1 || strings.ContainsAny(p.Text, "\n\x1b") {
				t.Fatalf("problem %+v", p)
			}
		}
		if c.MTU != 0 && (c.MTU < MinMTU || c.MTU > MaxMTU) {
			t.Fatalf("MTU %d", c.MTU)
		}
		seen := map[Key]bool{}
		for _, p := range c.Peers {
			if seen[p.PublicKey] {
				t.Fatal("a peer twice")
			}
			seen[p.PublicKey] = true
			if _, _, ok := SplitEndpoint(p.Endpoint); p.Endpoint != "" && !ok {
				t.Fatalf("endpoint %q", p.Endpoint)
			}
			for _, a := range p.AllowedIPs {
				if !a.IsValid() || a != a.Masked() || a.Addr().Is4In6() {
					t.Fatalf("allowed %v", a)
				}
			}
		}
	})
}
