package nl

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/netdev/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var testKey = [32]byte{0: 0xaa, 31: 0x55}

const testKeyHex = "aa 000000000000000000000000000000000000000000000000000000000000 55"

// The bytes as the kernel of a big-endian box reads them, by its headers.
func TestGoldenBigEndian(t *testing.T) {
	t.Parallel()
	o := binary.BigEndian
	for name, tt := range map[string]struct {
		m    *message
		want string
	}{
		"a link": {addLink(o, "wg0", "wireguard"), `
			0000003c 0010 0605 00000001 00000000
			00 00 0000 00000000 00000000 00000000
			0008 0003 77673000
			0014 8012 000e 0001 77697265677561726400 0000`},
		"a link up": {setLink(o, 7, 1420), `
			00000030 0010 0005 00000001 00000000
			00 00 0000 00000007 00000001 00000001
			0008 0004 0000058c
			0008 000d 00000040`},
		"a link's end": {delLink(o, 7), `
			00000020 0011 0005 00000001 00000000
			00 00 0000 00000007 00000000 00000000`},
		"an address": {addr(o, true, 7, netip.MustParsePrefix("10.8.0.2/24")), `
			00000028 0014 0505 00000001 00000000
			02 18 00 00 00000007
			0008 0002 0a080002
			0008 0001 0a080002`},
		"a route": {route(o, true, 7, netip.MustParsePrefix("fd00:8::/64")), `
			00000038 0018 0605 00000001 00000000
			0a 40 00 00 fe 04 fd 01 00000000
			0014 0001 fd000008000000000000000000000000
			0008 0004 00000007`},
		"the family": {getFamily(o, "wireguard"), `
			00000024 0010 0005 00000001 00000000
			03 01 0000
			000e 0002 77697265677561726400 0000`},
		"a peer": {setDevice(o, 0x1c, Device{Index: 7, SetPort: true, ListenPort: 51820, PrivateKey: testKey, Peers: []Peer{{
			PublicKey: testKey, Keepalive: 25, Endpoint: netip.MustParseAddrPort("192.0.2.2:51820"), AllowedIPs: []netip.Prefix{netip.MustParsePrefix("10.8.0.0/24")},
		}}}), `
			000000dc 001c 0005 00000001 00000000
			01 01 0000
			0008 0001 00000007
			0024 0003 ` + testKeyHex + `
			0006 0006 ca6c 0000
			0094 8008
			 0090 8000
			  0024 0001 ` + testKeyHex + `
			  0008 0003 00000002
			  0024 0002 0000000000000000000000000000000000000000000000000000000000000000
			  0014 0004 0002 ca6c c0000202 0000000000000000
			  0006 0005 0019 0000
			  0020 8009
			   001c 8000
			    0006 0001 0002 0000
			    0008 0002 0a080000
			    0005 0003 18 000000`},
		"a peer's end": {setDevice(o, 0x1c, Device{Index: 7, Peers: []Peer{{PublicKey: testKey, Remove: true}}}), `
			00000050 001c 0005 00000001 00000000
			01 01 0000
			0008 0001 00000007
			0034 8008 0030 8000
			0024 0001 ` + testKeyHex + `
			0008 0003 00000001`},
	} {
		if got, want := tt.m.done(1), unhex(t, tt.want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %x\nwant %x", name, got, want)
		}
	}
}

// deviceAnswer is what a kernel tells of a device, of which only one peer's
// state is not what TestGoldenBigEndian fixes the form of.
func deviceAnswer(o Order, more bool) []byte {
	m := &message{o: o, b: []byte{0, 1, 0, 0}}
	m.attrU32(deviceIfindex, 7)
	m.attr(devicePrivateKey, testKey[:])
	m.attrU16(deviceListenPort, 51820)
	m.nest(devicePeers, func() {
		m.nest(0, func() {
			m.attr(peerPublicKey, testKey[:])
			if !more {
				m.attr(peerEndpoint, m.sockaddr(netip.MustParseAddrPort("[2001:db8::1]:51820")))
				m.attrU16(peerKeepalive, 25)
				m.attr(peerLastHandshake, o.AppendUint64(o.AppendUint64(nil, 1700000000), 5))
				m.attr(peerRxBytes, o.AppendUint64(nil, 1<<32+2))
				m.attr(peerTxBytes, o.AppendUint64(nil, 3))
			}
			m.nest(peerAllowedIPs, func() {
				m.nest(0, func() {
					m.attrU16(allowedFamily, unix.AF_INET)
					m.attr(allowedAddr, []byte{10, 8, b2i(more), 0})
					m.attrU8(allowedMask, 24)
				})
			})
		})
	})
	return m.b
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// A device in two messages, the second of which goes on with the same peer, in
// both byte orders.
func TestParseDevice(t *testing.T) {
	t.Parallel()
	for _, o := range []Order{binary.BigEndian, binary.LittleEndian} {
		var d Device
		for _, more := range []bool{false, true} {
			if err := parseDevice(o, deviceAnswer(o, more), &d); err != nil {
				t.Fatal(err)
			}
		}
		want := Device{Index: 7, ListenPort: 51820, Peers: []Peer{{
			PublicKey: testKey, Endpoint: netip.MustParseAddrPort("[2001:db8::1]:51820"), Keepalive: 25,
			AllowedIPs:    []netip.Prefix{netip.MustParsePrefix("10.8.0.0/24"), netip.MustParsePrefix("10.8.1.0/24")},
			LastHandshake: time.Unix(1700000000, 5), RxBytes: 1<<32 + 2, TxBytes: 3,
		}}}
		if !reflect.DeepEqual(d, want) {
			t.Errorf("%v\n got %+v\nwant %+v", o, d, want)
		}
	}
}

// What ends an answer, and what does not.
func TestAnswer(t *testing.T) {
	t.Parallel()
	o := binary.BigEndian
	one := "00000018 0020 0002 00000001 00000000 0102030405060708 "
	for name, tt := range map[string]struct {
		b    string
		done bool
		n    int
		err  error
	}{
		"an acknowledgement":   {b: "00000014 0002 0000 00000001 00000000 00000000", done: true},
		"an error":             {b: "00000014 0002 0000 00000001 00000000 ffffffef", done: true, err: unix.EEXIST},
		"the end of a dump":    {b: one + one + "00000014 0003 0002 00000001 00000000 00000000", done: true, n: 2},
		"one that goes on":     {b: one, n: 1},
		"of another question":  {b: "00000014 0002 0000 00000002 00000000 ffffffef"},
		"longer than it is":    {b: "00000018 0002 0000 00000001 00000000 00000000", done: true, err: ErrMalformed},
		"shorter than can be":  {b: "0000000f 0002 0000 00000001 00000000", done: true, err: ErrMalformed},
		"an error without one": {b: "00000010 0002 0000 00000001 00000000", done: true, err: ErrMalformed},
	} {
		done, n, err := answer(o, unhex(t, tt.b), 1, func([]byte) error { return nil })
		if done != tt.done || n != tt.n || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, %d, %v; want %v, %d, %v", name, done, n, err, tt.done, tt.n, tt.err)
		}
	}
	if id, err := parseFamily(o, unhex(t, "01 02 0000 0006 0001 001c 0000")); id != 0x1c || err != nil {
		t.Errorf("family %#x, %v", id, err)
	}
	if _, err := parseFamily(o, unhex(t, "01 02 0000")); !errors.Is(err, ErrMalformed) {
		t.Errorf("no family: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(deviceAnswer(binary.BigEndian, false))
	f.Add(deviceAnswer(binary.LittleEndian, true))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, o := range []Order{binary.BigEndian, binary.LittleEndian} {
			var d Device
			if err := parseDevice(o, b, &d); err != nil && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			for _, p := range d.Peers {
				for _, a := range p.AllowedIPs {
					if !a.IsValid() {
						t.Fatalf("prefix %v", a)
					}
				}
			}
			_, _ = parseFamily(o, b)
			_, _, _ = answer(o, b, 1, func([]byte) error { return nil })
		}
	})
}

// The running kernel takes what the golden bytes are for in its own order.
func TestKernel(t *testing.T) {
	l, err := AddLink("test0", "bridge")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AddLink("test0", "bridge"); !errors.Is(err, unix.EEXIST) {
		t.Errorf("the same again: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(l.Up(1400))
	for _, p := range []string{"10.8.0.2/24", "fd00:8::2/64"} {
		must(l.AddAddr(netip.MustParsePrefix(p)))
	}
	for _, p := range []string{"10.9.0.0/16", "fd00:9::/48"} {
		must(l.AddRoute(netip.MustParsePrefix(p)))
		if err := l.AddRoute(netip.MustParsePrefix(p)); !errors.Is(err, unix.EEXIST) {
			t.Errorf("the same route again: %v", err)
		}
	}
	text := netlab.Run(t, "ip", "addr", "show", "dev", "test0") + netlab.Run(t, "ip", "route") + netlab.Run(t, "ip", "-6", "route")
	for _, want := range []string{"mtu 1400", "qlen 64", "UP", "10.8.0.2/24", "fd00:8::2/64", "10.9.0.0/16 dev test0 proto static scope link", "fd00:9::/48 dev test0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	must(l.DelRoute(netip.MustParsePrefix("10.9.0.0/16")))
	must(l.DelRoute(netip.MustParsePrefix("fd00:9::/48")))
	must(l.DelAddr(netip.MustParsePrefix("10.8.0.2/24")))
	must(l.DelAddr(netip.MustParsePrefix("fd00:8::2/64")))
	text = netlab.Run(t, "ip", "addr", "show", "dev", "test0") + netlab.Run(t, "ip", "route") + netlab.Run(t, "ip", "-6", "route")
	for _, gone := range []string{"10.8.0.2", "fd00:8::2", "10.9.0.0", "fd00:9::"} {
		if strings.Contains(text, gone) {
			t.Errorf("%q is still in\n%s", gone, text)
		}
	}
	must(l.Delete())
	if _, err := FindLink("test0"); !errors.Is(err, unix.ENODEV) {
		t.Errorf("after its end: %v", err)
	}
	// A kernel without WireGuard says so in these ways.
	if _, err := os.Stat("/sys/module/wireguard"); err != nil {
		if _, err := AddLink("test1", "wireguard"); !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("no tunnel: %v", err)
		}
		if _, err := Family(); !errors.Is(err, unix.ENOENT) {
			t.Errorf("no family: %v", err)
		}
	}
}
