package netwatch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const sample = "gwinit netwatch budget 1\nboot 0b5a 5123\nreboot 86000\ndriver 60\nreboot 0\nend 3\n"

func TestLedgerFormat(t *testing.T) {
	l := ledger{boot: "0b5a", uptime: 5123, entries: []entry{
		{stepReboot, 86000}, {stepDriver, 60}, {stepReboot, 0},
	}}
	if got := string(l.format()); got != sample {
		t.Errorf("%q, want %q", got, sample)
	}
	back, err := parseLedger([]byte(sample))
	want := ledger{"0b5a", 5123, []entry{{stepReboot, 86000}, {stepDriver, 60}, {stepReboot, 0}}}
	if err != nil || back.boot != want.boot || back.uptime != want.uptime || !slices.Equal(back.entries, want.entries) {
		t.Errorf("%+v, %v, want %+v", back, err, want)
	}
	if l, err := parseLedger([]byte("gwinit netwatch budget 1\nboot x 0\nend 0\n")); err != nil || len(l.entries) != 0 {
		t.Errorf("empty: %+v, %v", l, err)
	}
}

// Whatever it would not write itself, it does not believe.
func TestLedgerRefuses(t *testing.T) {
	for i := range len(sample) {
		if _, err := parseLedger([]byte(sample[:i])); !errors.Is(err, errBudget) {
			t.Errorf("torn at %d: %v", i, err)
		}
	}
	for _, tt := range []struct{ from, to string }{
		{"budget 1", "budget 2"},
		{"reboot 0", "reboot -1"},
		{"reboot 0", "reboot +1"},
		{"reboot 0", "reboot 00"},
		{"reboot 0", "reboot 1e3"},
		{"reboot 0", "reboot 315360001"},
		{"reboot 0", "reboot 99999999999999999999"},
		{"reboot 0", "renew 0"},
		{"reboot 0", "dance 0"},
		{"reboot 0", "reboot"},
		{"reboot 0\n", ""},
		{"reboot 0\n", "\n"},
		{"boot 0b5a", "boot"},
		{"boot 0b5a", "boot a b"},
		{"boot 0b5a 5123", "boat 0b5a 5123"},
		{"boot 0b5a 5123", "boot 0b5a x"},
		{"end 3", "end 2"},
		{"end 3\n", "end 3\n\n"},
		{"end 3\n", "end 3\nreboot 0\n"},
		{"\nboot", "\r\nboot"},
		{"gwinit", "\x00winit"},
		{"gwinit", "\ufeffgwinit"},
	} {
		text := strings.Replace(sample, tt.from, tt.to, 1)
		if text == sample {
			t.Fatalf("nothing to replace: %q", tt.from)
		}
		if l, err := parseLedger([]byte(text)); !errors.Is(err, errBudget) {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
	many := budgetHead + "\nboot x 0\n" + strings.Repeat("reboot 1\n", maxEntries+1) + "end 401\n"
	if _, err := parseLedger([]byte(many)); !errors.Is(err, errBudget) {
		t.Error("more steps than there can be are believed")
	}
	if _, err := parseLedger(make([]byte, 1<<20)); !errors.Is(err, errBudget) {
		t.Error("a MiB of zeros is believed")
	}
}

func FuzzParseLedger(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("gwinit netwatch budget 1\nboot x 0\nend 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseLedger(b)
		if err == nil && string(l.format()) != string(b) {
			t.Errorf("%q is read, and written as %q", b, l.format())
		}
	})
}

// Time counts while the box runs, and only then.
func TestLedgerMoved(t *testing.T) {
	was := ledger{"a", 3600, []entry{{stepReboot, 20 * 3600}, {stepDriver, 60}}}
	for _, tt := range []struct {
		name   string
		boot   string
		uptime secs
		want   []secs
	}{
		{"the same moment", "a", 3600, []secs{20 * 3600, 60}},
		{"later", "a", 4 * 3600, []secs{23 * 3600, 3*3600 + 60}},
		{"the next boot: its uptime, and not what is lost", "b", 10 * 60, []secs{20*3600 + 10*60, 11 * 60}},
		{"a boot of the same name cannot have run for less", "a", 30 * 60, []secs{20*3600 + 30*60, 31 * 60}},
		{"too old for any window", "b", maxWindow - 20*3600, []secs{maxWindow - 20*3600 + 60}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ages []secs
			now, _ := was.moved(tt.boot, tt.uptime)
			for _, e := range now.entries {
				ages = append(ages, e.age)
			}
			if !slices.Equal(ages, tt.want) || now.boot != tt.boot || now.uptime != tt.uptime {
				t.Errorf("%v of %s at %v, want %v", ages, now.boot, now.uptime, tt.want)
			}
		})
	}
	if n := was.used(stepReboot, 24*3600, 3600); n != 1 {
		t.Errorf("used %d, want 1", n)
	}
	if n := was.used(stepReboot, 20*3600, 3600); n != 0 {
		t.Errorf("used %d at the window's end, want 0", n)
	}
}

// box is a budget in a folder, with a boot that the test ends.
func box(t *testing.T, limit int) (*budget, *secs) {
	uptime := new(secs)
	*uptime = 60
	return &budget{
		path: filepath.Join(t.TempDir(), "netwatch/budget"), window: 24 * 3600, limit: limit, boot: "first",
		uptime: func() secs { return *uptime }, writable: func() error { return nil },
	}, uptime
}

func TestBudget(t *testing.T) {
	b, uptime := box(t, 2)
	want := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("first", b.draw(stepReboot), nil)
	if text, _ := os.ReadFile(b.path); string(text) != "gwinit netwatch budget 1\nboot first 60\nreboot 0\nend 1\n" {
		t.Errorf("the file holds %q", text)
	}
	want("a driver's", b.draw(stepDriver), nil)
	b.boot, *uptime = "second", 3600
	want("second", b.draw(stepReboot), nil)
	b.boot, *uptime = "third", 3600
	want("third", b.draw(stepReboot), errSpent)
	// The first was 1 h of the second boot and 23 h of this one ago.
	*uptime = 23*3600 - 1
	want("a second before the window's end", b.draw(stepReboot), errSpent)
	*uptime += 1
	want("at its end", b.draw(stepReboot), nil)
	l, err := b.read()
	if err != nil || l.used(stepReboot, b.window, l.uptime) != 2 || l.used(stepDriver, b.window, l.uptime) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}

// A box whose power is cut every hour: the hours do not add up, so that there
// is no reboot too many.
func TestBudgetOverPowerCuts(t *testing.T) {
	b, uptime := box(t, 1)
	if err := b.draw(stepReboot); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		b.boot, *uptime = string(rune('a'+i)), 3600
		if err := b.draw(stepReboot); !errors.Is(err, errSpent) {
			t.Fatalf("boot %d: %v", i, err)
		}
	}
	// With clean ends they do.
	for i := range 23 {
		b.boot, *uptime = string(rune('A'+i)), 3600
		if err := b.draw(stepReboot); !errors.Is(err, errSpent) {
			t.Fatalf("boot %d: %v", i, err)
		}
		b.leave()
	}
	b.boot, *uptime = "Z", 3600-1
	if err := b.draw(stepReboot); !errors.Is(err, errSpent) {
		t.Errorf("a second before 24 h of uptime: %v", err)
	}
	*uptime = 3600
	if err := b.draw(stepReboot); err != nil {
		t.Errorf("after 24 h of uptime: %v", err)
	}
}

// The flash is not written for minutes, nor where nothing was done.
func TestBudgetLeave(t *testing.T) {
	b, uptime := box(t, 1)
	b.leave()
	if _, err := os.Stat(b.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty account was written: %v", err)
	}
	if err := b.draw(stepReboot); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(b.path)
	*uptime += worthwhile - 1
	b.leave()
	if after, _ := os.ReadFile(b.path); string(after) != string(before) {
		t.Errorf("written for less than %v: %q", worthwhile, after)
	}
	*uptime += 1
	b.leave()
	if after, _ := os.ReadFile(b.path); string(after) != "gwinit netwatch budget 1\nboot first 660\nreboot 600\nend 1\n" {
		t.Errorf("%q", after)
	}
}

// INV 8: what cannot be read or written is no budget.
func TestBudgetFailsClosed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, b *budget)
		want  string
	}{
		{"nothing that lasts", func(_ *testing.T, b *budget) { b.writable = func() error { return errors.New("no JFFS2 is mounted") } }, "no JFFS2 is mounted"},
		{"torn", func(t *testing.T, b *budget) { put(t, b.path, sample[:40]) }, "is damaged"},
		{"empty", func(t *testing.T, b *budget) { put(t, b.path, "") }, "is damaged"},
		{"noise", func(t *testing.T, b *budget) { put(t, b.path, strings.Repeat("\xff", 5000)) }, "is damaged"},
		{"too long", func(t *testing.T, b *budget) { put(t, b.path, strings.Repeat("reboot 1\n", 1<<18)) }, ""},
		{"a folder", func(t *testing.T, b *budget) {
			if err := os.MkdirAll(b.path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"a file where the folder should be", func(t *testing.T, b *budget) { put(t, filepath.Dir(b.path), "x") }, ""},
		{"no /userdata", func(_ *testing.T, b *budget) { b.path = "/nonexistent/netwatch/budget" }, ""},
		{"read-only", func(t *testing.T, b *budget) {
			dir := filepath.Dir(filepath.Dir(b.path))
			if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"full", func(t *testing.T, b *budget) {
			dir := filepath.Dir(filepath.Dir(b.path))
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			_ = os.WriteFile(dir+"/fill", make([]byte, 64<<10), 0o644) // as far as it goes
		}, "no space left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := box(t, 3)
			tt.spoil(t, b)
			err := b.draw(stepReboot)
			if err == nil || errors.Is(err, errSpent) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("draw: %v, want %q", err, tt.want)
			}
		})
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Who reboots for the box's health draws on the same account, by the settings.
func TestDraw(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "userdata/etc/netwatch.conf"), "MAX_REBOOT=2\n")
	put(t, filepath.Join(root, "proc/sys/kernel/random/boot_id"), "this-boot\n")
	good := func() error { return nil }
	no := errors.New("not mounted")
	if err := Draw(root, func() error { return no }); !errors.Is(err, no) {
		t.Errorf("without /userdata: %v", err)
	}
	for i, want := range []error{nil, nil, errSpent, errSpent} {
		if err := Draw(root, good); !errors.Is(err, want) {
			t.Errorf("draw %d: %v, want %v", i, err, want)
		}
	}
	b, err := os.ReadFile(filepath.Join(root, BudgetPath))
	l, perr := parseLedger(b)
	if err != nil || perr != nil || len(l.entries) != 2 || l.entries[0].what != stepReboot || l.boot != "this-boot" {
		t.Errorf("the account: %+v, %v, %v", l, err, perr)
	}
}
