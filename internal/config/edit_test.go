package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/board/rtl8196e"
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
			"FIRMWARE_BAUD=115200\n", "bridge otbr-supervisor",
		},
		{
			"key alone", fileRadio, "-",
			[]Assignment{{"FIRMWARE_BAUD", " 115200 "}},
			"FIRMWARE_BAUD=115200\n", "bridge otbr-supervisor",
		},
		{
			"comments and order are kept", fileRadio,
			"# radio\n\nFIRMWARE=ncp\nFIRMWARE_BAUD=115200 # slow\nMODE=otbr",
			[]Assignment{{"radio.FIRMWARE_BAUD", "460800"}, {"radio.FIRMWARE_FLOW_CTRL", "none"}},
			"# radio\n\nFIRMWARE=ncp\nFIRMWARE_BAUD=460800 # slow\nMODE=otbr\nFIRMWARE_FLOW_CTRL=none\n", "bridge otbr-supervisor",
		},
		{
			"one line stays of several", fileRadio, "FIRMWARE_BAUD=1\nA=b\nFIRMWARE_BAUD=2\nC=d\n",
			[]Assignment{{"radio.FIRMWARE_BAUD", "115200"}},
			"A=b\nFIRMWARE_BAUD=115200\nC=d\n", "bridge otbr-supervisor",
		},
		{
			"mode", fileRadio, "MODE=otbr\nMODE=otbr\n",
			[]Assignment{{"radio.MODE", "zigbee"}},
			"MODE=zigbee\n", "bridge otbr-supervisor",
		},
		{
			"baud rate in doubt", fileRadio, "-",
			[]Assignment{{"radio.FIRMWARE_BAUD", "1000000"}},
			"FIRMWARE_BAUD=1000000\n", "bridge otbr-supervisor FIRMWARE_BAUD",
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
		{"host name", fileHostname, "old\n", []Assignment{{"hostname", "attic"}}, "attic\n", "core"},
		{"time zone", fileTZ, "-", []Assignment{{"TZ", "<+03>-3"}}, "<+03>-3\n", "core"},
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
			words := change.Restart
			if change.NextBoot {
				words = append(words, "boot")
			}
			for _, w := range change.Warnings {
				words = append(words, w.Key)
			}
			if strings.Join(words, " ") != tt.want {
				t.Errorf("change = %v, want %s", words, tt.want)
			}
			if len(change.Settings) != len(tt.set) {
				t.Errorf("%d settings changed, want %d", len(change.Settings), len(tt.set))
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
		"BRIDGE_BIND": "127.0.0.1", "radio.MODE": "otbr", "leds.MODE": "off", "FIRMWARE_FLOW_CTRL": "sw", "FIRMWARE_BAUD": "230400",
		"hostname": "attic", "TZ": "CET-1", "server": "a b", "ENABLED": "1", "DRY_RUN": "1", "FAIL_MIN": "1", "POLL_SEC": "5",
		"MAX_REBOOT": "0", "WINDOW_H": "1", "GW_LOG_KIB": "16",
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

func TestCommand(t *testing.T) {
	files := map[string]string{
		fileRadio:                 "FIRMWARE_BAUD=115200\nWHAT=1\n",
		"/proc/device-tree/model": "Sengled Smart Hub G4 E39-G8C\x00",
	}
	tests := []struct {
		name string
		args []string
		out  string
		errs string
		code int
	}{
		{"get", []string{"get", "FIRMWARE_BAUD"}, "115200\n", "", 0},
		{"get a default of the board", []string{"get", "radio.FIRMWARE_FLOW_CTRL"}, "sw\n", "", 0},
		{"get nothing", []string{"get", "eth0.IPADDR"}, "\n", "", 0},
		{"check", []string{"check"}, "/userdata/etc/radio.conf:2: WHAT=\"1\": unknown key\n", "", 1},
		{
			"check for programs",
			[]string{"check", "-json"},
			`[{"file":"/userdata/etc/radio.conf","line":2,"key":"WHAT","value":"1","problem":"unknown key"}]` + "\n", "", 1,
		},
		{
			"get for programs",
			[]string{"get", "-json", "hostname"},
			`[{"name":"hostname","value":"rtl8196e-gw","set":false,"file":"/userdata/etc/hostname","values":"letters, digits and '-'","restart":["core"]}]` + "\n", "", 0,
		},
		{
			"set",
			[]string{"set", "radio.FIRMWARE_BAUD=230400", "hostname=attic"},
			"radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\nhostname changed in /userdata/etc/hostname\n" +
				"used once bridge is restarted: gwctl restart bridge\nused once core is restarted: gwctl restart core\n" +
				"used once otbr-supervisor is restarted: gwctl restart otbr-supervisor\n", "", 0,
		},
		{"set with a blank", []string{"set", "GW_LOG_KIB", "32"}, "gateway.GW_LOG_KIB changed in /userdata/etc/gateway.conf\nused from the next boot on\n", "", 0},
		{"set badly", []string{"set", "radio.FIRMWARE_BAUD=x"}, "", "config: radio.FIRMWARE_BAUD: not taken: not a baud rate from 1200 to 4000000\n", 1},
		{"set nothing", []string{"set"}, "", "config: set what?; see config -h\n", 2},
		{"set no value", []string{"set", "a=b", "c"}, "", "config: \"c\" is not SETTING=VALUE; see config -h\n", 2},
		{"unset", []string{"unset", "FIRMWARE_VERSION"}, "nothing to change\n", "", 0},
		{"set what is there", []string{"set", "FIRMWARE_BAUD=115200"}, "nothing to change\n", "", 0},
		{"unset what is there", []string{"unset", "FIRMWARE_BAUD"}, "radio.FIRMWARE_BAUD changed in /userdata/etc/radio.conf\n" +
			"used once bridge is restarted: gwctl restart bridge\nused once otbr-supervisor is restarted: gwctl restart otbr-supervisor\n", "", 0},
		{"no verb", nil, "", "config: list, get, set, unset or check?; see config -h\n", 2},
		{"unknown verb", []string{"edit"}, "", "config: no such verb: edit; see config -h\n", 2},
		{"list with an argument", []string{"list", "x"}, "", "config: list takes no argument; see config -h\n", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := box(t, files)
			var out, errs bytes.Buffer
			a := Applet()
			a.Run = func(_ context.Context, std applet.IO, args []string) error { return Command(root, std, args) }
			code := a.Execute(t.Context(), applet.IO{Out: &out, Err: &errs}, tt.args)
			if out.String() != tt.out || errs.String() != tt.errs || code != tt.code {
				t.Errorf("status %d\nout  %q\nwant %q\nerr  %q\nwant %q", code, out.String(), tt.out, errs.String(), tt.errs)
			}
		})
	}
}

func TestCommandList(t *testing.T) {
	root := box(t, map[string]string{fileRadio: "FIRMWARE_BAUD=115200\nWHAT=1\n"})
	var out, errs bytes.Buffer
	std := applet.IO{Out: &out, Err: &errs}
	if err := Command(root, std, []string{"list"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "* radio.FIRMWARE_BAUD") || !strings.Contains(out.String(), "  hostname ") {
		t.Errorf("list:\n%s", out.String())
	}
	if !strings.Contains(errs.String(), "unknown key") {
		t.Errorf("warnings: %q", errs.String())
	}
	out.Reset()
	if err := Command(root, std, []string{"list", "-json"}); err != nil {
		t.Fatal(err)
	}
	var items []itemJSON
	if err := json.Unmarshal(out.Bytes(), &items); err != nil || len(items) != len(Settings()) {
		t.Errorf("%d items, %v", len(items), err)
	}
}

func TestRunRestarts(t *testing.T) {
	root := box(t, nil)
	var out bytes.Buffer
	var got []string
	refusal := errors.New("no")
	err := Run(root, applet.IO{Out: &out, Err: &out}, []string{"set", "radio.MODE=otbr", "hostname=attic"}, func(s string) error {
		got = append(got, s)
		if s == "core" {
			return refusal
		}
		return nil
	})
	if !errors.Is(err, refusal) {
		t.Errorf("error = %v, want the refusal", err)
	}
	if strings.Join(got, " ") != "bridge core otbr-supervisor" {
		t.Errorf("restarted %v", got)
	}
	if !strings.Contains(out.String(), "restarting bridge\n") {
		t.Errorf("said %q", out.String())
	}
}
