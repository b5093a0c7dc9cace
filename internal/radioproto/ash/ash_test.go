package ash

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"

	"gwinit/internal/radioproto/radioprototest"
	sim "gwinit/test/radio/ash"
)

// The examples of UG101 sections 2 and 4.
func TestGolden(t *testing.T) {
	for _, tt := range []struct {
		wire, text string
		want       Frame
	}{
		{"C0 38 BC 7E", "RST", Frame{Kind: Rst}},
		{"1A C0 38 BC 7E", "RST", Frame{Kind: Rst}},
		{"C1 02 02 9B 7B 7E", "RSTACK power-on (0x02)", Frame{Kind: RstAck, Code: 2, DataLen: 2}},
		{"C2 02 51 A8 BD 7E", "ERROR too many acknowledgement time-outs (0x51)", Frame{Kind: Error, Code: 0x51, DataLen: 2}},
		{"81 60 59 7E", "ACK ack 1", Frame{Kind: Ack, AckNum: 1}},
		{"8E 91 B6 7E", "ACK ack 6 nRdy", Frame{Kind: Ack, AckNum: 6, NotReady: true}},
		{"A6 34 DC 7E", "NAK ack 6", Frame{Kind: Nak, AckNum: 6}},
		{"AD 85 B7 7E", "NAK ack 5 nRdy", Frame{Kind: Nak, AckNum: 5, NotReady: true}},
		{"25 42 21 A8 56 A6 09 7E", "DATA frm 2 ack 5 len 4", Frame{Kind: Data, FrmNum: 2, AckNum: 5, DataLen: 4}},
		{"00 7D 5E 7D 31 7D 33 7D 38 7D 3A 7D 5D B3 C1 7E", "DATA frm 0 ack 0 len 6", Frame{Kind: Data, DataLen: 6}},
		{"C0 11 38 13 BC 7E", "RST", Frame{Kind: Rst}}, // flow control in between
		{"01 02 1A 81 60 59 7E 7E 7E", "ACK ack 1", Frame{Kind: Ack, AckNum: 1}},
		{"C0 38 BD 7E", "wrong CRC", Frame{Fault: CRC}},
		{"C0 18 38 BC 7E", "substitute byte", Frame{Fault: Void}},
		{"C0 7E", "wrong length", Frame{Fault: Length, DataLen: -2}},
		{"C1 01 02 CE 28 7E", "unknown type", Frame{Kind: RstAck, Fault: Control, Code: 2, DataLen: 2}},
	} {
		t.Run(tt.wire, func(t *testing.T) {
			wire := radioprototest.Unhex(t, tt.wire)
			for _, piece := range []int{1, 3, len(wire)} {
				var d Decoder
				got := radioprototest.Decode(d.Next, wire, piece)
				if len(got) != 1 || got[0] != tt.want {
					t.Fatalf("in pieces of %d: %+v, want %+v", piece, got, tt.want)
				}
				if s := got[0].String(); s != tt.text {
					t.Errorf("in words %q, want %q", s, tt.text)
				}
			}
		})
	}
}

// UG101 section 4.3.
func TestRandomize(t *testing.T) {
	p := make([]byte, 8)
	Randomize(p)
	if got := hex.EncodeToString(p); got != "4221a8542a15b259" {
		t.Errorf("sequence %s", got)
	}
}

// Noise of any kind costs what stands before the next flag, and nothing else.
func TestResynchronises(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ack := radioprototest.Unhex(t, "81 60 59 7E")
	for range 2000 {
		noise := make([]byte, r.IntN(700))
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		var d Decoder
		radioprototest.Decode(d.Next, noise, 64)
		got := radioprototest.Decode(d.Next, append([]byte{Flag}, ack...), 64)
		if len(got) == 0 || got[len(got)-1] != (Frame{Kind: Ack, AckNum: 1}) {
			t.Fatalf("after %x: %+v", noise, got)
		}
	}
}

// reference decodes with the simulator's decoder, which was written on its own.
func reference(p []byte) (frames []Frame) {
	var d sim.Decoder
	for _, b := range p {
		f, done, err := d.Write(b)
		if !done {
			continue
		}
		switch {
		case err == nil:
			n := len(f.Payload)
			if f.Kind == sim.RstAck || f.Kind == sim.Error {
				n = 2
			}
			frames = append(frames, Frame{
				Kind: Kind(f.Kind), FrmNum: f.FrmNum, AckNum: f.AckNum, ReTx: f.ReTx, NotReady: f.NotReady, Code: f.Code, DataLen: n,
			})
		case errors.Is(err, sim.ErrComm):
			frames = append(frames, Frame{Fault: Void})
		case errors.Is(err, sim.ErrCRC):
			frames = append(frames, Frame{Fault: CRC})
		case errors.Is(err, sim.ErrShort), errors.Is(err, sim.ErrLong), errors.Is(err, sim.ErrLength):
			frames = append(frames, Frame{Fault: Length})
		default:
			frames = append(frames, Frame{Fault: Control})
		}
	}
	return frames
}

// same compares, of faulty frames only the fault. Ours takes longer frames.
func same(t testing.TB, p []byte, got []Frame) {
	t.Helper()
	want := reference(p)
	if len(got) != len(want) {
		t.Fatalf("%x: %d frames, the simulator finds %d", p, len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.DataLen > sim.MaxData && w.Fault == Length {
			continue
		}
		if g.Fault != w.Fault || g.Fault == Good && g != w {
			t.Fatalf("%x: frame %d is %+v, for the simulator %+v", p, i, g, w)
		}
	}
}

func TestAgreesWithSimulator(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var p []byte
		for range r.IntN(8) {
			f := sim.Frame{
				Kind: sim.Kind(r.IntN(6)), FrmNum: uint8(r.IntN(8)), AckNum: uint8(r.IntN(8)), ReTx: r.IntN(2) == 0,
				NotReady: r.IntN(2) == 0, Code: uint8(r.Uint32()),
			}
			if f.Kind == sim.Data {
				f.Payload = make([]byte, r.IntN(sim.MaxData+1))
				for i := range f.Payload {
					f.Payload[i] = byte(r.Uint32())
				}
			}
			p = f.Append(p)
		}
		for range r.IntN(3) { // damage
			if len(p) > 0 {
				p[r.IntN(len(p))] = byte(r.Uint32())
			}
		}
		var d Decoder
		same(t, p, radioprototest.Decode(d.Next, p, 1+r.IntN(40)))
	}
}

func TestAllocatesNothing(t *testing.T) {
	p := sim.Frame{Kind: sim.Data, Payload: make([]byte, 60)}.Append(nil)
	var d Decoder
	good := 0
	if n := testing.AllocsPerRun(100, func() {
		for q := p; len(q) > 0; {
			n, f, ok := d.Next(q)
			if ok && f.Fault == Good {
				good++
			}
			q = q[n:]
		}
	}); n != 0 || good != 101 {
		t.Errorf("%v allocations a frame, %d good frames of 101", n, good)
	}
}

func TestReason(t *testing.T) {
	for code, want := range map[uint8]string{
		0x00: "unknown cause (0x00)", 0x01: "external reset (0x01)", 0x02: "power-on (0x02)", 0x03: "watchdog (0x03)",
		0x06: "assertion failed (0x06)", 0x09: "bootloader (0x09)", 0x0B: "software reset (0x0b)",
		0x51: "too many acknowledgement time-outs (0x51)", 0x80: "fault of the chip (0x80)", 0xFE: "unknown cause (0xfe)",
	} {
		if got := Reason(code); got != want {
			t.Errorf("%#x: %q, want %q", code, got, want)
		}
	}
}

// Any bytes, in any pieces, are what the simulator's decoder makes of them.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0x1A, 0xC0, 0x38, 0xBC, 0x7E}, uint8(2))
	f.Add([]byte{0x25, 0x42, 0x21, 0xA8, 0x56, 0xA6, 0x09, 0x7E, 0x81, 0x60, 0x59, 0x7E}, uint8(5))
	f.Add([]byte{0x7D, 0x7D, 0x11, 0x18, 0x7E, 0x7D, 0x7E}, uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, piece uint8) {
		var d Decoder
		same(t, p, radioprototest.Decode(d.Next, p, int(piece)+1))
	})
}

// BenchmarkDecoder is one byte of a stream of full frames. Guest instructions:
// see docs/bridge.md.
func BenchmarkDecoder(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	var p []byte
	for len(p) < 1<<12 {
		f := sim.Frame{Kind: sim.Data, Payload: make([]byte, 40)}
		for i := range f.Payload {
			f.Payload[i] = byte(r.Uint32())
		}
		p = f.Append(p)
	}
	p = p[:1<<12]
	b.SetBytes(int64(len(p)))
	var d Decoder
	for b.Loop() {
		for q := p; len(q) > 0; {
			n, _, _ := d.Next(q)
			q = q[n:]
		}
	}
}
