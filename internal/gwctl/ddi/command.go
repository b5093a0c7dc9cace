package ddi

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/bundle"
	"gwinit/internal/gwctl/filelock"
	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/gwctl/words"
)

// Name is the command's.
const Name = "agent"

// Usage is what -h prints.
const Usage = `usage: gwctl [-H HOST,...|-G GROUP,...] agent [OPTIONS]
have an update server (hawkBit, by its DDI) drive the updates of gateways, until
ctrl-c (docs/fleet.md)

  -config FILE        lines NAME = VALUE with these options, and # comments
  -server URL         of the server: https://HOST[:PORT][/PATH]
  -tenant NAME        there (DEFAULT)
  -token FILE         with the gateway token, which is for all of them
  -target-tokens FILE lines CONTROLLER TOKEN, for those with one of their own
  -prefix TEXT        the controllerId is this and the name in the hosts file
  -ca FILE            certificates (PEM) of who may vouch for the server, in the
                      place of this computer's own
  -insecure-http      also a server without TLS: who is between reads the token
  -max-unavailable N  gateways that are updated at a time (4)
  -state DIR          what has to outlast a restart (~/.local/state/gwctl/agent)
  -cache DIR          downloads (a folder in the state's), each once for all
  -cache-mib N        of them at most (64; 32 at least)

Without -H and -G: every host of the hosts file. It logs in by SSH; keys with a
passphrase have to be in the SSH agent, and the gateways' own in known_hosts.
`

// minCache holds any update.
const minCache = 2 * bundle.MaxSize

// settings are the options as they are given.
type settings struct {
	server, tenant, token, targetTokens, prefix, ca, state, cache string
	cacheMiB, updates                                             int
	plain                                                         bool
}

// Command runs the agent of these gateways. args is without its name.
func Command(ctx context.Context, gateways []fleet.Gateway, std applet.IO, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	o, targets, err := s.options(gateways)
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(o.StateDir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := filelock.Lock(lock); err != nil {
		return fmt.Errorf("another agent runs with %s: %w", o.StateDir, err)
	}
	o.Log = func(gateway, text string) {
		fmt.Fprintf(std.Err, "%s %s: %s\n", time.Now().UTC().Format(time.RFC3339), gateway, strings.ReplaceAll(text, "\n", "; "))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	fmt.Fprintf(std.Err, "agent of %d gateways at %s\n", len(targets), o.Server)
	return Run(ctx, o, targets)
}

// parse reads the options, of which those on the command line count more than
// those of a file.
func parse(args []string) (s settings, err error) {
	f := flag.NewFlagSet(Name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.server, "server", "", "")
	f.StringVar(&s.tenant, "tenant", "DEFAULT", "")
	f.StringVar(&s.token, "token", "", "")
	f.StringVar(&s.targetTokens, "target-tokens", "", "")
	f.StringVar(&s.prefix, "prefix", "", "")
	f.StringVar(&s.ca, "ca", "", "")
	f.StringVar(&s.state, "state", "", "")
	f.StringVar(&s.cache, "cache", "", "")
	f.IntVar(&s.cacheMiB, "cache-mib", 64, "")
	f.IntVar(&s.updates, "max-unavailable", 4, "")
	f.BoolVar(&s.plain, "insecure-http", false, "")
	config := f.String("config", "", "")
	rest, err := words.Parse(f, args)
	switch {
	case err != nil:
		return s, err
	case len(rest) > 0:
		return s, applet.Usagef("agent takes options only, not %q", rest[0])
	}
	if *config != "" {
		given := map[string]bool{"config": true}
		f.Visit(func(o *flag.Flag) { given[o.Name] = true })
		text, err := os.ReadFile(*config)
		if err != nil {
			return s, err
		}
		if err := fromFile(f, given, string(text)); err != nil {
			return s, fmt.Errorf("%s: %w", *config, err)
		}
	}
	switch {
	case s.server == "":
		return s, applet.Usagef("-server says where the update server is")
	case s.token == "" && s.targetTokens == "":
		return s, applet.Usagef("-token or -target-tokens names a file with what the server knows a gateway by")
	case s.cacheMiB < minCache>>20:
		return s, applet.Usagef("-cache-mib is %d at least", minCache>>20)
	case s.updates < 1:
		return s, applet.Usagef("-max-unavailable is 1 at least")
	}
	return s, nil
}

// fromFile sets the options of a file that were not given before.
func fromFile(f *flag.FlagSet, given map[string]bool, text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok:
			return fmt.Errorf("line %d: want NAME = VALUE", n)
		case f.Lookup(name) == nil || name == "config":
			return fmt.Errorf("line %d: there is no option %q", n, name)
		case given[name]:
			continue
		}
		if err := f.Set(name, value); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// options turns settings into what Run takes.
func (s settings) options(gateways []fleet.Gateway) (o Options, targets []Target, err error) {
	o = Options{Tenant: s.tenant, Plain: s.plain, Cache: int64(s.cacheMiB) << 20, Updates: s.updates, StateDir: s.state}
	if o.Server, err = url.Parse(s.server); err != nil || o.Server.Host == "" {
		return o, nil, applet.Usagef("-server %s is no URL", s.server)
	}
	switch {
	case o.Server.Scheme != "https" && o.Server.Scheme != "http":
		return o, nil, applet.Usagef("-server %s does not begin with https://", s.server)
	case o.Server.Scheme == "http" && !s.plain:
		return o, nil, applet.Usagef("-server %s is without TLS, where everybody between reads the token: -insecure-http allows it", s.server)
	}
	if o.HTTP, err = s.http(); err != nil {
		return o, nil, err
	}
	if o.StateDir == "" {
		if o.StateDir, err = fleet.StateDir(Name); err != nil {
			return o, nil, err
		}
	}
	o.CacheDir = cmp.Or(s.cache, filepath.Join(o.StateDir, "cache"))
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return o, nil, err
	}
	var common string
	if s.token != "" {
		text, err := os.ReadFile(s.token)
		if err != nil {
			return o, nil, err
		}
		if common = strings.TrimSpace(string(text)); common == "" || strings.ContainsAny(common, " \r\n\t") {
			return o, nil, fmt.Errorf("%s holds no token", s.token)
		}
	}
	own := map[string]string{}
	if s.targetTokens != "" {
		text, err := os.ReadFile(s.targetTokens)
		if err != nil {
			return o, nil, err
		}
		if own, err = parseTokens(string(text)); err != nil {
			return o, nil, fmt.Errorf("%s: %w", s.targetTokens, err)
		}
	}
	var without []string
	for _, g := range gateways {
		t := Target{Gateway: g, ID: s.prefix + g.Name, Auth: "GatewayToken " + common}
		if token, ok := own[t.ID]; ok {
			t.Auth = "TargetToken " + token
		} else if common == "" {
			without = append(without, t.ID)
		}
		targets = append(targets, t)
	}
	if len(without) > 0 {
		return o, nil, fmt.Errorf("%s has no token for %s", s.targetTokens, strings.Join(without, ", "))
	}
	return o, targets, nil
}

// parseTokens reads lines CONTROLLER TOKEN.
func parseTokens(text string) (map[string]string, error) {
	all := map[string]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 || all[fields[0]] != "" {
			return nil, fmt.Errorf("line %d: want CONTROLLER TOKEN, each once", n)
		}
		all[fields[0]] = fields[1]
	}
	return all, nil
}

// httpConns is how many connections the server gets at a time.
const httpConns = 16

// http is how the server is talked to.
func (s settings) http() (*http.Client, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: time.Minute}).DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: requestTime,
		IdleConnTimeout:       2 * time.Minute,
		MaxConnsPerHost:       httpConns,
		MaxIdleConnsPerHost:   httpConns,
		ForceAttemptHTTP2:     true,
	}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate (PEM)", s.ca)
		}
	}
	plain := s.plain
	return &http.Client{Transport: t, CheckRedirect: func(q *http.Request, via []*http.Request) error {
		if q.URL.Scheme != "https" && !plain {
			return errors.New("the server sends it on to an address without TLS")
		}
		if len(via) >= 5 || slices.ContainsFunc(via, func(v *http.Request) bool { return v.Method != http.MethodGet }) {
			return http.ErrUseLastResponse
		}
		return nil
	}}, nil
}
