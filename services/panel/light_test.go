//go:build linux

package panel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// class is an LED of the kernel with those triggers, below a new folder.
func class(t *testing.T, dir, triggers string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"brightness": "?\n", "trigger": triggers, "delay_on": "?\n", "delay_off": "?\n"} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// shown is what the LED's files hold.
func shown(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	for _, name := range []string{"trigger", "brightness", "delay_on", "delay_off"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			all = append(all, "-")
			continue
		}
		all = append(all, strings.TrimSpace(string(b)))
	}
	return strings.Join(all, " ")
}

// The triggers of the gateways' kernel, and of one that has more.
const (
	gatewayTriggers = "[none] heartbeat eth0:link uart-bridge-client netdev\n"
	moreTriggers    = "none [timer] heartbeat netdev\n"
)

func TestLamp(t *testing.T) {
	tests := []struct {
		name, triggers, mode string
		light                light
		want                 string
		blinks               bool // by us
	}{
		{"dark", gatewayTriggers, "bright", dark, "none 0 ? ?", false},
		{"client", gatewayTriggers, "bright", lit, "none 255 ? ?", false},
		{"client, dim", gatewayTriggers, "dim", lit, "none 60 ? ?", false},
		{"client, off", gatewayTriggers, "off", lit, "none 0 ? ?", false},
		{"button, off", gatewayTriggers, "off", light{on: steady, always: true}, "none 60 ? ?", false},
		{"button's mark", gatewayTriggers, "bright", light{always: true}, "none 0 ? ?", false},
		{"client of the driver", gatewayTriggers, "bright", byKernel, "uart-bridge-client ? ? ?", false},
		{"client of the driver, off", gatewayTriggers, "off", byKernel, "none 0 ? ?", false},
		{"failed", gatewayTriggers, "bright", failed, "heartbeat 255 ? ?", false},
		{"failed, off", gatewayTriggers, "off", failed, "none 0 ? ?", false},
		{"failed, no such trigger", "[none] netdev\n", "dim", failed, "none 60 ? ?", true},
		{"no address", gatewayTriggers, "bright", noAddress, "none 255 ? ?", true},
		{"no address, timer", moreTriggers, "bright", noAddress, "timer 255 2000 2000", false},
		{"trial update", gatewayTriggers, "dim", trialUpdate, "none 60 ? ?", true},
		{"trial update, off", gatewayTriggers, "off", trialUpdate, "none 0 ? ?", false},
		{"bench mode, timer", moreTriggers, "bright", benchMode, "timer 255 500 4000", false},
		{"enrolment, off", gatewayTriggers, "off", enrolOpen, "none 60 ? ?", true},
		{"no triggers at all", "", "bright", lit, "- 255 ? ?", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			class(t, dir, tt.triggers)
			l, err := openLamp(dir)
			if err != nil {
				t.Fatal(err)
			}
			l.setMode(tt.mode)
			l.show(0, tt.light)
			if got := shown(t, dir); got != tt.want || l.err != nil {
				t.Errorf("shows %q, want %q, %v", got, tt.want, l.err)
			}
			if blinks := l.next(0) != never; blinks != tt.blinks {
				t.Errorf("blinks by itself: %v", blinks)
			}
		})
	}
	if _, err := openLamp(t.TempDir()); err == nil {
		t.Error("found an LED in an empty folder")
	}
}

// No two patterns that blink can be taken for each other: their times differ by
// half a second at least.
func TestPatternsDiffer(t *testing.T) {
	all := []light{blinkFast, enrolOpen, failed, trialUpdate, benchMode, noAddress}
	for i, a := range all {
		for _, b := range all[:i] {
			if max((a.on-b.on).Abs(), (a.off-b.off).Abs()) < 500*time.Millisecond {
				t.Errorf("%s looks like %s", a.name, b.name)
			}
		}
	}
}

// Two writes a second at most, and none while a pattern stays.
func TestLampWrites(t *testing.T) {
	for _, w := range []light{dark, lit, blinkFast, enrolOpen, failed, trialUpdate, benchMode, noAddress} {
		dir := t.TempDir()
		class(t, dir, "[none] netdev\n")
		l, err := openLamp(dir)
		if err != nil {
			t.Fatal(err)
		}
		l.setMode("bright")
		path := filepath.Join(dir, "brightness")
		var levels []string
		for at := time.Duration(0); at < 20*time.Second; at += 50 * time.Millisecond {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			l.show(at, w)
			if b, _ := os.ReadFile(path); len(b) > 0 {
				levels = append(levels, strings.TrimSpace(string(b)))
			}
		}
		most := 1
		if w.on != 0 && w.on != steady {
			// Two for each time around, the last one not whole.
			most = 2*int((20*time.Second+w.on+w.off-1)/(w.on+w.off)) + 1
			if !slices.Equal(levels[:4], []string{"255", "0", "255", "0"}) {
				t.Errorf("%s: %v", w.name, levels[:4])
			}
		}
		if len(levels) > most || most > 41 {
			t.Errorf("%s: %d writes in 20 s, want %d at most", w.name, len(levels), most)
		}
	}
}

func TestEstablished(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	const tcp = head +
		"   0: 00000000:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0\n" +
		"   1: 320200C0:22B8 0A0200C0:C822 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0\n" +
		"   2: 320200C0:0016 0A0200C0:22B8 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0\n"
	const tcp6 = head +
		"   0: 0000000000000000FFFF0000320200C0:22B8 0000000000000000FFFF00000A0200C0:C822 01 0:0 0:0 0 0 0 4 1 0 1\n" +
		"   1: 0000000000000000FFFF0000320200C0:22B8 0000000000000000FFFF00000A0200C0:C822 08 0:0 0:0 0 0 0 4 1 0 1\n"
	for text, want := range map[string]int{"": 0, head: 0, tcp: 1, tcp6: 1, tcp + tcp6: 2, "x y z\n1\n\n": 0} {
		if n := established(text, 8888); n != want {
			t.Errorf("%d, want %d of\n%s", n, want, text)
		}
	}
}
