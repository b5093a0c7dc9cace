//go:build linux

package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// keyFiles are where the keys of those stand who may log in. The image's comes
// second: a key in both has the options of the first.
var keyFiles = [...]string{"userdata/ssh/authorized_keys", "etc/ssh/authorized_keys"}

// maxKeysFile bounds an authorized_keys file, in bytes: some 600 ed25519 keys.
const maxKeysFile = 64 << 10

// grant is what who has logged in may do.
type grant struct {
	command    string   // is run instead of what is asked for
	noPTY      bool     // no terminal
	noForward  bool     // no forwarding
	permitOpen []string // host:port, * for any port; empty: no limit of this kind
	noTouch    bool     // a security key need not be touched
	setup      bool     // has given a key, and may do nothing else
}

// authorizedKey is one line of an authorized_keys file.
type authorizedKey struct {
	key   ssh.PublicKey
	from  []string // patterns, with ! in front of what is not meant; nil: from anywhere
	grant grant
}

// errNoKey is a key that nobody has authorised.
var errNoKey = errors.New("the key is in no authorized_keys")

// lookUp finds key in the files and returns what its owner may do.
func lookUp(root string, key ssh.PublicKey, from netip.Addr, log func(string)) (*grant, error) {
	blob := key.Marshal()
	for _, name := range keyFiles {
		file, err := readSmall(filepath.Join(root, name), maxKeysFile)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				log("/" + name + ": " + err.Error())
			}
			continue
		}
		for n, line := range lines(file) {
			if !mentions(line, key.Type()) {
				continue
			}
			k, err := parseAuthorized(line)
			if err != nil {
				log(fmt.Sprintf("/%s line %d is not used: %v", name, n, err))
				continue
			}
			if !bytes.Equal(k.key.Marshal(), blob) {
				continue
			}
			if k.from != nil && !matchAddress(k.from, from) {
				log(fmt.Sprintf("/%s line %d: the key may not be used from %v", name, n, from))
				continue
			}
			return &k.grant, nil
		}
	}
	return nil, errNoKey
}

// anyKey tells whether somebody may log in by a key.
func anyKey(root string) bool {
	for _, name := range keyFiles {
		file, err := readSmall(filepath.Join(root, name), maxKeysFile)
		if err != nil {
			continue
		}
		for _, line := range lines(file) {
			if _, err := parseAuthorized(line); err == nil {
				return true
			}
		}
	}
	return false
}

// CheckAuthorized tells what is wrong with an authorized_keys file: a line that
// would not be used, no key at all, or too many of them.
func CheckAuthorized(file []byte) error {
	if len(file) > maxKeysFile {
		return fmt.Errorf("it has %d bytes, more than %d", len(file), maxKeysFile)
	}
	found := false
	for n, line := range lines(file) {
		if _, err := parseAuthorized(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		found = true
	}
	if !found {
		return errors.New("there is no key in it")
	}
	return nil
}

// lines yields the lines of file that are neither empty nor a comment, with
// their numbers.
func lines(file []byte) func(yield func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		n := 0
		for line := range bytes.Lines(file) {
			n++
			line = bytes.TrimSpace(line)
			if len(line) > 0 && line[0] != '#' && !yield(n, line) {
				return
			}
		}
	}
}

// mentions spares the parse of a line with a key of another type.
func mentions(line []byte, keyType string) bool { return bytes.Contains(line, []byte(keyType)) }

// parseAuthorized reads a line of an authorized_keys file (sshd(8)). An option
// that is not known here is an error: it may be a limit.
func parseAuthorized(line []byte) (*authorizedKey, error) {
	key, _, options, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, errors.New("no key in it, or one of a type that is not taken (ECDSA of other than 256 bits, DSA); a line is the content of a .pub file, with options in front")
	}
	if _, ok := key.(*ssh.Certificate); ok {
		return nil, errors.New("certificates are not taken")
	}
	k := &authorizedKey{key: key}
	for _, o := range options {
		if err := k.option(o); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// option takes one option; of two that are against each other the last counts.
func (k *authorizedKey) option(o string) error {
	name, quoted, hasValue := strings.Cut(o, "=")
	g := &k.grant
	if !hasValue {
		switch strings.ToLower(name) {
		case "restrict":
			g.noPTY, g.noForward = true, true
		case "no-pty":
			g.noPTY = true
		case "pty":
			g.noPTY = false
		case "no-port-forwarding":
			g.noForward = true
		case "port-forwarding":
			g.noForward = false
		case "no-touch-required":
			g.noTouch = true
		case "no-agent-forwarding", "no-x11-forwarding", "no-user-rc", "agent-forwarding", "x11-forwarding", "user-rc":
			// There is none of it.
		default:
			return fmt.Errorf("the option %.32q is not known", name)
		}
		return nil
	}
	value, err := unquote(quoted)
	if err != nil {
		return fmt.Errorf("the option %.32q: %w", name, err)
	}
	switch strings.ToLower(name) {
	case "command":
		if value == "" {
			return errors.New("the option command is empty")
		}
		g.command = value
	case "from":
		k.from = strings.Split(value, ",")
	case "permitopen":
		if _, _, err := splitPermit(value); err != nil {
			return fmt.Errorf("permitopen=%q: %w", value, err)
		}
		g.permitOpen = append(g.permitOpen, value)
	default:
		return fmt.Errorf("the option %.32q is not known", name)
	}
	return nil
}

// unquote takes the quotes off an option's value, in which \" is a quote.
func unquote(s string) (string, error) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", errors.New("its value is not in quotes")
	}
	return strings.ReplaceAll(s[1:len(s)-1], `\"`, `"`), nil
}

// splitPermit splits host:port of permitopen; any port is 0.
func splitPermit(s string) (host string, port uint16, err error) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 {
		return "", 0, errors.New("not host:port")
	}
	host = strings.TrimSuffix(strings.TrimPrefix(s[:i], "["), "]")
	if s[i+1:] == "*" {
		return host, 0, nil
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("not host:port")
	}
	return host, uint16(n), nil
}

// permits tells whether the forwarding to host and port is within the grant.
func (g *grant) permits(host string, port uint16) bool {
	if g.noForward {
		return false
	}
	if len(g.permitOpen) == 0 {
		return true
	}
	for _, p := range g.permitOpen {
		h, n, err := splitPermit(p)
		if err == nil && (n == 0 || n == port) && (h == "*" || strings.EqualFold(h, host)) {
			return true
		}
	}
	return false
}

// matchAddress matches OpenSSH's pattern list against an address: prefixes,
// addresses, and text with * and ?. One with ! that matches refuses, whatever
// else does. Names are not looked up and match nothing.
func matchAddress(patterns []string, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	matched := false
	for _, p := range patterns {
		p = strings.TrimSpace(p)
		p, not := strings.CutPrefix(p, "!")
		hit := false
		if prefix, err := netip.ParsePrefix(p); err == nil {
			hit = prefix.Contains(a)
		} else if b, err := netip.ParseAddr(p); err == nil {
			hit = b.Unmap() == a
		} else {
			hit = wildcard(strings.ToLower(p), a.String())
		}
		switch {
		case hit && not:
			return false
		case hit:
			matched = true
		}
	}
	return matched
}

// wildcard matches s whole against a pattern with * and ?.
func wildcard(pattern, s string) bool {
	// Where to go on after the last *, if what follows does not match.
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
