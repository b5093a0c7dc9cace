//go:build linux

package threadctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/services/otbr-supervisor/otbrtest"
	"gwinit/services/otbr-supervisor/threaddata"
)

// box is a gateway's files, and what its gwinit was asked.
type box struct {
	t       *testing.T
	root    string
	state   string // of the service
	answers map[string]string
	asked   []string
	onSave  func()
}

func newBox(t *testing.T) *box {
	return &box{t: t, root: t.TempDir(), answers: map[string]string{}}
}

func (b *box) ask(_ context.Context, op string, args any) (json.RawMessage, error) {
	switch a := args.(type) {
	case api.CallArgs:
		if a.Service != "otbr" {
			b.t.Errorf("asked %s", a.Service)
		}
		b.asked = append(b.asked, strings.TrimSpace(a.Method+" "+string(a.Params)))
		if a.Method == "save" && b.onSave != nil {
			b.onSave()
		}
		text, ok := b.answers[a.Method]
		if !ok {
			return nil, errors.New("otbr is not running")
		}
		return json.RawMessage(text), nil
	case api.ServiceArgs:
		b.asked = append(b.asked, a.Action+" "+a.Name)
		return json.RawMessage("{}"), nil
	}
	if op != api.OpStatus {
		b.t.Errorf("asked for %s", op)
	}
	return json.Marshal(api.Status{Services: []api.Service{{Name: "bridge", State: "running"}, {Name: "otbr", State: b.state}}})
}

func (b *box) run(in string, args ...string) (out, errs string, err error) {
	b.t.Helper()
	b.asked = nil
	var o, e bytes.Buffer
	asJSON := false
	if n := len(args); n > 0 && args[n-1] == "-json" {
		asJSON, args = true, args[:n-1]
	}
	err = Run(b.t.Context(), b.root, applet.IO{In: strings.NewReader(in), Out: &o, Err: &e}, args, asJSON, b.ask)
	return o.String(), e.String(), err
}

func TestVerbs(t *testing.T) {
	for _, tt := range []struct {
		args, in       string
		method, answer string
		asked, out     string
		warns          bool
		err            string
	}{
		{"", "", "text", `"agent    ready\n"`, "text", "agent    ready\n", false, ""},
		{"-json", "", "show", `{"state":"ready"}`, "show", `{"state":"ready"}` + "\n", false, ""},
		{"", "", "", "", "text", "", false, "not running; gwctl radio tells whose the radio is"},
		{"dataset", "", "dataset", `"0e08"`, "dataset", "0e08\n", true, ""},
		{"dataset -json", "", "dataset", `"0e08"`, "dataset", `"0e08"` + "\n", true, ""},
		{"children", "", "table", `"| ID |\n"`, `table {"name":"children"}`, "| ID |\n", false, ""},
		{"neighbours", "", "table", `""`, `table {"name":"neighbours"}`, "\n", false, ""},
		{"routing", "", "table", `"br state:\n  running\n"`, `table {"name":"routing"}`, "br state:\n  running\n", false, ""},
		{"join 0e08", "", "join", "{}", `join {"dataset":"0e08","replace":false}`, "the node has that network now: gwctl thread shows when it is attached\n", false, ""},
		{"join - -replace -json", "0e08\n", "join", "{}", `join {"dataset":"0e08","replace":true}`, "{}\n", false, ""},
		{"join", "", "", "", "", "", false, "takes 1 arguments"},
		{"dance", "", "", "", "", "", false, `no verb "dance"`},
		{"dataset x", "", "", "", "", "", false, "takes 0 arguments"},
	} {
		b := newBox(t)
		if tt.method != "" {
			b.answers[tt.method] = tt.answer
		}
		out, errs, err := b.run(tt.in, strings.Fields(tt.args)...)
		if out != tt.out || strings.Contains(errs, "network's key") != tt.warns || strings.Join(b.asked, ", ") != tt.asked ||
			(err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("thread %s: %q, %q, %v; asked %q", tt.args, out, errs, err, b.asked)
		}
	}
}

func (b *box) put(name string, data []byte) {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func TestBackupAndRestore(t *testing.T) {
	b := newBox(t)
	file := filepath.Join(t.TempDir(), "backup")
	if _, _, err := b.run("", "backup", file); !errors.Is(err, errNone) {
		t.Errorf("nothing to back up: %v", err)
	}
	// A border router that runs is asked to save first.
	b.state, b.answers["save"] = "running", "{}"
	b.onSave = func() { b.put("userdata/thread/"+otbrtest.Name, otbrtest.Settings(7)) }
	out, _, err := b.run("", "backup", file)
	if err != nil || out != "the network fake is in "+file+": it holds the network's key\n" || strings.Join(b.asked, ", ") != "save" {
		t.Fatalf("backup: %q, %v; asked %q", out, err, b.asked)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v, %v", info.Mode(), err)
	}
	if piped, _, err := b.run("", "backup", "-"); err != nil || piped == "" {
		t.Errorf("to standard output: %d bytes, %v", len(piped), err)
	} else if whole, _ := os.ReadFile(file); piped != string(whole) {
		t.Error("standard output has another backup")
	}
	// Later, with counters far ahead, and files in memory.
	b.onSave = nil
	b.put("userdata/thread/"+otbrtest.Name, otbrtest.Settings(9000))
	if l, err := threaddata.NewStore(b.root + flash).Load(); err != nil || l.Source != threaddata.Files {
		t.Fatalf("%+v, %v", l, err)
	}
	store := threaddata.NewStore(b.root + flash)
	l, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save(l.Set); err != nil {
		t.Fatal(err)
	}
	b.put("tmp/thread/"+otbrtest.Name, otbrtest.Settings(8500))
	out, _, err = b.run("", "restore", file)
	if err != nil || out != "the network fake is back; the border router is started with it\n" || strings.Join(b.asked, ", ") != "stop otbr, try-restart otbr" {
		t.Fatalf("restore: %q, %v; asked %q", out, err, b.asked)
	}
	got, err := os.ReadFile(filepath.Join(b.root, "userdata/thread", otbrtest.Name))
	if err != nil || otbrtest.Counter(got) != 9000 {
		t.Errorf("restored with the counter %d, %v: 9000 was in use", otbrtest.Counter(got), err)
	}
	if _, err := os.Stat(filepath.Join(b.root, "tmp/thread")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is in memory would win: %v", err)
	}
	// Without a border router nobody is asked for anything.
	b.state = "idle"
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := b.run(string(whole), "restore", "-", "-json"); err != nil || out != `{"network":"fake"}`+"\n" || b.asked != nil {
		t.Errorf("restore: %q, %v; asked %q", out, err, b.asked)
	}
	// Damaged, or something else.
	for name, data := range map[string]string{"damaged": string(whole[:40]) + "x" + string(whole[41:]), "else": "hello", "empty": "", "no network": string(threaddata.Set{{Name: "f", Data: nil}}.Export())} {
		if _, _, err := b.run(data, "restore", "-"); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
	if _, _, err := b.run("", "restore", file+"x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
