package ddi

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/ddi/dditest"
	"gwinit/internal/gwctl/fleet/fleettest"
	"gwinit/internal/texttest"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The options' way through a file, files with secrets, and what is refused.
func TestOptions(t *testing.T) {
	_, all := fleettest.New(2)
	token, tokens := write(t, "token", "secret\n"), write(t, "tokens", "# mine\nsite-gw001  own\n")
	config := write(t, "agent.conf", "# of the site\nserver = https://updates.example.org/hawkbit\ntoken = "+token+"\nprefix=site-\nmax-unavailable = 9\n")
	s, err := parse([]string{"-config", config, "-max-unavailable", "2", "-target-tokens", tokens, "-state", t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	o, targets, err := s.options(all)
	if err != nil || o.Updates != 2 || o.Server.String() != "https://updates.example.org/hawkbit" || o.Tenant != "DEFAULT" || o.Cache != 64<<20 {
		t.Fatalf("%+v, %v", o, err)
	}
	if a, b := targets[0], targets[1]; a.ID != "site-gw000" || a.Auth != "GatewayToken secret" || b.ID != "site-gw001" || b.Auth != "TargetToken own" {
		t.Errorf("%+v", targets)
	}
	base := []string{"-server", "https://x.example", "-token", token, "-state", t.TempDir()}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no server":        {[]string{"-token", token}, "-server says"},
		"no token":         {[]string{"-server", "https://x.example"}, "-token or -target-tokens"},
		"http":             {append(base, "-server", "http://x.example"), "without TLS"},
		"ftp":              {append(base, "-server", "ftp://x.example"), "does not begin with https://"},
		"no URL":           {append(base, "-server", "x.example"), "is no URL"},
		"small cache":      {append(base, "-cache-mib", "31"), "is 32 at least"},
		"none at a time":   {append(base, "-max-unavailable", "0"), "is 1 at least"},
		"a word":           {append(base, "start"), `not "start"`},
		"empty token":      {append(base, "-token", write(t, "t", "\n")), "holds no token"},
		"no certificate":   {append(base, "-ca", token), "holds no certificate"},
		"no such option":   {append(base, "-config", write(t, "c", "colour = red\n")), `line 1: there is no option "colour"`},
		"no value":         {append(base, "-config", write(t, "c", "\ntenant\n")), "line 2: want NAME = VALUE"},
		"no number":        {append(base, "-config", write(t, "c", "cache-mib = many\n")), "line 1: "},
		"nobody's token":   {[]string{"-server", "https://x.example", "-target-tokens", tokens, "-state", t.TempDir()}, "has no token for gw000, gw001"},
		"a token too many": {append(base, "-target-tokens", write(t, "t", "a b c\n")), "line 1: want CONTROLLER TOKEN"},
	} {
		s, err := parse(c.args)
		if err == nil {
			_, _, err = s.options(all)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("a b\n# c\n\nd e")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseTokens(text)
		for name, token := range all {
			if err == nil && (name == "" || token == "" || strings.ContainsAny(name+token, " \n")) {
				t.Errorf("%q %q", name, token)
			}
		}
	})
}

// The whole agent against a server with TLS and a certificate of its own.
func TestCommandTLS(t *testing.T) {
	s := dditest.New("")
	server := httptest.NewTLSServer(s)
	defer server.Close()
	s.Base = server.URL
	f, all := fleettest.New(1)
	ca := write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	dir := t.TempDir()
	args := []string{"-server", server.URL, "-token", write(t, "token", "gateway-secret\n"), "-ca", ca, "-state", dir}
	body := []byte("an update that is none, which needs no time to be tried")
	id := s.Assign("gw000", dditest.Action{Download: "forced", Update: "forced", Files: []dditest.File{{Name: "x.update", Body: body}}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var errs bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- Command(ctx, all, applet.IO{Err: &errs}, args) }()
	for ctx.Err() == nil && s.Action("gw000", id).Status != dditest.Error {
		time.Sleep(50 * time.Millisecond)
	}
	// One agent at a time.
	if err := Command(t.Context(), all, applet.IO{Err: &bytes.Buffer{}}, args); err == nil || !strings.Contains(err.Error(), "another agent runs") {
		t.Errorf("a second one: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if a := s.Action("gw000", id); a.Status != dditest.Error || f.Sent() != 0 || !strings.Contains(errs.String(), "gw000: action 1: failure x.update: the update is not whole") {
		t.Errorf("%s: %s\n%s", a.Status, story(a.Told), errs.String())
	}
	// Without the certificate nobody is asked.
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errs.Reset()
	l := &texttest.Buffer{}
	go func() { done <- Command(ctx, all, applet.IO{Err: l}, append(args[:4:4], "-state", t.TempDir())) }()
	for ctx.Err() == nil && !strings.Contains(l.String(), "certificate") {
		time.Sleep(50 * time.Millisecond)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("an unknown certificate: %s", l)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
