package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/client"
	"gwinit/internal/control/wire"
	"gwinit/internal/gwctl"
)

const (
	// comesBackWithin is for a gateway to stop (15 s), start, mount a full flash
	// (12 s) and get an address.
	comesBackWithin = 5 * time.Minute
	askEvery        = 3 * time.Second
	askFor          = 30 * time.Second // a login on a slow CPU
	clockSlack      = 1.0              // s, that our clock and the gateway's may drift apart meanwhile
)

// back is what -json prints of a gateway that is back.
type back struct {
	Back     bool    `json:"back"`
	Seconds  float64 `json:"seconds"` // since the command
	BootMode string  `json:"bootMode"`
	Version  string  `json:"version"`
}

// reboot carries a `reboot -w` out: it comes back when the gateway does.
func (r *runner) reboot(ctx context.Context, std applet.IO, t target, args []string) error {
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-w" })
	asked := ""
	for _, mode := range []string{"safe", "factory"} {
		if slices.Contains(args, "-"+mode) || slices.Contains(args, "--"+mode) {
			asked = mode
		}
	}
	before, err := r.status(ctx, t)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := r.one(ctx, std, t, args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, comesBackWithin)
	defer cancel()
	var last error
	for {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not back after %v; is it on another address now? gwctl discover finds it", t.name, time.Since(begin).Round(time.Second)), last)
		case <-time.After(r.pause()):
		}
		// One that has not restarted yet is up for longer than this.
		same := before.Uptime + time.Since(begin).Seconds() - clockSlack
		st, err := r.status(ctx, t)
		if errors.As(err, new(refused)) {
			return fmt.Errorf("%s is back, but: %w", t.name, err)
		}
		if err != nil || st.Uptime >= same {
			last = err
			continue
		}
		b := back{true, time.Since(begin).Seconds(), st.BootMode, st.Version}
		if err := r.tellBack(std, slices.Contains(args, "-json") || slices.Contains(args, "--json"), b, t); err != nil {
			return err
		}
		if asked != "" && st.BootMode != asked {
			return fmt.Errorf("the boot mode is %s, and %s was asked for; gwctl -H %s logs init may say why", st.BootMode, asked, t.name)
		}
		return nil
	}
}

func (r *runner) tellBack(std applet.IO, asJSON bool, b back, t target) error {
	if !asJSON {
		_, err := fmt.Fprintf(std.Out, "%s is back after %.0f s: boot mode %s, %s\n", t.name, b.Seconds, b.BootMode, b.Version)
		return err
	}
	line, err := wire.Marshal(b)
	if err == nil {
		_, err = std.Out.Write(append(line, '\n'))
	}
	return err
}

func (r *runner) pause() time.Duration {
	if r.every > 0 {
		return r.every
	}
	return askEvery
}

// status asks one gateway by a login of its own.
func (r *runner) status(ctx context.Context, t target) (s api.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	c, err := r.dial(ctx, t)
	if err != nil {
		return s, gwctl.Unreachable{Err: err}
	}
	defer c.Close()
	ch, err := openControl(c)
	if err != nil {
		return s, gwctl.Unreachable{Err: err}
	}
	in := client.New(ch)
	defer in.Close()
	data, err := in.Do(ctx, api.OpStatus, nil)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}
