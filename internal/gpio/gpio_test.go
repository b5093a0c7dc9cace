//go:build linux

package gpio

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/gpio/gpiotest"
)

// The bytes as a big-endian CPU has them (include/uapi/linux/gpio.h, by hand):
// only what is not zero, by its offset.
func TestGoldenBytes(t *testing.T) {
	be := binary.BigEndian
	button := rtl8196e.Line{Name: "reset-button", Number: 9, ActiveLow: true}
	nrst := rtl8196e.Line{Name: "efr32-nrst", Number: 12, ActiveLow: true, OpenDrain: true}
	tests := []struct {
		name string
		got  []byte
		size int
		want map[int]string
	}{
		{"line info", packInfo(be, 9), 256, map[int]string{67: "09"}},
		{"input", packRequest(be, 9, flags(button, Input), 0, "gw panel"), 592, map[int]string{
			3: "09", 256: hex.EncodeToString([]byte("gw panel")), 294: "0106", 563: "01",
		}},
		{"edges", packRequest(be, 9, flags(button, Edges), 30*time.Millisecond, "p"), 592, map[int]string{
			3: "09", 256: "70", 294: "0136", 299: "01", 323: "03", 330: "7530", 343: "01", 563: "01",
		}},
		{"open drain", packRequest(be, 12, flags(nrst, Output), 0, ""), 592, map[int]string{3: "0c", 295: "4a", 563: "01"}},
		{"values", packValues(be, true), 16, map[int]string{7: "01", 15: "01"}},
		{"values off", packValues(be, false), 16, map[int]string{15: "01"}},
	}
	for _, tt := range tests {
		want := make([]byte, tt.size)
		for at, text := range tt.want {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			copy(want[at:], b)
		}
		if string(tt.got) != string(want) {
			t.Errorf("%s:\n%s", tt.name, hex.Dump(tt.got))
		}
	}
	if fd := requestFD(be, append(make([]byte, 588), 0, 0, 0, 7)); fd != 7 {
		t.Errorf("descriptor %d", fd)
	}
	if !valuesBit(be, append([]byte{0, 0, 0, 0, 0, 0, 0, 1}, make([]byte, 8)...)) {
		t.Error("the first line's value is not read")
	}
	// _IOWR is 3<<30 on most machines and 6<<29 on MIPS, which is the same.
	for got, want := range map[uint32]uint32{getLineInfo: 0xC100B405, getLine: 0xC250B407, getValues: 0xC010B40E, setValues: 0xC010B40F} {
		if got != want {
			t.Errorf("request %#x, want %#x", got, want)
		}
	}
}

func bank() rtl8196e.GPIO { return rtl8196e.GPIO{Chip: "/dev/gpiochip0"} }

// chip has lines of those names.
func chip(names ...string) *gpiotest.Chip {
	var lines []gpiotest.Line
	for _, n := range names {
		lines = append(lines, gpiotest.Line{Name: n, Level: true})
	}
	return gpiotest.New("/dev/gpiochip0", lines...)
}

func TestOpen(t *testing.T) {
	want := rtl8196e.Line{Name: "reset-button", Number: 2, ActiveLow: true}
	busy := gpiotest.New("/dev/gpiochip0", gpiotest.Line{Name: "reset-button", Busy: true})
	tests := []struct {
		name     string
		chip     *gpiotest.Chip
		byNumber bool
		number   uint32
		err      error
	}{
		{"by name", chip("", "reset-button", "status-led"), false, 1, nil},
		{"the name beats the number", chip("reset-button", "", "efr32-nrst"), true, 0, nil},
		{"by number where nothing is named", chip("", "", ""), true, 2, nil},
		{"not by number of an unknown board", chip("", "", ""), false, 0, ErrNoLine},
		{"not by number where another is named", chip("", "", "", "efr32-nrst"), true, 0, ErrNoLine},
		{"number behind the last", chip("", ""), true, 0, ErrNoLine},
		{"no pull-up", gpiotest.New("/dev/gpiochip0", gpiotest.Line{Name: "reset-button", NoBias: true}), false, 0, nil},
		{"no chip", gpiotest.New("/dev/gpiochip1", gpiotest.Line{}), true, 0, ErrNoChip},
		{"in use", busy, true, 0, ErrInUse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Open(tt.chip, "", bank(), want, tt.byNumber, Input, 0, "test")
			if !errors.Is(err, tt.err) {
				t.Fatalf("%v, want %v", err, tt.err)
			}
			if err == nil {
				if l.Number != tt.number {
					t.Errorf("line %d, want %d", l.Number, tt.number)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			if n := tt.chip.OpenFDs(); n != 0 {
				t.Errorf("%d descriptors are left", n)
			}
		})
	}
}

func TestLine(t *testing.T) {
	c := gpiotest.New("/dev/gpiochip0", gpiotest.Line{Name: "in", Level: true, IRQ: true}, gpiotest.Line{Name: "out", Level: true}, gpiotest.Line{Name: "slow"})
	in, err := Open(c, "/", bank(), rtl8196e.Line{Name: "in", ActiveLow: true}, false, Edges, 30*time.Millisecond, "a consumer with a name that is too long")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if l := c.Line(0); l.Debounce != 30000 || l.Consumer != "a consumer with a name that is " {
		t.Errorf("taken as %+v", l)
	}
	for _, level := range []bool{true, false, true} {
		c.SetLevel(0, level)
		if active, err := in.Active(); err != nil || active == level {
			t.Errorf("level %v: active %v, %v", level, active, err)
		}
	}
	out, err := Open(c, "", bank(), rtl8196e.Line{Name: "out", ActiveLow: true, OpenDrain: true}, false, Output, 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, active := range []bool{true, false} {
		if err := out.Set(active); err != nil || c.Line(1).Level == active {
			t.Errorf("set %v: level %v, %v", active, c.Line(1).Level, err)
		}
	}
	if err := in.Set(true); !errors.Is(err, unix.EPERM) {
		t.Errorf("an input was driven: %v", err)
	}
	if _, err := Open(c, "", bank(), rtl8196e.Line{Name: "slow"}, false, Edges, 0, "test"); !errors.Is(err, unix.ENXIO) {
		t.Errorf("edges of a line without interrupt: %v", err)
	}
	c.Fail(unix.EIO)
	if _, err := in.Active(); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "line 0") {
		t.Errorf("got %v", err)
	}
}

// There is no GPIO on most machines; what the real kernel says then is ErrNoChip.
func TestSystemWithoutChip(t *testing.T) {
	if _, err := Open(System{}, t.TempDir(), bank(), rtl8196e.Line{Name: "x"}, false, Input, 0, "test"); !errors.Is(err, ErrNoChip) {
		t.Errorf("got %v", err)
	}
}
