package pcapng

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
)

// packet is what a reader finds.
type packet struct {
	us      int64
	flags   uint32
	data    string
	comment string
}

// parse reads a file as the specification says, and is strict about it.
func parse(t *testing.T, p []byte) (application, name string, linkType uint16, packets []packet) {
	t.Helper()
	le := binary.LittleEndian
	options := func(p []byte) map[uint16][]byte {
		all := map[uint16][]byte{}
		for {
			if len(p) < 4 {
				t.Fatal("options without an end")
			}
			code, n := le.Uint16(p), int(le.Uint16(p[2:]))
			if p = p[4:]; code == 0 {
				if n != 0 || len(p) != 0 {
					t.Fatalf("%d bytes behind the last option", len(p))
				}
				return all
			}
			all[code] = p[:n]
			p = p[(n+3)&^3:]
		}
	}
	for i := 0; len(p) > 0; i++ {
		if len(p) < 12 || len(p)%4 != 0 {
			t.Fatalf("block %d: %d bytes are left", i, len(p))
		}
		kind, n := le.Uint32(p), le.Uint32(p[4:])
		if n%4 != 0 || int(n) > len(p) || le.Uint32(p[n-4:]) != n {
			t.Fatalf("block %d: length %d", i, n)
		}
		body := p[8 : n-4]
		p = p[n:]
		switch {
		case i == 0:
			if kind != 0x0A0D0D0A || le.Uint32(body) != 0x1A2B3C4D || le.Uint16(body[4:]) != 1 || le.Uint16(body[6:]) != 0 || le.Uint64(body[8:]) != 1<<64-1 {
				t.Fatalf("section header % x", body)
			}
			application = string(options(body[16:])[4])
		case i == 1:
			if kind != 1 || le.Uint32(body[4:]) != 0 {
				t.Fatalf("interface: type %d, % x", kind, body)
			}
			linkType = le.Uint16(body)
			name = string(options(body[8:])[2])
		default:
			if kind != 6 || le.Uint32(body) != 0 {
				t.Fatalf("packet: type %d, % x", kind, body)
			}
			captured := int(le.Uint32(body[12:]))
			if int(le.Uint32(body[16:])) != captured {
				t.Fatalf("captured %d of %d", captured, le.Uint32(body[16:]))
			}
			o := options(body[20+(captured+3)&^3:])
			packets = append(packets, packet{
				us: int64(le.Uint32(body[4:]))<<32 | int64(le.Uint32(body[8:])), flags: le.Uint32(o[2]),
				data: hex.EncodeToString(body[20 : 20+captured]), comment: string(o[1]),
			})
		}
	}
	return application, name, linkType, packets
}

func TestFile(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, "gwctl 1.2", "radio's UART", LinkTypeUser0)
	if err != nil {
		t.Fatal(err)
	}
	want := []packet{
		{1767366245123456, 1, "1ac038bc7e", ""},
		{1767366245123457, 2, "c1020b0a527e00", "12 bytes missed before this"},
		{0, 1, "", "x"},
		{1 << 33, 2, "00010203", "four"},
	}
	for _, p := range want {
		data, err := hex.DecodeString(p.data)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Packet(p.us, Direction(p.flags), data, p.comment); err != nil {
			t.Fatal(err)
		}
		parse(t, b.Bytes()) // whole after each packet
	}
	application, name, linkType, got := parse(t, b.Bytes())
	if application != "gwctl 1.2" || name != "radio's UART" || linkType != 147 {
		t.Errorf("head: %q, %q, %d", application, name, linkType)
	}
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("packet %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// The head byte for byte.
func TestGoldenHead(t *testing.T) {
	var b bytes.Buffer
	if _, err := NewWriter(&b, "g", "r", LinkTypeUser0); err != nil {
		t.Fatal(err)
	}
	const want = "0a0d0d0a" + "28000000" + "4d3c2b1a" + "01000000" + "ffffffffffffffff" + "0400010067000000" + "00000000" + "28000000" +
		"01000000" + "20000000" + "93000000" + "00000000" + "0200010072000000" + "00000000" + "20000000"
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
}

type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestErrors(t *testing.T) {
	for n := range 3 {
		w, err := NewWriter(&full{n}, "a", "b", 147)
		if err == nil {
			err = w.Packet(0, Inbound, nil, "")
		}
		if !errors.Is(err, errFull) {
			t.Errorf("after %d writes: %v", n, err)
		}
	}
}
