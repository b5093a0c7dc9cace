//go:build linux

package onbox

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// redactor takes secrets out of text: what looks like one, and the stored
// passwords of this gateway.
type redactor struct {
	known []string // as they are on the flash
	// What stands before a value, and the value.
	named, option, crypt, pair, hex, base64 *regexp.Regexp
	pem                                     bool // inside of a private key
}

// removed stands in the place of a secret.
const removedText = "[removed]"

// newRedactor reads the stored passwords below root.
func newRedactor(root string) *redactor {
	const words = `(?:pass(?:word|wd|phrase|code|key)|secret|token|credential|private[-_ ]?key|preshared[-_ ]?key|psk[cd]?|(?:network|master|api|auth|host|session)[-_ ]?key)`
	r := &redactor{
		named:  regexp.MustCompile(`(?i)(\b[\w.-]*` + words + `[\w.-]*["']?[ \t]*[=:][ \t]*)("[^"]*"|'[^']*'|[^\s,;"']+)`),
		option: regexp.MustCompile(`(?i)((?:^|\s)-{1,2}[\w-]*` + words + `[\w-]*[ \t]+)(\S+)`),
		crypt:  regexp.MustCompile(`(\$[0-9a-z]{1,3}\$)([^\s:"']+)`),
		pair:   regexp.MustCompile(`(://[^/\s:@]*:)([^/\s@]+)@`),
		// 16 bytes, which a MAC address is not.
		hex:    regexp.MustCompile(`(?i)\b[0-9a-f]{32,}\b|\b(?:[0-9a-f]{2}[: -]){15,}[0-9a-f]{2}\b`),
		base64: regexp.MustCompile(`(?:SHA256:)?[A-Za-z0-9+/]{40,}={0,2}`),
	}
	for _, name := range []string{"passwd", "shadow"} {
		b, _ := os.ReadFile(filepath.Join("/", root, "userdata/etc", name)) // none: none
		for line := range strings.Lines(string(b)) {
			f := strings.Split(strings.TrimSpace(line), ":")
			if (len(f) == 7 || len(f) == 9) && len(f[1]) > 3 && !strings.ContainsAny(f[1], " \t") {
				r.known = append(r.known, f[1])
			}
		}
	}
	return r
}

// text returns b without secrets, line by line.
func (r *redactor) text(b []byte) []byte {
	r.pem = false
	var out bytes.Buffer
	for line := range bytes.Lines(b) {
		out.WriteString(r.line(string(line)))
	}
	return out.Bytes()
}

func (r *redactor) line(s string) string {
	if strings.Contains(s, "-----BEGIN") && strings.Contains(s, "PRIVATE") {
		r.pem = true
	}
	if r.pem {
		r.pem = !strings.Contains(s, "-----END")
		return removedText + "\n"
	}
	for _, k := range r.known {
		s = strings.ReplaceAll(s, k, removedText)
	}
	s = r.pair.ReplaceAllString(s, "${1}"+removedText+"@")
	for _, e := range []*regexp.Regexp{r.named, r.option, r.crypt} {
		s = e.ReplaceAllString(s, "${1}"+removedText)
	}
	s = r.hex.ReplaceAllString(s, removedText)
	return r.base64.ReplaceAllStringFunc(s, func(m string) string {
		// Of a public key's fingerprint nothing can be made; a path has few
		// capitals or digits.
		if strings.HasPrefix(m, "SHA256:") || !strings.ContainsFunc(m, upper) || !strings.ContainsFunc(m, lower) || !strings.ContainsFunc(m, digit) {
			return m
		}
		return removedText
	})
}

func upper(c rune) bool { return c >= 'A' && c <= 'Z' }
func lower(c rune) bool { return c >= 'a' && c <= 'z' }
func digit(c rune) bool { return c >= '0' && c <= '9' }
