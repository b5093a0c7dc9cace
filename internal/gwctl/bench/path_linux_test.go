package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPathFit(t *testing.T) {
	for _, tt := range []struct {
		p    Path
		want string
	}{
		{Path{Kind: wired}, ""},
		{Path{Kind: loopback}, ""},
		{Path{Kind: wireless, Interface: "wlan0"}, "over wlan0, which is wireless: use a cable"},
		{Path{Kind: wired, Routed: true, Via: "192.0.2.1"}, "behind a router (192.0.2.1)"},
		{Path{Kind: tunnel, Interface: "wg0"}, "the tunnel wg0"},
		{Path{Kind: unknown, Interface: "en0"}, "cannot be told on this system"},
	} {
		err := tt.p.fit()
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "-any-path")) {
			t.Errorf("%+v: %v", tt.p, err)
		}
	}
}

// Interfaces as sysfs shows them.
func TestLook(t *testing.T) {
	sys := t.TempDir()
	make := func(name string, files map[string]string) {
		for file, text := range files {
			path := filepath.Join(sys, name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	make("lo", map[string]string{"type": "772"})
	make("eno1", map[string]string{"type": "1", "speed": "1000"})
	make("veth0", map[string]string{"type": "1", "speed": "-1"})
	make("wlan0", map[string]string{"type": "1", "wireless/x": "", "speed": "-1"})
	make("wlan1", map[string]string{"type": "1", "phy80211/x": ""})
	make("wg0", map[string]string{"type": "65534"})
	make("tap0", map[string]string{"type": "1", "tun_flags": "0x1002"})
	make("br0", map[string]string{"type": "1", "bridge/x": "", "brif/eno1/x": "", "speed": "1000"})
	make("br1", map[string]string{"type": "1", "bridge/x": "", "brif/eno1/x": "", "brif/wlan0/x": ""})
	make("vlan5", map[string]string{"type": "1", "lower_wlan1/x": ""})
	make("vlan6", map[string]string{"type": "1", "lower_eno1/x": "", "speed": "1000"})
	for name, want := range map[string]struct {
		kind  string
		speed int
	}{
		"lo": {loopback, 0}, "eno1": {wired, 1000}, "veth0": {wired, 0}, "wlan0": {wireless, 0}, "wlan1": {wireless, 0}, "wg0": {tunnel, 0},
		"tap0": {tunnel, 0}, "br0": {wired, 1000}, "br1": {wireless, 0}, "vlan5": {wireless, 0}, "vlan6": {wired, 1000},
	} {
		if kind, speed := look(sys, name); kind != want.kind || speed != want.speed {
			t.Errorf("%s: %s %d, want %v", name, kind, speed, want)
		}
	}
}
