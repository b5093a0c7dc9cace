//go:build linux

package remote

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control"
	"gwinit/internal/control/controltest"
	"gwinit/internal/tty/ptytest"
)

func TestCarry(t *testing.T) {
	for _, tt := range []struct {
		args string
		want carried
		no   bool
	}{
		{args: "backup", want: carried{name: "backup", args: []string{"backup", "-"}, down: true}},
		{args: "-json backup x.tgz", want: carried{name: "backup", args: []string{"-json", "backup", "-"}, file: "x.tgz", down: true, asJSON: true}},
		{args: "report -", want: carried{name: "report", args: []string{"report", "-"}, file: "-", down: true}},
		{args: "restore -mac x.tgz -y", want: carried{name: "restore", args: []string{"restore", "-mac", "-", "-y"}, file: "x.tgz"}},
		{args: "-socket s config import -all f", want: carried{name: "config import", args: []string{"-socket", "s", "config", "import", "-all", "-"}, file: "f"}},
		{args: "config import", want: carried{name: "config import", args: []string{"config", "import", "-"}}},
		{args: "radio flash -baud 460800 f.gbl -force", want: carried{name: "radio flash", args: []string{"radio", "flash", "-baud", "460800", "-", "-force"}, file: "f.gbl"}},
		{args: "-json radio flash -flow none -", want: carried{name: "radio flash", args: []string{"-json", "radio", "flash", "-flow", "none", "-"}, file: "-", asJSON: true}},
		{args: "radio flash", want: carried{name: "radio flash", args: []string{"radio", "flash", "-"}}},
		{args: "radio probe", no: true},
		{args: "config get import", no: true},
		{args: "config", no: true},
		{args: "backup a b", no: true},
		{args: "doctor", no: true},
		{args: "", no: true},
	} {
		got, ok := carry(strings.Fields(tt.args))
		if tt.no {
			if ok {
				t.Errorf("%s: %+v", tt.args, got)
			}
			continue
		}
		if !ok || got.name != tt.want.name || !slices.Equal(got.args, tt.want.args) || got.file != tt.want.file || got.down != tt.want.down || got.asJSON != tt.want.asJSON {
			t.Errorf("%s: %+v, %v; want %+v", tt.args, got, ok, tt.want)
		}
	}
}

// A file of this computer travels to the gateway, and back.
func TestFilesTravel(t *testing.T) {
	w := newWorkstation(t, "yes", "no")
	w.r.known.accept = true
	b := newBox(t, w.key)
	dir := t.TempDir()
	file := filepath.Join(dir, "settings")
	if err := os.WriteFile(file, []byte("hostname=attic\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		w.out.Reset()
		w.errs.Reset()
		err := w.one(t, b, args...)
		if errors.Is(err, applet.Exit(3)) { // the box of this test ends every command so
			err = nil
		}
		if err != nil {
			return err.Error()
		}
		return w.out.String()
	}
	if got, want := run("config", "import", "-n", file), "ran gwctl config import -n - with \"hostname=attic\\n\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := run("restore", file), "ran gwctl restore - -y with \"hostname=attic\\n\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if q := w.ask.asked[len(w.ask.asked)-1]; !strings.Contains(q, "passwords of "+file+" into the place of those on attic?") {
		t.Errorf("asked %q", q)
	}
	if got := run("restore", file); got != "nothing was changed" {
		t.Errorf("after a no: %q", got)
	}
	if got := run("restore", file); !strings.Contains(got, "-y is a yes") {
		t.Errorf("with nobody there: %q", got)
	}
	if got, want := run("restore", "-n", file), "ran gwctl restore -n - with \"hostname=attic\\n\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := run("restore"); got != "restore what? A FILE, or - for standard input" {
		t.Errorf("without a file: %q", got)
	}
	if got := run("config", "import", file+"x"); !strings.Contains(got, "no such file") {
		t.Errorf("without the file: %q", got)
	}
	ran := len(b.get().ran)
	if ran != 3 {
		t.Errorf("the gateway ran %d commands, want 3", ran)
	}
	if got, want := run("report", "-"), "ran gwctl report - with \"\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// A command that fails leaves no file.
	err := w.one(t, b, "backup", filepath.Join(dir, "b.tar.gz"))
	if left, _ := os.ReadDir(dir); !errors.Is(err, applet.Exit(3)) || len(left) != 1 {
		t.Errorf("%v, and %v", err, left)
	}
	b.set(func() { b.ends = true })
	if got, want := run("backup", filepath.Join(dir, "b.tar.gz")), "ran gwctl backup - with \"\"\n"; got != "27 bytes in "+filepath.Join(dir, "b.tar.gz")+"\n" {
		t.Errorf("%q", got)
	} else if text, err := os.ReadFile(filepath.Join(dir, "b.tar.gz")); err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "b.tar.gz")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	made := regexp.MustCompile(`^\{"file":"` + regexp.QuoteMeta(filepath.Join(dir, "all")) + `/gateway-report-attic-\d{8}-\d{6}\.tar\.gz","bytes":27\}\n$`)
	if got := run("-json", "report", filepath.Join(dir, "all")+"/"); !made.MatchString(got) {
		t.Errorf("%q", got)
	}
	w.r.several = true
	for args, want := range map[string]string{
		"backup " + file: "cannot write one file", "backup -": "one standard output", "restore -y " + file: "restored on one",
	} {
		if got := run(strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("several, %s: %q", args, got)
		}
	}
}

// Who waits at a terminal for a file to travel sees so, and nothing of it is left
// on the line.
func TestProgressIsShown(t *testing.T) {
	w := newWorkstation(t)
	w.r.known.accept = true
	b := newBox(t, w.key)
	file := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(file, make([]byte, 4<<20), 0o600); err != nil { // more than a window of SSH
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"report", filepath.Join(t.TempDir(), "r")}, "\rreport of attic 0 KiB, 1 s"},
		{[]string{"restore", "-n", file}, "\rsending settings [####"},
	} {
		master, name := ptytest.Open(t)
		slave, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer slave.Close()
		t.Setenv("TERM", "xterm")
		w.r.std.Err = slave
		b.set(func() { b.ends = true; b.hold = make(chan struct{}) })
		done := make(chan error, 1)
		go func() { done <- w.one(t, b, tt.args...) }()
		if err := master.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		shown := ""
		for buf := make([]byte, 4096); !strings.Contains(shown, tt.want); {
			n, err := master.Read(buf)
			if err != nil {
				t.Fatalf("%v: %v after %q", tt.args, err, shown)
			}
			shown += string(buf[:n])
		}
		close(b.hold)
		if err := <-done; err != nil {
			t.Errorf("%v: %v", tt.args, err)
		}
		for buf := make([]byte, 4096); !strings.HasSuffix(shown, " \rand complained\r\n"); {
			n, err := master.Read(buf)
			if err != nil {
				t.Fatalf("%v: %v after %q", tt.args, err, shown)
			}
			shown += string(buf[:n])
		}
	}
}

// reboot -w comes back when the gateway has restarted, and tells in which mode.
func TestRebootAndWait(t *testing.T) {
	for _, tt := range []struct {
		args []string
		mode string
		want string
		err  string
	}{
		{args: []string{"reboot", "-w", "-safe"}, mode: "safe", want: `^reboot: the services .*\nattic is back after \d+ s: boot mode safe, 1\.2\n$`},
		{args: []string{"-json", "reboot", "-w"}, mode: "normal", want: `^\{"action":"reboot"\}\n\{"back":true,"seconds":[\d.]+,"bootMode":"normal","version":"1\.2"\}\n$`},
		{args: []string{"reboot", "-factory", "-w"}, mode: "normal", want: "boot mode normal", err: "the boot mode is normal, and factory was asked for; gwctl -H attic logs init may say why"},
	} {
		w := newWorkstation(t)
		w.r.known.accept = true
		w.r.every = time.Millisecond
		b := newBox(t, w.key)
		begin := time.Now()
		var mu sync.Mutex
		looks := 0
		gateway := &controltest.Backend{}
		gateway.OnStatus = func(context.Context) api.Status {
			mu.Lock()
			defer mu.Unlock()
			s := api.Status{Version: "1.2", BootMode: "normal", Uptime: 100 + time.Since(begin).Seconds()}
			if len(gateway.Shutdowns()) > 0 {
				if looks++; looks > 2 {
					s.Uptime, s.BootMode = 20, tt.mode
				}
			}
			return s
		}
		b.socket = controltest.Start(t, gateway, control.Options{})
		err := w.one(t, b, tt.args...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if said != tt.err || !regexp.MustCompile(tt.want).MatchString(w.out.String()) || looks != 3 {
			t.Errorf("%v: %q after %d looks, said %q", tt.args, said, looks, w.out.String())
		}
	}
}

// What a gateway's own gwctl does is listed and explained here, too.
func TestHelpOnTheBox(t *testing.T) {
	var out bytes.Buffer
	a := Wrap("9")
	run := func(args ...string) string {
		out.Reset()
		if status := a.Execute(t.Context(), applet.IO{In: strings.NewReader(""), Out: &out, Err: &out}, args); status != 0 {
			t.Errorf("%v: status %d", args, status)
		}
		return out.String()
	}
	for _, args := range [][]string{{"help", "doctor"}, {"doctor", "-h"}} {
		if got, want := run(args...), "usage: gwctl -H HOST doctor\nwhat is wrong with this gateway, and what to do\n\nThe gateway's own gwctl does it: gwctl -H HOST doctor -h tells more.\n"; got != want {
			t.Errorf("%v: %q", args, got)
		}
	}
	for _, arg := range []string{"-h", "help"} {
		if got := run(arg); !strings.Contains(got, "\n  factory-reset [-y] ") || !strings.Contains(got, "\n  flash [KIND] FILE ") {
			t.Errorf("%s: %s", arg, got)
		}
	}
	w := newWorkstation(t)
	w.r.known.accept = true
	b := newBox(t, w.key)
	for _, args := range [][]string{{"help", "doctor"}, {"doctor", "-h"}} {
		if err := w.one(t, b, args...); !errors.Is(err, applet.Exit(3)) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if ran := b.get().ran; !slices.Equal(ran, []string{"gwctl help doctor", "gwctl doctor -h"}) {
		t.Errorf("ran %q", ran)
	}
}

// A gateway that restarts may be gone before it says how the command ended; of any
// other command that is a failure.
func TestRestarts(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{"reboot": true, "-json reboot -safe": true, "factory-reset -y": true, "status": false, "config set reboot 1": false, "": false} {
		if got := restarts(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
