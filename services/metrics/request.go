package metrics

import (
	"bytes"
	"strings"
)

// reply is an answer's status line and, unless it is the figures, what it says.
type reply struct {
	status string
	text   string
	allow  bool // names the methods
}

// The answers. ok is the one with the figures.
var (
	ok          = reply{status: "200 OK"}
	badRequest  = reply{status: "400 Bad Request", text: "This is no HTTP request.\n"}
	notFound    = reply{status: "404 Not Found", text: "There is only /metrics here.\n"}
	badMethod   = reply{status: "405 Method Not Allowed", text: "Only GET and HEAD.\n", allow: true}
	tooLong     = reply{status: "431 Request Header Fields Too Large", text: "That request is too long.\n"}
	badVersion  = reply{status: "505 HTTP Version Not Supported", text: "Only HTTP/1.0 and HTTP/1.1.\n"}
	unavailable = reply{status: "503 Service Unavailable"}
)

// maxHead is how long a request may be, its header with it. Prometheus' are some
// 300 bytes.
const maxHead = 4 << 10

// headEnd is where the header of a request ends in b, behind its empty line, or
// -1. RFC 9112, section 2.2, lets a line end with LF alone.
func headEnd(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return -1
		}
		line := bytes.TrimSuffix(b[at:at+i], []byte{'\r'})
		at += i + 1
		if len(line) == 0 {
			return at
		}
	}
}

// parse judges a request's head (RFC 9112), which ends with its empty line.
// head tells whether the answer goes without its body.
func parse(b []byte) (r reply, head bool) {
	lines := strings.Split(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
	first := strings.Split(lines[0], " ")
	if len(first) != 3 || !isToken(first[0]) || first[1] == "" || strings.ContainsFunc(lines[0], control) {
		return badRequest, false
	}
	method, target, version := first[0], first[1], first[2]
	switch {
	case !isVersion(version):
		return badRequest, false
	case version != "HTTP/1.0" && version != "HTTP/1.1":
		return badVersion, false
	}
	hosts := 0
	for _, l := range lines[1:] {
		if l == "" {
			break
		}
		name, _, colon := strings.Cut(l, ":")
		// A folded line begins with a blank, which is in no name.
		if !colon || !isToken(name) || strings.ContainsFunc(l, func(r rune) bool { return r != '\t' && control(r) }) {
			return badRequest, false
		}
		if strings.EqualFold(name, "Host") {
			hosts++
		}
	}
	if hosts > 1 || hosts == 0 && version == "HTTP/1.1" {
		return badRequest, false
	}
	head = method == "HEAD"
	switch {
	case !head && method != "GET":
		return badMethod, false
	case path(target) != "/metrics":
		return notFound, head
	}
	return ok, head
}

// path is that of a request's target, which may be a whole URL.
func path(target string) string {
	const scheme = "http://"
	if len(target) > len(scheme) && strings.EqualFold(target[:len(scheme)], scheme) {
		_, rest, slash := strings.Cut(target[len(scheme):], "/")
		if !slash {
			return "/"
		}
		target = "/" + rest
	}
	target, _, _ = strings.Cut(target, "?")
	return target
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// isToken tells whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isVersion tells whether s is HTTP/ and two digits with a dot between.
func isVersion(s string) bool {
	d, http := strings.CutPrefix(s, "HTTP/")
	return http && len(d) == 3 && d[0] >= '0' && d[0] <= '9' && d[1] == '.' && d[2] >= '0' && d[2] <= '9'
}
