package remote

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/applet"
	"gwinit/internal/control/wire"
	"gwinit/internal/gwctl/progress"
	"gwinit/internal/gwctl/update"
	options "gwinit/internal/gwctl/words"
)

const updateName = "update"

const updateUsage = `usage: gwctl -H HOST update [-w] [-n] [-force] [-no-reboot] FILE|URL
       gwctl -H HOST update status [-json]
install another version of this firmware, and restart into it

FILE is what make release made, or a download (gw-VERSION.update); this
computer fetches a URL. The gateway verifies the signature. It tries the version
three times at most; after 3 minutes in which all is well it keeps it, else it
goes back to what it has (docs/update.md). The copy in the rootfs stays.

  -w          wait until it is kept or given up, and say which
  -n          have the gateway verify it, and change nothing
  -force      also an older version, and one for another board
  -no-reboot  do not restart: the next restart tries it
update -factory rootfs.bin replaces the copy in the rootfs: docs/recover.md.
`

// updateBox is a gateway as package update uses it: each command is a login of its
// own, so that it works across a restart.
type updateBox struct {
	r *runner
	t target
}

// Command implements update.Box.
func (b updateBox) Command(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	var out, errs bytes.Buffer
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, c, err := b.r.session(ctx, applet.IO{In: stdin, Out: &out, Err: &errs}, b.t)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	line := "gwctl"
	for _, a := range args {
		line += " " + quote(a)
	}
	err = s.Run(line)
	var ended *ssh.ExitError
	switch {
	case ctx.Err() != nil:
		return out.Bytes(), context.Cause(ctx)
	case errors.As(err, new(*ssh.ExitMissingError)) && out.Len() > 0 && !slices.Contains(args, "status"):
		return out.Bytes(), nil // it went on to restart before it said how the command ended
	case errors.As(err, &ended):
		return out.Bytes(), fmt.Errorf("gwctl %s on %s: %s (%w)", args[0], b.t.name, plain(strings.TrimSpace(errs.String())), err)
	case err != nil:
		return out.Bytes(), fmt.Errorf("%s: %w", b.t.name, err)
	}
	return out.Bytes(), nil
}

// updated is what -json prints with -w, behind what the gateway said.
type updated struct {
	Version   string  `json:"version"`
	Committed bool    `json:"committed"`
	Reason    string  `json:"reason,omitempty"`
	Running   string  `json:"running"`
	Seconds   float64 `json:"seconds"`
}

// update sends an update to one gateway.
func (r *runner) update(ctx context.Context, std applet.IO, t target, args []string) error {
	var o update.Options
	follow, asJSON := false, false
	f := flag.NewFlagSet(updateName, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.BoolVar(&follow, "w", false, "")
	f.BoolVar(&asJSON, "json", false, "")
	f.BoolVar(&o.DryRun, "n", false, "")
	f.BoolVar(&o.Force, "force", false, "")
	f.BoolVar(&o.NoReboot, "no-reboot", false, "")
	names, err := options.Parse(f, without(args, updateName))
	switch {
	case err != nil:
		return err
	case len(names) != 1:
		return applet.Usagef("update takes one FILE or URL; see gwctl update -h")
	case follow && (o.DryRun || o.NoReboot):
		return applet.Usagef("-w waits for what comes of a restart, which -n and -no-reboot leave out")
	}
	b, m, err := update.Load(ctx, names[0])
	if err != nil {
		return err
	}
	bar := progress.New(std.Err, "sent", progress.Bytes, int64(len(b)))
	defer bar.End()
	if !asJSON {
		o.Progress = func(sent, _ int64) {
			bar.Begin()
			bar.At(sent)
		}
	}
	box := updateBox{r, t}
	err = update.Send(ctx, box, bytes.NewReader(b), int64(len(b)), o)
	bar.End()
	if err != nil {
		return err
	}
	say := func(format string, a ...any) error {
		if asJSON {
			return nil
		}
		_, err := fmt.Fprintf(std.Out, format+"\n", a...)
		return err
	}
	switch {
	case o.DryRun:
		return say("%s would take %s; nothing was changed", t.name, m.Version)
	case o.NoReboot:
		return say("%s has %s, and tries it from its next restart on", t.name, m.Version)
	case !follow:
		return say("%s has %s and restarts into it; gwctl -H %s update status tells whether it is kept", t.name, m.Version, t.name)
	}
	if err := say("%s has %s and restarts into it; it is kept after 3 minutes in which all is well", t.name, m.Version); err != nil {
		return err
	}
	end, err := update.Wait(ctx, box, m.Version)
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	if asJSON {
		line, err := wire.Marshal(updated{m.Version, end.Committed, end.Reason, end.Running, end.Seconds})
		if err == nil {
			_, err = std.Out.Write(append(line, '\n'))
		}
		if err == nil && !end.Committed {
			err = applet.Exit(1)
		}
		return err
	}
	if !end.Committed {
		return fmt.Errorf("%s did not keep %s: %s. It runs %s", t.name, m.Version, plain(end.Reason), plain(end.Running))
	}
	return say("%s has kept %s, after %.0f s", t.name, m.Version, end.Seconds)
}
