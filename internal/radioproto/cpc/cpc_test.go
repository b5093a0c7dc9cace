package cpc

import (
	"bytes"
	"testing"

	"gwinit/internal/radioproto/radioprototest"
)

// Golden bytes, from the format: 14 | endpoint | length | C4 | HCS | command,
// sequence, length, payload | FCS, all little-endian.
func TestFrames(t *testing.T) {
	if c := CRC([]byte("123456789")); c != 0x31C3 {
		t.Fatalf("CRC %#x, want 0x31c3", c)
	}
	for _, tt := range []struct {
		name string
		f    Frame
		want string
	}{
		{"get the version", Get(0, SecondaryCPCVersion), "14 00 0A 00 C4 55 D3 02 00 04 00 03 00 00 00 DB 12"},
		{"bootloader at the next reset", Set(1, BootloaderRebootMode, RebootBootloader), "14 00 0E 00 C4 95 0F 03 01 08 00 02 02 00 00 01 00 00 00 6C 0E"},
		{"reset", Frame{Command: Reset, Sequence: 2}, "14 00 06 00 C4 34 A6 01 02 00 00 D4 18"},
	} {
		want := radioprototest.Unhex(t, tt.want)
		got := tt.f.Append(nil)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: % X, want % X", tt.name, got, want)
		}
		var r Receiver
		r.Write(got)
		if f, ok := r.Next(); !ok || f.Command != tt.f.Command || f.Sequence != tt.f.Sequence || !bytes.Equal(f.Payload, tt.f.Payload) {
			t.Errorf("%s: received %+v, %v", tt.name, f, ok)
		}
	}
	p, value, ok := Set(1, BootloaderRebootMode, RebootBootloader).Property()
	if !ok || p != BootloaderRebootMode || !bytes.Equal(value, []byte{1, 0, 0, 0}) {
		t.Errorf("property %#x, % x, %v", p, value, ok)
	}
	if _, _, ok := (Frame{Command: Reset, Payload: make([]byte, 4)}).Property(); ok {
		t.Error("a reset has a property")
	}
}

func TestReceiverPassesOver(t *testing.T) {
	good := Get(9, SecondaryAppVersion).Append(nil)
	damagedHeader, damagedPayload := bytes.Clone(good), bytes.Clone(good)
	damagedHeader[3] ^= 1
	damagedPayload[9] ^= 1
	for name, before := range map[string][]byte{
		"noise": []byte("noise\x14\x14"), "a damaged header": damagedHeader, "a damaged payload": damagedPayload,
		"a frame of no payload": {Flag, 0, 0, 0, 0xC4, 0, 0},
	} {
		var r Receiver
		var got []Frame
		for _, b := range append(bytes.Clone(before), good...) {
			r.Write([]byte{b})
			if f, ok := r.Next(); ok {
				got = append(got, f)
			}
		}
		if len(got) != 1 || got[0].Sequence != 9 {
			t.Errorf("behind %s: %+v", name, got)
		}
	}
}

func FuzzReceiver(f *testing.F) {
	f.Add([]byte("noise"), []byte("payload"))
	f.Fuzz(func(t *testing.T, noise, payload []byte) {
		if len(payload) > 1000 {
			return
		}
		var r Receiver
		r.Write(noise)
		for range noise {
			if _, ok := r.Next(); !ok {
				break
			}
		}
		// A header in the noise may have claimed what follows.
		r = Receiver{}
		r.Write(Frame{Command: PropIs, Sequence: 3, Payload: payload}.Append(nil))
		if f, ok := r.Next(); !ok || f.Command != PropIs || f.Sequence != 3 || !bytes.Equal(f.Payload, payload) {
			t.Errorf("% x: received %+v, %v", payload, f, ok)
		}
	})
}
