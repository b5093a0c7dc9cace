package metrics

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const host = "Host: gateway:9100\r\n"
	for _, tt := range []struct {
		name, in string
		want     reply
		head     bool
	}{
		{"1.1", "GET /metrics HTTP/1.1\r\n" + host + "Accept: */*\r\n\r\n", ok, false},
		{"1.0 without a host", "GET /metrics HTTP/1.0\r\n\r\n", ok, false},
		{"lines that end with LF", "GET /metrics HTTP/1.1\nHost: x\n\n", ok, false},
		{"HEAD", "HEAD /metrics HTTP/1.1\r\n" + host + "\r\n", ok, true},
		{"a query", "GET /metrics?name[]=x HTTP/1.1\r\n" + host + "\r\n", ok, false},
		{"a whole URL", "GET HTTP://gateway:9100/metrics HTTP/1.1\r\n" + host + "\r\n", ok, false},
		{"an empty host", "GET /metrics HTTP/1.1\r\nhost:\r\n\r\n", ok, false},
		{"root", "GET / HTTP/1.1\r\n" + host + "\r\n", notFound, false},
		{"root of a whole URL", "HEAD http://gateway HTTP/1.1\r\n" + host + "\r\n", notFound, true},
		{"nearly", "GET /metrics/ HTTP/1.1\r\n" + host + "\r\n", notFound, false},
		{"a path that goes up", "GET /metrics/../../etc/passwd HTTP/1.1\r\n" + host + "\r\n", notFound, false},
		{"POST", "POST /metrics HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\n", badMethod, false},
		{"a method that nobody knows", "BREW /metrics HTTP/1.1\r\n" + host + "\r\n", badMethod, false},
		{"small letters", "get /metrics HTTP/1.1\r\n" + host + "\r\n", badMethod, false},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\n", badVersion, false},
		{"HTTP/1.2", "GET /metrics HTTP/1.2\r\n" + host + "\r\n", badVersion, false},
		{"HTTP/0.9", "GET /metrics\r\n\r\n", badRequest, false},
		{"no host", "GET /metrics HTTP/1.1\r\n\r\n", badRequest, false},
		{"two hosts", "GET /metrics HTTP/1.1\r\n" + host + host + "\r\n", badRequest, false},
		{"two blanks", "GET  /metrics HTTP/1.1\r\n" + host + "\r\n", badRequest, false},
		{"a blank in the name", "GET /metrics HTTP/1.1\r\n" + host + "A b: c\r\n\r\n", badRequest, false},
		{"a folded line", "GET /metrics HTTP/1.1\r\n" + host + " folded\r\n\r\n", badRequest, false},
		{"no colon", "GET /metrics HTTP/1.1\r\n" + host + "Accept\r\n\r\n", badRequest, false},
		{"a zero byte", "GET /metrics HTTP/1.1\r\n" + host + "A: \x00\r\n\r\n", badRequest, false},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", badRequest, false},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", badRequest, false},
		{"nothing", "\r\n", badRequest, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if end := headEnd([]byte(tt.in + "rest")); end != len(tt.in) {
				t.Errorf("the head ends at %d of %d", end, len(tt.in))
			}
			if r, head := parse([]byte(tt.in)); r != tt.want || head != tt.head {
				t.Errorf("%+v, %v; want %+v, %v", r, head, tt.want, tt.head)
			}
		})
	}
}

func TestHeadEnd(t *testing.T) {
	for in, want := range map[string]int{
		"": -1, "GET": -1, "GET\r\n": -1, "GET\r\n\r": -1, "GET\r\n\r\n": 7, "GET\n\nx": 5, "\n": 1, "GET\n\r\nx": 6, "a\r\rb\n\n": 6,
	} {
		if got := headEnd([]byte(in)); got != want {
			t.Errorf("%q ends at %d, want %d", in, got, want)
		}
	}
}

// What is answered with figures is a request that asks for them.
func FuzzParse(f *testing.F) {
	f.Add([]byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("HEAD http://a/metrics?b HTTP/1.0\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		end := headEnd(b)
		if end < 0 {
			return
		}
		if end > len(b) || b[end-1] != '\n' {
			t.Fatalf("the head ends at %d of %q", end, b)
		}
		r, head := parse(b[:end])
		first, _, _ := strings.Cut(string(b), "\n")
		if r == ok && (!strings.Contains(first, "/metrics") || head != strings.HasPrefix(first, "HEAD ") || !head && !strings.HasPrefix(first, "GET ")) {
			t.Errorf("figures for %q", first)
		}
	})
}
