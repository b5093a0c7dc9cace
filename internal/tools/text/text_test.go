package text

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/tools/tooltest"
)

func TestTable(t *testing.T) { tooltest.CheckTable(t, Applets(), "echo", "seq") }

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFilters(t *testing.T) {
	tests := []struct {
		cmd     []string
		in, out string
		status  int
	}{
		{[]string{"grep", "b"}, "abc\nxyz\nb\n", "abc\nb\n", 0},
		{[]string{"grep", "q"}, "abc\n", "", 1},
		{[]string{"grep", "("}, "abc\n", "", 2},
		{[]string{"grep", "-F", "("}, "a(c\n", "a(c\n", 0},
		{[]string{"grep", "-in", "B"}, "a\nb\n", "2:b\n", 0},
		{[]string{"grep", "-v", "b"}, "a\nb\n", "a\n", 0},
		{[]string{"grep", "-c", "b"}, "a\nb\nb\n", "2\n", 0},
		{[]string{"grep", "-q", "b"}, "b\n", "", 0},
		{[]string{"grep", "-l", "b"}, "b\n", "(standard input)\n", 0},
		{[]string{"grep", "-w", "foo"}, "foobar\na foo b\n", "a foo b\n", 0},
		{[]string{"grep", "-x", "foo"}, "foo\nfoo b\n", "foo\n", 0},
		{[]string{"grep", "-o", "[0-9]+"}, "a12b3\n", "12\n3\n", 0},
		{[]string{"grep", "-m1", "a"}, "a1\na2\n", "a1\n", 0},
		{[]string{"grep", "-E", "a|c"}, "a\nb\nc", "a\nc\n", 0},
		{[]string{"grep", "-e", "-x"}, "-x\n", "-x\n", 0},
		{[]string{"grep", "a"}, "a\x00b\n", "(standard input) holds bytes that are no text, and matches\n", 0},
		{[]string{"grep"}, "", "", 2},
		{[]string{"head", "-2"}, "1\n2\n3\n", "1\n2\n", 0},
		{[]string{"head", "-n", "0"}, "1\n", "", 0},
		{[]string{"head", "-c", "3"}, "12345", "123", 0},
		{[]string{"tail", "-2"}, "1\n2\n3\n", "2\n3\n", 0},
		{[]string{"tail", "-n", "+2"}, "1\n2\n3\n", "2\n3\n", 0},
		{[]string{"tail", "-n", "1"}, "1\n2", "2", 0},
		{[]string{"tail", "-n", "0"}, "1\n2\n", "", 0},
		{[]string{"tail", "-c", "3"}, "12345", "345", 0},
		{[]string{"tail", "-n", "x"}, "", "", 2},
		{[]string{"wc"}, "a b\nc\n", "      2       3       6\n", 0},
		{[]string{"wc", "-l"}, "a\nb\n", "2\n", 0},
		{[]string{"sort"}, "b\na\nc", "a\nb\nc\n", 0},
		{[]string{"sort", "-r"}, "b\na\n", "b\na\n", 0},
		{[]string{"sort", "-n"}, "10\n9\nx\n-1\n", "-1\nx\n9\n10\n", 0},
		{[]string{"sort", "-u"}, "b\na\nb\n", "a\nb\n", 0},
		{[]string{"sort", "-fu"}, "B\nb\na\n", "a\nB\n", 0},
		{[]string{"sort", "-k2"}, "a 2\nb 1\n", "b 1\na 2\n", 0},
		{[]string{"sort", "-t:", "-k2n"}, "a:10\nb:9\n", "b:9\na:10\n", 0},
		{[]string{"sort", "-k", "0"}, "", "", 2},
		{[]string{"uniq"}, "a\na\nb\na\n", "a\nb\na\n", 0},
		{[]string{"uniq", "-c"}, "a\na\nb\n", "      2 a\n      1 b\n", 0},
		{[]string{"uniq", "-d"}, "a\na\nb\n", "a\n", 0},
		{[]string{"uniq", "-u"}, "a\na\nb\n", "b\n", 0},
		{[]string{"uniq"}, "", "", 0},
		{[]string{"cut", "-d:", "-f1,3-"}, "a:b:c:d\nx\n", "a:c:d\nx\n", 0},
		{[]string{"cut", "-sf2"}, "a\tb\nx\n", "b\n", 0},
		{[]string{"cut", "-c-2,4"}, "abcde\n", "abd\n", 0},
		{[]string{"cut", "-c0"}, "", "", 2},
		{[]string{"cut", "-f1", "-c1"}, "", "", 2},
		{[]string{"tr", "a-z", "A-Z"}, "abC\n", "ABC\n", 0},
		{[]string{"tr", "[:lower:]", "[:upper:]"}, "ab", "AB", 0},
		{[]string{"tr", "-d", "\\n"}, "a\nb\n", "ab", 0},
		{[]string{"tr", "-s", " "}, "a   b", "a b", 0},
		{[]string{"tr", "-cd", "0-9"}, "a1b2", "12", 0},
		{[]string{"tr", "abc", "x"}, "aabbc", "xxxxx", 0},
		{[]string{"tr", "z-a", "x"}, "", "", 2},
		{[]string{"tr", "[:nope:]", "x"}, "", "", 2},
		{[]string{"tr", "a"}, "", "", 2},
		{[]string{"seq", "3"}, "", "1\n2\n3\n", 0},
		{[]string{"seq", "5", "-2", "1"}, "", "5\n3\n1\n", 0},
		{[]string{"seq", "1", "0", "2"}, "", "", 2},
		{[]string{"echo", "-n", "a", "b"}, "", "a b", 0},
		{[]string{"echo", "a"}, "", "a\n", 0},
		{[]string{"more"}, "a\nb\n", "a\nb\n", 0},
		{[]string{"hexdump", "-C"}, "0123456789abcdef0123456789abcdef0123456789abcdef\x00\xff", "00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|\n*\n00000030  00 ff                                             |..|\n00000032\n", 0},
		{[]string{"hexdump", "-C", "-s", "1", "-n", "0x2"}, "abcd", "00000001  62 63                                             |bc|\n00000003\n", 0},
		{[]string{"hexdump", "-n", "x"}, "", "", 2},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.cmd, " "), func(t *testing.T) {
			r := tooltest.Run(t, Applets(), strings.NewReader(tt.in), tt.cmd[0], tt.cmd[1:]...)
			if r.Out != tt.out || r.Status != tt.status {
				t.Errorf("%+v, want %q, %d", r, tt.out, tt.status)
			}
		})
	}
}

func TestSeveralFiles(t *testing.T) {
	a, b := file(t, "one\n"), file(t, "one\ntwo\n")
	run := func(args ...string) tooltest.Result {
		return tooltest.Run(t, Applets(), nil, args[0], args[1:]...)
	}
	if r := run("grep", "one", a, b); r.Out != a+":one\n"+b+":one\n" {
		t.Errorf("%+v", r)
	}
	if r := run("grep", "-h", "one", a, b); r.Out != "one\none\n" {
		t.Errorf("%+v", r)
	}
	if r := run("grep", "-L", "two", a, b); r.Out != a+"\n" || r.Status != 0 {
		t.Errorf("%+v", r)
	}
	if r := run("grep", "-rl", "two", filepath.Dir(b)); r.Out != b+"\n" {
		t.Errorf("%+v", r)
	}
	if r := run("grep", "one", a, "/nonesuch"); r.Status != 2 || r.Out != a+":one\n" || r.Err == "" {
		t.Errorf("%+v", r)
	}
	if r := run("grep", "-s", "x", "/nonesuch"); r.Status != 2 || r.Err != "" {
		t.Errorf("%+v", r)
	}
	if r := run("head", "-n1", a, b); r.Out != "==> "+a+" <==\none\n\n==> "+b+" <==\none\n" {
		t.Errorf("%+v", r)
	}
	if r := run("wc", "-l", a, b); r.Out != "      1 "+a+"\n      2 "+b+"\n      3 total\n" {
		t.Errorf("%+v", r)
	}
	if r := run("sort", "-o", b, "-r", b); r.Status != 0 {
		t.Errorf("%+v", r)
	}
	if got, _ := os.ReadFile(b); string(got) != "two\none\n" {
		t.Errorf("sort -o onto its input: %q", got)
	}
	if r := run("cmp", a, a); r.Status != 0 || r.Out != "" {
		t.Errorf("%+v", r)
	}
	if r := run("cmp", a, b); r.Status != 1 || !strings.Contains(r.Out, "byte 1, line 1") {
		t.Errorf("%+v", r)
	}
	if r := run("cmp", "-s", a, b); r.Status != 1 || r.Out != "" {
		t.Errorf("%+v", r)
	}
	if r := run("cmp", a, "/nonesuch"); r.Status != 2 {
		t.Errorf("%+v", r)
	}
}

func TestTailOfLargeFile(t *testing.T) {
	var b strings.Builder
	for range 3000 {
		b.WriteString("a line of some length\n")
	}
	name := file(t, b.String()+"last but one\nlast\n")
	if r := tooltest.Run(t, Applets(), nil, "tail", "-n", "2", name); r.Out != "last but one\nlast\n" {
		t.Errorf("%q", r.Out)
	}
	if r := tooltest.Run(t, Applets(), nil, "tail", "-n", "2500", name); strings.Count(r.Out, "\n") != 2500 {
		t.Errorf("%d lines", strings.Count(r.Out, "\n"))
	}
}

func TestTailFollows(t *testing.T) {
	name := file(t, "old\n")
	steps := []func(){
		func() {},
		func() { appendTo(t, name, "new\n") },
		func() {
			if err := os.WriteFile(name, []byte("x\n"), 0o644); err != nil {
				t.Error(err)
			}
		},
	}
	ctx, wait := tooltest.Context(t, len(steps))
	var out bytes.Buffer
	i := 0
	err := tailWith(ctx, applet.IO{Out: &out, Err: &out}, []string{"-f", name}, func(c context.Context) error {
		if i < len(steps) {
			steps[i]()
			i++
		}
		return wait(c)
	})
	if want := "old\nnew\n(" + name + " was cut)\nx\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v; want %q", out.String(), err, want)
	}
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 10000)
	var got []string
	err := lines(strings.NewReader("a\n\n"+long+"\n"+long), func(l []byte) error {
		got = append(got, string(l))
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"a", "", long, long}) {
		t.Errorf("%d lines, %v", len(got), err)
	}
}

func TestPager(t *testing.T) {
	tests := []struct{ name, keys, want string }{
		{"pages", "  ", "1 2 3 4 5 6 7"},
		{"line by line", "\nj q", "1 2 3 4 5 6 7"},
		{"quit", "q", "1 2 3"},
		{"search", "/6\n ", "1 2 3 6 7"},
		{"other keys do nothing", "xq", "1 2 3"},
		{"the terminal goes", "", "1 2 3"},
	}
	escape := regexp.MustCompile(`\x1b\[[0-9]*[a-zA-Z]|--More--|\r|/6?`)
	for _, tt := range tests {
		var out bytes.Buffer
		p := pager{keys: strings.NewReader(tt.keys), out: &out, rows: 3, cols: 80, left: 3}
		if err := enough(lines(strings.NewReader("1\n2\n3\n4\n5\n6\n7\n"), p.line)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := strings.Join(strings.Fields(escape.ReplaceAllString(out.String(), "")), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("1,3-,-5")
	f.Add(`a-z\n[:digit:]`)
	f.Fuzz(func(t *testing.T, s string) {
		if list, err := parseList(s); err == nil && len(list) == 0 {
			t.Errorf("%q is an empty list", s)
		}
		if len(s) < 64 {
			_, _ = parseSet(s)
		}
		_ = leadingNumber(s)
	})
}
