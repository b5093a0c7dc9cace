package gwctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/client"
)

// refusal is an error of a local command with a code.
type refusal string

func (r refusal) Error() string { return "refused: " + string(r) }
func (r refusal) Code() string  { return string(r) }

func TestLocalCommand(t *testing.T) {
	t.Parallel()
	const silent = "gwinit does not answer on /x: no gateway"
	for _, tt := range []struct {
		name string
		args []string
		fail error // what the command returns; nil: what restart does
		want []string
		json bool
		code int
		out  string
		errs string
	}{
		{name: "arguments go through", args: []string{"config", "set", "A", "-1"}, want: []string{"set", "A", "-1"}, code: 1, errs: "gwctl: " + silent + "\n"},
		{name: "json before the name", args: []string{"-json", "config", "get", "A"}, want: []string{"get", "A"}, json: true, code: 1, out: `{"error":{"code":"unreachable","message":"` + silent + `"}}` + "\n"},
		{name: "json behind the verb", args: []string{"config", "set", "-json", "A", "b"}, fail: refusal("bad-request"), want: []string{"set", "A", "b"}, json: true, code: 1, out: `{"error":{"code":"bad-request","message":"refused: bad-request"}}` + "\n"},
		{name: "json at the end", args: []string{"config", "set", "A", "b", "--json"}, fail: errors.New("no"), want: []string{"set", "A", "b"}, json: true, code: 1, out: `{"error":{"code":"failed","message":"no"}}` + "\n"},
		{
			name: "words around the gateway's own", args: []string{"config", "-json", "set"}, want: []string{"set"}, json: true, code: 1,
			fail: fmt.Errorf("saved, but %w", &api.Error{Code: api.CodeBusy, Message: "not now"}), out: `{"error":{"code":"busy","message":"saved, but not now"}}` + "\n",
		},
		{name: "a value that looks like an option", args: []string{"config", "set", "A", "--", "-json"}, fail: applet.Exit(3), want: []string{"set", "A", "-json"}, code: 3},
		{name: "an exit status", args: []string{"-json", "config", "check"}, fail: applet.Exit(1), want: []string{"check"}, json: true, code: 1},
		{name: "a wrong command line", args: []string{"-json", "config"}, fail: applet.Usagef("what?"), json: true, code: 2, errs: "gwctl: what?; see gwctl config -h\n"},
		{name: "socket without a path", args: []string{"config", "list", "-socket"}, want: []string{"none"}, code: 2, errs: "gwctl: flag needs an argument: -socket; see gwctl config -h\n"},
		{name: "help", args: []string{"config", "-h"}, want: []string{"none"}, out: "usage: config VERB\n"},
		{name: "help of it", args: []string{"help", "config"}, want: []string{"none"}, out: "usage: config VERB\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, asJSON := []string{"none"}, false
			local := Local{
				Name: "config", Args: "VERB", Summary: "settings", Usage: "usage: config VERB\n",
				Run: func(_ applet.IO, args []string, json bool, restart func(string, bool) (string, error)) error {
					got, asJSON = args, json
					_, err := restart("bridge", false)
					if tt.fail != nil {
						return tt.fail
					}
					return err
				},
			}
			a := Command("1", func(context.Context, string) (*client.Client, error) { return nil, errors.New("no gateway") }, local)
			var out, errs bytes.Buffer
			code := a.Execute(t.Context(), applet.IO{Out: &out, Err: &errs}, append([]string{"-socket", "/x"}, tt.args...))
			if !slices.Equal(got, tt.want) || asJSON != tt.json {
				t.Errorf("the command got %q, json %v; want %q, %v", got, asJSON, tt.want, tt.json)
			}
			if code != tt.code || out.String() != tt.out || errs.String() != tt.errs {
				t.Errorf("status %d, out %q, errors %q\nwant %d, %q, %q", code, out.String(), errs.String(), tt.code, tt.out, tt.errs)
			}
			if !strings.Contains(a.Usage, "config VERB") {
				t.Errorf("the usage does not list it:\n%s", a.Usage)
			}
		})
	}
}

// A verb of a command may be a local one, and ask the gateway.
func TestLocalVerb(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		got  []string
		out  string
		errs string
	}{
		{[]string{"eth", "tune", "a", "-x", "b"}, []string{"a", "-x", "b"}, "", "gwctl: gwinit does not answer on /x: no gateway\n"},
		{[]string{"eth", "tune", "-json", "a"}, []string{"a"}, `{"error":{"code":"unreachable","message":"gwinit does not answer on /x: no gateway"}}` + "\n", ""},
		{[]string{"eth"}, nil, "", "gwctl: gwinit does not answer on /x: no gateway\n"},
		{[]string{"eth", "tuned"}, nil, "", "gwctl: eth has no verb \"tuned\": profile, set or queue?; see gwctl eth -h\n"},
		{[]string{"help", "eth", "tune"}, nil, "usage: tune\n", ""},
		{[]string{"help", "eth"}, nil, find1(t, "eth").usage(), ""},
	} {
		var got []string
		local := Local{Name: "eth tune", Usage: "usage: tune\n", Steer: func(ctx context.Context, _ applet.IO, args []string, _ bool, ask Asker) error {
			got = args
			_, err := ask(ctx, api.OpStatus, nil)
			return err
		}}
		a := Command("1", func(context.Context, string) (*client.Client, error) { return nil, errors.New("no gateway") }, local)
		var out, errs bytes.Buffer
		a.Execute(t.Context(), applet.IO{Out: &out, Err: &errs}, append([]string{"-socket", "/x"}, tt.args...))
		if !slices.Equal(got, tt.got) || out.String() != tt.out || errs.String() != tt.errs {
			t.Errorf("%q: got %q, out %q, errors %q", tt.args, got, out.String(), errs.String())
		}
	}
}

func find1(t *testing.T, name string) command {
	c, ok := find(name)
	if !ok {
		t.Fatalf("no command %s", name)
	}
	return c
}
