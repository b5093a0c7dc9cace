package zone

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	winter := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	summer := time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC)
	tests := []struct{ tz, winter, summer string }{
		{"CET-1CEST,M3.5.0,M10.5.0/3", "13:00 CET", "14:00 CEST"},
		{"EST5EDT,M3.2.0,M11.1.0", "07:00 EST", "08:00 EDT"},
		{"UTC0", "12:00 UTC", "12:00 UTC"},
		{"<+0530>-5:30", "17:30 +0530", "17:30 +0530"},
		{"JST-9", "21:00 JST", "21:00 JST"},
		{"", "12:00 UTC", "12:00 UTC"},
	}
	for _, tt := range tests {
		loc, err := Parse(tt.tz)
		if err != nil {
			t.Errorf("%q: %v", tt.tz, err)
			continue
		}
		if got := winter.In(loc).Format("15:04 MST"); got != tt.winter {
			t.Errorf("%q in winter: %s, want %s", tt.tz, got, tt.winter)
		}
		if got := summer.In(loc).Format("15:04 MST"); got != tt.summer {
			t.Errorf("%q in summer: %s, want %s", tt.tz, got, tt.summer)
		}
	}
	for _, bad := range []string{"Europe/Berlin", "X", "CET", "<a", "CET-99"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestLoad(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TZ", "")
	if got := Load(root); got != time.UTC {
		t.Errorf("without a file: %v", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/TZ"), []byte("JST-9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(0, 0)
	if got := at.In(Load(root)).Format("15:04"); got != "09:00" {
		t.Errorf("etc/TZ: %s", got)
	}
	t.Setenv("TZ", "EST5")
	if got := at.In(Load(root)).Format("15:04"); got != "19:00" {
		t.Errorf("$TZ: %s", got)
	}
	t.Setenv("TZ", "nonsense/zone")
	if got := Load(root); got != time.UTC {
		t.Errorf("nonsense: %v", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"CET-1CEST,M3.5.0,M10.5.0/3", "<+0530>-5:30", "EST5EDT", ":", "AAA1:2:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tz string) {
		loc, err := Parse(tz)
		if err == nil {
			_ = time.Unix(1790000000, 0).In(loc).Format(time.RFC3339)
		}
	})
}
