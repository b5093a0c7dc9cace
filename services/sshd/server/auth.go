//go:build linux

package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/crypt"
	"gwinit/internal/enrol"
)

// The users there are.
const (
	userRoot  = "root"
	userSetup = "setup" // gives a key with the code on the serial console
)

// grantKey is where a *grant is in ssh.Permissions.ExtraData.
type grantKey struct{}

var errRefused = errors.New("refused")

// algorithms leaves out what is weak (SHA-1, CBC, DSA, short DH) and what no
// client needs who has the rest. The gateway's Go has no others
// (docs/toolchain-edits.md); this list makes any other build the same.
func algorithms() ssh.Config {
	return ssh.Config{
		KeyExchanges: []string{ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519},
		Ciphers:      []string{ssh.CipherChaCha20Poly1305, ssh.CipherAES256CTR, ssh.CipherAES128CTR},
		MACs:         []string{ssh.HMACSHA256ETM, ssh.HMACSHA256},
	}
}

// userKeys are the types of users' keys. Of ECDSA it is P-256 only, as above.
func userKeys() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512,
	}
}

// login is one connection that logs in.
type login struct {
	s    *Server
	ctx  context.Context
	from netip.Addr
	v    *visitor

	tried bool // something that may have been a login
}

// config is what this connection is asked and offered. Passwords are offered
// only where one can be right.
func (l *login) config() *ssh.ServerConfig {
	pw := l.s.password()
	c := &ssh.ServerConfig{
		Config: algorithms(), PublicKeyAuthAlgorithms: userKeys(), MaxAuthTries: maxAuthTries, ServerVersion: version,
		PublicKeyCallback: l.publicKey,
		BannerCallback:    func(m ssh.ConnMetadata) string { return l.banner(m.User(), pw) },
	}
	if pw.usable() {
		c.PasswordCallback = func(m ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
			return l.password(m.User(), pw, string(given))
		}
		c.KeyboardInteractiveCallback = func(m ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || len(answers) != 1 {
				return nil, errRefused
			}
			return l.password(m.User(), pw, answers[0])
		}
	}
	for _, k := range l.s.keys {
		c.AddHostKey(k)
	}
	return c
}

// banner is what is said before anything is asked.
func (l *login) banner(user string, pw stored) string {
	switch {
	case user == userSetup && enrol.Pressed(l.s.o.Root) > 0:
		return "gwinit: the button was pressed: the key that you offer is let in.\n"
	case user == userSetup:
		if w := enrol.Look(l.s.o.Root); !w.Open() {
			return "gwinit: there is no setup to be done: " + w.String() + ".\n"
		}
		return "gwinit: the key that you offer is let in once you give the code from the serial console.\n"
	case user != userRoot:
		return "gwinit: the user here is root.\n"
	case pw.refused != "":
		return "gwinit: no login by password: " + pw.refused + ".\n"
	case !pw.usable() && !anyKey(l.s.o.Root):
		return "gwinit: nobody may log in yet: " + firstMinute(enrol.Look(l.s.o.Root)) + "\n"
	}
	return ""
}

// firstMinute says how a box without keys gets one.
func firstMinute(w enrol.Window) string {
	if w.Open() {
		return "the serial console shows a code; log in as setup with the key that you want to use, and give it."
	}
	return "press the gateway's button three times for a second or two and log in as setup within 3 minutes, with the key that you want to use; or put it into /userdata/ssh/authorized_keys on the serial console."
}

// publicKey tells whether a key would do. The library has the client prove it.
func (l *login) publicKey(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	l.tried = true
	switch m.User() {
	case userRoot:
		g, err := lookUp(l.s.o.Root, key, l.from, l.s.o.Noise)
		if err != nil {
			return nil, err
		}
		p := permissions(g)
		if g.noTouch {
			p.Extensions = map[string]string{"no-touch-required": ""}
		}
		p.ExtraData[fingerprint{}] = ssh.FingerprintSHA256(key)
		return p, nil
	case userSetup:
		if !enrol.Look(l.s.o.Root).Open() && enrol.Pressed(l.s.o.Root) == 0 {
			return nil, errRefused
		}
		return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{
			KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
				return l.enrol(key, ask)
			},
		}}
	}
	return nil, errRefused
}

// fingerprint is where the key's is in ExtraData.
type fingerprint struct{}

func permissions(g *grant) *ssh.Permissions {
	return &ssh.Permissions{ExtraData: map[any]any{grantKey{}: g}}
}

// mayEnrol has the client ask for the code of the serial console, or finds that
// the button was pressed.
func (l *login) mayEnrol(ask ssh.KeyboardInteractiveChallenge) error {
	if enrol.Pressed(l.s.o.Root) > 0 {
		if _, err := ask("", "", nil, nil); err != nil {
			return errRefused
		}
		return enrol.UsePress(l.s.o.Root)
	}
	answers, err := ask("", "The serial console of this gateway shows a code.", []string{"Code: "}, []bool{true})
	if err != nil || len(answers) != 1 {
		return errRefused
	}
	return enrol.Try(l.s.o.Root, answers[0])
}

// enrol lets key in for good, which the client has proved to have.
func (l *login) enrol(key ssh.PublicKey, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
	switch err := l.mayEnrol(ask); {
	case errors.Is(err, errRefused):
		return nil, err
	case err != nil:
		l.s.o.Log("setup from " + l.from.String() + ": " + err.Error())
		l.wait()
		return nil, &ssh.BannerError{Err: err, Message: "gwinit: " + err.Error() + ".\n"}
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " setup from " + l.from.String() + "\n"
	if err := enrol.Add(l.s.o.Root, line); err != nil {
		l.s.o.Log("setup from " + l.from.String() + ": the key cannot be kept: " + err.Error())
		return nil, &ssh.BannerError{Err: err, Message: "gwinit: the key cannot be kept: " + err.Error() + "\n"}
	}
	l.s.o.Log("setup from " + l.from.String() + ": may log in from now on: " + ssh.FingerprintSHA256(key))
	return permissions(&grant{setup: true}), nil
}

// wait is the delay of an address that fails again and again. Who is closed
// meanwhile is not kept by it: that would take somebody else's place.
func (l *login) wait() {
	t := time.NewTimer(l.s.o.delay(l.s.gate.fail(l.from)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.v.evicted:
	case <-l.ctx.Done():
	}
}

// password checks a password.
func (l *login) password(user string, pw stored, given string) (*ssh.Permissions, error) {
	l.tried = true
	if user == userRoot {
		ok, err := l.verify(pw.hash, given)
		switch {
		case err != nil:
			l.s.o.Noise("password of root: " + err.Error())
		case ok && given == knownPassword:
			l.s.o.Noise("login from " + l.from.String() + " by the password that everybody knows is refused; set another with passwd on the serial console")
			l.wait()
			return nil, &ssh.BannerError{Err: errRefused, Message: "gwinit: no login by password: " + refusedKnown + ".\n"}
		case ok:
			return permissions(&grant{}), nil
		}
	}
	l.wait()
	return nil, errRefused
}

// knownPassword is root's as today's firmware ships it.
const knownPassword = "root"

const refusedKnown = "root has the one that everybody knows; set another with passwd on the serial console, or use a key"

// stored is what is known of root's password.
type stored struct {
	hash    string
	refused string // why it lets nobody in, if there is one
}

func (p stored) usable() bool { return p.hash != "" && p.refused == "" }

// maxPasswd bounds passwd and shadow, in bytes.
const maxPasswd = 16 << 10

// password reads root's password. It is read for each connection: people
// change it with whatever they have.
func (s *Server) password() stored {
	field := func(name string) string {
		b, err := readSmall(filepath.Join(s.o.Root, name), maxPasswd)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.o.Noise("/" + name + ": " + err.Error())
			}
			return ""
		}
		return passwordField(b)
	}
	hash := field("userdata/etc/passwd")
	if hash == "x" {
		hash = field("userdata/etc/shadow")
	}
	switch {
	case hash == "" || strings.ContainsAny(hash[:1], "!*") || hash == "x":
		return stored{} // none
	case !crypt.Supported(hash):
		return stored{hash: hash, refused: "it is stored in a form that this gateway cannot check; set it anew with passwd on the serial console, or use a key"}
	case s.isKnown(hash):
		return stored{hash: hash, refused: refusedKnown}
	}
	return stored{hash: hash}
}

// passwordField is root's second field in a passwd or shadow file.
func passwordField(file []byte) string {
	for line := range strings.Lines(string(file)) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), userRoot+":"); ok {
			hash, _, _ := strings.Cut(rest, ":")
			return hash
		}
	}
	return ""
}

// isKnown tells whether hash is that of the known password, where that is
// found out in milliseconds; login.password does the rest.
func (s *Server) isKnown(hash string) bool {
	if !crypt.Cheap(hash) {
		return false
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if s.known.hash != hash {
		ok, err := crypt.Verify(hash, knownPassword)
		s.known.hash, s.known.is = hash, err == nil && ok
	}
	return s.known.is
}

// verify checks one password at a time: a check takes a good part of a second
// of the gateway's CPU, and none for who is closed already.
func (l *login) verify(hash, given string) (bool, error) {
	l.s.verifying.Lock()
	defer l.s.verifying.Unlock()
	select {
	case <-l.v.evicted:
		return false, nil
	default:
		return crypt.Verify(hash, given)
	}
}

// judged remembers what isKnown found.
type judged struct {
	mu   sync.Mutex // guards the rest
	hash string
	is   bool
}

// address is a connection's peer.
func address(c net.Conn) netip.Addr {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap()
}
