package update

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/bundle"
	"gwinit/internal/bundle/bundletest"
	"gwinit/internal/control/wire"
)

var binary = bytes.Repeat([]byte("not a program\n"), 9000)

func made(t *testing.T) []byte {
	return bundletest.New(t).Bundle(t, bundle.Manifest{Version: "1.2-g0", Boards: []string{"any"}}, binary)
}

// fakeBox answers in turn, the last answer again and again.
type fakeBox struct {
	answers []any // errors, or what is sent as JSON
	asked   [][]string
	got     []byte
}

func (b *fakeBox) Command(_ context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	b.asked = append(b.asked, args)
	if stdin != nil {
		b.got, _ = io.ReadAll(stdin)
	}
	a := b.answers[0]
	if len(b.answers) > 1 {
		b.answers = b.answers[1:]
	}
	if err, ok := a.(error); ok {
		var refused *api.Error
		if errors.As(err, &refused) {
			line, _ := wire.Marshal(map[string]any{"error": refused})
			return line, errors.New("exit status 1")
		}
		return nil, err
	}
	return wire.Marshal(a)
}

func TestLoad(t *testing.T) {
	b := made(t)
	file := filepath.Join(t.TempDir(), "an.update")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/an.update":
			w.Write(b)
		case "/endless":
			io.Copy(w, io.LimitReader(zeros{}, maxBundle+10))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for _, from := range []string{file, server.URL + "/an.update"} {
		got, m, err := Load(t.Context(), from)
		if err != nil || !bytes.Equal(got, b) || m.Version != "1.2-g0" || m.Size != int64(len(binary)) {
			t.Errorf("%s: %d bytes, %+v, %v", from, len(got), m, err)
		}
	}
	for from, want := range map[string]string{
		server.URL + "/other":   "404",
		server.URL + "/endless": "larger than any update",
		file + "x":              "no such file",
	} {
		if _, _, err := Load(t.Context(), from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", from, err, want)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestInspectSeesEveryByteOfTheBinary(t *testing.T) {
	b := made(t)
	for at := len(b) - len(binary); at < len(b); at += 7919 {
		bad := bytes.Clone(b)
		bad[at] ^= 1
		if _, err := Inspect(bytes.NewReader(bad)); !errors.Is(err, bundle.ErrFormat) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	if _, err := Inspect(bytes.NewReader(b[:len(b)-1])); !errors.Is(err, bundle.ErrShort) {
		t.Errorf("a byte short: %v", err)
	}
	if _, err := Inspect(bytes.NewReader(append(b, 0))); !errors.Is(err, bundle.ErrFormat) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestSend(t *testing.T) {
	box := &fakeBox{answers: []any{api.UpdateDone{Version: "1.2-g0", Slot: "a", Reboot: true}}}
	var last int64
	o := Options{Force: true, NoReboot: true, Progress: func(sent, total int64) {
		if sent < last || sent > total {
			t.Errorf("%d after %d of %d", sent, last, total)
		}
		last = sent
	}}
	if err := Send(t.Context(), box, bytes.NewReader(binary), int64(len(binary)), o); err != nil {
		t.Fatal(err)
	}
	asked := box.asked[0]
	if got := strings.Join(asked, " "); !strings.HasPrefix(got, "update -json ") || !strings.HasSuffix(got, " -") ||
		!strings.Contains(got, "-force") || !strings.Contains(got, "-no-reboot") || len(asked) != 5 {
		t.Errorf("asked %q", got)
	}
	if !bytes.Equal(box.got, binary) || last != int64(len(binary)) {
		t.Errorf("%d bytes arrived, %d were told", len(box.got), last)
	}

	box.answers = []any{&api.Error{Code: api.CodeFailed, Message: "signed with another key"}}
	var refused *api.Error
	if err := Send(t.Context(), box, bytes.NewReader(nil), 0, Options{}); !errors.As(err, &refused) || refused.Message != "signed with another key" {
		t.Errorf("refused: %v", err)
	}
	box.answers = []any{errors.New("no route to host")}
	if err := Send(t.Context(), box, bytes.NewReader(nil), 0, Options{}); err == nil || err.Error() != "no route to host" {
		t.Errorf("unreachable: %v", err)
	}
}

func TestWait(t *testing.T) {
	gone := errors.New("connection refused")
	trying := api.UpdateStatus{Version: "1.1", Running: "factory", Next: "factory", Try: "a", Attempts: 1, Slots: []api.UpdateSlot{{Name: "a", Version: "1.2"}}}
	kept := api.UpdateStatus{Version: "1.2", Running: "a", Next: "a", Slots: trying.Slots}
	failed := api.UpdateStatus{Version: "1.1", Running: "factory", Next: "factory", Failed: "1.2", Reason: "it was started 3 times", Slots: trying.Slots}
	back := api.UpdateStatus{Version: "1.1", Running: "factory", Next: "factory"}
	for name, c := range map[string]struct {
		answers []any
		want    Outcome
	}{
		"committed":   {[]any{trying, gone, gone, trying, kept}, Outcome{Committed: true, Running: "1.2", Seconds: 20}},
		"rolled back": {[]any{trying, gone, failed}, Outcome{Reason: "it was started 3 times", Running: "1.1", Seconds: 10}},
		"taken back":  {[]any{trying, back}, Outcome{Reason: "it was taken back: factory is what runs from the next start on", Running: "1.1", Seconds: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := Wait(t.Context(), &fakeBox{answers: c.answers}, "1.2")
				if err != nil || got != c.want {
					t.Errorf("%+v, %v; want %+v", got, err, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if _, err := Wait(t.Context(), &fakeBox{answers: []any{trying, gone}}, "1.2"); !errors.Is(err, ErrGone) || !errors.Is(err, gone) {
			t.Errorf("a gateway that is gone: %v", err)
		}
		if took := time.Since(begin); took != WaitAtMost {
			t.Errorf("it was waited for %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if _, err := Wait(t.Context(), &fakeBox{answers: []any{trying}}, "1.2"); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("one that tries for ever: %v", err)
		}
	})
}

func ExampleWait() {
	box := &fakeBox{answers: []any{api.UpdateStatus{Next: "a", Slots: []api.UpdateSlot{{Name: "a", Version: "1.2"}}}}}
	o, err := Wait(context.Background(), box, "1.2")
	fmt.Println(o.Committed, err)
	// Output: true <nil>
}
