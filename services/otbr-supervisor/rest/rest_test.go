package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		status   int
		body     string
		err      error
	}{
		{"a length", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\"leader\"more", 200, `"leader"`, nil},
		{"any case", "HTTP/1.0 200 OK\ncontent-length:2\n\nok", 200, "ok", nil},
		{"to the end", "HTTP/1.1 404 Not Found\r\n\r\nno such thing", 404, "no such thing", nil},
		{"no words", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, "", nil},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\nrest", 204, "", nil},
		{"continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx", 200, "x", nil},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, "abc0123456789", nil},
		{"a chunk too short", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", 0, "", ErrMalformed},
		{"a chunk too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n", 0, "", ErrMalformed},
		{"a chunk of no size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 0, "", ErrMalformed},
		{"a huge chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n", 0, "", ErrTooLong},
		{"a huge length", "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", 0, "", ErrTooLong},
		{"a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, "", ErrMalformed},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\"lead", 0, "", ErrMalformed},
		{"nothing", "", 0, "", ErrMalformed},
		{"another protocol", "SSH-2.0-x\r\n", 0, "", ErrMalformed},
		{"a status that is none", "HTTP/1.1 20 OK\r\n\r\n", 0, "", ErrMalformed},
		{"no field", "HTTP/1.1 200 OK\r\nhello\r\n\r\n", 0, "", ErrMalformed},
		{"endless fields", "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", maxLines+1), 0, "", ErrTooLong},
		{"an endless line", "HTTP/1.1 200 " + strings.Repeat("x", maxLine), 0, "", ErrMalformed},
		{"an endless body", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", maxBody+1), 0, "", ErrTooLong},
	} {
		status, body, err := Parse(strings.NewReader(tt.in))
		if status != tt.status || string(body) != tt.body || !errors.Is(err, tt.err) {
			t.Errorf("%s: %d, %q, %v", tt.name, status, body, err)
		}
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/node/state":
			io.WriteString(w, `"router"`)
		case "/node/dataset/active":
			if r.Header.Get("Accept") == Text {
				w.(http.Flusher).Flush() // in chunks
				io.WriteString(w, strings.Repeat("0e", 2000))
			}
		case "/hang":
			<-hang
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	defer close(hang)
	c := Client{netip.MustParseAddrPort(strings.TrimPrefix(s.URL, "http://")), time.Minute}
	if got, err := c.String(t.Context(), "/node/state"); got != "router" || err != nil {
		t.Errorf("state %q, %v", got, err)
	}
	if b, err := c.Get(t.Context(), "/node/dataset/active", Text); len(b) != 4000 || err != nil {
		t.Errorf("dataset of %d bytes, %v", len(b), err)
	}
	var no StatusError
	if _, err := c.Get(t.Context(), "/x", JSON); !errors.As(err, &no) || no.Status != 404 {
		t.Errorf("nothing there: %v", err)
	}
	c.Timeout = 10 * time.Millisecond
	if _, err := c.Get(t.Context(), "/hang", JSON); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent agent: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\"leader\"")
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		status, body, err := Parse(strings.NewReader(in))
		if err == nil && (status < 200 || len(body) > maxBody) || err != nil && (status != 0 || body != nil) {
			t.Fatalf("%d, %d bytes, %v", status, len(body), err)
		}
	})
}
