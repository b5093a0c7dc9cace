package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gwinit/board/rtl8196e"
	"gwinit/internal/applet"
)

var lidl, _ = rtl8196e.ByID("lidl")

// put writes a settings file below root.
func put(t *testing.T, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// snapshot is every settings file below root.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, Dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[d.Name()] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func settled(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put(t, root, fileRadio, "# mine\nFIRMWARE_BAUD=460800 # fast\nBRIDGE_ALLOW=192.0.2.0/24\n")
	put(t, root, fileEth0, "IPADDR=192.0.2.9\nNETMASK=255.255.255.0\nGATEWAY=192.0.2.1\n")
	put(t, root, fileHostname, "attic\n")
	put(t, root, fileMAC, "02:11:22:33:44:55\n")
	put(t, root, fileNTP, "server a.example\nserver b.example\n")
	return root
}

func TestExport(t *testing.T) {
	root := settled(t)
	text, warnings := Export(root, lidl)
	if len(warnings) > 0 {
		t.Errorf("warnings %v", warnings)
	}
	var set []string
	comments := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line[0] == '#' {
			comments++
		} else {
			set = append(set, line)
		}
	}
	want := []string{
		"radio.FIRMWARE_BAUD=460800", "radio.BRIDGE_ALLOW=192.0.2.0/24", "hostname=attic", "ntp.server=a.example b.example",
		"eth0.IPADDR=192.0.2.9", "eth0.NETMASK=255.255.255.0", "eth0.GATEWAY=192.0.2.1",
	}
	if !slices.Equal(set, want) {
		t.Errorf("set are\n%q, want\n%q", set, want)
	}
	if n := len(Settings()) - len(want) + 2; comments != n {
		t.Errorf("%d comments, want %d:\n%s", comments, n, text)
	}
	if !strings.Contains(text, "\n#mac_address=02:11:22:33:44:55\n") {
		t.Errorf("the MAC address is no comment:\n%s", text)
	}
}

// What was exported brings everything back that was changed since, and nothing
// else.
func TestExportThenImport(t *testing.T) {
	root := settled(t)
	before := snapshot(t, root)
	text, _ := Export(root, lidl)
	if _, err := Set(root, lidl, []Assignment{{"radio.FIRMWARE_BAUD", "115200"}, {"hostname", "cellar"}, {"netwatch.ENABLED", "1"}, {"TZ", "CET-1"}, {"eth0.DOMAIN", "lan"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Unset(root, lidl, []string{"ntp.server"}); err != nil {
		t.Fatal(err)
	}
	changed := snapshot(t, root)
	change, problems, err := Import(root, lidl, text, true, true)
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v, %+v", err, problems)
	}
	if got := snapshot(t, root); !equalMaps(got, changed) {
		t.Errorf("a trial changed %q to %q", changed, got)
	}
	tried := names(change)
	change, problems, err = Import(root, lidl, text, true, false)
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v, %+v", err, problems)
	}
	want := []string{"TZ", "eth0.DOMAIN", "hostname", "netwatch.ENABLED", "ntp.server", "radio.FIRMWARE_BAUD"}
	if got := names(change); !slices.Equal(got, want) || !slices.Equal(tried, want) {
		t.Errorf("changed %q, tried %q, want %q", got, tried, want)
	}
	if !slices.Equal(change.Restart, []string{"core"}) || !slices.Equal(change.Reload, []string{"bridge"}) {
		t.Errorf("restarts %q, reloads %q", change.Restart, change.Reload)
	}
	after := snapshot(t, root)
	if after["netwatch.conf"] != "" {
		t.Errorf("netwatch.conf holds %q", after["netwatch.conf"])
	}
	delete(after, "netwatch.conf")
	if !equalMaps(after, before) {
		t.Errorf("now\n%q, before\n%q", after, before)
	}
	if change, problems, err := Import(root, lidl, text, true, false); err != nil || len(problems) > 0 || len(change.Settings) > 0 {
		t.Errorf("again: %v, %+v, %q", err, problems, names(change))
	}
	// Without -all what the text does not set stays, and a static set-up goes as a whole with it.
	if change, _, err := Import(root, lidl, "hostname=attic\n", false, true); err != nil || len(change.Settings) > 0 {
		t.Errorf("not all: %v, %q", err, names(change))
	}
	if change, _, err := Import(root, lidl, "hostname=attic\n", true, true); err != nil || !slices.Contains(names(change), "eth0") || slices.Contains(names(change), "mac_address") {
		t.Errorf("all: %v, %q", err, names(change))
	}
}

func names(c Change) (all []string) {
	for _, s := range c.Settings {
		all = append(all, s.Name)
	}
	slices.Sort(all)
	return all
}

func equalMaps(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// Every line that is wrong is told, with its number, and nothing is changed.
func TestImportTellsEachLine(t *testing.T) {
	root := settled(t)
	before := snapshot(t, root)
	const text = "# comment\n\nradio.FIRMWARE_BAUD=fast\nhostname = cellar\nno.such=1\nMODE=x\njust words\n" +
		"hostname=again\neth0.IPADDR=192.0.2.256\neth0.NETMASK=255.255.0.0\nleds.MODE=dim\nTZ=\nntp.server=`reboot`\n"
	want := []string{
		"3 radio.FIRMWARE_BAUD not taken: not a baud rate from 1200 to 4000000",
		"5 no.such no such setting; `gwctl config list` names them",
		"6 MODE several files have that key; say which: radio.MODE, leds.MODE",
		`7  not SETTING=VALUE: "just words"`,
		"8 hostname line 4 sets it already",
		"9 eth0.IPADDR not taken: not an IPv4 address",
		"12 TZ not taken: an empty value; use unset",
		"13 ntp.server not taken: holds a character that the file cannot",
	}
	_, problems, err := Import(root, lidl, text, true, false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, strings.Join([]string{itoa(p.Line), p.Name, p.Text}, " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if now := snapshot(t, root); !equalMaps(now, before) {
		t.Errorf("it changed %q to %q", before, now)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// A file that cannot be written takes those before it back.
func TestImportAllOrNothing(t *testing.T) {
	root := settled(t)
	before := snapshot(t, root)
	// The next content of leds.conf cannot be written beside it.
	if err := os.MkdirAll(filepath.Join(root, Dir, ".leds.conf.new", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	change, problems, err := Import(root, lidl, "radio.FIRMWARE_BAUD=115200\nnetwatch.ENABLED=1\nhostname=cellar\nleds.MODE=dim\n", false, false)
	var e *Error
	if !errors.As(err, &e) || e.Name != "leds.MODE" || len(problems) > 0 || len(change.Settings) > 0 {
		t.Errorf("%v, %+v, changed %q", err, problems, names(change))
	}
	if now := snapshot(t, root); !equalMaps(now, before) {
		t.Errorf("left\n%q, want\n%q", now, before)
	}
}

func TestImportCommand(t *testing.T) {
	for _, tt := range []struct {
		name, in  string
		args      []string
		json      bool
		out, errs string
		err       string
		restarts  string
	}{
		{
			name: "standard input", args: []string{"-"}, in: "leds.MODE=dim\nradio.MODE=otbr\n", restarts: "bridge core otbr",
			out: "leds.MODE changed in /userdata/etc/leds.conf\nradio.MODE changed in /userdata/etc/radio.conf\nbridge restarted\ncore restarted\notbr restarted\n",
		},
		{
			name: "a trial", args: []string{"-n", "-"}, in: "leds.MODE=dim\nradio.MODE=otbr\n",
			out: "leds.MODE would change in /userdata/etc/leds.conf\nradio.MODE would change in /userdata/etc/radio.conf\nbridge would be restarted, if it runs\ncore would use it from now on\notbr would be restarted, if it runs\n",
		},
		{name: "a trial for programs", args: []string{"-", "-n"}, json: true, in: "leds.MODE=dim\n", out: `{"changed":["leds.MODE"],"restarted":[],"reloaded":["core"],"dryRun":true}` + "\n"},
		{
			name: "wrong lines", args: []string{"-"}, in: "leds.MODE=dim\nx=1\n", err: "nothing was changed: mend these lines first",
			errs: "line 2: x: no such setting; `gwctl config list` names them\n",
		},
		{
			name: "wrong lines for programs", args: []string{"-"}, json: true, in: "x=1\n", err: "exit status 1",
			out: `{"changed":[],"restarted":[],"problems":[{"line":1,"name":"x","problem":"no such setting; ` + "`gwctl config list`" + ` names them"}]}` + "\n",
		},
		{name: "too long", args: []string{"-"}, in: strings.Repeat("#", maxFile+1), err: "-: longer than 64 KiB: that is no export of settings"},
		{name: "no file", args: []string{"/no/such"}, err: "open /no/such: no such file or directory"},
		{name: "nothing", err: "config import what? A FILE, or - for standard input"},
		{name: "two files", args: []string{"-", "x"}, err: `config import takes -n, -all and one FILE, or - for standard input; not "x"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := settled(t)
			var out, errs bytes.Buffer
			var asked []string
			err := Run(root, applet.IO{In: strings.NewReader(tt.in), Out: &out, Err: &errs}, append([]string{"import"}, tt.args...), tt.json, func(s string, _ bool) (string, error) {
				asked = append(asked, s)
				return "running", nil
			})
			said := ""
			if err != nil {
				said = err.Error()
			}
			if said != tt.err || out.String() != tt.out || errs.String() != tt.errs || strings.Join(asked, " ") != tt.restarts {
				t.Errorf("error %q, want %q\nout  %q\nwant %q\nerr  %q\nwant %q\nrestarted %q", said, tt.err, out.String(), tt.out, errs.String(), tt.errs, asked)
			}
		})
	}
}

// An import comes from outside: whatever it holds is taken as a whole or not at
// all, and what was taken is what an export gives back.
func FuzzImport(f *testing.F) {
	f.Add("radio.FIRMWARE_BAUD=115200\nhostname=cellar\n", false)
	f.Add("eth0.IPADDR=192.0.2.9\neth0.GATEWAY=192.0.2.1\r\n#x\n", true)
	f.Add("\ufeffntp.server = a b\nTZ=\x00\n=\nTARGETS='\n", true)
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, text string, all bool) {
		if err := os.RemoveAll(filepath.Join(root, "userdata")); err != nil {
			t.Fatal(err)
		}
		put(t, root, fileHostname, "attic\n")
		put(t, root, fileRadio, "MODE=otbr\nBRIDGE_STALL_S=60\n")
		before := snapshot(t, root)
		change, problems, err := Import(root, lidl, text, all, false)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if len(problems) > 0 {
			if now := snapshot(t, root); !equalMaps(now, before) || len(change.Settings) > 0 {
				t.Fatalf("refused, and changed %q to %q", before, now)
			}
			return
		}
		saved, _ := Export(root, lidl)
		again, problems, err := Import(root, lidl, saved, all, true)
		if err != nil || len(problems) > 0 {
			t.Fatalf("its export is not taken: %v, %+v\n%s", err, problems, saved)
		}
		for _, s := range again.Settings {
			// Written another way, such as 24 for 255.255.255.0: the value is the same.
			if i, err := Get(root, lidl, s.Name); err != nil || !strings.Contains(saved, s.Name+"="+i.Value+"\n") {
				t.Errorf("%s: %v is not in\n%s", s.Name, i, saved)
			}
		}
	})
}
