package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/internal/control/controltest"
)

// serve answers one request on a pipe with the given bytes and ends.
func serve(t *testing.T, answer string) (*client.Client, <-chan string) {
	t.Helper()
	near, far := net.Pipe()
	asked := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(far).ReadString('\n')
		asked <- line
		_, _ = io.WriteString(far, answer)
		far.Close()
	}()
	t.Cleanup(func() { near.Close() })
	return client.New(near), asked
}

func TestDo(t *testing.T) {
	tests := []struct {
		name, answer string
		data         string
		err          string // part of it
		code         string // if it is an api.Error
		closed       bool
	}{
		{name: "data", answer: `{"ok":true,"data":{"a":1}}` + "\n", data: `{"a":1}`},
		{name: "unknown members", answer: `{"ok":true,"data":1,"new":[]}` + "\n", data: `1`},
		{name: "several", answer: `{"ok":true,"data":1,"more":true}` + "\n" + `{"ok":true,"data":2}` + "\n", data: `2`},
		{name: "refused", answer: `{"ok":false,"error":{"code":"busy","message":"later"}}` + "\n", err: "later", code: "busy"},
		{name: "refused without words", answer: `{"ok":false}` + "\n", err: "without a reason"},
		{name: "closed", answer: ``, err: "closed the connection", closed: true},
		{name: "closed within a line", answer: `{"ok":true`, err: "closed the connection", closed: true},
		{name: "closed within an answer", answer: `{"ok":true,"more":true}` + "\n", err: "closed the connection", closed: true},
		{name: "something else", answer: "SSH-2.0-OpenSSH\r\n", err: "not gwinit"},
		{name: "too long", answer: strings.Repeat("x", api.MaxLine) + "\n", err: "longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, asked := serve(t, tt.answer)
			data, err := c.Do(t.Context(), api.OpService, api.ServiceArgs{Name: "core", Action: "stop"})
			if got := <-asked; got != `{"v":1,"op":"service","args":{"name":"core","action":"stop"}}`+"\n" {
				t.Errorf("asked %s", got)
			}
			if tt.err == "" {
				if err != nil || string(data) != tt.data {
					t.Errorf("got %s, %v", data, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("err = %v, want %q", err, tt.err)
			}
			var e *api.Error
			if errors.As(err, &e) != (tt.code != "") || e != nil && e.Code != tt.code {
				t.Errorf("code of %v, want %q", err, tt.code)
			}
			if errors.Is(err, client.ErrClosed) != tt.closed {
				t.Errorf("ErrClosed of %v, want %v", err, tt.closed)
			}
		})
	}
}

func TestRequestTooLong(t *testing.T) {
	c, _ := serve(t, "")
	_, err := c.Do(t.Context(), api.OpLogs, api.LogsArgs{Service: strings.Repeat("x", api.MaxLine)})
	if err == nil || !strings.Contains(err.Error(), "logs: request: line longer") {
		t.Errorf("err = %v", err)
	}
}

func TestStreamStops(t *testing.T) {
	c, _ := serve(t, `{"ok":true,"more":true}`+"\n"+`{"ok":true,"more":true}`+"\n")
	enough := errors.New("enough")
	n := 0
	err := c.Stream(t.Context(), api.OpLogs, nil, func(api.Reply) error { n++; return enough })
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("%v after %d replies", err, n)
	}
}

// The end of a context ends a wait for the server.
func TestContext(t *testing.T) {
	b := &controltest.Backend{}
	asked := make(chan struct{})
	b.OnStatus = func(ctx context.Context) api.Status {
		close(asked)
		<-ctx.Done()
		return api.Status{}
	}
	path, stop := controltest.StartStop(t, b, control.Options{})
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := client.Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		<-asked
		cancel()
	}()
	if _, err := c.Do(ctx, api.OpStatus, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if _, err := client.Dial(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial: %v", err)
	}
}

// A server that accepts nobody costs the time of the context, not for ever.
func TestDialFullBacklog(t *testing.T) {
	dir, err := os.MkdirTemp("", "gw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		c, err := client.Dial(ctx, path)
		if err != nil {
			if !errors.Is(err, unix.EAGAIN) {
				t.Errorf("err = %v", err)
			}
			return
		}
		defer c.Close()
	}
	t.Error("a backlog of none took ten")
}

func FuzzStream(f *testing.F) {
	for _, s := range []string{
		`{"ok":true,"data":{}}` + "\n", `{"ok":true,"more":true}` + "\n" + `{"ok":false,"error":{"code":"busy","message":"m"}}` + "\n", "\n", "{}\n", `{"ok":true}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c := client.New(canned{bytes.NewReader(in)})
		replies := 0
		err := c.Stream(context.Background(), api.OpLogs, nil, func(r api.Reply) error {
			if replies++; !r.OK || r.Data != nil && !json.Valid(r.Data) {
				t.Fatalf("%+v was given on", r)
			}
			return nil
		})
		if err == nil && replies == 0 {
			t.Fatal("no answer, and no error")
		}
		if n := bytes.Count(in, []byte("\n")); replies > n {
			t.Fatalf("%d replies in %d lines", replies, n)
		}
	})
}

// canned is a server whose answers do not depend on what it is asked.
type canned struct{ io.Reader }

func (canned) Write(p []byte) (int, error) { return len(p), nil }
func (canned) Close() error                { return nil }
