//go:build !no_firewall

package core

import (
	"os"
	"path/filepath"
	"testing"

	"gwinit/services/firewall"
	"gwinit/services/wireguard/conf"
)

// The firewall opens what the tunnel's files say, and nothing while it is off.
func TestTunnelOfTheFirewall(t *testing.T) {
	t.Parallel()
	const keys = "[Interface]\nPrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\n"
	for name, tt := range map[string]struct {
		settings, file string
		want           firewall.Tunnel
	}{
		"no files":           {"", "", firewall.Tunnel{}},
		"off":                {"ENABLED=0\n", keys + "ListenPort = 51820\n", firewall.Tunnel{}},
		"on":                 {"ENABLED=1\n", keys + "ListenPort = 51820\n", firewall.Tunnel{Interface: "wg0", Port: 51820}},
		"another interface":  {"ENABLED=1\nINTERFACE=home\n", keys + "ListenPort = 7\n", firewall.Tunnel{Interface: "home", Port: 7}},
		"a port of chance":   {"ENABLED=1\n", keys, firewall.Tunnel{Interface: "wg0"}},
		"without its file":   {"ENABLED=1\n", "", firewall.Tunnel{Interface: "wg0"}},
		"a file of nonsense": {"ENABLED=1\n", "ListenPort = 99999\n", firewall.Tunnel{Interface: "wg0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for file, text := range map[string]string{"/userdata/etc/wireguard.conf": tt.settings, conf.File: tt.file} {
				if text == "" {
					continue
				}
				at := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := tunnel(root); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
