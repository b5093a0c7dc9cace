package savedtime

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 4, 12, 0, 0, 0, time.UTC)

func TestRestore(t *testing.T) {
	for _, tt := range []struct {
		name    string
		content string // "-": no file
		now     time.Time
		set     time.Time
		says    string
	}{
		{"none", "-", time.Unix(7, 0), time.Time{}, ""},
		{"ahead", "1767528000\n", time.Unix(7, 0), noon, "clock: set to the saved time, 2026-01-04 12:00:00 UTC"},
		{"past 2038", "4070908800\n", time.Unix(7, 0), time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), "2099-01-01"},
		{"not ahead", "1767528000\n", noon, time.Time{}, ""},
		{"behind", "1767528000\n", noon.Add(time.Hour), time.Time{}, ""},
		{"torn", "17675", time.Unix(7, 0), time.Time{}, "holds no time"},
		{"torn between digits and end", "1767528000", time.Unix(7, 0), time.Time{}, "holds no time"},
		{"1970", "5\n", time.Unix(1, 0), time.Time{}, "holds no time"},
		{"far future", "99999999999\n", time.Unix(7, 0), time.Time{}, "holds no time"},
		{"noise", "\xff\xff\xff\xff", time.Unix(7, 0), time.Time{}, "holds no time"},
		{"empty", "", time.Unix(7, 0), time.Time{}, "holds no time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, Path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if tt.content != "-" {
				if err := os.WriteFile(path, []byte(tt.content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var set time.Time
			says := Restore(root, tt.now, func(to time.Time) error { set = to; return nil })
			if !set.Equal(tt.set) || !strings.Contains(says, tt.says) || tt.says == "" && says != "" {
				t.Errorf("set to %v, says %q; want %v, %q", set, says, tt.set, tt.says)
			}
		})
	}
}

func TestRestoreRefused(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(Path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Save(root, noon); err != nil {
		t.Fatal(err)
	}
	says := Restore(root, time.Unix(7, 0), func(time.Time) error { return errors.New("not permitted") })
	if says != "clock: set it to the saved time: not permitted" {
		t.Errorf("says %q", says)
	}
	if at, err := Load(root); !at.Equal(noon) || err != nil {
		t.Errorf("%v, %v", at, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("1767528000\n"))
	f.Add([]byte("-1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		at, err := Parse(b)
		if (err == nil) == at.IsZero() || err == nil && (at.Year() < 2023 || at.Year() > 2200) {
			t.Errorf("%q is %v, %v", b, at, err)
		}
	})
}
