package dhcp

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

var golden = Config{MAC: [6]byte{0x02, 0x12, 0x34, 0x56, 0x78, 0x9a}, Hostname: "gw"}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// unhex reads bytes in groups; ".N" is N zero bytes.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	var out []byte
	for f := range strings.FieldsSeq(s) {
		if n, ok := strings.CutPrefix(f, "."); ok {
			zeros := 0
			for _, c := range n {
				zeros = zeros*10 + int(c-'0')
			}
			out = append(out, make([]byte, zeros)...)
			continue
		}
		b, err := hex.DecodeString(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

// Written by hand from RFC 2131 figure 1 and RFC 2132, so that a CPU of the
// other byte order is found out.
func TestMessageBytes(t *testing.T) {
	const (
		chaddr = "0212345678 9a .10 .64 .128 63825363"
		same   = "3902 05c0 3d07 01 02123456789a ff"
		list   = "370e 0103060c0f1a1c2a33363a3b7779"
	)
	tests := []struct {
		name string
		q    question
		want string
	}{
		{
			"discover",
			question{kind: dhcpv4.MessageTypeDiscover, xid: 0x01020304, secs: 0x0506},
			"01010600 01020304 0506 0000 .16 " + chaddr + " 0c02 6777 3501 01 " + list + same,
		},
		{
			"request of an offer",
			question{kind: dhcpv4.MessageTypeRequest, xid: 0xfffefdfc, want: addr("10.0.0.50"), server: addr("10.0.0.1")},
			"01010600 fffefdfc 0000 0000 .16 " + chaddr + " 0c02 6777 3204 0a000032 3501 03 3604 0a000001 " + list + same,
		},
		{
			"renewal",
			question{kind: dhcpv4.MessageTypeRequest, xid: 1, ciaddr: addr("10.0.0.50")},
			"01010600 00000001 0000 0000 0a000032 .12 " + chaddr + " 0c02 6777 3501 03 " + list + same,
		},
		{
			"decline",
			question{kind: dhcpv4.MessageTypeDecline, xid: 0x01020304, want: addr("10.0.0.50"), server: addr("10.0.0.1")},
			"01010600 01020304 0000 0000 .16 " + chaddr + " 3204 0a000032 3501 04 3604 0a000001 3d07 01 02123456789a ff",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := unhex(t, strings.NewReplacer("7779", "7779 ", "63825363 ", "63825363 ").Replace(tt.want))
			got := golden.build(tt.q)
			if len(got) != 300 { // RFC 1542 section 2.1: what a BOOTP relay expects
				t.Errorf("%d bytes", len(got))
			}
			if head := got[:min(len(got), len(want))]; !bytes.Equal(head, want) {
				t.Errorf("got\n%x\nwant\n%x", head, want)
			}
			if rest := bytes.Trim(got[len(want):], "\x00"); len(rest) != 0 {
				t.Errorf("after the end: %x", rest)
			}
		})
	}
}

func TestFrameBytes(t *testing.T) {
	got := broadcastFrame([]byte{1, 2, 3})
	// RFC 791 figure 4 and RFC 768, the sums by hand:
	// 4510+001f+4011+ffff+ffff = 2853e, folded 8540, inverted 7abf;
	// ffff+ffff+0011+000b+0044+0043+000b+0102+0300 = 204ae, folded 04b0,
	// inverted fb4f.
	want := unhex(t, "4510001f 00000000 4011 7abf 00000000 ffffffff 0044 0043 000b fb4f 010203")
	if !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func TestPayload(t *testing.T) {
	answer := func() []byte {
		f := broadcastFrame([]byte("hello"))
		f[21], f[23] = serverPort, clientPort // the sum of the two is what it was
		return f
	}
	tests := []struct {
		name    string
		change  func([]byte) []byte
		pending bool
		ok      bool
	}{
		{"good", func(b []byte) []byte { return b }, false, true},
		{"padded by the hardware", func(b []byte) []byte { return append(b, 0, 0, 0) }, false, true},
		{"no UDP checksum", func(b []byte) []byte { b[26], b[27] = 0, 0; return b }, false, true},
		{"UDP checksum wrong", func(b []byte) []byte { b[27]++; return b }, false, false},
		{"UDP checksum pending", func(b []byte) []byte { b[27]++; return b }, true, true},
		{"IP checksum wrong", func(b []byte) []byte { b[8]--; return b }, false, false},
		{"cut", func(b []byte) []byte { return b[:30] }, false, false},
		{"not IPv4", func(b []byte) []byte { b[0] = 0x65; return b }, false, false},
		{"header of 4 bytes", func(b []byte) []byte { b[0] = 0x41; return b }, false, false},
		{"TCP", func(b []byte) []byte { b[9] = 6; return resum(b) }, false, false},
		{"a fragment", func(b []byte) []byte { b[6] = 0x20; return resum(b) }, false, false},
		{"to another port", func(b []byte) []byte { b[23]++; return b }, true, false},
		{"UDP longer than the packet", func(b []byte) []byte { b[25]++; return b }, true, false},
		{"empty", func([]byte) []byte { return nil }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			msg, from, err := payload(tt.change(answer()), tt.pending)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v", err)
			}
			if tt.ok && (string(msg) != "hello" || from != addr("0.0.0.0")) {
				t.Errorf("%q from %v", msg, from)
			}
		})
	}
}

// resum sets the IP checksum right again.
func resum(b []byte) []byte {
	b[10], b[11] = 0, 0
	s := ^onesSum(0, b[:20])
	b[10], b[11] = byte(s>>8), byte(s)
	return b
}

func TestChecksumOddLength(t *testing.T) {
	// RFC 1071 section 3's example, with one byte more.
	if got := onesSum(0, []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != 0xddf2 {
		t.Errorf("%04x", got)
	}
	if got := onesSum(0, []byte{0x00, 0x01, 0xf2}); got != 0xf201 {
		t.Errorf("%04x", got)
	}
}

func TestHostnameIsCut(t *testing.T) {
	cfg := golden
	cfg.Hostname = strings.Repeat("x", 100)
	m, err := dhcpv4.FromBytes(cfg.build(question{kind: dhcpv4.MessageTypeDiscover}))
	if err != nil || len(m.HostName()) != 63 {
		t.Errorf("host name of %d bytes, %v", len(m.HostName()), err)
	}
	cfg.Hostname = ""
	m, err = dhcpv4.FromBytes(cfg.build(question{kind: dhcpv4.MessageTypeDiscover}))
	if err != nil || m.Options.Has(dhcpv4.OptionHostName) {
		t.Errorf("an empty host name is sent, %v", err)
	}
}

// Options that stand where a boot server's name and file would (option 52), and
// continue there.
func TestOverload(t *testing.T) {
	message := func(which byte, file, sname string) []byte {
		q := question{kind: dhcpv4.MessageTypeOffer, xid: 7, server: addr("10.0.0.1")}
		m, err := dhcpv4.FromBytes(golden.build(q))
		if err != nil {
			t.Fatal(err)
		}
		m.OpCode = dhcpv4.OpcodeBootReply
		m.YourIPAddr = []byte{10, 0, 0, 50}
		m.Options = dhcpv4.Options{
			53: {byte(dhcpv4.MessageTypeOffer)}, 54: {10, 0, 0, 1}, 1: {255, 255, 255, 0}, 52: {which},
			119: []byte("\x03la"),
		}
		b := m.ToBytes()
		copy(b[108:236], file)
		copy(b[44:108], sname)
		return b
	}
	const file, sname = "\x03\x04\x0a\x00\x00\x09\x77\x01n\xff\x01\x04junk", "\x77\x01\x00\x06\x04\x0a\x00\x00\x08\xff"
	for _, tt := range []struct {
		name        string
		which       byte
		file, sname string
		want        Lease
	}{
		{"none", 0, file, sname, Lease{}},
		{"file", 1, file, sname, Lease{Routers: []netip.Addr{addr("10.0.0.9")}, Search: []string{"lan"}}},
		{"sname", 2, file, "\x06\x04\x0a\x00\x00\x08\xff", Lease{DNS: []netip.Addr{addr("10.0.0.8")}}},
		{"both, file first", 3, file, sname, Lease{Routers: []netip.Addr{addr("10.0.0.9")}, DNS: []netip.Addr{addr("10.0.0.8")}, Search: []string{"lan"}}},
		{"nothing in them", 3, "", "", Lease{}},
		{"without an end", 1, "\x03\x04\x0a\x00\x00\x09\x06\x74" + strings.Repeat("\x0a", 116) + "\x00\x00\x00\x00", "", Lease{
			Routers: []netip.Addr{addr("10.0.0.9")}, DNS: slices.Repeat([]netip.Addr{addr("10.10.10.10")}, 8),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := golden.parse(message(tt.which, tt.file, tt.sname), 7)
			if err != nil {
				t.Fatal(err)
			}
			l, err := parseLease(m)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(l.Routers, tt.want.Routers) || !slices.Equal(l.DNS, tt.want.DNS) || !slices.Equal(l.Search, tt.want.Search) {
				t.Errorf("routers %v, DNS %v, search %q", l.Routers, l.DNS, l.Search)
			}
		})
	}
	for which, fields := range map[byte][2]string{1: {strings.Repeat("\x00", 126) + "\x03\x04", ""}, 2: {"", "\x06\x7f"}} {
		if _, err := golden.parse(message(which, fields[0], fields[1]), 7); err == nil {
			t.Errorf("field %d with an option that is cut is taken", which)
		}
	}
}

// FuzzPayload: whatever arrives, what comes out lies inside of it.
func FuzzPayload(f *testing.F) {
	f.Add(broadcastFrame([]byte("hello")), false)
	f.Add([]byte{0x45, 0, 0, 28, 19: 0}, true)
	f.Fuzz(func(t *testing.T, b []byte, pending bool) {
		msg, from, err := payload(b, pending)
		if err == nil && (len(msg) > len(b)-ipHeaderBytes-udpHeaderBytes || !from.Is4()) {
			t.Errorf("%d bytes from %v out of %d", len(msg), from, len(b))
		}
	})
}

// FuzzLease: whatever a server says, a lease that is accepted can be used.
func FuzzLease(f *testing.F) {
	q := question{kind: dhcpv4.MessageTypeRequest, xid: 7, want: addr("10.0.0.50"), server: addr("10.0.0.1")}
	m, err := dhcpv4.FromBytes(golden.build(q))
	if err != nil {
		f.Fatal(err)
	}
	m.OpCode = dhcpv4.OpcodeBootReply
	m.YourIPAddr = []byte{10, 0, 0, 50}
	f.Add(m.ToBytes())
	m.Options[1] = []byte{255, 255, 255, 0}
	m.Options[3] = []byte{10, 0, 0, 1, 10, 0, 0, 2}
	m.Options[15] = []byte("lan")
	m.Options[51] = []byte{0, 0, 14, 16}
	m.Options[119] = []byte{1, 'a', 3, 'l', 'a', 'n', 0, 1, 'b', 0xc0, 2}
	m.Options[121] = []byte{0, 10, 0, 0, 9, 16, 172, 16, 0, 0, 0, 0}
	f.Add(m.ToBytes())
	m.Options[52] = []byte{3}
	m.BootFileName, m.ServerHostName = "\x03\x04\x0a\x01\x01\x09\xff", "\x77\x01n\xff"
	f.Add(m.ToBytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := golden.parse(b, 7)
		if err != nil {
			return
		}
		_ = nakText(m)
		l, err := parseLease(m)
		if err != nil {
			return
		}
		if !l.Addr.IsValid() || !l.Server.Is4() || l.Duration < minLease || l.T1 <= 0 || l.T1 > l.T2 || l.T2 > l.Duration {
			t.Errorf("lease %+v", l)
		}
		for _, name := range append(l.Search, l.Domain) {
			if strings.ContainsAny(name, " \t\r\n#;") {
				t.Errorf("name %q", name)
			}
		}
		for _, r := range l.Routes {
			if r.Dst != r.Dst.Masked() {
				t.Errorf("route %v", r)
			}
		}
	})
}
