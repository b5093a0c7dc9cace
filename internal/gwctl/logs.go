package gwctl

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
)

// followFirst is how many lines `logs -f` shows of what was before.
const followFirst = 10

func logs(e *env, f *flag.FlagSet) func([]string) error {
	var a api.LogsArgs
	f.BoolVar(&a.Follow, "f", false, "")
	f.IntVar(&a.Lines, "n", -1, "")
	return func(args []string) error {
		switch {
		case len(args) > 1:
			return applet.Usagef("logs takes one service, or none for all")
		case len(args) == 1:
			a.Service = args[0]
		}
		switch {
		case a.Lines < -1:
			return applet.Usagef("-n takes a number of lines, 0 for all")
		case a.Lines == -1 && a.Follow:
			a.Lines = followFirst
		case a.Lines == -1:
			a.Lines = 0
		}
		c, err := e.open()
		if err != nil {
			return err
		}
		defer c.Close()

		var out bytes.Buffer
		show := func(r api.Reply) error {
			var lines []api.LogLine
			if len(r.Data) > 0 {
				if err := decode(e.name, r.Data, &lines); err != nil {
					return err
				}
			}
			if err := e.logLines(&out, r.Missed, lines); err != nil || !a.Follow {
				return err
			}
			_, err := out.WriteTo(e.std.Out)
			return err
		}
		if a.Follow {
			err := c.Stream(e.ctx, api.OpLogs, a, show)
			if e.ctx.Err() != nil {
				return nil // ctrl-c is how it ends
			}
			return err
		}
		// Everything is taken before anything is printed: a serial console
		// takes longer than the server waits for a reader.
		ctx, cancel := context.WithTimeout(e.ctx, answerTimeout)
		defer cancel()
		if err := c.Stream(ctx, api.OpLogs, a, show); err != nil {
			return late(ctx, err)
		}
		_, err = out.WriteTo(e.std.Out)
		return err
	}
}

// logLines adds lines to b, as text or as JSON objects, one a line.
func (e *env) logLines(b *bytes.Buffer, missed uint64, lines []api.LogLine) error {
	if e.json {
		each := applet.IO{Out: b}
		j := &env{std: each}
		if missed > 0 {
			if err := j.print(struct {
				Missed uint64 `json:"missed"`
			}{missed}); err != nil {
				return err
			}
		}
		for _, l := range lines {
			if err := j.print(l); err != nil {
				return err
			}
		}
		return nil
	}
	if missed > 0 {
		fmt.Fprintf(b, "-- %d lines were overwritten before they could be shown --\n", missed)
	}
	for _, l := range lines {
		fmt.Fprintf(b, "%s %s: %s\n", stamp(l), clean(l.Service), clean(l.Text))
	}
	return nil
}

// stamp is the time of a line: UTC if the clock was known, else since boot.
func stamp(l api.LogLine) string {
	if l.Wall != 0 {
		return time.Unix(0, l.Wall).UTC().Format("2006-01-02T15:04:05Z")
	}
	return fmt.Sprintf("[%12.3f]", float64(l.Mono)/1e9)
}
