package config

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gwinit/board/rtl8196e"
	"gwinit/internal/applet"
)

const usage = `config list              every setting with its value; * is set in its file
config get SETTING...    the value in effect
config set SETTING=VALUE...
config unset SETTING...  back to the default; eth0: back to DHCP
config check             what in the files is not used as it stands; status 1 if any
  -json                  for programs: list -json, get -json ..., check -json

A setting is named FILE.KEY, or KEY alone where only one file has it.
Files are in ` + Dir + `; a change replaces the file as a whole.`

// Applet is `config`, which is also `gwctl config`.
func Applet() applet.Applet {
	return applet.Applet{
		Name:    "config",
		Group:   applet.Manage,
		Summary: "read and change the gateway's settings",
		Usage:   usage,
		Run: func(_ context.Context, std applet.IO, args []string) error {
			return Command("", std, args)
		},
	}
}

// Command carries out `config ARGS` on the files below root ("" or "/" on the
// box). It restarts nothing: it says what has to be restarted.
func Command(root string, std applet.IO, args []string) error {
	return Run(root, std, args, nil)
}

// Run is Command with a way to restart the services that a change is for. It
// says each one that it restarts.
func Run(root string, std applet.IO, args []string, restart func(service string) error) error {
	if len(args) == 0 {
		return applet.Usagef("list, get, set, unset or check?")
	}
	verb, args := args[0], args[1:]
	asJSON := len(args) > 0 && (args[0] == "-json" || args[0] == "--json")
	if asJSON {
		args = args[1:]
	}
	c := command{root: root, board: rtl8196e.Detect(root), std: std, restart: restart}
	var run func(args []string, asJSON bool) error
	named := true // the verb takes names
	switch verb {
	case "list":
		run, named = c.list, false
	case "check":
		run, named = c.check, false
	case "get":
		run = c.get
	case "set", "unset":
		if asJSON {
			return applet.Usagef("%s has no -json", verb)
		}
		run = c.set
		if verb == "unset" {
			run = c.unset
		}
	default:
		return applet.Usagef("no such verb: %s", verb)
	}
	switch {
	case named && len(args) == 0:
		return applet.Usagef("%s what?", verb)
	case !named && len(args) > 0:
		return applet.Usagef("%s takes no argument", verb)
	}
	return run(args, asJSON)
}

type command struct {
	root    string
	board   rtl8196e.Board
	std     applet.IO
	restart func(service string) error
}

// itemJSON is a setting for programs.
type itemJSON struct {
	Name    string   `json:"name"`
	Value   string   `json:"value"`
	Set     bool     `json:"set"`
	File    string   `json:"file"`
	Key     string   `json:"key,omitempty"`
	Values  string   `json:"values"`
	Restart []string `json:"restart,omitempty"`
}

// warningJSON is a Warning for programs.
type warningJSON struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Key     string `json:"key,omitempty"`
	Value   string `json:"value,omitempty"`
	Used    string `json:"used,omitempty"`
	Problem string `json:"problem"`
}

func (c command) list(_ []string, asJSON bool) error {
	items, warnings := List(c.root, c.board)
	return c.show(items, warnings, asJSON)
}

func (c command) get(names []string, asJSON bool) error {
	var items []Item
	for _, n := range names {
		i, err := Get(c.root, c.board, n)
		if err != nil {
			return err
		}
		items = append(items, i)
	}
	if !asJSON && len(items) == 1 {
		// Alone it is for a shell's $().
		_, err := fmt.Fprintln(c.std.Out, items[0].Value)
		return err
	}
	return c.show(items, nil, asJSON)
}

func (c command) show(items []Item, warnings []Warning, asJSON bool) error {
	if asJSON {
		out := make([]itemJSON, len(items))
		for i, it := range items {
			out[i] = itemJSON{it.Name, it.Value, it.Set, it.File, it.Key, it.Values, it.Restart}
		}
		return json.NewEncoder(c.std.Out).Encode(out)
	}
	for _, i := range items {
		mark := " "
		if i.Set {
			mark = "*"
		}
		if _, err := fmt.Fprintf(c.std.Out, "%s %-26s %-24s # %s\n", mark, i.Name, i.Value, i.Values); err != nil {
			return err
		}
	}
	return c.warn(warnings)
}

func (c command) check(_ []string, asJSON bool) error {
	warnings := Check(c.root, c.board)
	if asJSON {
		out := make([]warningJSON, len(warnings))
		for i, w := range warnings {
			out[i] = warningJSON(w)
		}
		if err := json.NewEncoder(c.std.Out).Encode(out); err != nil {
			return err
		}
	} else {
		for _, w := range warnings {
			if _, err := fmt.Fprintln(c.std.Out, w); err != nil {
				return err
			}
		}
	}
	if len(warnings) > 0 {
		return applet.Exit(1)
	}
	return nil
}

func (c command) set(args []string, _ bool) error {
	var all []Assignment
	if len(args) == 2 && !strings.Contains(args[0], "=") {
		all = []Assignment{{args[0], args[1]}} // set NAME VALUE
	} else {
		for _, a := range args {
			name, value, ok := strings.Cut(a, "=")
			if !ok {
				return applet.Usagef("%q is not SETTING=VALUE", a)
			}
			all = append(all, Assignment{name, value})
		}
	}
	change, err := Set(c.root, c.board, all)
	return c.changed(change, err)
}

func (c command) unset(names []string, _ bool) error {
	change, err := Unset(c.root, c.board, names)
	return c.changed(change, err)
}

// changed says what a change means, also when only a part of it was made.
func (c command) changed(change Change, err error) error {
	if err == nil && len(change.Settings) == 0 {
		fmt.Fprintln(c.std.Out, "nothing to change")
	}
	for _, s := range change.Settings {
		fmt.Fprintf(c.std.Out, "%s changed in %s\n", s.Name, s.File)
	}
	if err := c.warn(change.Warnings); err != nil {
		return err
	}
	if change.NextBoot {
		fmt.Fprintln(c.std.Out, "used from the next boot on")
	}
	for _, s := range change.Restart {
		if c.restart == nil {
			fmt.Fprintf(c.std.Out, "used once %s is restarted: gwctl restart %s\n", s, s)
			continue
		}
		fmt.Fprintf(c.std.Out, "restarting %s\n", s)
		if e := c.restart(s); e != nil && err == nil {
			err = fmt.Errorf("saved, but restart %s: %w", s, e)
		}
	}
	return err
}

func (c command) warn(warnings []Warning) error {
	for _, w := range warnings {
		if _, err := fmt.Fprintf(c.std.Err, "warning: %s\n", w); err != nil {
			return err
		}
	}
	return nil
}
