// Package gwctl is the command that people and programs use to look after a
// gateway: on the box as the applet gwctl, on a workstation as cmd/gwctl. It
// turns a command line into control requests (docs/control.md) and their
// answers into a screen or, with -json, into JSON. It holds no device code and
// builds for Linux, macOS and Windows.
package gwctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/client"
	"gwinit/internal/control/wire"
)

// defaultSocket is control.SocketPath; that package is part of PID 1 and this
// one also runs elsewhere.
const defaultSocket = "/run/gwinit.sock"

// answerTimeout is for a gateway that does not answer at all; the server's own
// limit for a request (45 s) is shorter and says more.
const answerTimeout = time.Minute

// Dialer connects to the control socket that is named socket on the gateway.
// client.Dial is one.
type Dialer func(ctx context.Context, socket string) (*client.Client, error)

// Local is a command that gwctl has on the box only, where it works on the
// box's files, or on a workstation only.
type Local struct {
	Name, Args, Summary string // Name is one word, or a command and a verb of it
	Usage               string // for -h, whole lines
	Workstation         bool   // it is there, not on the box
	// Run carries it out. args is without the options of gwctl; json tells
	// whether -json was one. restart has a service restarted if it runs, and
	// returns its state afterwards; with live it has it reload instead, and
	// returns "reloaded", if the service can. An error that has a method Code() string
	// gets that code in JSON.
	Run func(std applet.IO, args []string, json bool, restart func(service string, live bool) (state string, err error)) error
	// Steer carries it out instead, if it is one that asks the gateway.
	Steer func(ctx context.Context, std applet.IO, args []string, json bool, ask Asker) error
}

// Asker sends one request of the control protocol and returns its answer.
type Asker func(ctx context.Context, op string, args any) (json.RawMessage, error)

// of tells whether args begin with the command's name, and returns the rest.
func (l Local) of(args []string) (rest []string, ok bool) {
	for _, word := range strings.Fields(l.Name) {
		if len(args) == 0 || args[0] != word {
			return nil, false
		}
		args = args[1:]
	}
	return args, true
}

// Command returns gwctl as an applet. version is that of this program.
func Command(version string, dial Dialer, local ...Local) applet.Applet {
	return applet.Applet{
		Name:    "gwctl",
		Group:   applet.Manage,
		Summary: "show and steer the gateway",
		Usage:   usage + usageOf(local),
		Run: func(ctx context.Context, std applet.IO, args []string) error {
			e := &env{ctx: ctx, std: std, version: version, dial: dial, local: local, socket: defaultSocket}
			err := e.run(args)
			var u applet.UsageError
			if e.name != "" && errors.As(err, &u) {
				fmt.Fprintf(std.Err, "gwctl: %v; see gwctl %s -h\n", err, e.name)
				return applet.Exit(2)
			}
			return err
		},
	}
}

// usageOf lists the local commands behind the others.
func usageOf(local []Local) string {
	if len(local) == 0 {
		return ""
	}
	text := "\non the gateway itself:\n"
	if local[0].Workstation {
		text = "\non a workstation:\n"
	}
	for _, l := range local {
		text += fmt.Sprintf("  %-28s %s\n", l.Name+" "+l.Args, l.Summary)
	}
	return text
}

// redialKey is that of a context's value.
type redialKey struct{}

// WithRedial tells a command that it steers from afar, by connections of which
// close ends the one that is there: what is asked then comes by a new one.
func WithRedial(ctx context.Context, close func()) context.Context {
	return context.WithValue(ctx, redialKey{}, close)
}

// redial ends the connection to the gateway, if this is not the gateway itself.
func (e *env) redial() bool {
	end, ok := e.ctx.Value(redialKey{}).(func())
	if ok {
		end()
	}
	return ok
}

// command is one subcommand.
type command struct {
	name    string
	args    string // synopsis, behind the name
	summary string
	more    string // the options, a line each
	// flags adds the subcommand's own flags and returns what carries it out
	// with what is left of the command line.
	flags func(e *env, f *flag.FlagSet) func(args []string) error
}

// commands is the table of subcommands, in the order of the help.
func commands() []command {
	return []command{
		{"status", "[-w]", "the whole gateway on one screen", statusMore, status},
		{"logs", "[-f] [-n N] [SERVICE]", "what the services said since the start", "" +
			"  -f    go on with what comes; the last 10 lines first\n" +
			"  -n N  only the newest N lines; 0: all that is kept\n", logs},
		{"radio", "[VERB ...]", "who has the radio; release, take, mode", radioMore, radio},
		{"bridge", "[-w] | tap [OPTIONS]", "what passes the radio's bridge, and a copy of it", bridgeMore, bridge},
		{"eth", "[VERB ...]", "the Ethernet driver: tuning, queue, counters", ethMore, eth},
		{"firewall", "[VERB ...]", "the open ports: set, allow, confirm, undo", firewallMore, firewall},
		{"bench-mode", "on|off|status|verify", "a gateway that does nothing but be measured", benchMore, benchMode},
		{"netwatch", "[incidents ...]", "does anybody answer, and what if nobody does", netwatchMore, netwatch},
		{"incidents", "[show N]", "what is kept of reboots by netwatch and of panics", "", incidents},
		{"metrics", "", "every figure as Prometheus text", "", figures},
		{"start", "SERVICE", "start a service that is stopped or failed", "", service},
		{"stop", "SERVICE", "stop a service until a start or the next boot", "", service},
		{"restart", "SERVICE", "stop and start a service", "", service},
		{"reload", "[SERVICE ...]", "read edited settings, without an interruption", "" +
			"Without a name: bridge and core, which are those that can. What takes a restart,\n" +
			"they say.\n", reload},
		{"reboot", "[-safe|-factory]", "restart the gateway", "" +
			"  -safe     this once with only console, network and ssh\n" +
			"  -factory  this once with the firmware in the rootfs, not an update\n", shutdown},
		{"poweroff", "", "end everything and switch off", "", shutdown},
		{"halt", "", "end everything and stop the processor", "", shutdown},
		{"version", "", "versions of this program and of the gateway", "", showVersion},
		{"help", "[COMMAND]", "this text, or that of a command", "", help},
	}
}

const general = `  -json         answer in JSON (docs/control.md), errors too
  -socket PATH  the gateway's control socket (` + defaultSocket + `)
`

// usage is a constant, and a test compares it with the table: every start of
// an applet makes the table of all of them.
const usage = `usage: gwctl [OPTIONS] COMMAND [ARGUMENTS]

  status [-w]                  the whole gateway on one screen
  logs [-f] [-n N] [SERVICE]   what the services said since the start
  radio [VERB ...]             who has the radio; release, take, mode
  bridge [-w] | tap [OPTIONS]  what passes the radio's bridge, and a copy of it
  eth [VERB ...]               the Ethernet driver: tuning, queue, counters
  firewall [VERB ...]          the open ports: set, allow, confirm, undo
  bench-mode on|off|status|verify a gateway that does nothing but be measured
  netwatch [incidents ...]     does anybody answer, and what if nobody does
  incidents [show N]           what is kept of reboots by netwatch and of panics
  metrics                      every figure as Prometheus text
  start SERVICE                start a service that is stopped or failed
  stop SERVICE                 stop a service until a start or the next boot
  restart SERVICE              stop and start a service
  reload [SERVICE ...]         read edited settings, without an interruption
  reboot [-safe|-factory]      restart the gateway
  poweroff                     end everything and switch off
  halt                         end everything and stop the processor
  version                      versions of this program and of the gateway
  help [COMMAND]               this text, or that of a command

options, before or behind the command:
` + general + `
gwctl COMMAND -h tells more about one.
`

func (c command) usage() string {
	return fmt.Sprintf("usage: gwctl %s\n%s\n\n%s%s",
		strings.TrimSpace(c.name+" "+c.args), c.summary, c.more, general)
}

// env is one run of gwctl.
type env struct {
	ctx     context.Context
	std     applet.IO
	version string
	dial    Dialer
	local   []Local

	name   string // of the subcommand
	json   bool
	socket string
}

func (e *env) run(args []string) error {
	f := e.flagSet()
	if err := f.Parse(args); err != nil {
		return e.usageError(err)
	}
	args = f.Args()
	if len(args) == 0 {
		return applet.Usagef("what shall it do? gwctl status shows the gateway")
	}
	for _, l := range e.local {
		if rest, ok := l.of(args); ok {
			return e.runLocal(l, rest)
		}
	}
	c, ok := find(args[0])
	if !ok {
		return applet.Usagef("there is no command %q", args[0])
	}
	e.name = c.name
	f = e.flagSet()
	run := c.flags(e, f)
	rest, err := interspersed(f, args[1:])
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(e.std.Out, c.usage())
		return err
	}
	if err != nil {
		if c.name == "eth" && args[1] == "tune" {
			err = errTune // whose options are not known here
		}
		return e.usageError(err)
	}
	return e.report(run(rest))
}

func (e *env) runLocal(l Local, args []string) error {
	e.name = l.Name
	rest, err := e.ownFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(e.std.Out, l.Usage)
		return err
	}
	if err != nil {
		return e.usageError(err)
	}
	if l.Steer != nil {
		return e.report(l.Steer(e.ctx, e.std, rest, e.json, e.askIn))
	}
	return e.reportAs(api.CodeFailed, l.Run(e.std, rest, e.json, e.takeOver))
}

// takeOver has a service use settings that have changed; see Local.Run.
func (e *env) takeOver(service string, live bool) (state string, err error) {
	if live {
		_, err := e.ask(api.OpCall, api.CallArgs{Service: service, Method: "reload"})
		var told *api.Error
		switch {
		case err == nil:
			e.tellCore(service)
			return "reloaded", nil
		case !errors.As(err, &told):
			return "", &api.Error{Code: codeUnreachable, Message: err.Error()}
		}
		// It does not run, or it cannot: then a restart tells, or helps.
	}
	return e.tryRestart(service)
}

// tryRestart restarts a service if it runs, and returns its state afterwards.
func (e *env) tryRestart(service string) (state string, err error) {
	data, err := e.ask(api.OpService, api.ServiceArgs{Name: service, Action: "try-restart"})
	var told *api.Error
	if err != nil && !errors.As(err, &told) {
		return "", &api.Error{Code: codeUnreachable, Message: err.Error()}
	}
	var s api.Service
	if err == nil {
		err = decode(e.name, data, &s)
	}
	e.tellCore(service)
	return s.State, err
}

// tellCore has core, which announces some of what others are set to, read the
// settings of that service anew. If it does not run, it does so when it starts.
func (e *env) tellCore(service string) {
	if service != "core" {
		_, _ = e.ask(api.OpCall, api.CallArgs{Service: "core", Method: "reload"})
	}
}

// ownFlags takes gwctl's own options out of args, up to a "--". What else
// begins with a dash may be a value, and stays.
func (e *env) ownFlags(args []string) (rest []string, err error) {
	f := e.flagSet()
	for len(args) > 0 {
		dashed, isFlag := strings.CutPrefix(args[0], "-")
		name, _, hasValue := strings.Cut(strings.TrimPrefix(dashed, "-"), "=")
		n := 1
		switch {
		case args[0] == "--":
			return append(rest, args[1:]...), nil
		case isFlag && (name == "json" || name == "h" || name == "help"):
			err = f.Parse(args[:1])
		case isFlag && name == "socket":
			if !hasValue {
				n = min(2, len(args))
			}
			err = f.Parse(args[:n])
		default:
			rest = append(rest, args[0])
		}
		if err != nil {
			return nil, err
		}
		args = args[n:]
	}
	return rest, nil
}

// flagSet has the options that every command takes. Those given before the
// command stay in force.
func (e *env) flagSet() *flag.FlagSet {
	f := flag.NewFlagSet("gwctl", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.BoolVar(&e.json, "json", e.json, "")
	f.StringVar(&e.socket, "socket", e.socket, "")
	return f
}

// timeFlag adds an option that takes a time.
func timeFlag(f *flag.FlagSet, d *time.Duration, name string) {
	f.Func(name, "", func(s string) (err error) {
		if *d, err = time.ParseDuration(s); err != nil {
			return errors.New("it is no time, such as 30s or 2m")
		}
		return nil
	})
}

// interspersed parses flags wherever they stand, up to a "--".
func interspersed(f *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		left := f.Args()
		if n := len(args) - len(left); len(left) == 0 || n > 0 && args[n-1] == "--" {
			return append(rest, left...), nil
		}
		rest = append(rest, left[0])
		args = left[1:]
	}
}

func (e *env) usageError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(e.std.Out, usage+usageOf(e.local))
		return err
	}
	return applet.Usagef("%v", err)
}

// Names are the commands that gwctl has wherever it runs.
func Names() (all []string) {
	for _, c := range commands() {
		all = append(all, c.name)
	}
	return all
}

// Has tells whether gwctl has the command wherever it runs; others are Locals of
// the box or of a workstation.
func Has(name string) bool {
	_, ok := find(name)
	return ok
}

func find(name string) (command, bool) {
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

// report makes JSON of an error if that was asked for.
func (e *env) report(err error) error { return e.reportAs(codeUnreachable, err) }

// reportAs is report with the code for an error that has none.
func (e *env) reportAs(code string, err error) error {
	var u applet.UsageError
	var x applet.Exit
	if err == nil || !e.json || errors.As(err, &u) || errors.As(err, &x) {
		return err
	}
	var told *api.Error
	var coded interface{ Code() string }
	switch {
	case errors.As(err, &told):
		code = told.Code
	case errors.As(err, &coded):
		code = coded.Code()
	}
	if err := e.print(struct {
		Error api.Error `json:"error"`
	}{api.Error{Code: code, Message: err.Error()}}); err != nil {
		return err
	}
	return applet.Exit(1)
}

// codeUnreachable is gwctl's own code: the gateway gave no answer.
const codeUnreachable = "unreachable"

// print writes v as one line of JSON.
func (e *env) print(v any) error {
	b, err := wire.Marshal(v)
	if err != nil {
		return err
	}
	_, err = e.std.Out.Write(append(b, '\n'))
	return err
}

// write writes what render puts into a buffer, at once.
func (e *env) write(render func(b *bytes.Buffer)) error {
	var b bytes.Buffer
	render(&b)
	_, err := e.std.Out.Write(b.Bytes())
	return err
}

// open connects to the gateway.
func (e *env) open() (*client.Client, error) {
	c, err := e.dial(e.ctx, e.socket)
	if err == nil || e.ctx.Err() != nil {
		return c, err
	}
	if u := (Unreachable{}); errors.As(err, &u) {
		return nil, u
	}
	const silent = "gwinit does not answer on %s: "
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf(silent+"is this the gateway? There is no such socket; -socket PATH names another", e.socket)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf(silent+"only root may ask it", e.socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf(silent+"nobody listens there; it is starting or ending, or the socket is an old one. Try again in a moment", e.socket)
	case errors.Is(err, syscall.EAGAIN):
		return nil, fmt.Errorf(silent+"too many wait for it already. The console may show why", e.socket)
	}
	return nil, fmt.Errorf(silent+"%w", e.socket, err)
}

// Unreachable is a Dialer's error that says all there is to say.
type Unreachable struct{ Err error }

func (u Unreachable) Error() string { return u.Err.Error() }

// Unwrap returns what it says.
func (u Unreachable) Unwrap() error { return u.Err }

// ask sends one request and returns its whole answer.
func (e *env) ask(op string, args any) (json.RawMessage, error) { return e.askIn(e.ctx, op, args) }

// askIn is ask within a context.
func (e *env) askIn(ctx context.Context, op string, args any) (json.RawMessage, error) {
	in := *e
	in.ctx = ctx
	c, err := in.open()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	data, err := c.Do(ctx, op, args)
	return data, late(ctx, err)
}

// late puts a deadline that passed into words.
func late(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("gwinit took the request and gave no answer within %v; the console may show why", answerTimeout)
	}
	return err
}

// decode is json.Unmarshal with words for an answer that is not what it should be.
func decode(op string, data json.RawMessage, to any) error {
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("the answer to %s is not understood, is this gwctl of another version? %w", op, err)
	}
	return nil
}

func noArguments(name string, args []string) error {
	if len(args) > 0 {
		return applet.Usagef("%s takes no argument %q", name, args[0])
	}
	return nil
}

func status(e *env, f *flag.FlagSet) func([]string) error {
	live := f.Bool("w", false, "")
	return func(args []string) error {
		if err := noArguments(e.name, args); err != nil {
			return err
		}
		if *live {
			return e.watch()
		}
		data, err := e.ask(api.OpStatus, nil)
		if err != nil {
			return err
		}
		if e.json {
			return e.print(data)
		}
		var st api.Status
		if err := decode(e.name, data, &st); err != nil {
			return err
		}
		return e.write(func(b *bytes.Buffer) { screen{b, e.colour()}.status(st) })
	}
}

// colour tells whether a terminal asks for colours: one that has a TERM which
// is not dumb, and nobody set NO_COLOR (no-color.org).
func (e *env) colour() bool {
	f, ok := e.std.Out.(*os.File)
	t := os.Getenv("TERM")
	return ok && t != "" && t != "dumb" && os.Getenv("NO_COLOR") == "" && isTerminal(f)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func service(e *env, _ *flag.FlagSet) func([]string) error {
	return func(args []string) error {
		if len(args) != 1 {
			return applet.Usagef("%s takes the name of one service; gwctl status lists them", e.name)
		}
		data, err := e.ask(api.OpService, api.ServiceArgs{Name: args[0], Action: e.name})
		if err != nil {
			return err
		}
		var s api.Service
		if err := decode(e.name, data, &s); err != nil {
			return err
		}
		if e.json {
			err = e.print(data)
		} else {
			err = e.write(func(b *bytes.Buffer) {
				fmt.Fprintf(b, "%s is %s", clean(s.Name), clean(s.State))
				if s.PID > 0 {
					fmt.Fprintf(b, ", pid %d", s.PID)
				}
				if why := lastWords(s); why != "" {
					fmt.Fprintf(b, ": %s", clean(why))
				}
				b.WriteByte('\n')
			})
		}
		if err == nil && e.name != "stop" && s.State == "failed" {
			return applet.Exit(1)
		}
		return err
	}
}

// reloadable are the services with a method reload.
var reloadable = []string{"bridge", "core"}

// reloaded is what -json prints of a reload, one for each service.
type reloaded struct {
	Service string     `json:"service"`
	Error   *api.Error `json:"error,omitempty"`
}

func reload(e *env, _ *flag.FlagSet) func([]string) error {
	return func(args []string) error {
		if len(args) == 0 {
			args = reloadable
		}
		var all []reloaded
		failed := false
		for _, name := range args {
			r := reloaded{Service: name}
			if _, err := e.ask(api.OpCall, api.CallArgs{Service: name, Method: "reload"}); err != nil && !errors.As(err, &r.Error) {
				return err
			}
			failed = failed || r.Error != nil
			all = append(all, r)
		}
		var err error
		if e.json {
			err = e.print(all)
		} else {
			err = e.write(func(b *bytes.Buffer) {
				for _, r := range all {
					if r.Error != nil {
						fmt.Fprintf(b, "%s: %s\n", clean(r.Service), clean(r.Error.Message))
					} else {
						fmt.Fprintf(b, "%s has read its settings\n", clean(r.Service))
					}
				}
			})
		}
		if err == nil && failed {
			return applet.Exit(1)
		}
		return err
	}
}

func shutdown(e *env, f *flag.FlagSet) func([]string) error {
	var safe, factory bool
	if e.name == "reboot" {
		f.BoolVar(&safe, "safe", false, "")
		f.BoolVar(&factory, "factory", false, "")
	}
	return func(args []string) error {
		if err := noArguments(e.name, args); err != nil {
			return err
		}
		a := api.ShutdownArgs{Action: e.name}
		how := ""
		switch {
		case safe && factory:
			return applet.Usagef("-safe and -factory exclude each other")
		case safe:
			a.Mode, how = "safe", ", then once with only console, network and ssh"
		case factory:
			a.Mode, how = "factory", ", then once with the firmware in the rootfs"
		}
		data, err := e.ask(api.OpShutdown, a)
		if err != nil {
			return err
		}
		if e.json {
			return e.print(data)
		}
		_, err = fmt.Fprintf(e.std.Out, "%s: the services are being stopped (15 s at most)%s\n", e.name, how)
		return err
	}
}

func showVersion(e *env, _ *flag.FlagSet) func([]string) error {
	return func(args []string) error {
		if err := noArguments(e.name, args); err != nil {
			return err
		}
		v := struct {
			Gwctl    string `json:"gwctl"`
			Protocol int    `json:"protocol"`
			Gwinit   string `json:"gwinit,omitempty"`
			Board    string `json:"board,omitempty"`
		}{Gwctl: e.version, Protocol: api.Version}
		// The version of this program is an answer without a gateway, too.
		data, silent := e.ask(api.OpStatus, nil)
		if silent == nil {
			var st api.Status
			if err := decode(e.name, data, &st); err != nil {
				return err
			}
			v.Gwinit, v.Board = st.Version, st.Board.ID
		}
		if e.json {
			return e.print(v)
		}
		return e.write(func(b *bytes.Buffer) {
			fmt.Fprintf(b, "gwctl   %s, protocol %d\n", v.Gwctl, v.Protocol)
			if silent != nil {
				fmt.Fprintf(b, "gateway unknown: %s\n", clean(silent.Error()))
				return
			}
			fmt.Fprintf(b, "gateway %s on %s\n", clean(v.Gwinit), clean(v.Board))
		})
	}
}

func help(e *env, _ *flag.FlagSet) func([]string) error {
	return func(args []string) error {
		text := usage + usageOf(e.local)
		if len(args) > 0 {
			c, ok := find(args[0])
			text = c.usage()
			for _, l := range e.local {
				if _, is := l.of(args); is {
					text, ok = l.Usage, true
				}
			}
			if !ok {
				return applet.Usagef("there is no command %q", args[0])
			}
		}
		if e.json {
			return e.print(struct {
				Help string `json:"help"`
			}{text})
		}
		_, err := io.WriteString(e.std.Out, text)
		return err
	}
}
