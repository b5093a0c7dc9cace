package ash

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The examples of UG101 sections 2 and 4. Its CRC of the randomized version
// response (96 23) is not that of the bytes before it; the one of the same
// frame without randomization (63 16) is right, and so is ours here.
func TestGoldenFrames(t *testing.T) {
	tests := []struct {
		name  string
		frame Frame
		wire  string
	}{
		{"RST", Frame{Kind: Rst}, "C0 38 BC 7E"},
		{"RSTACK power-on", Frame{Kind: RstAck, Code: ResetPowerOn}, "C1 02 02 9B 7B 7E"},
		{"ERROR timeouts", Frame{Kind: Error, Code: ErrorTimeouts}, "C2 02 51 A8 BD 7E"},
		{"ACK 1", Frame{Kind: Ack, AckNum: 1}, "81 60 59 7E"},
		{"ACK 6 not ready", Frame{Kind: Ack, AckNum: 6, NotReady: true}, "8E 91 B6 7E"},
		{"NAK 6", Frame{Kind: Nak, AckNum: 6}, "A6 34 DC 7E"},
		{"NAK 5 not ready", Frame{Kind: Nak, AckNum: 5, NotReady: true}, "AD 85 B7 7E"},
		{
			"DATA 2,5 version command",
			Frame{Kind: Data, FrmNum: 2, AckNum: 5, Payload: []byte{0x00, 0x00, 0x00, 0x02}},
			"25 42 21 A8 56 A6 09 7E",
		},
		{
			"DATA 5,3 version response",
			Frame{Kind: Data, FrmNum: 5, AckNum: 3, Payload: []byte{0x00, 0x80, 0x00, 0x02, 0x02, 0x11, 0x30}},
			"53 42 A1 A8 56 28 04 82 03 2A 7E",
		},
		{
			"stuffing",
			Frame{Kind: Data, Payload: randomized(0x7E, 0x11, 0x13, 0x18, 0x1A, 0x7D)},
			"00 7D 5E 7D 31 7D 33 7D 38 7D 3A 7D 5D B3 C1 7E",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := unhex(t, tt.wire)
			if got := tt.frame.Append(nil); !bytes.Equal(got, want) {
				t.Fatalf("encoded % X, want % X", got, want)
			}
			var d Decoder
			var got Frame
			frames := 0
			for _, b := range append([]byte{0x01, Cancel}, want...) { // what precedes a Cancel is forgotten
				f, done, err := d.Write(b)
				if err != nil {
					t.Fatal(err)
				}
				if done {
					got = f
					frames++
				}
			}
			if frames != 1 {
				t.Fatalf("%d frames, want 1", frames)
			}
			if got.Kind != tt.frame.Kind || got.FrmNum != tt.frame.FrmNum || got.AckNum != tt.frame.AckNum ||
				got.NotReady != tt.frame.NotReady || got.Code != tt.frame.Code || !bytes.Equal(got.Payload, tt.frame.Payload) {
				t.Errorf("decoded %+v, want %+v", got, tt.frame)
			}
		})
	}
}

// randomized returns the payload that is p on the line.
func randomized(p ...byte) []byte {
	Randomize(p)
	return p
}

func TestRandomSequence(t *testing.T) {
	got := make([]byte, 8)
	Randomize(got)
	if want := unhex(t, "42 21 A8 54 2A 15 B2 59"); !bytes.Equal(got, want) {
		t.Errorf("sequence % X, want % X", got, want)
	}
}

func TestDecoderErrors(t *testing.T) {
	tests := []struct {
		name string
		wire string
		want error
	}{
		{"wrong CRC", "C0 38 BD 7E", ErrCRC},
		{"one byte", "C0 7E", ErrShort},
		{"substitute", "C0 18 38 BC 7E", ErrComm},
		{"short DATA", crcd(0x00, 1, 2), ErrLength},
		{"long ACK", crcd(0x80, 1), ErrLength},
		{"RSTACK of another version", crcd(0xC1, 1, 2), ErrVersion},
		{"control C3", crcd(0xC3), ErrControl},
		{"too long", crcd(make([]byte, MaxData+2)...), ErrLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d Decoder
			var got error
			for _, b := range unhex(t, tt.wire) {
				if _, done, err := d.Write(b); done {
					got = err
				}
			}
			if !errors.Is(got, tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			for _, b := range unhex(t, "C0 38 BC 7E") { // the next frame is not hurt
				if f, done, err := d.Write(b); done && (err != nil || f.Kind != Rst) {
					t.Errorf("next frame: %v, %v", f, err)
				}
			}
		})
	}
}

// crcd is the wire form of raw control and data bytes, in hex.
func crcd(p ...byte) string {
	crc := CRC(p)
	p = append(p, byte(crc>>8), byte(crc))
	var out []byte
	for _, b := range p {
		switch b {
		case Flag, Escape, XOn, XOff, Substitute, Cancel:
			out = append(out, Escape, b^flip)
		default:
			out = append(out, b)
		}
	}
	return hex.EncodeToString(append(out, Flag))
}

func FuzzDecoder(f *testing.F) {
	for _, s := range []string{"1AC038BC7E", "C102029B7B7E", "25422 1A856A6097E", "7E7E7D7D187E"} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var d Decoder
		for _, b := range p {
			fr, done, err := d.Write(b)
			if !done || err != nil {
				continue
			}
			if len(fr.Payload) > MaxData {
				t.Fatalf("payload of %d bytes", len(fr.Payload))
			}
			// What was accepted encodes to something that decodes to the same.
			var again Decoder
			n := 0
			for _, b := range fr.Append(nil) {
				g, done, err := again.Write(b)
				if err != nil {
					t.Fatal(err)
				}
				if done {
					n++
					if g.Kind != fr.Kind || g.FrmNum != fr.FrmNum || g.AckNum != fr.AckNum || g.ReTx != fr.ReTx || !bytes.Equal(g.Payload, fr.Payload) {
						t.Fatalf("%+v became %+v", fr, g)
					}
				}
			}
			if n != 1 {
				t.Fatalf("%d frames", n)
			}
		}
	})
}
