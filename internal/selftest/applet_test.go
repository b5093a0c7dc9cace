//go:build linux

package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/applet"
)

// childEnv makes this test binary a group's process and says how it behaves.
const childEnv = "SELFTEST_CHILD"

func TestMain(m *testing.M) {
	mode := os.Getenv(childEnv)
	if mode == "" {
		os.Exit(m.Run())
	}
	os.Exit(child(mode, os.Args[1:]))
}

func child(mode string, args []string) int {
	switch mode {
	case "real":
		a := Applet("test")
		return a.Execute(context.Background(), applet.IO{Out: os.Stdout, Err: os.Stderr}, args)
	case "arguments":
		fmt.Printf(`{"name":"args","verdict":"ok","detail":%q}`+"\n", fmt.Sprintf("%q", os.Args))
	case "panic":
		fmt.Println(`{"name":"before","verdict":"ok","detail":"fine"}`)
		panic("broken")
	case "hang":
		fmt.Println(`{"name":"before","verdict":"ok","detail":"fine"}`)
		select {}
	}
	return 0
}

func collect(results *[]Result) func(Result) {
	return func(r Result) { *results = append(*results, r) }
}

func TestChildRunner(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH == "mips" {
		t.Skip("user-mode emulation cannot start a binary of its own kind; the end-to-end test does, on the emulated board")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, ctx context.Context, mode string, quick bool) ([]Result, error) {
		t.Helper()
		var got []Result
		c := childRunner{quick: quick, exe: exe, env: []string{childEnv + "=" + mode}}
		if mode == "real" {
			c.args = []string{} // the test binary is no multi-call one
		}
		err := c.run(ctx, group{name: "compute"}, collect(&got))
		return got, err
	}
	t.Run("arguments", func(t *testing.T) {
		t.Parallel()
		got, err := run(t, t.Context(), "arguments", true)
		want := Result{"compute", "args", OK, `["gw" "selftest" "-child" "compute" "-quick"]`}
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	})
	t.Run("the real group", func(t *testing.T) {
		t.Parallel()
		got, err := run(t, t.Context(), "real", false)
		if err != nil || len(got) != len(computations) || slices.ContainsFunc(got, func(r Result) bool { return r.Verdict != OK }) {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("a crash", func(t *testing.T) {
		t.Parallel()
		got, err := run(t, t.Context(), "panic", false)
		if len(got) != 1 || got[0].Name != "before" || err == nil || !strings.Contains(err.Error(), "exit status 2\npanic: broken") {
			t.Errorf("%+v, %v", got, err)
		}
		if n := strings.Count(fmt.Sprint(err), "\n"); n > crashLines {
			t.Errorf("%d lines of a crash:\n%v", n, err)
		}
	})
	t.Run("a hang", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []Result
		err := childRunner{exe: exe, env: []string{childEnv + "=hang"}}.run(ctx, group{name: "compute"}, func(r Result) {
			got = append(got, r)
			cancel()
		})
		if len(got) != 1 || err == nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("no such file", func(t *testing.T) {
		t.Parallel()
		err := childRunner{exe: "/nowhere/gw"}.run(t.Context(), group{name: "cpu"}, nil)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
}

// However a group ends, there is a line that says so, and the next one runs.
func TestRunAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []group
		for _, name := range []string{"good", "dies", "dies at once", "hangs", "silent", "good too"} {
			all = append(all, group{name: name, what: "w", limit: time.Minute})
		}
		run := func(ctx context.Context, g group, take func(Result)) error {
			if g.name != "silent" && g.name != "dies at once" {
				take(Result{g.name, "one", OK, "d"})
			}
			switch g.name {
			case "dies", "dies at once":
				return errors.New("signal: segmentation fault")
			case "hangs":
				<-ctx.Done()
				return errors.New("signal: killed")
			}
			return nil
		}
		got := runAll(t.Context(), all, run, &printer{out: &bytes.Buffer{}})
		want := []Result{
			{"good", "one", OK, "d"},
			{"dies", "one", OK, "d"},
			{"dies", "end", Fail, "died after one: signal: segmentation fault"},
			{"dies at once", "end", Fail, "died after its start: signal: segmentation fault"},
			{"hangs", "one", OK, "d"},
			{"hangs", "end", Fail, "hangs: killed after 1m0s; the last line was one"},
			{"silent", "end", Fail, "ended without a word"},
			{"good too", "one", OK, "d"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

func TestRunAllStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	got := runAll(ctx, groups(), func(_ context.Context, g group, take func(Result)) error {
		n++
		take(Result{g.name, "one", OK, "d"})
		cancel()
		return errors.New("killed")
	}, &printer{out: &bytes.Buffer{}})
	if n != 1 || len(got) != 1 {
		t.Errorf("%d groups ran after the end: %+v", n, got)
	}
}

func TestPanicIsALine(t *testing.T) {
	t.Parallel()
	var got []Result
	g := group{name: "g", run: func(context.Context, *env) { panic("broken") }}
	if err := (hereRunner{}).run(t.Context(), g, collect(&got)); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Verdict != Fail || !strings.HasPrefix(got[0].Detail, "broken\n") {
		t.Errorf("%+v", got)
	}
}

func TestLineWriter(t *testing.T) {
	t.Parallel()
	one, two := `{"name":"a","verdict":"ok","detail":"x"}`+"\n", `{"group":"other","name":"b","verdict":"FAIL","detail":"y\nz"}`+"\n"
	a, b := Result{"g", "a", OK, "x"}, Result{"g", "b", Fail, "y\nz"}
	bad := func(line string) Result { return Result{"g", "output", Fail, "not a result: " + line} }
	for _, tt := range []struct {
		name, in string
		want     []Result
	}{
		{"two", one + two, []Result{a, b}},
		{"blank lines", "\n" + one + "\n\n", []Result{a}},
		{"cut off", one + `{"name":`, []Result{a, bad(`{"name":`)}},
		{"no JSON", "fatal\n" + one, []Result{bad("fatal"), a}},
		{"another verdict", `{"name":"a","verdict":"good"}` + "\n", []Result{bad(`{"name":"a","verdict":"good"}`)}},
		{"no name", `{"verdict":"ok"}` + "\n", []Result{bad(`{"verdict":"ok"}`)}},
		{"not text", "\xff\n", []Result{bad("?")}},
		{"a line without an end", strings.Repeat("x", 5*maxLine), []Result{bad(strings.Repeat("x", 200))}},
	} {
		for _, step := range []int{1, 7, len(tt.in)} { // bytes of one write
			var got []Result
			w := lineWriter{take: collect(&got), group: "g"}
			for p := []byte(tt.in); len(p) > 0; p = p[min(step, len(p)):] {
				n, err := w.Write(p[:min(step, len(p))])
				if n != min(step, len(p)) || err != nil {
					t.Fatalf("%s: %d, %v", tt.name, n, err)
				}
			}
			w.flush()
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s in steps of %d: %+v, want %+v", tt.name, step, got, tt.want)
			}
		}
	}
}

// FuzzLines: whatever a dying child writes, each line is one result of its group.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"name":"a","verdict":"ok","detail":"x"}` + "\nfatal error\n"))
	f.Add([]byte("\n\n{}\n\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var got []Result
		w := lineWriter{take: collect(&got), group: "g"}
		if n, err := w.Write(in); n != len(in) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		w.flush()
		want := 0
		for line := range bytes.SplitSeq(in, []byte{'\n'}) {
			if len(line) > 0 {
				want++
			}
		}
		if len(got) != want {
			t.Errorf("%d results of %d lines", len(got), want)
		}
		for _, r := range got {
			if r.Group != "g" || r.Name == "" || !slices.Contains([]Verdict{OK, Fail, Skip, Info}, r.Verdict) {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestCommand(t *testing.T) {
	t.Parallel()
	a := Applet("1.2.3")
	run := func(args ...string) (out, errOut string, status int) {
		var o, e bytes.Buffer
		status = a.Execute(t.Context(), applet.IO{Out: &o, Err: &e}, args)
		return o.String(), e.String(), status
	}
	if _, errOut, status := run("-group", "nothing"); status != 2 || !strings.Contains(errOut, `no group "nothing"`) {
		t.Errorf("%d, %s", status, errOut)
	}
	if _, errOut, status := run("now"); status != 2 || !strings.Contains(errOut, `"now"`) {
		t.Errorf("%d, %s", status, errOut)
	}
	if _, _, status := run("-frob"); status != 2 {
		t.Errorf("an unknown option: %d", status)
	}
	out, errOut, status := run("-here", "-quick", "-group", "compute")
	if status != 0 || errOut != "" || !strings.HasPrefix(out, "gw selftest 1.2.3 (quick)\nfile ") ||
		!strings.Contains(out, "\nok    compute/CRC-32: ") || !strings.HasSuffix(out, "\nverdict: ok\n") {
		t.Errorf("%d, %s, %s", status, errOut, out)
	}
	out, errOut, status = run("-here", "-json", "-group", "compute")
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 || errOut != "" {
		t.Fatalf("%d, %s, %v: %s", status, errOut, err, out)
	}
	if r.Version != "1.2.3" || r.Quick || r.Counts[OK] != len(computations) || len(r.Results) != len(computations) ||
		r.FileBytes == 0 || len(r.FileCRC32) != 8 || r.Kernel == "" || r.Results[0].Group != "compute" {
		t.Errorf("%+v", r)
	}
}

// The usage names every group.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, g := range groups() {
		if !strings.Contains(usage, g.name) {
			t.Errorf("usage says nothing about %s", g.name)
		}
	}
}
