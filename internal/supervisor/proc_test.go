package supervisor

import (
	"os"
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

func TestParseStatus(t *testing.T) {
	for _, tt := range []struct {
		name, status string
		rss, anon    uint64
	}{
		{"both", "Name:\tgw\nVmRSS:\t    2048 kB\nRssAnon:\t     512 kB\n", 2048, 512},
		{"zombie has none", "Name:\tgw\nState:\tZ (zombie)\n", 0, 0},
		{"no value", "VmRSS:\nRssAnon: x kB\n", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if rss, anon := parseStatus([]byte(tt.status)); rss != tt.rss || anon != tt.anon {
				t.Errorf("got %d, %d; want %d, %d", rss, anon, tt.rss, tt.anon)
			}
		})
	}
}

func TestReadUsage(t *testing.T) {
	if u := readUsage("/proc", os.Getpid()); u.rss == 0 || u.anon == 0 || u.anon > u.rss {
		t.Errorf("of this process: %+v", u)
	}
	if u := readUsage("/proc", 0); u != (usage{}) {
		t.Errorf("of nobody: %+v", u)
	}
}
