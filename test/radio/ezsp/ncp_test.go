package ezsp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gwinit/test/radio/zigbee"
)

func unhex2(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type rig struct {
	t     *testing.T
	n     *NCP
	out   [][]byte // responses and callbacks, in order
	later []func()
	saves int
	room  int
}

func newRig(t *testing.T, s State) *rig {
	r := &rig{t: t, room: 1000}
	s.EUI64 = 0x00124B0011223344
	r.n = New(DefaultConfig(), &s)
	r.n.Respond = func(f []byte) { r.out = append(r.out, f) }
	r.n.Callback = func(f []byte, _ func(bool)) bool {
		if r.room == 0 {
			return false
		}
		r.room--
		r.out = append(r.out, f)
		return true
	}
	r.n.Later = func(_ time.Duration, fn func()) { r.later = append(r.later, fn) }
	r.n.Changed = func() { r.saves++ }
	r.n.Reset = func() { r.n.Boot() }
	r.n.Boot()
	return r
}

// cmd sends a frame and checks all that comes of it, timers included.
func (r *rig) cmd(frame string, want ...string) {
	r.t.Helper()
	r.out = nil
	r.n.Handle(unhex2(r.t, frame))
	r.run()
	r.said(want...)
}

func (r *rig) run() {
	for len(r.later) > 0 {
		fn := r.later[0]
		r.later = r.later[1:]
		fn()
	}
}

func (r *rig) said(want ...string) {
	r.t.Helper()
	if len(r.out) != len(want) {
		r.t.Fatalf("%d frames % X, want %d", len(r.out), r.out, len(want))
	}
	for i, w := range want {
		if b := unhex2(r.t, w); !bytes.Equal(r.out[i], b) {
			r.t.Fatalf("frame %d is % X, want % X", i, r.out[i], b)
		}
	}
	r.out = nil
}

func running(t *testing.T) *rig {
	r := newRig(t, State{Network: DefaultNetwork()})
	r.cmd("00 00 00 0E", "00 80 00 0D 02 10 75")           // the client asks for 14, legacy format
	r.cmd("01 00 01 0000 0D", "01 80 01 0000 0D 02 10 75") // and takes 13, extended format
	r.cmd("02 00 01 1700 0000", "02 80 01 1700 00", "02 90 01 1900 90")
	return r
}

func TestVersionNegotiation(t *testing.T) {
	r := newRig(t, State{})
	r.cmd("00 00 01 0500", "00 80 01 5800 30")   // nothing before version
	r.cmd("01 00 00 0E", "01 80 00 0D 02 10 75") // an offer, not an agreement
	r.cmd("02 00 01 0500", "02 80 01 5800 30")
	r.cmd("03 00 01 0000 0D", "03 80 01 0000 0D 02 10 75")
	r.cmd("04 00 01 0500", "04 80 01 0500")
	r.cmd("05 00 01 FF7F", "05 80 01 5800 31")    // no such command
	r.cmd("06 00 01 5300 03", "06 80 01 5800 33") // too short
	r.cmd("07 00 01", "07 80 01 5800 30")         // three bytes are a legacy frame, which only version may be
	r.n.Boot()
	r.cmd("08 00 01 0500", "08 80 01 5800 30") // a reset forgets it
}

func TestCommands(t *testing.T) {
	tests := []struct {
		name string
		cmd  string
		want []string
	}{
		{"echo", "09 00 01 8100 03 010203", []string{"09 80 01 8100 03 010203"}},
		{"version struct", "09 00 01 AA00 11", []string{"09 80 01 AA00 00 07 0000 07 05 01 00 AA"}},
		{"get configuration", "09 00 01 5200 1E", []string{"09 80 01 5200 00 0C00"}},
		{"get unknown configuration", "09 00 01 5200 EE", []string{"09 80 01 5200 37 0000"}},
		{"set configuration while up", "09 00 01 5300 1E 0400", []string{"09 80 01 5300 38"}},
		{"network state", "09 00 01 1800", []string{"09 80 01 1800 02"}},
		{
			"network parameters", "09 00 01 2800",
			[]string{"09 80 01 2800 00 01 DDDDDDDDDDDDDDDD 621A 05 0B 00 0000 00 00F8FF07"},
		},
		{"EUI-64", "09 00 01 2600", []string{"09 80 01 2600 44332211004B1200"}},
		{
			"export network key", "09 00 01 1401 01 00 0000 0000000000000000 00 00 00000000",
			[]string{"09 80 01 1401 01030507090B0D0F00020406080A0C0D 00000000"},
		},
		{
			"export no key", "09 00 01 1401 04 03 0000 0000000000000000 00 00 00000000",
			[]string{"09 80 01 1401 00000000000000000000000000000000 1D000000"},
		},
		{"network key info", "09 00 01 1601", []string{"09 80 01 1601 00000000 01 00 00 00 00000000"}},
		{"unknown endpoint's flags", "09 00 01 0300 00 01000000", []string{"09 80 01 0300 36 02 0000"}},
		{"multicast entry", "09 00 01 6400 00 0000 01 00", []string{"09 80 01 6400 00"}},
		{"multicast entry beyond the table", "09 00 01 6400 10 0000 01 00", []string{"09 80 01 6400 B1"}},
		{"permit joining", "09 00 01 2200 FF", []string{"09 80 01 2200 00", "09 90 01 1900 9C"}},
		{"manufacturing token", "09 00 01 0B00 03", []string{"09 80 01 0B00 02 FFFF"}},
		{
			"unicast to nobody", "09 00 01 3400 00 3412 0401 0000 01 01 0000 0000 00 05 03 AABBCC",
			[]string{"09 80 01 3400 00 01", "09 90 01 3F00 00 3412 0401 0000 01 01 0000 0000 01 05 66 00"},
		},
		{"second init", "09 00 01 1700 0000", []string{"09 80 01 1700 70"}},
		{"leave", "09 00 01 2000", []string{"09 80 01 2000 00", "09 90 01 1900 91"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { running(t).cmd(tt.cmd, tt.want...) })
	}
}

func TestForm(t *testing.T) {
	r := newRig(t, State{})
	r.cmd("01 00 01 0000 0D", "01 80 01 0000 0D 02 10 75")
	r.cmd("02 00 01 1700 0000", "02 80 01 1700 93") // not joined
	form := "04 00 01 1E00 0102030405060708 621A 05 0F 00 0000 00 00F8FF07"
	r.cmd(form, "04 80 01 1E00 70") // no security state yet
	r.cmd("03 00 01 AB00 23 04 78563412", "03 80 01 AB00 00")
	r.cmd("03 00 01 6800 0413 000102030405060708090A0B0C0D0E0F 101112131415161718191A1B1C1D1E1F 07 0000000000000000",
		"03 80 01 6800 00")
	r.cmd(form, "04 80 01 1E00 00", "04 90 01 1900 90")
	net := r.n.State.Network
	if net == nil || net.PANID != 0x1A62 || net.Channel != 15 || net.FrameCounter != 0x12345678 ||
		net.KeySequence != 7 || net.Key[0] != 0x10 || net.LinkKey[15] != 0x0F || net.ExtendedPAN[7] != 8 {
		t.Errorf("formed %+v", net)
	}
	if r.saves == 0 {
		t.Error("the network was not saved")
	}
	// It is there after a reset, and after its way through the state file.
	b, err := json.Marshal(r.n.State)
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if *s.Network != *net {
		t.Errorf("read back %+v, wrote %+v", s.Network, net)
	}
}

func TestDevice(t *testing.T) {
	r := running(t)
	d := zigbee.NewSensor(0x1122334455667788, 0x1234)
	if err := r.n.Join(d); err != ErrClosed {
		t.Fatalf("join of a closed network: %v", err)
	}
	r.cmd("03 00 01 2200 FF", "03 80 01 2200 00", "03 90 01 1900 9C")
	if err := r.n.Join(d); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.said(
		"03 90 01 2300 00 01 3412 8877665544332211 03",
		"03 90 01 2400 3412 8877665544332211 01 00 0000",
		"03 90 01 4500 04 0000 1300 00 00 0000 0000 01 C8 CE 3412 FF FF 0C 01 3412 8877665544332211 88")
	r.cmd("04 00 01 3400 00 3412 0000 0500 00 00 4011 0000 00 07 03 07 3412",
		"04 80 01 3400 00 02",
		"04 90 01 3F00 00 3412 0000 0500 00 00 4011 0000 02 07 00 00",
		"04 90 01 4500 00 0000 0580 00 00 0000 0000 03 C8 CE 3412 FF FF 06 07 00 3412 01 01")
	if err := r.n.Deliver(d, d.Report(1, zigbee.Attr{Cluster: 0x0C, ID: 0x55}, zigbee.Single(1)), nil); err != nil {
		t.Fatal(err)
	}
	r.said("04 90 01 4500 00 0401 0C00 01 01 0000 0000 04 C8 CE 3412 FF FF 0A 18 01 0A 5500 39 0000803F")
	r.room = 0
	if err := r.n.Deliver(d, zigbee.Message{}, nil); err != ErrNoRoom {
		t.Fatalf("without room: %v", err)
	}
	r.cmd("05 00 01 0500", "05 81 01 0500") // says that something was lost, once
	r.cmd("06 00 01 0500", "06 80 01 0500")
	if r.n.State.Devices[0] != (Device{0x1122334455667788, 0x1234}) {
		t.Errorf("remembered %+v", r.n.State.Devices)
	}
}

func TestCoordinatorAnswersForItself(t *testing.T) {
	r := newRig(t, State{Network: DefaultNetwork()})
	r.cmd("01 00 01 0000 0D", "01 80 01 0000 0D 02 10 75")
	r.cmd("02 00 01 0200 01 0401 6500 01 02 01 0000 0600 0300", "02 80 01 0200 00")
	r.cmd("02 00 01 0200 01 0401 6500 01 00 00", "02 80 01 0200 38") // it has one already
	r.cmd("02 00 01 0300 00 01000000", "02 80 01 0300 00 02 0100")
	r.cmd("03 00 01 1700 0000", "03 80 01 1700 00", "03 90 01 1900 90")
	r.cmd("04 00 01 3400 00 0000 0000 0400 00 00 0000 0000 00 07 04 07 0000 01",
		"04 80 01 3400 00 01",
		"04 90 01 3F00 00 0000 0000 0400 00 00 0000 0000 01 07 00 00",
		"04 90 01 4500 00 0000 0480 00 00 0000 0000 02 C8 CE 0000 FF FF 13 07 00 0000 0E 01 0401 6500 01 02 0000 0600 01 0300")
}

func TestLinkKeys(t *testing.T) {
	r := running(t)
	key := "000102030405060708090A0B0C0D0E0F"
	r.cmd("03 00 01 0E01 02 8877665544332211"+key, "03 80 01 0E01 00000000")
	r.cmd("03 00 01 0F01 02", "03 80 01 0F01 8877665544332211"+key+"000000000000000000000000 00000000")
	r.cmd("03 00 01 7600 02", "03 80 01 7600 00")
	r.cmd("03 00 01 0F01 02", "03 80 01 0F01 0000000000000000 00000000000000000000000000000000 000000000000000000000000 1D000000")
	r.cmd("03 00 01 0E01 40 8877665544332211"+key, "03 80 01 0E01 21000000")
}

func FuzzHandle(f *testing.F) {
	for _, s := range []string{
		"000000 0E", "010001 0000 0D", "020001 1700 0000", "030001 0200 01 0401 6500 01 02 01 0000 0600 0300",
		"040001 3400 00 3412 0000 0500 00 00 4011 0000 00 07 03 07 3412", "050001 1E00",
		"060001 6800 0413", "070001 1401 01 00 0000 0000000000000000 00 00 00000000",
	} {
		f.Add(unhex2(f, s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) < 3 {
			return // ASH passes no such frame on
		}
		r := running(t)
		r.n.Devices = append(r.n.Devices, zigbee.NewSensor(1, 0x1234))
		r.out = nil
		r.n.Handle(p)
		if len(r.out) == 0 || r.out[0][0] != p[0] {
			t.Fatalf("% X: first answer % X", p, r.out)
		}
		for _, o := range r.out {
			if fr, err := Parse(o); err != nil || fr.Control&controlResponse == 0 {
				t.Fatalf("% X answered % X: %v", p, o, err)
			}
		}
		r.run()
	})
}
