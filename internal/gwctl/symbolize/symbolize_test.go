package symbolize

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/control/client"
	"gwinit/internal/gwctl"
)

// writeSymbols writes a symbol file with one function, main.main, of which the
// instructions at 0x1000 are line 7 of file, and returns its build ID.
func writeSymbols(t *testing.T, name, file string) string {
	t.Helper()
	b := []byte{2, 9}
	b = append(b, "main.main"...)
	b = append(append(b, byte(len(file))), file...)
	// unit 4; one function at 0x1000 of 64 bytes, string 0, line 5, no calls,
	// one row: from 0 on, string 1, line 7.
	b = append(b, 4, 1, 0x80, 0x20, 64, 0, 5, 0, 1, 0, 2*2, 2*7, 0)
	sum := sha256.Sum256(b)
	id := hex.EncodeToString(sum[:])[:20]
	var out bytes.Buffer
	out.WriteString("gwsym 1 " + id + "\n")
	z := zlib.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return id
}

// gwctlRun runs the workstation's gwctl and returns its output and status.
func gwctlRun(t *testing.T, in string, args ...string) (out, errOut string, status int) {
	t.Helper()
	dial := func(context.Context, string) (*client.Client, error) {
		return nil, errors.New("symbolize asked a gateway")
	}
	a := gwctl.Command("v", dial, Command())
	var o, e bytes.Buffer
	status = a.Execute(context.Background(), applet.IO{In: strings.NewReader(in), Out: &o, Err: &e}, args)
	return o.String(), e.String(), status
}

func TestSymbolize(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, folder := range []string{"releases", "build", "empty"} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a := writeSymbols(t, filepath.Join("releases", "a.sym"), "a.go")
	b := writeSymbols(t, filepath.Join("releases", "b.sym"), "b.go")
	c := writeSymbols(t, filepath.Join("build", "gw.sym"), "c.go")
	d := writeSymbols(t, "here.sym", "d.go")
	if err := os.WriteFile(filepath.Join("releases", "other.sym"), []byte("of another program"), 0o600); err != nil {
		t.Fatal(err)
	}
	trace := func(id string) string {
		return "panic: oh\r\nbuild id: " + id + "\r\n\r\ngoroutine 1 [running]:\r\nmain.main(...)\r\n\tpc=0x1000 +0x8\r\n"
	}
	noID := "main.main(...)\n\tpc=0x1000 +0x8\n"
	if err := os.WriteFile("pasted", []byte(trace(a)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		in     string
		args   []string
		status int
		want   string // part of the output, of the errors if status is not 0
	}{
		{"a folder", trace(b), []string{"-sym", "releases", "-"}, 0, "\tb.go:7 +0x8\r\n"},
		{"a file", trace(a), []string{"-sym", "releases/a.sym", "-"}, 0, "\ta.go:7 +0x8\r\n"},
		{"option behind", "", []string{"pasted", "-sym", "releases/a.sym"}, 0, "\ta.go:7 +0x8\r\n"},
		{"the build's", trace(c), []string{"-"}, 0, "\tc.go:7 +0x8\r\n"},
		{"the working folder's", trace(d), []string{"-"}, 0, "\td.go:7 +0x8\r\n"},
		{"two builds", trace(a) + trace(b), []string{"-sym", "releases", "-"}, 0, "\tb.go:7 +0x8\r\n"},
		{"no build ID", noID, []string{"-sym", "releases/a.sym", "-"}, 0, "\ta.go:7 +0x8\n"},
		{"JSON", noID, []string{"-json", "-sym", "releases/a.sym", "-"}, 0, `{"text":"main.main(...)\n\ta.go:7 +0x8\n"}`},
		{"wrong file", trace(a), []string{"-sym", "releases/b.sym", "-"}, 1, "the trace is of build " + a + ", and releases/b.sym is of build " + b},
		{"not there", trace(a), []string{"-"}, 1, "the trace is of build " + a},
		{"nothing there", trace(a), []string{"-sym", "empty", "-"}, 1, "there is no symbol file in empty"},
		{"not a symbol file", trace(a), []string{"-sym", "pasted", "-"}, 1, "pasted: not a symbol file"},
		{"no such file", trace(a), []string{"-sym", "gone", "-"}, 1, "gone"},
		{"no build ID, which file?", noID, []string{"-sym", "releases", "-"}, 1, `no line "build id: ..."`},
		{"no build ID, no file named", noID, []string{"-"}, 1, `no line "build id: ..."`},
		{"no build ID, wrong file", "main.other(...)\n\tpc=0x1000 +0x8\n", []string{"-sym", "releases/a.sym", "-"}, 1, "wrong build"},
		{"no trace", "", []string{"gone"}, 1, "gone"},
		{"no argument", "", nil, 2, "one file"},
		{"two", "", []string{"a", "b"}, 2, "one file"},
		{"unknown option", "", []string{"-symbols", "x"}, 2, "-symbols"},
		{"help", "", []string{"-h"}, 0, "usage: gwctl symbolize"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errOut, status := gwctlRun(t, tt.in, append([]string{"symbolize"}, tt.args...)...)
			got := out
			if tt.status != 0 {
				got = errOut
			}
			if status != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("status %d, %q; want %d, %q", status, out+errOut, tt.status, tt.want)
			}
		})
	}
	if out, _, _ := gwctlRun(t, "", "-h"); !strings.Contains(out, "on a workstation:\n  symbolize") || strings.Contains(out, "on the gateway itself") {
		t.Errorf("the help says\n%s", out)
	}
}
