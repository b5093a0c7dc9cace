package otctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     []string
		err      error
	}{
		{"one line", "leader\r\nDone\r\n> ", []string{"leader"}, nil},
		{"a prompt before", "> > 3 dBm\r\nDone\r\n", []string{"3 dBm"}, nil},
		{"nothing", "Done\n", nil, nil},
		{"a table", "| ID | RLOC16 |\r\n+----+--------+\r\n\r\nDone\r\n", []string{"| ID | RLOC16 |", "+----+--------+"}, nil},
		{"an end too early", "leader\r\n", nil, ErrClosed},
		{"a line cut off", "leader\r\nDon", nil, ErrClosed},
		{"too much", strings.Repeat("x\n", maxAnswer), nil, ErrTooLong},
		{"a line without an end", strings.Repeat("x", maxAnswer+5), nil, ErrTooLong},
		{"words that only begin like an error", "Error is a word\r\nError x: y\r\nDone\r\n", []string{"Error is a word", "Error x: y"}, nil},
	} {
		got, err := Parse(strings.NewReader(tt.in))
		if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
	var no *Refusal
	if _, err := Parse(strings.NewReader("> Error 35: InvalidCommand\r\n> ")); !errors.As(err, &no) || no.Code != 35 || no.Text != "InvalidCommand" {
		t.Errorf("a refusal: %v", err)
	}
}

// serve answers each session by f.
func serve(t *testing.T, path string, f func(net.Conn, string)) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadString('\n')
			f(c, line)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

func TestDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "b.sock")
	c := Client{Paths: []string{filepath.Join(dir, "a.sock"), path}, Timeout: time.Minute}
	if _, err := c.Do(t.Context(), "state"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without an agent: %v", err)
	}
	silent := make(chan struct{})
	serve(t, path, func(conn net.Conn, line string) {
		if line == "hang\n" {
			<-silent
			return
		}
		fmt.Fprintf(conn, "> you said %s\r\nDone\r\n> ", strings.TrimSpace(line))
	})
	if got, err := c.Do(t.Context(), "state"); err != nil || !slices.Equal(got, []string{"you said state"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "state\nfactoryreset", strings.Repeat("x", maxLine)} {
		if _, err := c.Do(t.Context(), bad); !errors.Is(err, ErrCommand) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	c.Timeout = 10 * time.Millisecond
	if _, err := c.Do(t.Context(), "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent agent: %v", err)
	}
	close(silent)
}

func FuzzParse(f *testing.F) {
	f.Add("> leader\r\nDone\r\n")
	f.Add("Error 7: InvalidArgs\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		lines, err := Parse(strings.NewReader(in))
		if err != nil && lines != nil {
			t.Fatal("lines beside an error")
		}
		for _, l := range lines {
			if strings.ContainsAny(l, "\n") || l == "" {
				t.Fatalf("a line %q", l)
			}
		}
	})
}
