package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gwinit/internal/applet"
)

// target is a gateway to log in to.
type target struct {
	name string // as it was asked for
	user string
	host string // name or address, without brackets
	port int    // 0: look for it
}

// allGroup is every host of the file.
const allGroup = "all"

// parseTarget reads [user@]host[:port]; an IPv6 address with a port is in
// brackets.
func parseTarget(s string) (t target, err error) {
	t = target{name: s, user: "root"}
	rest := s
	if user, host, ok := strings.Cut(rest, "@"); ok {
		if t.user, rest = user, host; user == "" {
			return t, applet.Usagef("%q has no user before the @", s)
		}
	}
	t.host = rest
	inner, bracket := strings.CutPrefix(rest, "[")
	switch {
	case bracket && strings.HasSuffix(inner, "]"):
		t.host = strings.TrimSuffix(inner, "]")
	case bracket || strings.Count(rest, ":") == 1:
		var port string
		if t.host, port, err = net.SplitHostPort(rest); err != nil {
			return t, applet.Usagef("%q is no [user@]host[:port]", s)
		}
		if t.port, err = strconv.Atoi(port); err != nil || t.port < 1 || t.port > 1<<16-1 {
			return t, applet.Usagef("%q: the port is a number from 1 to 65535", s)
		}
	}
	if t.host == "" || strings.HasPrefix(t.host, "-") || strings.ContainsAny(t.host, " \t/") {
		return t, applet.Usagef("%q names no host", s)
	}
	return t, nil
}

// entry is a line of the hosts file.
type entry struct {
	name, address string
	groups        []string
}

// hostsPath is where the file is: ~/.config/gwctl/hosts, on Windows in the
// user's application data.
func hostsPath() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "gwctl", "hosts")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	if dir, err := os.UserConfigDir(); err == nil && os.PathSeparator == '\\' {
		return filepath.Join(dir, "gwctl", "hosts")
	}
	return filepath.Join(home, ".config", "gwctl", "hosts")
}

// parseHosts reads lines NAME [user@]host[:port] [GROUP ...]; what follows a #
// is a comment.
func parseHosts(path, text string) ([]entry, error) {
	var all []entry
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		bad := func(why string) error { return fmt.Errorf("%s:%d: %s", path, n, why) }
		if len(f) == 1 {
			return nil, bad("a line is NAME [user@]host[:port] [GROUP ...]")
		}
		if _, err := parseTarget(f[1]); err != nil {
			return nil, bad(err.Error())
		}
		if slices.ContainsFunc(all, func(e entry) bool { return e.name == f[0] }) {
			return nil, bad(strconv.Quote(f[0]) + " is there twice")
		}
		if strings.ContainsAny(f[0], ",@:") {
			return nil, bad(strconv.Quote(f[0]) + " cannot be a name: it holds a comma, @ or colon")
		}
		all = append(all, entry{f[0], f[1], f[2:]})
	}
	return all, nil
}

// resolve turns -H and -G into gateways, each once, in that order.
func resolve(hosts, group, path string) ([]target, error) {
	var file []entry
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		if file, err = parseHosts(path, string(b)); err != nil {
			return nil, err
		}
	case group != "" && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no %s, which -G takes the hosts from: a line for each, NAME [user@]host[:port] [GROUP ...]", path)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var all []target
	add := func(name, address string) error {
		t, err := parseTarget(address)
		t.name = name
		if err == nil && !slices.ContainsFunc(all, func(o target) bool { return o.name == name }) {
			all = append(all, t)
		}
		return err
	}
	for name := range strings.SplitSeq(hosts, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		address := name
		if i := slices.IndexFunc(file, func(e entry) bool { return e.name == name }); i >= 0 {
			address = file[i].address
		}
		if err := add(name, address); err != nil {
			return nil, err
		}
	}
	for name := range strings.SplitSeq(group, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		found := false
		for _, e := range file {
			if name == allGroup || slices.Contains(e.groups, name) {
				found = true
				if err := add(e.name, e.address); err != nil {
					return nil, err
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("%s has no host in the group %q", path, name)
		}
	}
	if len(all) == 0 {
		return nil, applet.Usagef("-H names no host")
	}
	return all, nil
}
