package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gwinit/board/rtl8196e"
	"gwinit/internal/applet"
)

// Usage is the help of Run.
const Usage = `config list              every setting with its value; * is set in its file
config get SETTING...    the value in effect
config set SETTING=VALUE...
config unset SETTING...  back to the default; eth0: back to DHCP
config check             what in the files is not used as it stands; status 1 if any
config export            every setting, for import
config import FILE       make the changes of such a file, or of - (standard input): all or none
  -n                     only tell what would change
  -all                   also take back what it does not set
  -json                  for programs

A setting is named FILE.KEY, or KEY alone where only one file has it.
Files are in ` + Dir + `; a change replaces the file as a whole and
is taken over by the services that read it, if they run: most settings of the
bridge while its client stays, others by a restart.
`

// Restart asks for the restart of a service if it runs, and returns its state
// afterwards: "running", or why it was left alone. With live it has the service
// reload instead, and returns Reloaded, if that works.
type Restart func(service string, live bool) (state string, err error)

// Reloaded is what Restart returns of a service that goes on with the new settings.
const Reloaded = "reloaded"

// Run carries out a command line of Usage on the files below root ("" or "/"
// on the box). Errors of the settings are an *Error, of the command line an
// applet.UsageError; Restart's are wrapped. With asJSON all that goes to
// std.Out is one JSON value.
func Run(root string, std applet.IO, args []string, asJSON bool, restart Restart) error {
	if len(args) == 0 {
		return applet.Usagef("config: list, get, set, unset, check, export or import?")
	}
	verb, args := args[0], args[1:]
	c := command{root: root, board: rtl8196e.Detect(root), std: std, json: asJSON, restart: restart}
	var run func(args []string) error
	named := true // the verb takes names
	switch verb {
	case "list":
		run, named = c.list, false
	case "check":
		run, named = c.check, false
	case "export":
		run, named = c.export, false
	case "import":
		return c.imports(args)
	case "get":
		run = c.get
	case "set":
		run = c.set
	case "unset":
		run = c.unset
	default:
		return applet.Usagef("config has no verb %s", verb)
	}
	switch {
	case named && len(args) == 0:
		return applet.Usagef("config %s what?", verb)
	case !named && len(args) > 0:
		return applet.Usagef("config %s takes no argument", verb)
	}
	return run(args)
}

type command struct {
	root    string
	board   rtl8196e.Board
	std     applet.IO
	json    bool
	restart Restart
	try     bool // nothing was changed, and nothing is restarted
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

// changeJSON is what set or unset did, for programs.
type changeJSON struct {
	Changed   []string      `json:"changed"`   // settings
	Restarted []string      `json:"restarted"` // services
	Reloaded  []string      `json:"reloaded,omitempty"`
	Left      []leftJSON    `json:"left,omitempty"`
	NextBoot  bool          `json:"nextBoot,omitempty"`
	Warnings  []warningJSON `json:"warnings,omitempty"`
	DryRun    bool          `json:"dryRun,omitempty"` // what would be
	Problems  []Problem     `json:"problems,omitempty"`
}

// leftJSON is a service that was not restarted, because of its state.
type leftJSON struct {
	Service string `json:"service"`
	State   string `json:"state"`
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

func (c command) list([]string) error {
	items, warnings := List(c.root, c.board)
	return c.show(items, warnings)
}

func (c command) get(names []string) error {
	var items []Item
	for _, n := range names {
		i, err := Get(c.root, c.board, n)
		if err != nil {
			return err
		}
		items = append(items, i)
	}
	if !c.json && len(items) == 1 {
		// Alone it is for a shell's $().
		_, err := fmt.Fprintln(c.std.Out, items[0].Value)
		return err
	}
	return c.show(items, nil)
}

func (c command) show(items []Item, warnings []Warning) error {
	if c.json {
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

func (c command) check([]string) error {
	warnings := Check(c.root, c.board)
	if c.json {
		if err := json.NewEncoder(c.std.Out).Encode(asJSON(warnings)); err != nil {
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

func (c command) set(args []string) error {
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

func (c command) unset(names []string) error {
	change, err := Unset(c.root, c.board, names)
	return c.changed(change, err)
}

// changed restarts who reads what was changed, and says what it means, also
// when only a part of it was made. With try it says what would be.
func (c command) changed(change Change, err error) error {
	done := changeJSON{Changed: []string{}, Restarted: []string{}, NextBoot: change.NextBoot, DryRun: c.try}
	would := func(did, would string) string {
		if c.try {
			return would
		}
		return did
	}
	for _, s := range change.Settings {
		done.Changed = append(done.Changed, s.Name)
		c.say("%s %s in %s\n", s.Name, would("changed", "would change"), s.File)
	}
	if err == nil && len(change.Settings) == 0 {
		c.say("nothing to change\n")
	}
	if c.json {
		done.Warnings = asJSON(change.Warnings)
	} else if err := c.warn(change.Warnings); err != nil {
		return err
	}
	if change.NextBoot {
		c.say("used from the next boot on\n")
	}
	services := slices.Concat(change.Restart, change.Reload)
	slices.Sort(services)
	for _, s := range services {
		live := slices.Contains(change.Reload, s)
		var state string
		var e error
		switch {
		case !c.try:
			state, e = c.restart(s, live)
		case live:
			state = Reloaded
		default:
			state = "running"
		}
		switch {
		case e != nil && err == nil:
			err = fmt.Errorf("restart %s: %w", s, e)
		case e != nil: // the first one is told
		case state == Reloaded:
			done.Reloaded = append(done.Reloaded, s)
			c.say("%s %s it from now on\n", s, would("uses", "would use"))
		case state == "running" || state == "starting": // Thread may take its time
			done.Restarted = append(done.Restarted, s)
			c.say("%s %s\n", s, would("restarted", "would be restarted, if it runs"))
		default:
			done.Left = append(done.Left, leftJSON{s, state})
			c.say("%s is %s and is left so; it uses this once it is started: gwctl start %s\n", s, state, s)
		}
	}
	switch {
	case err != nil && len(done.Changed) > 0:
		return fmt.Errorf("%s saved, but %w", strings.Join(done.Changed, ", "), err)
	case err == nil && c.json:
		return json.NewEncoder(c.std.Out).Encode(done)
	}
	return err
}

// say prints for people.
func (c command) say(format string, args ...any) {
	if !c.json {
		fmt.Fprintf(c.std.Out, format, args...)
	}
}

func asJSON(warnings []Warning) []warningJSON {
	all := make([]warningJSON, len(warnings))
	for i, w := range warnings {
		all[i] = warningJSON(w)
	}
	return all
}

func (c command) warn(warnings []Warning) error {
	for _, w := range warnings {
		if _, err := fmt.Fprintf(c.std.Err, "warning: %s\n", w); err != nil {
			return err
		}
	}
	return nil
}
