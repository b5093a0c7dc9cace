//go:build linux

package onbox

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
	"gwinit/internal/factoryreset"
)

func TestFactoryReset(t *testing.T) {
	refusal := errors.New("the box is shutting down already")
	for _, tt := range []struct {
		name, in string
		args     []string
		json     bool
		refuse   error
		out      string
		asked    bool // a question
		done     bool // the wish is there
		err      string
	}{
		{name: "asked and said", in: "Yes\n", asked: true, done: true, out: "The gateway restarts, and is as a new one then.\n"},
		{name: "asked and not said", in: "no\n", asked: true, err: "nothing was changed"},
		{name: "nobody there", asked: true, err: "nothing was changed: nobody answers; -y is a yes"},
		{name: "not asked", args: []string{"-y"}, done: true, out: "The gateway restarts, and is as a new one then.\n"},
		{name: "for programs", args: []string{"-y"}, json: true, done: true, out: `{"action":"reboot"}` + "\n"},
		{name: "no reboot", args: []string{"-y"}, refuse: refusal, done: true, err: "the next boot makes the factory reset, but it does not begin: the box is shutting down already"},
		{name: "another word", args: []string{"now"}, err: `factory-reset takes -y or nothing, not "now"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, "userdata"), 0o755); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			err := FactoryReset(t.Context(), root, applet.IO{In: strings.NewReader(tt.in), Out: &out, Err: &errs}, tt.args, tt.json, func(_ context.Context, op string, args any) (json.RawMessage, error) {
				if _, e := os.Stat(filepath.Join(root, factoryreset.Path)); e != nil || op != api.OpShutdown || args != (api.ShutdownArgs{Action: "reboot"}) {
					t.Errorf("asked for %s %v before the wish is there: %v", op, args, e)
				}
				return json.RawMessage(`{"action":"reboot"}`), tt.refuse
			})
			said := ""
			if err != nil {
				said = err.Error()
			}
			_, e := os.Stat(filepath.Join(root, factoryreset.Path))
			if said != tt.err || out.String() != tt.out || (e == nil) != tt.done || strings.Contains(errs.String(), factoryreset.Kept) != tt.asked {
				t.Errorf("error %q, out %q, asked %q, wish %v", said, out.String(), errs.String(), e)
			}
		})
	}
	err := FactoryReset(t.Context(), t.TempDir(), applet.IO{}, []string{"-y"}, false, nil)
	if err == nil || !strings.Contains(err.Error(), "gwctl status") {
		t.Errorf("without /userdata: %v", err)
	}
}
