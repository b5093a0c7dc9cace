package boothold

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gwinit/board/rtl8196e"
	"gwinit/internal/applet"
)

// The boards' reg properties, as their device trees have them.
var regs = map[string]string{
	rtl8196e.Lidl:    "01ffe00000001000",
	rtl8196e.Sengled: "03ffe00000001000",
}

// box makes a root with a device tree that reserves the page of the board, and
// a /dev/mem that is a sparse file of the board's RAM.
func box(t *testing.T, id string) (root string, b rtl8196e.Board) {
	t.Helper()
	b, ok := rtl8196e.ByID(id)
	if !ok {
		t.Fatalf("no board %s", id)
	}
	root = t.TempDir()
	reg, err := hex.DecodeString(regs[id])
	if err != nil {
		t.Fatal(err)
	}
	node := "boothold@" + regs[id][1:8]
	write(t, filepath.Join(root, "proc/device-tree/reserved-memory", node, "reg"), reg)
	write(t, filepath.Join(root, "dev/mem"), nil)
	if err := os.Truncate(filepath.Join(root, "dev/mem"), int64(b.RAMBytes)); err != nil {
		t.Fatal(err)
	}
	return root, b
}

// The page that the kernel reserves is the one that the loader reads.
func TestFind(t *testing.T) {
	for id := range regs {
		t.Run(id, func(t *testing.T) {
			root, b := box(t, id)
			got, err := Find(root)
			if err != nil {
				t.Fatal(err)
			}
			if got != b.Boothold {
				t.Errorf("page = %+v, want the board's %+v", got, b.Boothold)
			}
		})
	}
}

func TestFindRefuses(t *testing.T) {
	tests := []struct {
		name string
		reg  string
	}{
		{"empty", ""},
		{"one cell", "01ffe000"},
		{"64-bit cells", "0000000001ffe0000000000000001000"},
		{"too small", "01ffe0000000000f"},
		{"wraps", "fffff00000001004"},
		{"odd base", "01ffe00200001000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			reg, err := hex.DecodeString(tt.reg)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(root, "proc/device-tree/reserved-memory/boothold@1ffe000/reg"), reg)
			if p, err := Find(root); err == nil {
				t.Errorf("Find = %+v, want an error", p)
			}
		})
	}
	if _, err := Find(t.TempDir()); !errors.Is(err, ErrNoPage) {
		t.Errorf("without a device tree: %v, want ErrNoPage", err)
	}
}

func TestHold(t *testing.T) {
	tests := []struct {
		name string
		id   string
		args []string
		out  string
		errs string
		tail string // the page's last 16 bytes
	}{
		{"lidl", rtl8196e.Lidl, nil, "Boot hold set at 0x01FFEFFC.\n", "", "000000000000000000000000484f4c44"},
		{
			"lidl with address", rtl8196e.Lidl,
			[]string{"192.168.1.6"},
			"Boot hold set at 0x01FFEFFC (TFTP server IP 192.168.1.6).\n", "", "00000000c0a8010649505634484f4c44",
		},
		{
			"sengled with address", rtl8196e.Sengled,
			[]string{"10.0.0.254"},
			"Boot hold set at 0x03FFEFFC (TFTP server IP 10.0.0.254).\n", "", "000000000a0000fe49505634484f4c44",
		},
		{
			"bad address", rtl8196e.Lidl,
			[]string{"192.168.1"},
			"Boot hold set at 0x01FFEFFC.\n",
			"boothold: ignoring invalid IP '192.168.1' (usage: boothold [A.B.C.D])\n", "000000000000000000000000484f4c44",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, b := box(t, tt.id)
			var out, errs bytes.Buffer
			if err := command(root, applet.IO{Out: &out, Err: &errs}, tt.args); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.out || errs.String() != tt.errs {
				t.Errorf("printed %q and %q, want %q and %q", out.String(), errs.String(), tt.out, tt.errs)
			}
			if got := hex.EncodeToString(peek(t, root, b.Boothold.Top()-16, 16)); got != tt.tail {
				t.Errorf("top of the page = %s, want %s", got, tt.tail)
			}
			only(t, root, b.RAMBytes, b.Boothold)
		})
	}
}

// An address from an earlier call is not used by one that names none.
func TestHoldForgetsAddress(t *testing.T) {
	root, b := box(t, rtl8196e.Lidl)
	if _, err := Hold(root, [4]byte{10, 1, 2, 3}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := Hold(root, [4]byte{}, false); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(peek(t, root, b.Boothold.Top()-8, 8)); got != "00000000484f4c44" {
		t.Errorf("mark and HOLD = %s", got)
	}
}

// What is asked for the time of a danger is taken back, with the mark of an address
// that an earlier call has left.
func TestGuard(t *testing.T) {
	root, b := box(t, rtl8196e.Lidl)
	if _, err := Hold(root, [4]byte{10, 1, 2, 3}, true); err != nil {
		t.Fatal(err)
	}
	release, err := Guard(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(peek(t, root, b.Boothold.Top()-8, 8)); got != "00000000484f4c44" {
		t.Errorf("mark and HOLD = %s", got)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(peek(t, root, b.Boothold.Top()-8, 8)); got != "0000000000000000" {
		t.Errorf("afterwards: mark and HOLD = %s", got)
	}
	only(t, root, b.RAMBytes, b.Boothold)
}

func TestHoldErrors(t *testing.T) {
	t.Run("no page", func(t *testing.T) {
		if _, err := Hold(t.TempDir(), [4]byte{}, false); !errors.Is(err, ErrNoPage) {
			t.Errorf("error = %v, want ErrNoPage", err)
		}
	})
	t.Run("no memory device", func(t *testing.T) {
		root, _ := box(t, rtl8196e.Lidl)
		if err := os.Remove(filepath.Join(root, "dev/mem")); err != nil {
			t.Fatal(err)
		}
		if _, err := Hold(root, [4]byte{}, false); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error = %v, want that dev/mem is missing", err)
		}
	})
	t.Run("word does not stay", func(t *testing.T) {
		root, _ := box(t, rtl8196e.Lidl)
		mem := filepath.Join(root, "dev/mem")
		if err := os.Remove(mem); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/zero", mem); err != nil { // takes every write, reads zero
			t.Fatal(err)
		}
		if _, err := Hold(root, [4]byte{}, false); !errors.Is(err, ErrVerify) {
			t.Errorf("error = %v, want ErrVerify", err)
		}
	})
	t.Run("two addresses", func(t *testing.T) {
		var usage applet.UsageError
		if err := command(t.TempDir(), applet.IO{}, []string{"1.2.3.4", "5.6.7.8"}); !errors.As(err, &usage) {
			t.Errorf("error = %v, want a usage error", err)
		}
	})
}

func TestOnce(t *testing.T) {
	tests := []struct {
		mode  Mode
		words string
	}{
		{Safe, "47574f4253414645acbeb9ba"},
		{Factory, "47574f4246414354b9bebcab"},
	}
	for _, tt := range tests {
		t.Run(string(tt.mode), func(t *testing.T) {
			root, b := box(t, rtl8196e.Lidl)
			if err := SetOnce(root, tt.mode); err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(peek(t, root, b.Boothold.Base+0x100, 12)); got != tt.words {
				t.Errorf("words = %s, want %s", got, tt.words)
			}
			only(t, root, b.RAMBytes, b.Boothold)
			for i, want := range []Mode{tt.mode, Normal} { // one boot
				if got, err := TakeOnce(root); got != want || err != nil {
					t.Errorf("start %d: %q, %v; want %q", i+1, got, err, want)
				}
			}
		})
	}
}

func TestOnceTakenBack(t *testing.T) {
	root, _ := box(t, rtl8196e.Lidl)
	for _, m := range []Mode{Factory, Normal} {
		if err := SetOnce(root, m); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := TakeOnce(root); got != Normal || err != nil {
		t.Errorf("TakeOnce = %q, %v; want normal", got, err)
	}
	if err := SetOnce(root, "fast"); err == nil {
		t.Error("SetOnce took a mode that does not exist")
	}
}

// A loader's word and ours do not touch.
func TestOnceAndHold(t *testing.T) {
	root, b := box(t, rtl8196e.Sengled)
	if _, err := Hold(root, [4]byte{192, 168, 1, 6}, true); err != nil {
		t.Fatal(err)
	}
	if err := SetOnce(root, Safe); err != nil {
		t.Fatal(err)
	}
	if got, err := TakeOnce(root); got != Safe || err != nil {
		t.Errorf("TakeOnce = %q, %v", got, err)
	}
	if got := hex.EncodeToString(peek(t, root, b.Boothold.Top()-12, 12)); got != "c0a8010649505634484f4c44" {
		t.Errorf("loader's words = %s", got)
	}
}

// RAM is noise after a cold start, and a board may have no page at all.
func TestTakeOnceNoise(t *testing.T) {
	tests := []struct {
		name  string
		words string
	}{
		{"zero", "000000000000000000000000"},
		{"ones", "ffffffffffffffffffffffff"},
		{"magic alone", "47574f420000000000000000"},
		{"mode without its check", "47574f425341464500000000"},
		{"unknown mode", "47574f426162636465666768"},
		{"little-endian", "424f574745464153babebeac"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, b := box(t, rtl8196e.Lidl)
			words, err := hex.DecodeString(tt.words)
			if err != nil {
				t.Fatal(err)
			}
			poke(t, root, b.Boothold.Base+0x100, words)
			if got, err := TakeOnce(root); got != Normal || err != nil {
				t.Errorf("TakeOnce = %q, %v; want normal", got, err)
			}
		})
	}
	if got, err := TakeOnce(t.TempDir()); got != Normal || err != nil {
		t.Errorf("without a page: %q, %v; want normal", got, err)
	}
}

func FuzzParseReg(f *testing.F) {
	for _, reg := range regs {
		b, err := hex.DecodeString(reg)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, reg []byte) {
		p, err := parseReg(reg)
		if err != nil {
			return
		}
		if p.Base+onceOffset+12 > p.Top()-fromTop || p.Top() <= p.Base {
			t.Errorf("%x accepted as %+v, where the words overlap", reg, p)
		}
	})
}

func TestApplet(t *testing.T) {
	a := Applet()
	var out, errs bytes.Buffer
	if code := a.Execute(context.Background(), applet.IO{Out: &out, Err: &errs}, []string{"-h"}); code != 0 || out.Len() == 0 {
		t.Errorf("-h: status %d, %q", code, out.String())
	}
}

func peek(t *testing.T, root string, at uint32, n int) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "dev/mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, int64(at)); err != nil {
		t.Fatal(err)
	}
	return b
}

func poke(t *testing.T, root string, at uint32, b []byte) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(root, "dev/mem"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// only fails when a byte outside the page is not zero.
func only(t *testing.T, root string, ram uint32, p rtl8196e.Page) {
	t.Helper()
	for i, b := range peek(t, root, 0, int(p.Base)) {
		if b != 0 {
			t.Fatalf("byte %#x, below the page, was written", i)
		}
	}
	for i, b := range peek(t, root, p.Top(), int(ram-p.Top())) {
		if b != 0 {
			t.Fatalf("byte %#x, above the page, was written", uint32(i)+p.Top())
		}
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
