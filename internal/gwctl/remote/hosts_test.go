package remote

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for s, want := range map[string]target{
		"gw":                {user: "root", host: "gw"},
		"admin@gw:2222":     {user: "admin", host: "gw", port: 2222},
		"192.168.1.5:8888":  {user: "root", host: "192.168.1.5", port: 8888},
		"fe80::1%eth0":      {user: "root", host: "fe80::1%eth0"},
		"[fd00::1]":         {user: "root", host: "fd00::1"},
		"root@[fd00::1]:22": {user: "root", host: "fd00::1", port: 22},
		"":                  {}, "@gw": {}, "gw:": {}, "gw:0": {}, "gw:70000": {}, "gw:x": {}, "[fd00::1": {}, "-oProxyCommand=x": {}, "a b": {},
	} {
		got, err := parseTarget(s)
		want.name = s
		switch {
		case want.host == "" && err == nil:
			t.Errorf("%q: %+v, want an error", s, got)
		case want.host != "" && (err != nil || got != want):
			t.Errorf("%q: %+v, %v; want %+v", s, got, err, want)
		}
	}
}

func TestResolve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	const text = "# mine\nattic 192.168.1.5:8888 home\ncellar root@192.168.1.6 home,x spare # below\n\nshop shop.example\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		hosts, group, want string
		err                string
	}{
		{hosts: "attic, 10.0.0.1,attic", want: "attic=192.168.1.5:8888 10.0.0.1=10.0.0.1:0"},
		{group: "home", want: "attic=192.168.1.5:8888"},
		{group: "spare,home", want: "cellar=192.168.1.6:0 attic=192.168.1.5:8888"},
		{hosts: "shop", group: "all", want: "shop=shop.example:0 attic=192.168.1.5:8888 cellar=192.168.1.6:0"},
		{group: "none", err: `no host in the group "none"`},
		{hosts: ",", err: "-H names no host"},
		{hosts: "gw:x", err: "the port is a number"},
	} {
		all, err := resolve(tt.hosts, tt.group, path)
		var got []string
		for _, h := range all {
			got = append(got, h.name+"="+h.host+":"+strconv.Itoa(h.port))
		}
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		if s := strings.Join(got, " "); err != nil || s != tt.want {
			t.Errorf("%+v: %s, %v", tt, s, err)
		}
	}
	if _, err := resolve("", "all", path+"x"); err == nil || !strings.Contains(err.Error(), "NAME [user@]host[:port] [GROUP ...]") {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		"alone\n": "hosts:1: a line is NAME", "a b\na c\n": `hosts:2: "a" is there twice`, "a gw:x\n": "hosts:1:", "a@b c\n": "cannot be a name",
	} {
		if _, err := parseHosts("hosts", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Whatever is in the file, an error names its line, and nothing that a program
// would take for an option is a host.
func FuzzHosts(f *testing.F) {
	f.Add("attic 192.168.1.5:8888 home\n")
	f.Add("a root@[::1]:22 # x\n\nb -c")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseHosts("hosts", text)
		if err != nil && !strings.HasPrefix(err.Error(), "hosts:") {
			t.Errorf("%v", err)
		}
		for _, e := range all {
			if h, err := parseTarget(e.address); err != nil || strings.HasPrefix(h.host, "-") {
				t.Errorf("%+v: %+v, %v", e, h, err)
			}
		}
	})
}

// What is quoted is one word to a shell.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{"": "''", "a=b/c": "a=b/c", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "ä": "'ä'", "a\nb": "'a\nb'"} {
		if got := quote(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

func TestOptions(t *testing.T) {
	r := &runner{}
	rest, err := r.options([]string{"-H", "a,b", "logs", "-accept-new", "-n", "5", "-G=x", "--", "-i", "y"})
	if err != nil || strings.Join(rest, " ") != "logs -n 5 -- -i y" || r.hosts != "a,b" || r.group != "x" || !r.accept || r.identity != "" {
		t.Errorf("%q %+v %v", rest, r, err)
	}
	if _, err := (&runner{}).options([]string{"-H"}); err == nil {
		t.Error("-H without a host")
	}
}
