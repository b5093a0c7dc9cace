package supervisor

import (
	"os"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	for _, tt := range []struct {
		name, stat string
		want       float64
	}{
		{"plain", "7 (gw) S 1 7 7 0 -1 4194560 10 0 0 0 150 75 0 0 20 0 1 0 100 0 0", 2.25},
		{"name with parentheses", "7 (a) (b c) S 1 7 7 0 -1 4194560 10 0 0 0 100 0 0 0", 1},
		{"cut", "7 (gw) S 1 7 7 0 -1 4194560 10 0 0 0 150", 0},
		{"no number", "7 (gw) S 1 7 7 0 -1 4194560 10 0 0 0 x y 0 0", 0},
		{"empty", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseStat([]byte(tt.stat)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestParseStatm(t *testing.T) {
	for _, tt := range []struct {
		name, statm string
		rss, anon   uint64
	}{
		{"both", "135000 512 384 1300 0 33000 0\n", 2048, 512},
		{"zombie", "0 0 0 0 0 0 0\n", 0, 0},
		{"counted one after the other", "10 7 8 0 0 0 0\n", 28, 0},
		{"cut", "135000 512", 0, 0},
		{"no number", "a b c d e f g\n", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if rss, anon := parseStatm([]byte(tt.statm), 4096); rss != tt.rss || anon != tt.anon {
				t.Errorf("got %d, %d; want %d, %d", rss, anon, tt.rss, tt.anon)
			}
		})
	}
}

func TestReadUsage(t *testing.T) {
	if u := readUsage("/proc", os.Getpid()); u.rss == 0 || u.anon == 0 || u.anon > u.rss {
		t.Errorf("of this process: %+v", u)
	}
	// What the kernel says in words, which changes while one looks.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	u := readUsage("/proc", os.Getpid())
	for name, got := range map[string]uint64{"VmRSS:": u.rss, "RssAnon:": u.anon} {
		_, rest, _ := strings.Cut(string(status), name)
		if want := number([]byte(strings.Fields(rest)[0])); got < want/2 || got > 2*want {
			t.Errorf("%s %d KiB, the kernel says %d", name, got, want)
		}
	}
	if u := readUsage("/proc", 0); u != (usage{}) {
		t.Errorf("of nobody: %+v", u)
	}
}
