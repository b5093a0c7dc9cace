// Package remote runs gwctl on a workstation against gateways elsewhere, over
// SSH: gwctl -H [user@]host[:port] COMMAND. The gateway's control protocol
// passes through a channel of the login (subsystem gwctl-control), so a command
// is the same code here as on the box; what only the box has, such as config, is
// run there by its own gwctl. Keys come from ssh-agent and ~/.ssh, and the
// gateways' own are checked with ~/.ssh/known_hosts.
//
// With several hosts (-H a,b,c, or -G GROUP of ~/.config/gwctl/hosts) each runs
// for itself, a few at a time. What is a table of facts is shown with a column for
// each, else its lines begin with its name; who failed is told at the end.
package remote

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/applet"
	"gwinit/internal/control/client"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/ddi"
	"gwinit/internal/gwctl/progress"
)

const (
	// controlSubsystem is the control protocol on a gateway (docs/control.md).
	controlSubsystem = "gwctl-control"
	setupUser        = "setup"
)

const usage = `
on gateways elsewhere:
  -H [USER@]HOST[:PORT],...  log in there by SSH, and do it there; ports 22 and 8888 are
                             tried. A host may be a name of the hosts file
  -G GROUP,...               the hosts of that group in the hosts file; all: every one
  -i FILE                    log in with this private key
  -accept-new                keep the key of a gateway not known yet, without a question
  -timeout TIME              of several: how long each may take (2m; 15m with files)
  setup                      bring in the first key, with the code on the serial console
  reboot -w                  come back when the gateway does, and tell its boot mode
  exporter [-listen ADDRESS] serve the figures of many to Prometheus
  agent -server URL ...      have an update server (hawkBit) drive updates
  install                    the first flash, step by step; a copy of the whole flash
  flash [KIND] FILE          an image through the bootloader; also from today's firmware
  update FILE|URL            another version of this firmware, over SSH; to several
                             (help rollout) a few at a time, and stops at a bad one

gwctl help TOPIC tells more: hosts, setup, install, flash, update, rollout, agent,
  exporter, radio, metrics, json.
The hosts file is ~/.config/gwctl/hosts: NAME [USER@]HOST[:PORT] [GROUP ...] a line.
`

// Wrap is a workstation's gwctl, with the options that name gateways. Without
// them it asks a socket of this machine, if one is given.
func Wrap(version string, local ...gwctl.Local) applet.Applet {
	a := gwctl.Command(version, client.Dial, local...)
	here := a.Run
	a.Usage += usageOnTheBox() + usage
	usageHere := a.Usage
	a.Run = func(ctx context.Context, std applet.IO, args []string) error {
		r := &runner{version: version, local: local, std: std, ask: terminal(std)}
		rest, err := r.options(args)
		if err != nil {
			return err
		}
		name := firstWord(rest)
		if text := topic(rest); text != "" {
			if firstWord(rest) == "help" && gwctl.Has(rest[1]) { // a command's, too
				if err := here(ctx, std, rest); err != nil {
					return err
				}
				text = "\n" + text
			}
			_, err := io.WriteString(std.Out, text)
			return err
		}
		if (name == exporterName || name == ddi.Name) && r.hosts == "" && r.group == "" {
			r.group = allGroup
		}
		if own := map[string]func(context.Context, []target, []string) error{flashName: r.flash, installName: r.install}[name]; own != nil && r.hosts == "" && r.group == "" {
			return own(ctx, nil, rest)
		}
		if r.hosts == "" && r.group == "" {
			if slices.Equal(rest, []string{"help"}) { // this table, and not the box's alone
				_, err := fmt.Fprintln(std.Out, strings.TrimSpace(usageHere))
				return err
			}
			if text := helpOnTheBox(rest); text != "" {
				_, err := io.WriteString(std.Out, text)
				return err
			}
			if name != "" && name != "help" && !r.isLocal(rest) && !slices.Contains(rest, "-socket") && !help(rest) {
				return applet.Usagef("which gateway? gwctl -H HOST %s; gwctl discover finds them", name)
			}
			return here(ctx, std, rest)
		}
		targets, err := resolve(r.hosts, r.group, hostsPath())
		if err != nil {
			return err
		}
		r.known = &known{accept: r.accept}
		if dir := home(); dir != "" {
			r.known.path = filepath.Join(dir, ".ssh", "known_hosts")
		}
		switch name {
		case exporterName:
			return r.export(ctx, targets, rest)
		case flashName:
			return r.flash(ctx, targets, rest)
		case installName:
			return r.install(ctx, targets, rest)
		case ddi.Name:
			return r.agent(ctx, targets, rest)
		}
		if isFactory(rest) {
			return r.factory(ctx, targets, rest)
		}
		if rollsOut(targets, rest) {
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
			defer stop()
			return r.rollout(ctx, targets, rest)
		}
		if len(targets) == 1 {
			return r.one(ctx, std, targets[0], rest)
		}
		r.several = true
		return r.many(ctx, targets, rest)
	}
	return a
}

// usageOnTheBox lists what a gateway does by its own gwctl.
func usageOnTheBox() string {
	text := "\nby the gateway's own gwctl:\n"
	for _, l := range gwctl.OnTheBox() {
		text += fmt.Sprintf("  %-28s %s\n", l.Synopsis(), l.Summary)
	}
	return text
}

// helpOnTheBox is the help of a command that a gateway has, as far as it is known
// without one; "" if that was not asked for.
func helpOnTheBox(args []string) string {
	name := firstWord(args)
	if name == "help" && len(args) > 1 {
		name = args[len(args)-1]
	} else if !help(args) {
		return ""
	}
	for _, l := range gwctl.OnTheBox() {
		if l.Name == name {
			return fmt.Sprintf("usage: gwctl -H HOST %s\n%s\n\nThe gateway's own gwctl does it: gwctl -H HOST %s -h tells more.\n", l.Synopsis(), l.Summary, name)
		}
	}
	return ""
}

// runner is one run of gwctl.
type runner struct {
	version string
	local   []gwctl.Local
	std     applet.IO
	ask     asker

	hosts, group, identity string
	accept                 bool
	several                bool          // gateways are asked at a time
	every                  time.Duration // between two looks for a gateway that restarts; 0: askEvery
	each                   time.Duration // for one of several gateways; 0: by the command
	times                  times

	known *known
	keyMu sync.Mutex // guards keys
	keys  map[string]readOnce
}

// options takes those of this package out of args, wherever they stand up to a
// "--".
func (r *runner) options(args []string) (rest []string, err error) {
	f := flag.NewFlagSet("gwctl", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.StringVar(&r.hosts, "H", "", "")
	f.StringVar(&r.group, "G", "", "")
	f.StringVar(&r.identity, "i", "", "")
	f.BoolVar(&r.accept, "accept-new", false, "")
	f.DurationVar(&r.each, "timeout", 0, "")
	for len(args) > 0 {
		if args[0] == "--" {
			return append(rest, args...), nil
		}
		dashed, isFlag := strings.CutPrefix(args[0], "-")
		name, _, hasValue := strings.Cut(strings.TrimPrefix(dashed, "-"), "=")
		g := f.Lookup(name)
		if !isFlag || g == nil {
			rest = append(rest, args[0])
			args = args[1:]
			continue
		}
		n := 1
		if name != "accept-new" && !hasValue {
			n = min(2, len(args))
		}
		if err := f.Parse(args[:n]); err != nil {
			return nil, applet.Usagef("%v", err)
		}
		args = args[n:]
	}
	if r.each < 0 {
		return nil, applet.Usagef("-timeout takes a time, such as 30s or 2m")
	}
	return rest, nil
}

// words are what a command line has beside options.
func words(args []string) (all []string) {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-socket", args[i] == "--socket":
			i++
		case !strings.HasPrefix(args[i], "-"):
			all = append(all, args[i])
		}
	}
	return all
}

// firstWord is the command of a command line, or "".
func firstWord(args []string) string {
	if all := words(args); len(all) > 0 {
		return all[0]
	}
	return ""
}

func help(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "--help" || a == "-help" })
}

// localOf finds the command of this package's callers that args are.
func (r *runner) localOf(args []string) (l gwctl.Local, ok bool) {
	args = words(args)
	i := slices.IndexFunc(r.local, func(l gwctl.Local) bool {
		name := strings.Fields(l.Name)
		return len(args) >= len(name) && slices.Equal(args[:len(name)], name)
	})
	if i < 0 {
		return l, false
	}
	return r.local[i], true
}

// isLocal tells whether a command needs no gateway.
func (r *runner) isLocal(args []string) bool {
	l, ok := r.localOf(args)
	return ok && l.Steer == nil
}

// steers tells whether a command is one of a workstation's that asks the gateway.
func (r *runner) steers(args []string) bool {
	l, ok := r.localOf(args)
	return ok && l.Steer != nil
}

// one carries args out on one gateway.
func (r *runner) one(ctx context.Context, std applet.IO, t target, args []string) error {
	name := firstWord(args)
	switch {
	case name == "setup":
		return r.setup(ctx, std, t)
	case r.isLocal(args):
		l, _ := r.localOf(args)
		return applet.Usagef("%s needs no gateway: leave -H and -G out", l.Name)
	case name == "reboot" && slices.Contains(args, "-w") && !help(args):
		return r.reboot(ctx, std, t, args)
	case name == updateName && !help(args) && !slices.Contains(words(args), "status"):
		if r.several {
			return applet.Usagef("one gateway at a time is updated")
		}
		return r.update(ctx, std, t, args)
	case name == "help" && helpOnTheBox(args) != "":
		return r.exec(ctx, std, t, args)
	case gwctl.OnlyBoxed(args) && !r.steers(args):
		switch c, ok := carry(args); {
		case !ok || help(args):
			return r.exec(ctx, std, t, args)
		case c.down:
			return r.fetch(ctx, std, t, c)
		default:
			return r.send(ctx, std, t, c)
		}
	}
	var login struct {
		sync.Mutex
		c *conn
	}
	end := func() {
		login.Lock()
		defer login.Unlock()
		if login.c != nil {
			login.c.Close()
			login.c = nil
		}
	}
	defer end()
	// The login outlives the request that it is made for.
	dial := func(context.Context, string) (*client.Client, error) {
		login.Lock()
		defer login.Unlock()
		for kept := login.c != nil; ; kept = false {
			if login.c == nil {
				c, err := r.dial(ctx, t)
				if err != nil {
					return nil, gwctl.Unreachable{Err: err}
				}
				login.c = c
			}
			ch, err := openControl(login.c)
			switch {
			case err == nil:
				return client.New(ch), nil
			case !kept:
				return nil, gwctl.Unreachable{Err: err}
			}
			// One of before may be broken: the gateway was restarted.
			login.c.Close()
			login.c = nil
		}
	}
	ctx = context.WithValue(ctx, steeredKey{}, Gateway{Host: t.host, Dial: dial})
	steering := slices.DeleteFunc(slices.Clone(r.local), func(l gwctl.Local) bool { return l.Steer == nil })
	ctx = gwctl.WithPeer(gwctl.WithRedial(ctx, end), func() string {
		login.Lock()
		defer login.Unlock()
		if login.c == nil {
			return ""
		}
		return addressOf(login.c.LocalAddr())
	})
	return gwctl.Command(r.version, dial, steering...).Run(ctx, std, args)
}

// addressOf is a TCP address without its port, or "".
func addressOf(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return ""
	}
	return at.Addr().Unmap().WithZone("").String()
}

// Gateway is the one that a command of a workstation steers.
type Gateway struct {
	Host string // its name or address, as this computer reaches it
	// Dial opens one more connection to its control socket, by the login that is
	// there, or a new one if that has ended.
	Dial gwctl.Dialer
}

// steeredKey is that of a context's value.
type steeredKey struct{}

// Steered returns the gateway of a Local's Steer.
func Steered(ctx context.Context) (Gateway, bool) {
	g, ok := ctx.Value(steeredKey{}).(Gateway)
	return g, ok
}

// channel is a subsystem's two directions.
type channel struct {
	io.Reader
	io.Writer
	s *ssh.Session
}

func (c channel) Close() error { return c.s.Close() }

// openControl opens the control protocol.
func openControl(c *conn) (io.ReadWriteCloser, error) {
	s, err := c.NewSession()
	if err != nil {
		return nil, err
	}
	in, err1 := s.StdinPipe()
	out, err2 := s.StdoutPipe()
	err = errors.Join(err1, err2)
	if err == nil {
		err = s.RequestSubsystem(controlSubsystem)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("that is an SSH server, but no gateway with this firmware, or one of another version: %w", err)
	}
	return channel{out, in, s}, nil
}

// session logs in for one command. The caller must close what it returns.
func (r *runner) session(ctx context.Context, std applet.IO, t target) (*ssh.Session, *conn, error) {
	c, err := r.dial(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	s, err := c.NewSession()
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	s.Stdin, s.Stdout, s.Stderr = std.In, std.Out, std.Err
	return s, c, nil
}

// exec has the gateway's own gwctl do it.
func (r *runner) exec(ctx context.Context, std applet.IO, t target, args []string) error {
	return r.execWith(ctx, std, t, args, nil)
}

// execWith is exec with a bar, which begins behind what a login may ask.
func (r *runner) execWith(ctx context.Context, std applet.IO, t target, args []string, bar *progress.Bar) error {
	return r.command(ctx, std, t, "gwctl", args, bar)
}

// command runs a command of the gateway.
func (r *runner) command(ctx context.Context, std applet.IO, t target, name string, args []string, bar *progress.Bar) error {
	std.Err = bar.Beside(std.Err)
	s, c, err := r.session(ctx, std, t)
	if err != nil {
		return err
	}
	defer c.Close()
	bar.Begin()
	defer bar.End()
	line := name
	for _, a := range args {
		line += " " + quote(a)
	}
	err = s.Run(line)
	var ended *ssh.ExitError
	if errors.As(err, &ended) && ended.Signal() == "" {
		return applet.Exit(ended.ExitStatus())
	}
	if errors.As(err, new(*ssh.ExitMissingError)) && restarts(args) {
		return nil // it went on to restart before it said how the command ended
	}
	return err
}

// restarts tells whether a command ends the gateway that it is asked of.
func restarts(args []string) bool {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	return i >= 0 && (args[i] == "reboot" || args[i] == "factory-reset" || args[i] == "poweroff" || args[i] == "rollback")
}

// quote is a word as a shell reads it.
func quote(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_=+.,/:@%", c)
	}
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !plain(c) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// setup brings the first key in.
func (r *runner) setup(ctx context.Context, std applet.IO, t target) error {
	t.user, std.In = setupUser, nil
	s, c, err := r.session(ctx, std, t)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := s.Run("setup"); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "gwctl -H %s status works from now on.\n", t.name)
	return err
}

// terminal is who sits at std, or nobody.
func terminal(std applet.IO) asker {
	in, ok := std.In.(*os.File)
	if !ok {
		return nobody{std.Err}
	}
	return person(in, std.Err)
}
