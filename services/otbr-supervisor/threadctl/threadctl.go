//go:build linux

// Package threadctl is gwctl thread, on the box: it asks the border router's
// service, and works on the Thread network in flash.
package threadctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/atomicfile"
	"gwinit/services/otbr-supervisor/threaddata"
)

// Usage is the help of gwctl thread.
const Usage = `usage: gwctl thread [VERB]
  (none)        the border router and its network, without secrets
  dataset       the network's dataset in hex, WITH ITS KEY: who has it can join
  neighbours    the nodes that it hears
  children      the nodes that depend on it
  routing       what it announces between Thread and the network
  join DATASET  take part in the network of that dataset ("-": on standard input)
    -replace    also if that leaves a network
  backup FILE   the network as a file ("-": standard output): a secret, too
  restore FILE  take the network from such a file; its frame counters are lifted
                to those that were in use here
`

// Where things are: services/otbr-supervisor.
const (
	memory  = "/tmp/thread"
	flash   = "/userdata/thread"
	service = "otbr"
)

// maxFile bounds a backup, in bytes.
const maxFile = 600 << 10

// asker sends one request of the control protocol, as gwctl.Asker.
type asker = func(ctx context.Context, op string, args any) (json.RawMessage, error)

// command is one run.
type command struct {
	ctx  context.Context
	root string // of the file system, "" on the box
	std  applet.IO
	json bool
	ask  asker
}

// Run carries gwctl thread out on the box whose file system is at root.
func Run(ctx context.Context, root string, std applet.IO, args []string, asJSON bool, ask asker) error {
	c := command{ctx, root, std, asJSON, ask}
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	replace := false
	if verb == "join" {
		rest := args[:0:0]
		for _, a := range args {
			if a == "-replace" {
				replace = true
			} else {
				rest = append(rest, a)
			}
		}
		args = rest
	}
	want := 0
	switch verb {
	case "join", "backup", "restore":
		want = 1
	}
	if len(args) != want {
		return applet.Usagef("thread %s takes %d arguments, not %d", verb, want, len(args))
	}
	switch verb {
	case "":
		return c.show()
	case "dataset":
		return c.dataset()
	case "neighbours", "children", "routing":
		return c.table(verb)
	case "join":
		return c.join(args[0], replace)
	case "backup":
		return c.backup(args[0])
	case "restore":
		return c.restore(args[0])
	}
	return applet.Usagef("thread has no verb %q: dataset, neighbours, children, routing, join, backup or restore?", verb)
}

func (c command) call(method, params string) (json.RawMessage, error) {
	a := api.CallArgs{Service: service, Method: method}
	if params != "" {
		a.Params = json.RawMessage(params)
	}
	data, err := c.ask(c.ctx, api.OpCall, a)
	if err != nil && !alive(c.status()) {
		err = fmt.Errorf("%w; gwctl radio tells whose the radio is, gwctl radio mode otbr gives it to Thread", err)
	}
	return data, err
}

// text asks for a string and prints it, with a line end.
func (c command) text(method, params string) error {
	data, err := c.call(method, params)
	if err != nil {
		return err
	}
	if c.json {
		return c.line(string(data))
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return c.line(strings.TrimRight(text, "\n"))
}

func (c command) line(text string) error {
	_, err := io.WriteString(c.std.Out, text+"\n")
	return err
}

func (c command) show() error {
	if c.json {
		data, err := c.call("show", "")
		if err != nil {
			return err
		}
		return c.line(string(data))
	}
	return c.text("text", "")
}

func (c command) dataset() error {
	fmt.Fprintln(c.std.Err, "gwctl: this holds the network's key: who has it can join the network and read it")
	return c.text("dataset", "")
}

func (c command) table(name string) error { return c.text("table", `{"name":"`+name+`"}`) }

func (c command) join(dataset string, replace bool) error {
	if dataset == "-" {
		b, err := io.ReadAll(io.LimitReader(c.std.In, 4<<10))
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		dataset = string(b)
	}
	params, err := json.Marshal(struct {
		Dataset string `json:"dataset"`
		Replace bool   `json:"replace"`
	}{strings.TrimSpace(dataset), replace})
	if err != nil {
		return err
	}
	data, err := c.call("join", string(params))
	if err != nil {
		return err
	}
	if c.json {
		return c.line(string(data))
	}
	return c.line("the node has that network now: gwctl thread shows when it is attached")
}

func (c command) path(name string) string { return filepath.Join("/", c.root, name) }

// status is that of the service, "" when gwinit does not answer.
func (c command) status() string {
	data, err := c.ask(c.ctx, api.OpStatus, nil)
	if err != nil {
		return ""
	}
	var st api.Status
	if json.Unmarshal(data, &st) != nil {
		return ""
	}
	for _, s := range st.Services {
		if s.Name == service {
			return s.State
		}
	}
	return ""
}

// alive tells whether the service has a process, in a state.
func alive(state string) bool {
	return state == "running" || state == "starting" || state == "backoff" || state == "stopping"
}

// errNone: there is nothing to back up.
var errNone = errors.New("there is no Thread network to back up")

func (c command) backup(file string) error {
	if alive(c.status()) {
		if _, err := c.call("save", ""); err != nil {
			return err
		}
	}
	l, err := threaddata.NewStore(c.path(flash)).Load()
	if err != nil {
		return err
	}
	dataset, _, ok := l.Set.Network()
	if !ok {
		return errNone
	}
	data := l.Set.Export()
	if file == "-" {
		_, err = c.std.Out.Write(data)
		return err
	}
	if err := atomicfile.Write(file, data, 0o600); err != nil {
		return err
	}
	return c.told("the network "+name(dataset)+" is in "+file+": it holds the network's key", name(dataset))
}

// name is a network's name, printable.
func name(dataset []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, string(threaddata.TLV(dataset, threaddata.TLVNetworkName)))
}

// told is the end of a command that did something to a network.
func (c command) told(text, network string) error {
	if !c.json {
		return c.line(text)
	}
	b, err := json.Marshal(struct {
		Network string `json:"network"`
	}{network})
	if err != nil {
		return err
	}
	return c.line(string(b))
}

// restore puts a network into flash, while no agent runs, and takes away what is
// in memory: it would count as newer.
func (c command) restore(file string) (err error) {
	var in io.Reader = c.std.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFile))
	if err != nil {
		return err
	}
	set, err := threaddata.Import(data)
	if err != nil {
		return fmt.Errorf("%s is no backup by gwctl thread backup: %w", file, err)
	}
	dataset, _, ok := set.Network()
	if !ok {
		return fmt.Errorf("%s: %w", file, errNone)
	}
	was := c.status()
	if alive(was) {
		if _, err := c.ask(c.ctx, api.OpService, api.ServiceArgs{Name: service, Action: "stop"}); err != nil {
			return err
		}
		defer func() {
			_, serr := c.ask(c.ctx, api.OpService, api.ServiceArgs{Name: service, Action: "try-restart"})
			err = errors.Join(err, serr)
		}()
	}
	store := threaddata.NewStore(c.path(flash))
	before, err := store.Load()
	if err != nil {
		return err
	}
	set, _ = set.Lift(before.Set)
	if err := store.Save(set); err != nil {
		return err
	}
	if err := os.RemoveAll(c.path(memory)); err != nil {
		return err
	}
	text := "the network " + name(dataset) + " is back"
	if alive(was) {
		text += "; the border router is started with it"
	}
	return c.told(text, name(dataset))
}
