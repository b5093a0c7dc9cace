package dnssd

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

func name(t testing.TB, instance, rest string) Name {
	t.Helper()
	n, err := NewName(instance, rest)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNames(t *testing.T) {
	n := name(t, `Hall 2.1\a`, "_http._tcp.local")
	if got := n.String(); got != `Hall 2\.1\\a._http._tcp.local` {
		t.Errorf("String() = %s", got)
	}
	if !n.Equal(name(t, `HALL 2.1\A`, "_HTTP._tcp.Local")) || n.Equal(name(t, `Hall 2.2\a`, "_http._tcp.local")) {
		t.Error("Equal compares wrongly")
	}
	label, rest := n.Label()
	if label != `Hall 2.1\a` || !rest.Equal(name(t, "", "_http._tcp.local")) {
		t.Errorf("Label() = %q, %v", label, rest)
	}
	for _, bad := range []struct{ instance, rest string }{
		{"", ""},
		{"", "a..b"},
		{"", strings.Repeat("x", 64)},
		{strings.Repeat("x", 64), "local"},
		{"", strings.Repeat("x123456789.", 22) + "abcdefghijkl"},
	} {
		if _, err := NewName(bad.instance, bad.rest); err == nil {
			t.Errorf("%q, %q: no error", bad.instance, bad.rest)
		}
	}
	if n := name(t, "", strings.Repeat("x123456789.", 22)+"abcdefghijk"); len(n) != maxName {
		t.Errorf("the longest name has %d bytes", len(n))
	}
}

// A response as it is on the wire, in both directions.
func TestGoldenResponse(t *testing.T) {
	host := name(t, "", "box.local")
	inst := name(t, "box-1", "_ssh._tcp.local")
	var b Builder
	b.Begin(0, FlagResponse|FlagAuthoritative, false)
	for i, ok := range []bool{
		b.Record(Answers, &Record{name(t, "", "_ssh._tcp.local"), TypePTR, ClassIN, 4500, inst}),
		b.Record(Additionals, &Record{inst, TypeSRV, ClassIN | Flush, 120, DataSRV(22, host)}),
		b.Record(Additionals, &Record{inst, TypeTXT, ClassIN | Flush, 4500, DataTXT("a=b", Mark)}),
		b.Record(Additionals, &Record{host, TypeA, ClassIN | Flush, 120, DataA(netip.MustParseAddr("192.0.2.1"))}),
		b.Record(Additionals, &Record{host, TypeAAAA, ClassIN | Flush, 120, DataA(netip.MustParseAddr("2001:db8::1"))}),
		b.Record(Additionals, &Record{host, TypeNSEC, ClassIN | Flush, 120, DataNSEC(host, TypeA, TypeAAAA)}),
	} {
		if !ok {
			t.Errorf("record %d was not written", i)
		}
	}
	want := unhex(t, `
		0000 8400 0000 0001 0000 0005
		04 5f737368 04 5f746370 05 6c6f63616c 00  000c 0001 00001194 0008  05 626f782d31 c00c
		c027  0021 8001 00000078 000c  0000 0000 0016  03 626f78 c016
		c027  0010 8001 00001194 000e  03 613d62 09 6f733d6777696e6974
		c041  0001 8001 00000078 0004  c0000201
		c041  001c 8001 00000078 0010  20010db8000000000000000000000001
		c041  002f 8001 00000078 0008  c041 0004 40000008`)
	if !bytes.Equal(b.Bytes(), want) {
		t.Fatalf("wrote\n%x, want\n%x", b.Bytes(), want)
	}

	m, ok := Read(want)
	if !ok || !m.Response() || m.Truncated() || m.ID != 0 || m.Has(Questions) || !m.Has(Answers) {
		t.Fatalf("Read = %+v, %v", m, ok)
	}
	type row struct {
		section Section
		name    string
		typ     uint16
		class   uint16
		ttl     uint32
		data    string
	}
	rows := []row{
		{Answers, "_ssh._tcp.local", TypePTR, ClassIN, 4500, string(inst)},
		{Additionals, "box-1._ssh._tcp.local", TypeSRV, ClassIN | Flush, 120, "\x00\x00\x00\x00\x00\x16" + string(host)},
		{Additionals, "box-1._ssh._tcp.local", TypeTXT, ClassIN | Flush, 4500, "\x03a=b\x09os=gwinit"},
		{Additionals, "box.local", TypeA, ClassIN | Flush, 120, "\xc0\x00\x02\x01"},
		{Additionals, "box.local", TypeAAAA, ClassIN | Flush, 120, "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"},
		{Additionals, "box.local", TypeNSEC, ClassIN | Flush, 120, string(host) + "\x00\x04\x40\x00\x00\x08"},
	}
	var it Item
	for _, w := range rows {
		if !m.Next(&it) {
			t.Fatalf("no %v", w)
		}
		n, _ := m.AppendName(nil, &it)
		d, ok := m.AppendData(nil, &it)
		if got := (row{it.Section, Name(n).String(), it.Type, it.Class, it.TTL, string(d)}); got != w || !ok {
			t.Errorf("read %+v, want %+v", got, w)
		}
	}
	if m.Next(&it) {
		t.Errorf("one more: %+v", it)
	}
}

func TestLegacyAnswerKeepsNamesInSRV(t *testing.T) {
	host := name(t, "", "box.local")
	var b Builder
	b.Begin(7, FlagResponse, true)
	b.Question(host, TypeA, ClassIN)
	b.Record(Answers, &Record{name(t, "", "x.local"), TypeSRV, ClassIN, 10, DataSRV(22, host)})
	want := unhex(t, `0007 8000 0001 0001 0000 0000
		03 626f78 05 6c6f63616c 00 0001 0001
		01 78 c010 0021 0001 0000000a 0011 0000 0000 0016 03 626f78 05 6c6f63616c 00`)
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("wrote\n%x, want\n%x", b.Bytes(), want)
	}
}

// What does not fit, or comes in the wrong order, leaves the message as it was.
func TestBuilderRefuses(t *testing.T) {
	var b Builder
	b.Begin(0, 0, false)
	big := &Record{name(t, "", "a.local"), TypeTXT, ClassIN, 1, make([]byte, 700)}
	for range 2 {
		if !b.Record(Answers, big) {
			t.Fatal("no room for 1400 bytes")
		}
	}
	before := bytes.Clone(b.Bytes())
	if b.Record(Answers, big) || !bytes.Equal(b.Bytes(), before) {
		t.Error("a third is there, or a part of it")
	}
	if b.Question(name(t, "", "b.local"), TypeA, ClassIN) || !bytes.Equal(b.Bytes(), before) {
		t.Error("a question behind the answers")
	}
	if b.Record(Answers, &Record{big.Name, TypePTR, ClassIN, 1, []byte{9}}) || !bytes.Equal(b.Bytes(), before) {
		t.Error("a damaged name was written")
	}
	b.Begin(0, 0, false)
	if !b.Empty() || !b.Question(name(t, "", "b.local"), TypeA, ClassIN) || b.Empty() {
		t.Error("Begin does not begin")
	}
}

func TestDamagedMessages(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		items     int
	}{
		{"count without items", "0000 0000 0005 0000 0000 0000", 0},
		{"name without end", "0000 0000 0001 0000 0000 0000 05 6c6f63", 0},
		{"pointer cut", "0000 0000 0001 0000 0000 0000 c0", 0},
		{"label of 64", "0000 0000 0001 0000 0000 0000 40 00 0001 0001", 0},
		{"data longer than the message", "0000 8400 0000 0001 0000 0000 00 0001 0001 00000001 0004 010203", 0},
		{"good, then cut", "0000 0000 0002 0000 0000 0000 0161 00 0001 0001 0162 00 0001", 1},
		{"pointer to itself", "0000 0000 0001 0000 0000 0000 c00c 0001 0001", 1},
		{"pointer ahead", "0000 0000 0001 0000 0000 0000 c00e 0001 0001", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, ok := Read(unhex(t, tt.hex))
			if !ok {
				t.Fatal("refused")
			}
			var it Item
			n := 0
			for m.Next(&it) {
				n++
				if m.NameIs(&it, name(t, "", "b")) {
					t.Error("is b")
				}
			}
			if n != tt.items {
				t.Errorf("%d items, want %d", n, tt.items)
			}
		})
	}
	for _, bad := range []string{"", "0000 0000 0001 0000 0000", "0000 7800 0000 0000 0000 0000", "0000 8003 0000 0000 0000 0000"} {
		if _, ok := Read(unhex(t, bad)); ok {
			t.Errorf("%q was taken", bad)
		}
	}
	// Pointers to pointers: legal, but no more of them than a name has use for.
	chain := unhex(t, "0000 0000 0001 0000 0000 0000 00")
	for i := range 17 {
		chain = append(chain, 0xc0, byte(12+2*i-min(i, 1)))
	}
	if _, ok := appendName(nil, chain, len(chain)-4); !ok {
		t.Error("16 pointers are too many")
	}
	if _, ok := appendName(nil, chain, len(chain)-2); ok {
		t.Error("17 pointers are not too many")
	}
}

func FuzzMessage(f *testing.F) {
	var b Builder
	b.Begin(0, FlagResponse, false)
	b.Record(Answers, &Record{name(f, "x.y", "_ssh._tcp.local"), TypeSRV, ClassIN | Flush, 120, DataSRV(22, name(f, "", "a.local"))})
	b.Record(Additionals, &Record{name(f, "", "a.local"), TypeNSEC, ClassIN, 120, DataNSEC(name(f, "", "a.local"), TypeA)})
	f.Add(bytes.Clone(b.Bytes()))
	f.Add(unhex(f, "0000 0000 0001 0000 0000 0000 c00c 0001 0001"))
	f.Add(unhex(f, "0000 0000 0002 0000 0000 0000 0161 00 0001 0001 0162 c00c 0001 0001"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		m, ok := Read(msg)
		if !ok {
			return
		}
		var it Item
		for m.Next(&it) {
			n, ok := m.AppendName(nil, &it)
			if len(n) > maxName {
				t.Fatalf("a name of %d bytes", len(n))
			}
			if ok != m.NameIs(&it, n) {
				t.Fatalf("%x: name %q is itself: %v", msg, n, !ok)
			}
			d, good := m.AppendData(nil, &it)
			if !ok || !good || it.Section == Questions {
				continue
			}
			// What was read can be written, and reads the same again.
			var b Builder
			b.Begin(m.ID, m.Flags, false)
			if !b.Record(it.Section, &Record{n, it.Type, it.Class, it.TTL, d}) {
				if len(n)+len(d) < MaxBytes-100 {
					t.Fatalf("%x: not written", d)
				}
				continue
			}
			again, ok := Read(b.Bytes())
			var it2 Item
			if !ok || !again.Next(&it2) || it2.Type != it.Type || it2.Class != it.Class || it2.TTL != it.TTL || it2.Section != it.Section || !again.NameIs(&it2, n) {
				t.Fatalf("%x reads as %+v", b.Bytes(), it2)
			}
			if d2, ok := again.AppendData(nil, &it2); !ok || !Name(d2).Equal(d) && nameInside(it.Type) >= 0 || nameInside(it.Type) < 0 && !bytes.Equal(d, d2) {
				t.Fatalf("data %x reads as %x", d, d2)
			}
		}
	})
}
