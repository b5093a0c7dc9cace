package gwctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/internal/control/controltest"
)

// call runs gwctl as the dispatcher does.
func call(ctx context.Context, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	a := Command("9.9", client.Dial)
	status = a.Execute(ctx, applet.IO{In: strings.NewReader(""), Out: &o, Err: &e}, args)
	return status, o.String(), e.String()
}

func gateway() *controltest.Backend {
	b := &controltest.Backend{Box: settled()}
	b.Append("core", "eth0: link is up")
	b.Append("bridge", "listening on [::]:8888")
	b.Append("core", "bound to 192.168.1.50/24 \x1b[31mred")
	return b
}

func TestDefaultSocket(t *testing.T) {
	if defaultSocket != control.SocketPath {
		t.Errorf("gwctl asks on %s, gwinit listens on %s", defaultSocket, control.SocketPath)
	}
}

func TestUsageListsTheTable(t *testing.T) {
	listed := 0
	for _, c := range commands() {
		if line := fmt.Sprintf("  %-28s %s\n", strings.TrimSpace(c.name+" "+c.args), c.summary); !strings.Contains(usage, line) {
			t.Errorf("the usage does not hold %q", line)
		}
		listed++
		if f := flag.NewFlagSet("", flag.ContinueOnError); c.flags(&env{name: c.name}, f) == nil {
			t.Errorf("%s does nothing", c.name)
		} else {
			f.VisitAll(func(g *flag.Flag) {
				if !strings.Contains(c.more, "  -"+g.Name+" ") {
					t.Errorf("%s -%s is not explained", c.name, g.Name)
				}
			})
		}
	}
	table, _, _ := strings.Cut(usage, "options, before")
	if n := strings.Count(table, "\n  "); n != listed {
		t.Errorf("the usage has %d lines for %d commands", n, listed)
	}
	for l := range strings.Lines(usage) {
		if len(strings.TrimSuffix(l, "\n")) > columns {
			t.Errorf("too wide: %q", l)
		}
	}
}

func TestCommands(t *testing.T) {
	const asked = `{"code":"not-found","message":"no service x; gwctl status lists them"}`
	tests := []struct {
		name   string
		args   []string
		status int
		out    string
		err    string // part of it
	}{
		{"start", []string{"start", "bridge"}, 0, "bridge is running, pid 51\n", ""},
		{"stop", []string{"stop", "bridge"}, 0, "bridge is stopped\n", ""},
		{"flag behind", []string{"stop", "bridge", "-json"}, 0, `{"name":"bridge","state":"stopped","sinceSeconds":0,"restarts":0,"essential":true,"cpuSeconds":0,"rssKiB":0,"anonKiB":0}` + "\n", ""},
		{"unknown service", []string{"restart", "x"}, 1, "", "gwctl: no service x; gwctl status lists them\n"},
		{"unknown service, json", []string{"-json", "restart", "x"}, 1, `{"error":` + asked + "}\n", ""},
		{"no service", []string{"restart"}, 2, "", "restart takes the name of one service"},
		{"two services", []string{"restart", "a", "b"}, 2, "", "restart takes the name of one service"},
		{"logs", []string{"logs"}, 0, "[       0.250] core: eth0: link is up\n[       0.500] bridge: listening on [::]:8888\n[       0.750] core: bound to 192.168.1.50/24 \\x1b[31mred\n", ""},
		{"logs of one", []string{"logs", "core", "-n", "1"}, 0, "[       0.750] core: bound to 192.168.1.50/24 \\x1b[31mred\n", ""},
		{"logs json", []string{"logs", "-n=2", "-json"}, 0, `{"seq":2,"mono":500000000,"service":"bridge","text":"listening on [::]:8888"}` + "\n" + `{"seq":3,"mono":750000000,"service":"core","text":"bound to 192.168.1.50/24 \u001b[31mred"}` + "\n", ""},
		{"logs of nobody", []string{"logs", "x"}, 1, "", "no service x"},
		{"logs of two", []string{"logs", "core", "bridge"}, 2, "", "one service"},
		{"logs -n bad", []string{"logs", "-n", "many"}, 2, "", "many"},
		{"logs -n negative", []string{"logs", "-n", "-2"}, 2, "", "number of lines"},
		{"name behind --", []string{"logs", "--", "-x"}, 1, "", "no service -x"},
		{"reboot", []string{"reboot"}, 0, "reboot: the services are being stopped (15 s at most)\n", ""},
		{"reboot safe", []string{"reboot", "-safe"}, 0, "reboot: the services are being stopped (15 s at most), then once with only console, network and ssh\n", ""},
		{"reboot factory", []string{"reboot", "-factory", "-json"}, 0, `{"action":"reboot","mode":"factory"}` + "\n", ""},
		{"reboot both", []string{"reboot", "-factory", "-safe"}, 2, "", "exclude each other"},
		{"reboot a name", []string{"reboot", "core"}, 2, "", `no argument "core"`},
		{"poweroff safe", []string{"poweroff", "-safe"}, 2, "", "-safe"},
		{"poweroff", []string{"poweroff"}, 0, "poweroff: the services are being stopped (15 s at most)\n", ""},
		{"halt", []string{"halt"}, 0, "halt: the services are being stopped (15 s at most)\n", ""},
		{"version", []string{"version"}, 0, "gwctl   9.9, protocol 1\ngateway 0.1.0 on lidl\n", ""},
		{"version json", []string{"version", "-json"}, 0, `{"gwctl":"9.9","protocol":1,"gwinit":"0.1.0","board":"lidl"}` + "\n", ""},
		{"help", []string{"help"}, 0, usage, ""},
		{"help of one", []string{"help", "halt"}, 0, "usage: gwctl halt\nend everything and stop the processor\n\n" + general, ""},
		{"-h of one", []string{"logs", "-h"}, 0, "usage: gwctl logs [-f] [-n N] [SERVICE]\nwhat the services said since the start\n\n  -f    go on with what comes; the last 10 lines first\n  -n N  only the newest N lines; 0: all that is kept\n" + general, ""},
		{"help json", []string{"help", "halt", "-json"}, 0, `{"help":"usage: gwctl halt\nend everything and stop the processor\n\n` + strings.ReplaceAll(general, "\n", `\n`) + `"}` + "\n", ""},
		{"help of nothing", []string{"help", "dance"}, 2, "", `no command "dance"`},
		{"nothing", nil, 2, "", "gwctl status"},
		{"unknown command", []string{"dance"}, 2, "", `no command "dance"`},
		{"unknown flag", []string{"-x", "status"}, 2, "", "-x"},
		{"status of a name", []string{"status", "core"}, 2, "", `no argument "core"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := controltest.Start(t, gateway(), control.Options{})
			status, out, errs := call(t.Context(), append([]string{"-socket", path}, tt.args...)...)
			if status != tt.status || out != tt.out {
				t.Errorf("status %d, output\n%s\nwant %d and\n%s", status, out, tt.status, tt.out)
			}
			if !strings.Contains(errs, tt.err) || tt.err == "" && errs != "" {
				t.Errorf("stderr %q, want %q", errs, tt.err)
			}
		})
	}
}

func TestStatusOverTheSocket(t *testing.T) {
	path := controltest.Start(t, gateway(), control.Options{})
	status, out, errs := call(t.Context(), "-socket", path, "status")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
	}
	golden(t, "status-settled", out)
	status, out, errs = call(t.Context(), "-json", "-socket", path, "status")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
	}
	golden(t, "status-json", out)
}

func TestFailedStart(t *testing.T) {
	b := gateway()
	b.OnService = func(context.Context, api.ServiceArgs) (api.Service, error) {
		return api.Service{Name: "core", State: "failed", LastExit: "exit code 125: no network device"}, nil
	}
	path := controltest.Start(t, b, control.Options{})
	status, out, errs := call(t.Context(), "-socket", path, "start", "core")
	if status != 1 || out != "core is failed: exit code 125: no network device\n" || errs != "" {
		t.Errorf("%d %q %q", status, out, errs)
	}
}

func TestShutdownRefused(t *testing.T) {
	b := gateway()
	b.OnShutdown = func(api.ShutdownArgs) error { return errors.New("this board has no boothold page") }
	path := controltest.Start(t, b, control.Options{})
	status, out, errs := call(t.Context(), "-socket", path, "reboot", "-safe")
	if status != 1 || out != "" || errs != "gwctl: this board has no boothold page\n" {
		t.Errorf("%d %q %q", status, out, errs)
	}
}

func TestWallTime(t *testing.T) {
	if got := stamp(api.LogLine{Mono: 1, Wall: 1767366245_999_000_000}); got != "2026-01-02T15:04:05Z" {
		t.Errorf("stamp = %q", got)
	}
}

// chunks hands what is written on, one write a receive.
type chunks chan string

func (c chunks) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

func TestFollow(t *testing.T) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprintf("json %v", json), func(t *testing.T) {
			b := gateway()
			b.Keep = 4
			path := controltest.Start(t, b, control.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, done := make(chunks), make(chan int)
			args := []string{"-socket", path, "logs", "-f", "-n", "1", "core"}
			if json {
				args = append(args, "-json")
			}
			go func() {
				a := Command("9.9", client.Dial)
				done <- a.Execute(ctx, applet.IO{In: strings.NewReader(""), Out: out, Err: io.Discard}, args)
			}()
			want := []string{"[       0.750] core: bound to 192.168.1.50/24 \\x1b[31mred\n", "[       1.250] core: two\n"}
			if json {
				want = []string{
					`{"seq":3,"mono":750000000,"service":"core","text":"bound to 192.168.1.50/24 \u001b[31mred"}` + "\n",
					`{"seq":5,"mono":1250000000,"service":"core","text":"two"}` + "\n",
				}
			}
			if got := <-out; got != want[0] {
				t.Errorf("first %q", got)
			}
			b.Append("bridge", "one")
			b.Append("core", "two")
			if got := <-out; got != want[1] {
				t.Errorf("then %q", got)
			}
			cancel()
			if status := <-done; status != 0 {
				t.Errorf("ctrl-c gives status %d", status)
			}
		})
	}
}

func TestMissedLines(t *testing.T) {
	var b bytes.Buffer
	for _, json := range []bool{false, true} {
		e := env{json: json}
		if err := e.logLines(&b, 7, []api.LogLine{{Seq: 8, Service: "core", Text: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	want := "-- 7 lines were overwritten before they could be shown --\n[       0.000] core: x\n" +
		`{"missed":7}` + "\n" + `{"seq":8,"mono":0,"service":"core","text":"x"}` + "\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestFollowEndsWithTheGateway(t *testing.T) {
	path, stop := controltest.StartStop(t, gateway(), control.Options{})
	defer stop()
	out, done := make(chunks), make(chan string)
	go func() {
		var errs bytes.Buffer
		a := Command("9.9", client.Dial)
		a.Execute(t.Context(), applet.IO{In: strings.NewReader(""), Out: out, Err: &errs}, []string{"-socket", path, "logs", "-f"})
		done <- errs.String()
	}()
	<-out
	stop()
	if got := <-done; got != "gwctl: gwinit is shutting down\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestNoGateway(t *testing.T) {
	dir, err := os.MkdirTemp("", "gw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	const silent = "gwinit does not answer on "
	missing := silent + path + ": is this the gateway? There is no such socket; -socket PATH names another"

	status, out, errs := call(t.Context(), "-socket", path, "status")
	if status != 1 || out != "" || errs != "gwctl: "+missing+"\n" {
		t.Errorf("no socket: %d %q %q", status, out, errs)
	}
	status, out, errs = call(t.Context(), "-socket", path, "logs", "-f", "-json")
	if want := `{"error":{"code":"unreachable","message":"` + missing + `"}}` + "\n"; status != 1 || out != want || errs != "" {
		t.Errorf("no socket, json: %d %q %q", status, out, errs)
	}
	status, out, errs = call(t.Context(), "-socket", path, "version")
	if want := "gwctl   9.9, protocol 1\ngateway unknown: " + missing + "\n"; status != 0 || out != want || errs != "" {
		t.Errorf("version: %d %q %q", status, out, errs)
	}
	if status, out, _ = call(t.Context(), "-socket", path, "version", "-json"); status != 0 || out != `{"gwctl":"9.9","protocol":1}`+"\n" {
		t.Errorf("version, json: %d %q", status, out)
	}

	if err := unix.Mknod(path, unix.S_IFSOCK|0o600, 0); err != nil { // nobody listens
		t.Fatal(err)
	}
	if status, _, errs = call(t.Context(), "-socket", path, "status"); status != 1 || !strings.Contains(errs, silent+path+": nobody listens there") {
		t.Errorf("old socket: %d %q", status, errs)
	}
	long := strings.Repeat("x", 200)
	if status, _, errs = call(t.Context(), "-socket", long, "status"); status != 1 || !strings.Contains(errs, silent+long+": connect: invalid argument") {
		t.Errorf("long path: %d %q", status, errs)
	}
	denied := &env{ctx: t.Context(), socket: path, dial: func(context.Context, string) (*client.Client, error) {
		return nil, os.NewSyscallError("connect", unix.EACCES)
	}}
	if _, err := denied.open(); err == nil || err.Error() != silent+path+": only root may ask it" {
		t.Errorf("permission: %v", err)
	}
	crowd := &env{ctx: t.Context(), socket: path, dial: func(context.Context, string) (*client.Client, error) {
		return nil, os.NewSyscallError("connect", unix.EAGAIN)
	}}
	if _, err := crowd.open(); err == nil || !strings.Contains(err.Error(), "too many wait") {
		t.Errorf("backlog: %v", err)
	}
}

// A service that can go on with new settings does; one that cannot is restarted
// if it runs.
func TestLocalCommandReloads(t *testing.T) {
	for _, tt := range []struct {
		refuses error
		state   string
		asked   string
	}{
		{nil, "reloaded", "[call bridge reload call core reload]"},
		{errors.New("MODE has changed"), "running", "[call bridge reload try-restart bridge call core reload]"},
	} {
		b := gateway()
		var asked []string
		b.OnCall = func(_ context.Context, args api.CallArgs) (json.RawMessage, error) {
			asked = append(asked, "call", args.Service, args.Method)
			return json.RawMessage("{}"), tt.refuses
		}
		b.OnService = func(_ context.Context, args api.ServiceArgs) (api.Service, error) {
			asked = append(asked, args.Action, args.Name)
			return api.Service{Name: "bridge", State: "running"}, nil
		}
		path := controltest.Start(t, b, control.Options{})
		state := ""
		local := Local{Name: "config", Run: func(_ applet.IO, _ []string, _ bool, restart func(string, bool) (string, error)) (err error) {
			state, err = restart("bridge", true)
			return err
		}}
		a := Command("9.9", client.Dial, local)
		var out, errs bytes.Buffer
		if status := a.Execute(t.Context(), applet.IO{Out: &out, Err: &errs}, []string{"config", "set", "-socket", path}); status != 0 || state != tt.state {
			t.Errorf("status %d, %s %s; the service is %q, want %q", status, out.String(), errs.String(), state, tt.state)
		}
		if fmt.Sprint(asked) != tt.asked {
			t.Errorf("asked for %v, want %s", asked, tt.asked)
		}
	}
}

// Edited files are read by all that can, and who cannot says what helps.
func TestReload(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		status int
		out    string
	}{
		{[]string{"reload"}, 1, "bridge: its engine has changed: gwctl restart bridge\ncore has read its settings\n"},
		{[]string{"reload", "core"}, 0, "core has read its settings\n"},
		{[]string{"reload", "-json"}, 1, `[{"service":"bridge","error":{"code":"failed","message":"its engine has changed: gwctl restart bridge"}},{"service":"core"}]` + "\n"},
	} {
		b := gateway()
		b.OnCall = func(_ context.Context, args api.CallArgs) (json.RawMessage, error) {
			if args.Method != "reload" {
				t.Errorf("asked for %+v", args)
			}
			if args.Service == "bridge" {
				return nil, &api.Error{Code: api.CodeFailed, Message: "its engine has changed: gwctl restart bridge"}
			}
			return json.RawMessage("{}"), nil
		}
		path := controltest.Start(t, b, control.Options{})
		status, out, errs := call(t.Context(), append([]string{"-socket", path}, tt.args...)...)
		if status != tt.status || out != tt.out || errs != "" {
			t.Errorf("%v: status %d, output\n%s\nwant %d and\n%s\n%s", tt.args, status, out, tt.status, tt.out, errs)
		}
	}
}

// A local command has services restarted only if they run.
func TestLocalCommandRestarts(t *testing.T) {
	b := gateway()
	b.OnService = func(_ context.Context, args api.ServiceArgs) (api.Service, error) {
		if args != (api.ServiceArgs{Name: "bridge", Action: "try-restart"}) {
			t.Errorf("asked for %+v", args)
		}
		return api.Service{Name: "bridge", State: "stopped"}, nil
	}
	called := ""
	b.OnCall = func(_ context.Context, args api.CallArgs) (json.RawMessage, error) {
		called += args.Service + " " + args.Method + "\n"
		return json.RawMessage("{}"), nil
	}
	path := controltest.Start(t, b, control.Options{})
	state := ""
	local := Local{Name: "config", Run: func(_ applet.IO, _ []string, _ bool, restart func(string, bool) (string, error)) (err error) {
		state, err = restart("bridge", false)
		return err
	}}
	a := Command("9.9", client.Dial, local)
	var out, errs bytes.Buffer
	if status := a.Execute(t.Context(), applet.IO{Out: &out, Err: &errs}, []string{"config", "set", "-socket", path}); status != 0 || state != "stopped" {
		t.Errorf("status %d, %s %s; the service is %q", status, out.String(), errs.String(), state)
	}
	if called != "core reload\n" { // what is announced may be another baud rate
		t.Errorf("called %q", called)
	}
}
