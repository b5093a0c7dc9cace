package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/applet"
)

func TestSet(t *testing.T) {
	tests := []struct {
		name   string
		file   string
		before string // "-" for no file
		set    []Assignment
		after  string
		want   string // services, then the settings in doubt
	}{
		{
			"new file", fileRadio, "-",
			[]Assignment{{"radio.FIRMWARE_BAUD", "115200"}},
			"FIRMWARE_BAUD=115200\n", "bridge",
		},
		{
			"key alone", fileRadio, "-",
			[]Assignment{{"FIRMWARE_BAUD", " 115200 "}},
			"FIRMWARE_BAUD=115200\n", "bridge",
		},
		{
			"comments and order are kept", fileRadio,
			"# radio\n\nFIRMWARE=ncp\nFIRMWARE_BAUD=115200 # slow\nMODE=otbr",
			[]Assignment{{"radio.FIRMWARE_BAUD", "460800"}, {"radio.FIRMWARE_FLOW_CTRL", "none"}},
			"# radio\n\nFIRMWARE=ncp\nFIRMWARE_BAUD=460800 # slow\nMODE=otbr\nFIRMWARE_FLOW_CTRL=none\n", "bridge otbr",
		},
		{
			"one line stays of several", fileRadio, "FIRMWARE_BAUD=1\nA=b\nFIRMWARE_BAUD=2\nC=d\n",
			[]Assignment{{"radio.FIRMWARE_BAUD", "115200"}},
			"A=b\nFIRMWARE_BAUD=115200\nC=d\n", "bridge",
		},
		{
			"mode", fileRadio, "MODE=otbr\nMODE=otbr\n",
			[]Assignment{{"radio.MODE", "zigbee"}},
			"MODE=zigbee\n", "bridge otbr",
		},
		{
			"to Thread: nobody depends on an open REST", fileRadio, "FIRMWARE_BAUD=460800\n",
			[]Assignment{{"radio.MODE", "otbr"}},
			"FIRMWARE_BAUD=460800\nMODE=otbr\nOTBR_REST_BIND=127.0.0.1\n", "bridge otbr",
		},
		{
			"to Thread, with an open REST", fileRadio, "-",
			[]Assignment{{"radio.OTBR_REST_BIND", "0.0.0.0"}, {"radio.MODE", "otbr"}},
			"OTBR_REST_BIND=0.0.0.0\nMODE=otbr\n", "bridge otbr",
		},
		{
			"to Thread again: somebody has said about REST", fileRadio, "OTBR_REST_BIND=192.168.1.2\n",
			[]Assignment{{"radio.MODE", "otbr"}},
			"OTBR_REST_BIND=192.168.1.2\nMODE=otbr\n", "bridge otbr",
		},
		{
			"taken over in Thread mode: REST stays as it is", fileRadio, "MODE=otbr-agent\n",
			[]Assignment{{"radio.MODE", "otbr"}, {"radio.OTBR_TXPOWER", "8"}},
			"MODE=otbr\nOTBR_TXPOWER=8\n", "bridge otbr",
		},
		{
			"the border router's, without one", fileRadio, "-",
			[]Assignment{{"radio.OTBR_TXPOWER", "-5"}},
			"OTBR_TXPOWER=-5\n", "",
		},
		{
			"baud rate in doubt", fileRadio, "-",
			[]Assignment{{"radio.FIRMWARE_BAUD", "1000000"}},
			"FIRMWARE_BAUD=1000000\n", "bridge FIRMWARE_BAUD",
		},
		{
			"static address", fileEth0, "-",
			[]Assignment{{"eth0.IPADDR", "10.0.0.2"}, {"eth0.NETMASK", "255.0.0.0"}, {"eth0.GATEWAY", "10.0.0.1"}, {"eth0.DNS", "1.1.1.1 9.9.9.9"}},
			"IPADDR=10.0.0.2\nNETMASK=255.0.0.0\nGATEWAY=10.0.0.1\nDNS=\"1.1.1.1 9.9.9.9\"\n", "core",
		},
		{
			"one of a static address", fileEth0, "IPADDR='10.0.0.2'\r\nNETMASK=255.0.0.0\nGATEWAY=10.0.0.1\n",
			[]Assignment{{"eth0.IPADDR", "10.0.0.3"}},
			"IPADDR=10.0.0.3\nNETMASK=255.0.0.0\nGATEWAY=10.0.0.1\n", "core",
		},
		{
			"a gateway elsewhere", fileEth0, "IPADDR=10.0.0.2\nNETMASK=255.0.0.0\nGATEWAY=10.0.0.1\n",
			[]Assignment{{"eth0.GATEWAY", "192.168.1.1"}},
			"IPADDR=10.0.0.2\nNETMASK=255.0.0.0\nGATEWAY=192.168.1.1\n", "core GATEWAY",
		},
		{
			"away from the gateway", fileEth0, "IPADDR=10.0.0.2\nNETMASK=255.255.255.0\nGATEWAY=10.0.0.1\n",
			[]Assignment{{"eth0.IPADDR", "10.0.1.2"}, {"eth0.NETMASK", "255.255.255.128"}},
			"IPADDR=10.0.1.2\nNETMASK=255.255.255.128\nGATEWAY=10.0.0.1\n", "core GATEWAY",
		},
		{
			"other settings beside a broken address", fileEth0, "IPADDR=10.0.0.255\nNETMASK=255.255.255.0\nGATEWAY=10.0.0.1\n",
			[]Assignment{{"eth0.DOMAIN", "lan"}},
			"IPADDR=10.0.0.255\nNETMASK=255.255.255.0\nGATEWAY=10.0.0.1\nDOMAIN=lan\n", "core",
		},
		{"host name", fileHostname, "old\n", []Assignment{{"hostname", "attic"}}, "attic\n", "core"},
		{"time zone", fileTZ, "-", []Assignment{{"TZ", "<+03>-3"}}, "<+03>-3\n", ""},
		{
			"time servers", fileNTP, "# mine\nserver a # first\nserver b\nfoo\n",
			[]Assignment{{"ntp.server", "c d"}},
			"# mine\nserver c\nserver d\nfoo\n", "core",
		},
		{"the next boot", fileGateway, "-", []Assignment{{"GW_LOG_KIB", "128"}}, "GW_LOG_KIB=128\n", "boot"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{}
			if tt.before != "-" {
				files[tt.file] = tt.before
			}
			root := box(t, files)
			change, err := Set(root, board(t, rtl8196e.Lidl), tt.set)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(root, tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.after {
				t.Errorf("file = %q, want %q", got, tt.after)
			}
			words := slices.Concat(change.Restart, change.Reload)
			if change.NextBoot {
				words = append(words, "boot")
			}
			for _, w := range change.Warnings {
				words = append(words, w.Key)
			}
			if strings.Join(words, " ") != tt.want {
				t.Errorf("change = %v, want %s", words, tt.want)
			}
			changed := len(tt.set)
			if strings.HasSuffix(tt.name, "nobody depends on an open REST") {
				changed++ // which closes it
			}
			if len(change.Settings) != changed {
				t.Errorf("%d settings changed, want %d", len(change.Settings), changed)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	const before = "FIRMWARE_BAUD=115200\n"
	tests := []struct {
		name string
		set  []Assignment
		want error
	}{
		{"unknown", []Assignment{{"radio.BAUD", "1"}}, ErrUnknown},
		{"ambiguous", []Assignment{{"MODE", "off"}}, ErrAmbiguous},
		{"no number", []Assignment{{"radio.FIRMWARE_BAUD", "fast"}}, ErrValue},
		{"empty", []Assignment{{"radio.FIRMWARE_BAUD", " "}}, ErrValue},
		{"one of two", []Assignment{{"radio.FIRMWARE_BAUD", "230400"}, {"radio.MODE", "thread"}}, ErrValue},
		{"second file", []Assignment{{"radio.FIRMWARE_BAUD", "230400"}, {"leds.MODE", "green"}}, ErrValue},
		{"flow that is not wired", []Assignment{{"radio.FIRMWARE_FLOW_CTRL", "hw"}}, ErrValue},
		{"a line more", []Assignment{{"radio.FIRMWARE", "ncp\nMODE=otbr"}}, ErrValue},
		{"a command", []Assignment{{"eth0.DOMAIN", "$(reboot)"}}, ErrValue},
		{"blanks where no quotes are read", []Assignment{{"radio.FIRMWARE_VERSION", "7 5"}}, ErrValue},
		{"address alone", []Assignment{{"eth0.IPADDR", "10.0.0.2"}}, ErrIncomplete},
		{"broadcast address", []Assignment{{"eth0.IPADDR", "10.0.0.255"}, {"eth0.NETMASK", "24"}, {"eth0.GATEWAY", "10.0.0.1"}}, ErrValue},
		{"broadcast address as gateway", []Assignment{{"eth0.IPADDR", "10.0.0.2"}, {"eth0.NETMASK", "24"}, {"eth0.GATEWAY", "10.0.0.255"}}, ErrValue},
		{"host name", []Assignment{{"hostname", "my gateway"}}, ErrValue},
		{"group's MAC", []Assignment{{"mac_address", "ff:ff:ff:ff:ff:ff"}}, ErrValue},
		{"time server", []Assignment{{"ntp.server", "a b/c"}}, ErrValue},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := box(t, map[string]string{fileRadio: before})
			_, err := Set(root, board(t, rtl8196e.Sengled), tt.set)
			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			got, err := os.ReadFile(filepath.Join(root, fileRadio))
			if err != nil || string(got) != before {
				t.Errorf("file = %q, %v; want it untouched", got, err)
			}
			entries, err := os.ReadDir(filepath.Join(root, Dir))
			if err != nil || len(entries) != 1 {
				t.Errorf("folder holds %v, %v; want radio.conf alone", entries, err)
			}
		})
	}
}

// A mask that makes the address a broadcast address would take the box off the
// network.
func TestSetRefusesMaskThatSpoilsTheAddress(t *testing.T) {
	const before = "IPADDR=10.0.0.3\nNETMASK=255.255.255.0\nGATEWAY=10.0.0.1\n"
	root := box(t, map[string]string{fileEth0: before})
	_, err := Set(root, board(t, rtl8196e.Lidl), []Assignment{{"eth0.NETMASK", "255.255.255.252"}})
	const want = "eth0.NETMASK: not taken: IPADDR=10.0.0.3 is then the broadcast address of 10.0.0.0/30"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if got, err := os.ReadFile(filepath.Join(root, fileEth0)); err != nil || string(got) != before {
		t.Errorf("file %q, %v", got, err)
	}
}

// What has the name of a settings file and is none is left alone.
func TestUnsetFolder(t *testing.T) {
	root := box(t, nil)
	folder := filepath.Join(root, fileHostname)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Unset(root, board(t, rtl8196e.Lidl), []string{"hostname"}); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("error %v, want EISDIR", err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

// The folder of the settings is made where only the partition is there.
func TestStoreMAC(t *testing.T) {
	tests := []struct {
		name   string
		before string // of the file; "-": no folder; "--": no /userdata
		want   error
	}{
		{"erased flash", "-", nil},
		{"no file", "", nil},
		{"a file of noise", "\x00\x00", nil},
		{"no userdata", "--", ErrNoUserdata},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			switch tt.before {
			case "--":
			case "-":
				if err := os.Mkdir(filepath.Join(root, "userdata"), 0o755); err != nil {
					t.Fatal(err)
				}
			default:
				root = box(t, map[string]string{fileMAC: tt.before})
			}
			mac := [6]byte{0x02, 0xab, 5: 1}
			if err := StoreMAC(root, mac); !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if tt.want != nil {
				return
			}
			n, warnings := LoadNetwork(root)
			same(t, "MAC", n.MAC, mac)
			same(t, "warnings", texts(warnings), []string(nil))
			info, err := os.Stat(filepath.Join(root, Dir))
			if err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("folder %v, %v", info, err)
			}
		})
	}
}

// An old line that nobody asked about does not stand in the way.
func TestSetBesideOldFaults(t *testing.T) {
	root := box(t, map[string]string{fileRadio: "WHAT=ever\nFIRMWARE_FLOW_CTRL=x\nnoise\n", fileNTP: "driftfile /x\n"})
	lidl := board(t, rtl8196e.Lidl)
	if _, err := Set(root, lidl, []Assignment{{"radio.FIRMWARE_BAUD", "115200"}, {"ntp.server", "a"}}); err != nil {
		t.Error(err)
	}
}

func TestUnset(t *testing.T) {
	const eth = "IPADDR=10.0.0.2\nNETMASK=255.0.0.0\nGATEWAY=10.0.0.1\nDNS=1.1.1.1\n"
	tests := []struct {
		name  string
		unset []string
		file  string
		after string // "-" for no file
		want  error
	}{
		{"one key", []string{"radio.MODE"}, fileRadio, "# radio\nFIRMWARE_BAUD=115200\n", nil},
		{"two keys", []string{"radio.MODE", "FIRMWARE_BAUD"}, fileRadio, "# radio\n", nil},
		{"one that is not set", []string{"radio.BRIDGE_BIND"}, fileRadio, "# radio\nMODE=otbr\nFIRMWARE_BAUD=115200\n", nil},
		{"optional part of an address", []string{"eth0.DNS"}, fileEth0, "IPADDR=10.0.0.2\nNETMASK=255.0.0.0\nGATEWAY=10.0.0.1\n", nil},
		{"part of an address", []string{"eth0.GATEWAY"}, fileEth0, eth, ErrIncomplete},
		{"the address", []string{"eth0"}, fileEth0, "-", nil},
		{"a file that is a value", []string{"hostname"}, fileHostname, "-", nil},
		{"a file that is not there", []string{"TZ"}, fileTZ, "-", nil},
		{"a key of a file that is not there", []string{"leds.MODE", "fallback.DNS"}, fileFallback, "-", nil},
		{"unknown", []string{"x"}, fileEth0, eth, ErrUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := box(t, map[string]string{
				fileRadio: "# radio\nMODE=otbr\nFIRMWARE_BAUD=115200\n", fileEth0: eth, fileHostname: "attic\n",
			})
			_, err := Unset(root, board(t, rtl8196e.Lidl), tt.unset)
			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			got, err := os.ReadFile(filepath.Join(root, tt.file))
			if errors.Is(err, os.ErrNotExist) {
				got = []byte("-")
			}
			if string(got) != tt.after {
				t.Errorf("file = %q, want %q", got, tt.after)
			}
		})
	}
}

// A box whose partition is not mounted says so.
func TestSetWithoutUserdata(t *testing.T) {
	_, err := Set(t.TempDir(), board(t, rtl8196e.Lidl), []Assignment{{"hostname", "attic"}})
	if !errors.Is(err, ErrNoUserdata) {
		t.Errorf("error = %v, want ErrNoUserdata", err)
	}
}

// Every setting can be set to its own default or to what it shows, is named
// once, and is read by a load under the key that it names.
func TestSettings(t *testing.T) {
	lidl := board(t, rtl8196e.Lidl)
	values := map[string]string{
		"FIRMWARE": "ncp", "FIRMWARE_VERSION": "7.5.1", "BOOTLOADER_VERSION": "2.4.2",
		"mac_address": "02:00:00:00:00:01", "TARGETS": "10.0.0.1 10.0.0.2",
		"IPADDR": "10.0.0.2", "NETMASK": "255.255.0.0", "GATEWAY": "10.0.0.1", "DNS": "10.0.0.3", "DOMAIN": "home.lan",
		"BRIDGE_BIND": "127.0.0.1", "BRIDGE_ENGINE": "kernel", "BRIDGE_ALLOW": "192.168.7.0/24,fd00::7", "BRIDGE_TAKEOVER": "never",
		"BRIDGE_CLAIM_MS": "500", "BRIDGE_STALL_S": "60", "radio.MODE": "otbr", "leds.MODE": "off", "FIRMWARE_FLOW_CTRL": "sw", "FIRMWARE_BAUD": "230400",
		"OTBR_REST_BIND": "127.0.0.1", "OTBR_TXPOWER": "-3", "OTBR_LOG_LEVEL": "0",
		"hostname": "attic", "TZ": "CET-1", "server": "a b", "ENABLED": "1", "DRY_RUN": "1", "FAIL_MIN": "1", "POLL_SEC": "5",
		"ETH_PROFILE": "latency", "ETH_KNOBS": "kick_threshold=8 tx_queue_len=100", "ETH_QDISC": "default",
		"MAX_REBOOT": "0", "WINDOW_H": "1", "INTERFACE": "wg1", "ADDRESS": "10.8.0.2/24,fd00:8::2/64", "MTU": "1400", "ROUTES": "10.9.0.0/16", "GW_LOG_KIB": "16", "GW_NETWATCH_DRIVER": "1",
		"FIREWALL": "1", "FIREWALL_ALLOW": "tcp/8081 udp/5683-5684 tcp/9100@192.168.1.20 udp/69@fd00::/8 tcp/5201@bridge",
		"METRICS": "10.0.0.2:9000", "METRICS_ALLOW": "203.0.113.0/24", "SYSLOG": "tcp://logs.lan:601",
	}
	root := box(t, nil)
	var all []Assignment
	names := map[string]bool{}
	for _, s := range Settings() {
		v, ok := values[s.Name]
		if !ok {
			v, ok = values[s.Key]
		}
		if !ok {
			t.Fatalf("no value for %s", s.Name)
		}
		if names[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		names[s.Name] = true
		if s.Values == "" {
			t.Errorf("%s does not say what it can be", s.Name)
		}
		all = append(all, Assignment{s.Name, v})
	}
	if _, err := Set(root, lidl, all); err != nil {
		t.Fatal(err)
	}
	items, warnings := List(root, lidl)
	same(t, "warnings", texts(warnings), []string(nil))
	for i, item := range items {
		if item.Value != all[i].Value || !item.Set {
			t.Errorf("%s = %q, set %v; want %q", item.Name, item.Value, item.Set, all[i].Value)
		}
	}
	items, _ = List(box(t, nil), lidl)
	for _, item := range items {
		if item.Set {
			t.Errorf("%s is set without a file", item.Name)
		}
	}
}

func TestRun(t *testing.T) {
	files := map[string]string{
		fileRadio:                 "FIRMWARE_BAUD=115200\nWHAT=1\n",
		"/proc/device-tree/model": "Sengled Smart Hub G4 E39-G8C\x00",
	}
	refusal := &api.Error{Code: api.CodeBusy, Message: "not now"}
	const notTaken = "radio.FIRMWARE_BAUD: not taken: not a baud rate from 1200 to 4000000"
	tests := []struct {
		name     string
		args     []string
		restarts map[string]any // what Restart answers: a state or an error
		whole    bool           // the bridge has to restart, reloading is not enough
		out      string
		json     string // with -json; "" for the same
		errs     string
		err      string
		code     string // of the error, in JSON; usage: of the command line
	}{
		{name: "get", args: []string{"get", "FIRMWARE_BAUD"}, out: "115200\n", json: `[{"name":"radio.FIRMWARE_BAUD","value":"115200","set":true,` +
			`"file":"/userdata/etc/radio.conf","key":"FIRMWARE_BAUD","values":"1200 to 4000000: what the radio's firmware talks","restart":["bridge","otbr"]}]` + "\n"},
		{
			name: "get two", args: []string{"get", "netwatch.DRY_RUN", "hostname"},
			out: "  netwatch.DRY_RUN           0                        # 0, 1: only says what it would do\n" +
				"  hostname                   rtl8196e-gw              # letters, digits and '-'\n",
			json: `[{"name":"netwatch.DRY_RUN","value":"0","set":false,"file":"/userdata/etc/netwatch.conf","key":"DRY_RUN","values":"0, 1: only says what it would do","restart":["core"]},` +
				`{"name":"hostname","value":"rtl8196e-gw","set":false,"file":"/userdata/etc/hostname","values":"letters, digits and '-'","restart":["core"]}]` + "\n",
		},
		{
			name: "get a default of the board", args: []string{"get", "radio.FIRMWARE_FLOW_CTRL"}, out: "sw\n",
			json: `[{"name":"radio.FIRMWARE_FLOW_CTRL","value":"sw","set":false,"file":"/userdata/etc/radio.conf","key":"FIRMWARE_FLOW_CTRL","values":"none, sw, hw","restart":["bridge","otbr"]}]` + "\n",
		},
		{
			name: "get nothing", args: []string{"get", "eth0.IPADDR"}, out: "\n",
			json: `[{"name":"eth0.IPADDR","value":"","set":false,"file":"/userdata/etc/eth0.conf","key":"IPADDR","values":"the IPv4 address","restart":["core"]}]` + "\n",
		},
		{
			name: "get what is not there", args: []string{"get", "x"},
			err: "x: no such setting; `gwctl config list` names them", code: api.CodeNotFound,
		},
		{
			name: "check", args: []string{"check"}, out: "/userdata/etc/radio.conf:2: WHAT=\"1\": unknown key\n",
			json: `[{"file":"/userdata/etc/radio.conf","line":2,"key":"WHAT","value":"1","problem":"unknown key"}]` + "\n", code: "exit",
		},
		{
			name: "set", args: []string{"set", "radio.FIRMWARE_BAUD=230400", "hostname=attic"},
			restarts: map[string]any{"bridge": "running", "core": "running"},
			out: "radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\nhostname changed in /userdata/etc/hostname\n" +
				"bridge restarted\ncore restarted\n",
			json: `{"changed":["radio.FIRMWARE_BAUD","hostname"],"restarted":["bridge","core"]}` + "\n",
		},
		{
			name: "set what a stopped service reads", args: []string{"set", "radio.FIRMWARE_BAUD", "230400"},
			restarts: map[string]any{"bridge": "stopped"},
			out: "radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\n" +
				"bridge is stopped and is left so; it uses this once it is started: gwctl start bridge\n",
			json: `{"changed":["radio.FIRMWARE_BAUD"],"restarted":[],"left":[{"service":"bridge","state":"stopped"}]}` + "\n",
		},
		{
			name: "set what core takes over while it runs", args: []string{"set", "leds.MODE=dim"}, restarts: map[string]any{"core": Reloaded},
			out:  "leds.MODE changed in /userdata/etc/leds.conf\ncore uses it from now on\n",
			json: `{"changed":["leds.MODE"],"restarted":[],"reloaded":["core"]}` + "\n",
		},
		{
			name: "set what is read at every use", args: []string{"set", "TZ=CET-1"}, out: "TZ changed in /userdata/etc/TZ\n",
			json: `{"changed":["TZ"],"restarted":[]}` + "\n",
		},
		{
			name: "set with a doubt", args: []string{"set", "FIRMWARE_BAUD=1000000"}, restarts: map[string]any{"bridge": "running"},
			out: "radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\nbridge restarted\n",
			json: `{"changed":["radio.FIRMWARE_BAUD"],"restarted":["bridge"],"warnings":[{"file":"/userdata/etc/radio.conf","line":1,"key":"FIRMWARE_BAUD",` +
				`"value":"1000000","used":"1000000","problem":"radio firmware is known for 115200, 230400, 460800, 691200 and 892857"}]}` + "\n",
			errs: "warning: /userdata/etc/radio.conf:1: FIRMWARE_BAUD=\"1000000\": radio firmware is known for 115200, 230400, 460800, 691200 and 892857; using 1000000\n",
		},
		{
			name: "set with a blank", args: []string{"set", "GW_LOG_KIB", "32"},
			out:  "gateway.GW_LOG_KIB changed in /userdata/etc/gateway.conf\nused from the next boot on\n",
			json: `{"changed":["gateway.GW_LOG_KIB"],"restarted":[],"nextBoot":true}` + "\n",
		},
		{name: "set badly", args: []string{"set", "radio.FIRMWARE_BAUD=x"}, err: notTaken, code: api.CodeBadRequest},
		{
			name: "set, and no restart", args: []string{"set", "FIRMWARE_BAUD=230400", "hostname=attic"},
			restarts: map[string]any{"bridge": refusal, "core": "running"},
			out:      "radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\nhostname changed in /userdata/etc/hostname\ncore restarted\n",
			json:     "-", err: "radio.FIRMWARE_BAUD, hostname saved, but restart bridge: not now", code: api.CodeBusy,
		},
		{name: "set nothing", args: []string{"set"}, err: "config set what?", code: "usage"},
		{name: "set no value", args: []string{"set", "a=b", "c"}, err: `"c" is not SETTING=VALUE`, code: "usage"},
		{name: "set what is there", args: []string{"set", "FIRMWARE_BAUD=115200"}, out: "nothing to change\n", json: `{"changed":[],"restarted":[]}` + "\n"},
		{name: "unset", args: []string{"unset", "FIRMWARE_VERSION"}, out: "nothing to change\n", json: `{"changed":[],"restarted":[]}` + "\n"},
		{
			name: "unset what is there", args: []string{"unset", "FIRMWARE_BAUD"}, restarts: map[string]any{"bridge": "running"},
			out:  "radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\nbridge restarted\n",
			json: `{"changed":["radio.FIRMWARE_BAUD"],"restarted":["bridge"]}` + "\n",
		},
		{
			name: "set, and the service goes on", args: []string{"set", "FIRMWARE_BAUD=230400", "BRIDGE_ALLOW=10.0.0.0/8", "hostname=attic"},
			restarts: map[string]any{"bridge": Reloaded, "core": "running"},
			out: "radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\nradio.BRIDGE_ALLOW changed in /userdata/etc/radio.conf\nhostname changed in /userdata/etc/hostname\n" +
				"bridge uses it from now on\ncore restarted\n",
			json: `{"changed":["radio.FIRMWARE_BAUD","radio.BRIDGE_ALLOW","hostname"],"restarted":["core"],"reloaded":["bridge"]}` + "\n",
		},
		{
			name: "set with another mode", args: []string{"set", "FIRMWARE_BAUD=230400", "radio.MODE=otbr"}, whole: true,
			restarts: map[string]any{"bridge": "running", "otbr": "running"},
			out: "radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\nradio.MODE changed in /userdata/etc/radio.conf\n" +
				"radio.OTBR_REST_BIND changed in /userdata/etc/radio.conf\nbridge restarted\notbr restarted\n",
			json: `{"changed":["radio.FIRMWARE_BAUD","radio.MODE","radio.OTBR_REST_BIND"],"restarted":["bridge","otbr"]}` + "\n",
		},
		{name: "no verb", err: "config: list, get, set, unset, check, export or import?", code: "usage"},
		{name: "unknown verb", args: []string{"edit"}, err: "config has no verb edit", code: "usage"},
		{name: "list with an argument", args: []string{"list", "x"}, err: "config list takes no argument", code: "usage"},
	}
	for _, tt := range tests {
		for _, asJSON := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, json %v", tt.name, asJSON), func(t *testing.T) {
				var out, errs bytes.Buffer
				var asked []string
				err := Run(box(t, files), applet.IO{Out: &out, Err: &errs}, tt.args, asJSON, func(service string, live bool) (string, error) {
					want := service == "bridge" && !tt.whole || tt.restarts[service] == any(Reloaded)
					if live != want {
						t.Errorf("%s: live %v, want %v", service, live, want)
					}
					asked = append(asked, service)
					switch a := tt.restarts[service].(type) {
					case error:
						return "", a
					case string:
						return a, nil
					}
					t.Errorf("%s is to be restarted", service)
					return "", nil
				})
				wantOut, wantErrs := tt.out, tt.errs
				if asJSON && tt.json != "" {
					wantOut, wantErrs = strings.TrimPrefix(tt.json, "-"), ""
				}
				if out.String() != wantOut || errs.String() != wantErrs {
					t.Errorf("out  %q\nwant %q\nerr  %q\nwant %q", out.String(), wantOut, errs.String(), wantErrs)
				}
				if len(asked) != len(tt.restarts) {
					t.Errorf("restarted %v, want %v", asked, tt.restarts)
				}
				said, code := "", ""
				var usage applet.UsageError
				var exit applet.Exit
				var own *Error
				var told *api.Error
				switch {
				case err == nil:
				case errors.As(err, &exit):
					code = "exit"
				case errors.As(err, &usage):
					said, code = err.Error(), "usage"
				case errors.As(err, &own):
					said, code = err.Error(), own.Code()
				case errors.As(err, &told):
					said, code = err.Error(), told.Code
				default:
					said = err.Error()
				}
				if said != tt.err || code != tt.code {
					t.Errorf("error %q, code %s; want %q, %s", said, code, tt.err, tt.code)
				}
			})
		}
	}
}

func TestRunList(t *testing.T) {
	root := box(t, map[string]string{fileRadio: "FIRMWARE_BAUD=115200\nWHAT=1\n"})
	var out, errs bytes.Buffer
	std := applet.IO{Out: &out, Err: &errs}
	if err := Run(root, std, []string{"list"}, false, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "* radio.FIRMWARE_BAUD") || !strings.Contains(out.String(), "  hostname ") {
		t.Errorf("list:\n%s", out.String())
	}
	if !strings.Contains(errs.String(), "unknown key") {
		t.Errorf("warnings: %q", errs.String())
	}
	out.Reset()
	if err := Run(root, std, []string{"list"}, true, nil); err != nil {
		t.Fatal(err)
	}
	var items []itemJSON
	if err := json.Unmarshal(out.Bytes(), &items); err != nil || len(items) != len(Settings()) {
		t.Errorf("%d items, %v", len(items), err)
	}
}

// One file was changed, the next could not be: what was saved is used and told.
func TestSavedAPart(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		var asked []string
		c := command{std: applet.IO{Out: &out, Err: &out}, json: asJSON, restart: func(s string, _ bool) (string, error) {
			asked = append(asked, s)
			return "running", nil
		}}
		err := c.changed(Change{Settings: []Setting{{Name: "radio.MODE", File: fileRadio}}, Restart: []string{"bridge"}},
			&Error{Name: "hostname", Err: ErrNoUserdata})
		if !errors.Is(err, ErrNoUserdata) || err.Error() != "radio.MODE saved, but hostname: "+ErrNoUserdata.Error() {
			t.Errorf("error %v", err)
		}
		want := "radio.MODE changed in /userdata/etc/radio.conf\nbridge restarted\n"
		if asJSON {
			want = "" // the error alone is the answer
		}
		if len(asked) != 1 || out.String() != want {
			t.Errorf("json %v: restarted %v, said %q", asJSON, asked, out.String())
		}
	}
}
