package ethtool

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gwinit/internal/netdev/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// step is one command as it goes to a kernel, and what that makes of it. Both
// are hexadecimal, from the beginning of the buffer.
type step struct {
	in, out string
	err     error
}

// script is a big-endian kernel that expects those commands.
func script(t *testing.T, steps ...step) *Device {
	t.Helper()
	t.Cleanup(func() {
		if len(steps) > 0 {
			t.Errorf("%d commands were not sent", len(steps))
		}
	})
	return &Device{Name: "eth0", Order: binary.BigEndian, Call: func(name string, b []byte) error {
		if name != "eth0" || len(steps) == 0 {
			t.Fatalf("%s: command % x, and none is expected", name, b[:16])
		}
		s := steps[0]
		steps = steps[1:]
		in, out := unhex(t, s.in), unhex(t, s.out)
		if !bytes.HasPrefix(b, in) || len(bytes.Trim(b[len(in):], "\x00")) > 0 {
			t.Fatalf("command % x, want % x and zeros", b[:len(in)+8], in)
		}
		copy(b, out)
		return s.err
	}}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// name is a field of 32 bytes, in hexadecimal.
func name(s string) string {
	var b [nameLen]byte
	copy(b[:], s)
	return hex.EncodeToString(b[:])
}

const counted = "00000037 00000000 0000000000000002"

func TestGolden(t *testing.T) {
	t.Run("driver", func(t *testing.T) {
		d := script(t, step{"00000003", "00000003" + name("rtl8196e-eth") + name("2.24"), nil})
		got, err := d.Driver()
		if want := (Driver{"rtl8196e-eth", "2.24"}); got != want || err != nil {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	})
	t.Run("counters", func(t *testing.T) {
		d := script(
			t,
			step{counted, counted + "00000002", nil},
			step{"0000001b 00000001 00000002", "0000001b 00000001 00000002" + name("rtl8196e_isr_cnt") + name(strings.Repeat("x", 32)), nil},
			step{"0000001d 00000002", "0000001d 00000002 0000000000010203 ffffffffffffffff", nil},
		)
		got, err := d.Stats()
		want := []Stat{{"rtl8196e_isr_cnt", 0x10203}, {strings.Repeat("x", 32), 1<<64 - 1}}
		if !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	})
	t.Run("fewer values than names", func(t *testing.T) {
		d := script(
			t,
			step{counted, counted + "00000002", nil},
			step{"0000001b 00000001 00000002", "0000001b 00000001 00000002" + name("a") + name("b"), nil},
			step{"0000001d 00000002", "0000001d 00000001 0000000000000007", nil},
		)
		if got, err := d.Stats(); len(got) != 1 || got[0] != (Stat{"a", 7}) || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("no counters", func(t *testing.T) {
		d := script(t, step{counted, "00000037 00000000 0000000000000000", nil})
		if got, err := d.Stats(); got != nil || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("too many", func(t *testing.T) {
		d := script(t, step{counted, counted + "00001001", nil})
		if got, err := d.Stats(); got != nil || err == nil {
			t.Errorf("%+v, %v; want an error", got, err)
		}
	})
	for f, want := range map[Flag][2]string{RxChecksum: {"00000014", "00000015"}, TxChecksum: {"00000016", "00000017"}} {
		t.Run("offload "+want[0], func(t *testing.T) {
			d := script(
				t,
				step{want[0], want[0] + "00000001", nil},
				step{want[1] + "00000000", "", nil},
				step{want[1] + "00000001", "", unix.EOPNOTSUPP},
			)
			if on, err := d.Flag(f); !on || err != nil {
				t.Errorf("on %v, %v", on, err)
			}
			if err := d.SetFlag(f, false); err != nil {
				t.Error(err)
			}
			err := d.SetFlag(f, true)
			if !errors.Is(err, errors.ErrUnsupported) || err.Error() != "set offload of eth0: operation not supported" {
				t.Errorf("error %v", err)
			}
		})
	}
}

// The kernel of this machine, by its veth driver, which counts for each queue.
func TestKernel(t *testing.T) {
	netlab.Cable(t, "tool0", "far0")
	d := Open("tool0")
	got, err := d.Driver()
	if err != nil || got.Name != "veth" {
		t.Errorf("driver %+v, %v; want veth", got, err)
	}
	stats, err := d.Stats()
	if err != nil || len(stats) == 0 || stats[0].Name != "peer_ifindex" || stats[0].Value == 0 {
		t.Errorf("counters %+v, %v; want peer_ifindex first", stats, err)
	}
	for _, on := range []bool{false, true} {
		if err := d.SetFlag(TxChecksum, on); err != nil {
			t.Fatal(err)
		}
		if is, err := d.Flag(TxChecksum); is != on || err != nil {
			t.Errorf("checksums %v, %v; want %v", is, err, on)
		}
	}
	d.Name = "none0"
	if _, err := d.Driver(); !errors.Is(err, unix.ENODEV) {
		t.Errorf("of an interface that is not there: %v", err)
	}
	d.Name = "a-name-of-16-characters"
	if _, err := d.Stats(); !errors.Is(err, unix.ENODEV) {
		t.Errorf("of a name that is too long: %v", err)
	}
}

// Whatever a kernel answers, nothing is read beyond it.
func FuzzStats(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2}, []byte{0, 0, 0, 0x1b, 0, 0, 0, 1, 0, 0, 0, 2, 'a'}, []byte{0, 0, 0, 0x1d, 0, 0, 0, 9, 1})
	f.Fuzz(func(t *testing.T, count, names, values []byte) {
		answers := [][]byte{append([]byte{0, 0, 0, 0x37, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, count...), names, values}
		d := &Device{Name: "eth0", Order: binary.BigEndian, Call: func(_ string, b []byte) error {
			copy(b, answers[0])
			answers = answers[1:]
			return nil
		}}
		stats, err := d.Stats()
		if err == nil && len(stats) > maxStats {
			t.Errorf("%d counters", len(stats))
		}
	})
}
