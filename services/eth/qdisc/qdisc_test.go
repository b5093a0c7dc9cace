package qdisc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"gwinit/internal/netdev/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }

var gateway = FQCodel{
	Limit: 1024, Flows: 128, Quantum: 300, Memory: 1 << 20,
	Target: 5 * time.Millisecond, Interval: 100 * time.Millisecond, ECN: true,
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What the gateway's kernel gets, byte for byte.
func TestGoldenSet(t *testing.T) {
	want := unhex(t, `
		00 000000 00000002 81960000 ffffffff 00000000
		000d 0001 66715f636f64656c00 000000
		003c 0002
			0008 0001 00001388
			0008 0002 00000400
			0008 0003 000186a0
			0008 0004 00000001
			0008 0005 00000080
			0008 0006 0000012c
			0008 0009 00100000`)
	if got := setMessage(binary.BigEndian, 2, gateway); !bytes.Equal(got, want) {
		t.Errorf("\n% x, want\n% x", got, want)
	}
	p := gateway
	p.ECN = false
	if got := setMessage(binary.BigEndian, 2, p); bytes.Count(got, unhex(t, "00080004 00000000")) != 1 {
		t.Errorf("without ECN: % x", got)
	}
}

// answer is what a big-endian kernel says of it afterwards: times are rounded
// to 1.024 us.
const answer = `
	00 000000 00000002 81960000 ffffffff 00000002
	000d 0001 66715f636f64656c00 000000
	0005 000c 00 000000
	004c 0002
		0008 0001 00001387
		0008 0002 00000400
		0008 0003 0001869f
		0008 0004 00000001
		0008 0006 0000012c
		0008 0008 00000040
		0008 0009 00100000
		0008 0005 00000080
		0008 0007 00000000
	0068 0007
		0014 0001 0000000100000002 00000003 00000000
		0018 0003 00000004 00000005 00000006 00000007 00000008
		002c 0004 00000000 000005ea 00000009 0000000a 0000000b 00000001 00000001 00000000 0000000c 0000000d
		000c 0008 0000000000000003`

func TestGoldenParse(t *testing.T) {
	b := unhex(t, answer)
	s, ok, err := parse(binary.BigEndian, 2, b)
	if !ok || err != nil {
		t.Fatalf("ok %v, %v", ok, err)
	}
	if s.Kind != Kind || s.Handle != Handle || !gateway.Same(s.FQCodel) {
		t.Errorf("%+v", s)
	}
	want := Stats{
		Bytes: 1<<32 + 2, Packets: 3, Length: 4, Backlog: 5, Drops: 6, Requeues: 7, Overlimits: 8,
		DropOverlimit: 9, Marked: 10, NewFlows: 11, MemoryUsed: 12,
	}
	if s.Stats != want {
		t.Errorf("%+v, want %+v", s.Stats, want)
	}
	if _, ok, err := parse(binary.BigEndian, 3, b); ok || err != nil {
		t.Errorf("another interface: ok %v, %v", ok, err)
	}
	b[12] = 0 // a class of it
	if _, ok, err := parse(binary.BigEndian, 2, b); ok || err != nil {
		t.Errorf("a discipline that is not the root: ok %v, %v", ok, err)
	}
	if _, _, err := parse(binary.BigEndian, 2, b[:19]); !errors.Is(err, errShort) {
		t.Errorf("a short message: %v", err)
	}
}

func TestSame(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*FQCodel)
		same   bool
	}{
		{"itself", func(*FQCodel) {}, true},
		{"rounded", func(p *FQCodel) { p.Target -= time.Microsecond; p.Interval -= time.Microsecond }, true},
		{"another target", func(p *FQCodel) { p.Target += 3 * time.Microsecond }, false},
		{"another interval", func(p *FQCodel) { p.Interval = 5 * time.Millisecond }, false},
		{"another quantum", func(p *FQCodel) { p.Quantum = 1514 }, false},
		{"another memory", func(p *FQCodel) { p.Memory = 32 << 20 }, false},
		{"other flows", func(p *FQCodel) { p.Flows = 1024 }, false},
		{"another limit", func(p *FQCodel) { p.Limit = 10240 }, false},
		{"no ECN", func(p *FQCodel) { p.ECN = false }, false},
	} {
		got := gateway
		tt.change(&got)
		if gateway.Same(got) != tt.same {
			t.Errorf("%s: same %v", tt.name, !tt.same)
		}
	}
}

// A real kernel: what it has is read, what it has not is told.
func TestKernel(t *testing.T) {
	netlab.Cable(t, "q0", "far0")
	netlab.Run(t, "ip", "link", "set", "q0", "up")
	link, err := net.InterfaceByName("q0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := System{}.Root(link.Index)
	if err != nil || s.Kind != "noqueue" || s.Handle != 0 {
		t.Fatalf("of a veth: %+v, %v; want noqueue", s, err)
	}
	netlab.Run(t, "tc", "qdisc", "add", "dev", "q0", "root", "handle", "5:", "tbf", "rate", "10mbit", "burst", "5kb", "latency", "50ms")
	s, err = System{}.Root(link.Index)
	if err != nil || s.Kind != "tbf" || s.Handle != 0x50000 {
		t.Errorf("with tbf: %+v, %v", s, err)
	}
	if err := (System{}).Clear(link.Index); err != nil {
		t.Error(err)
	}
	if err := (System{}).Clear(link.Index); err != nil {
		t.Errorf("of what is not there: %v", err)
	}
	// Twice, for a discipline that is there already; then with other flows,
	// which cannot be changed in place.
	for i, p := range []FQCodel{gateway, gateway, {Limit: 100, Flows: 16, Quantum: 1514, Memory: 1 << 19, Target: time.Millisecond, Interval: 20 * time.Millisecond}} {
		err := System{}.Set(link.Index, p)
		if errors.Is(err, ErrKind) {
			if s, err := (System{}).Root(link.Index); err != nil || s.Kind != "noqueue" {
				t.Errorf("a refusal left %+v, %v", s, err)
			}
			t.Skip("the kernel of this machine has no fq_codel; the end-to-end tests set it")
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err = System{}.Root(link.Index)
		if err != nil || s.Kind != Kind || s.Handle != Handle || !p.Same(s.FQCodel) {
			t.Errorf("%d: %+v, %v; want %+v", i, s, err, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(unhex(f, answer))
	f.Add(unhex(f, "00000000 00000002 81960000 ffffffff 00000002 0003 0001"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok, err := parse(binary.BigEndian, 2, b)
		if err == nil && ok && len(s.Kind) > len(b) {
			t.Errorf("kind %q of %d bytes", s.Kind, len(b))
		}
	})
}
