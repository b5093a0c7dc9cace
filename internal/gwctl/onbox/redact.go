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
		pair:   regexp.MustCompile(`://[^/\s:@]*:([^/\s@]+)@`),
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
	suspect := hasStem(strings.ToLower(s))
	for _, e := range []*regexp.Regexp{r.pair, r.named, r.option, r.crypt, r.hex, r.base64} {
		if suspect || e != r.named && e != r.option {
			s = without(e, s, e == r.base64)
		}
	}
	return s
}

// hasStem tells whether there is one of the words of named and option: few lines
// have one, and looking for it is ten times as fast.
func hasStem(s string) bool {
	for _, stem := range [...]string{"pass", "secret", "token", "credential", "key", "psk"} {
		if strings.Contains(s, stem) {
			return true
		}
	}
	return false
}

// without takes out what the last group of e matches, wherever it does, but for
// what is innocent if that is asked. (What regexp has for this would be 1.5 KiB of
// flash.)
func without(e *regexp.Regexp, s string, ask bool) string {
	var out strings.Builder
	last := 0
	for _, m := range e.FindAllStringSubmatchIndex(s, -1) {
		from, to := m[len(m)-2], m[len(m)-1]
		if ask && innocent(s[from:to]) {
			continue
		}
		out.WriteString(s[last:from])
		out.WriteString(removedText)
		last = to
	}
	out.WriteString(s[last:])
	return out.String()
}

// innocent tells of a long word that it is no secret: a public key's fingerprint,
// of which nothing can be made, or a path, which has few capitals or digits.
func innocent(s string) bool {
	return strings.HasPrefix(s, "SHA256:") || !strings.ContainsFunc(s, upper) || !strings.ContainsFunc(s, lower) || !strings.ContainsFunc(s, digit)
}

func upper(c rune) bool { return c >= 'A' && c <= 'Z' }
func lower(c rune) bool { return c >= 'a' && c <= 'z' }
func digit(c rune) bool { return c >= '0' && c <= '9' }
