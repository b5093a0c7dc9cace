package gwctl

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/control/client"
)

func TestLocalCommand(t *testing.T) {
	t.Parallel()
	var got []string
	var restarted error
	local := Local{Name: "config", Args: "VERB", Summary: "settings", Run: func(_ applet.IO, args []string, restart func(string) error) error {
		got, restarted = args, restart("bridge")
		return nil
	}}
	unreachable := errors.New("no gateway")
	a := Command("1", func(context.Context, string) (*client.Client, error) { return nil, unreachable }, local)
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"arguments go through", []string{"config", "set", "A", "-1"}, []string{"set", "A", "-1"}},
		{"json before the name", []string{"-json", "config", "get", "A"}, []string{"get", "-json", "A"}},
		{"nothing to do", []string{"-json", "config"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got = nil
			if status := a.Execute(t.Context(), applet.IO{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, tt.args); status != 0 {
				t.Fatalf("exit status %d", status)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("the command got %q, want %q", got, tt.want)
			}
			if !errors.Is(restarted, unreachable) {
				t.Errorf("restart: %v, want what the gateway's socket says", restarted)
			}
		})
	}
	if !strings.Contains(a.Usage, "config VERB") {
		t.Errorf("the usage does not list it:\n%s", a.Usage)
	}
}
