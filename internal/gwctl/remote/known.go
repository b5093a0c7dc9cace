package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// known is the user's known_hosts of OpenSSH, which new keys are added to.
type known struct {
	path   string
	accept bool // new ones without a question

	mu  sync.Mutex // guards what is added, and one question at a time
	add map[string]ssh.PublicKey
}

// hostKeys are what is known of a host.
type hostKeys struct {
	keys []knownhosts.KnownKey
	err  error
}

// forHost returns the keys of a host, under whichever of the gateway's ports
// they are listed: it has the same on all of them.
func (k *known) forHost(host string, port int) hostKeys {
	if k.path == "" {
		return hostKeys{}
	}
	check, err := knownhosts.New(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return hostKeys{}
	}
	if err != nil {
		return hostKeys{err: fmt.Errorf("known hosts: %w", err)}
	}
	var h hostKeys
	for _, p := range []int{port, sshPort, bridgePort} {
		var unknown *knownhosts.KeyError
		// A key that nobody has is answered with those that are listed.
		err := check(net.JoinHostPort(host, strconv.Itoa(p)), nowhere{}, noKey{})
		if errors.As(err, &unknown) {
			h.keys = append(h.keys, unknown.Want...)
		}
	}
	return h
}

// algorithms are those of the known keys first, so that a server with several
// keys shows one that is known. RSA is last: dropbear offers it without having
// such a key, and ends if that is taken.
func (h hostKeys) algorithms() []string {
	var all []string
	for _, k := range h.keys {
		for _, a := range algorithmsOf(k.Key.Type()) {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	for _, a := range []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512} {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512}
	}
	return []string{keyType}
}

// check lets a host's key pass if it is known, or if the user says so, and
// keeps it then.
func (k *known) check(ask asker, t target, port int, h hostKeys, key ssh.PublicKey) error {
	if h.err != nil {
		return h.err
	}
	print := ssh.FingerprintSHA256(key)
	host := knownhosts.Normalize(net.JoinHostPort(t.host, strconv.Itoa(port)))
	k.mu.Lock()
	defer k.mu.Unlock()
	if got, ok := k.add[t.host]; ok && equal(got, key) {
		return nil
	}
	for _, w := range h.keys {
		if equal(w.Key, key) {
			return nil
		}
	}
	if len(h.keys) > 0 {
		w := h.keys[0]
		return fmt.Errorf("the key of %s HAS CHANGED: it shows %s %s, and %s:%d has another. Either it was reset or replaced, or somebody is between. If you know which, remove that line and try again", host, key.Type(), print, w.Filename, w.Line)
	}
	if !k.accept {
		ok, err := ask.yes(fmt.Sprintf("%s is not known yet. It shows the key\n%s %s\n(gwctl logs sshd on its console shows it, too). Go on and keep it?", host, key.Type(), print))
		if err != nil {
			return fmt.Errorf("the key of %s is not known yet (%s %s): %w. With -accept-new it is kept without a question", host, key.Type(), print, err)
		}
		if !ok {
			return errors.New("the key of " + host + " was not accepted")
		}
	}
	if k.add == nil {
		k.add = map[string]ssh.PublicKey{}
	}
	k.add[t.host] = key
	if k.path == "" {
		return nil
	}
	if err := appendLine(k.path, knownhosts.Line([]string{host}, key)); err != nil {
		return fmt.Errorf("keep the key of %s: %w", host, err)
	}
	return nil
}

// appendLine adds a line to a file that may not end with one.
func appendLine(path, line string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	if err == nil {
		_, err = f.WriteString(line + "\n")
	}
	return errors.Join(err, f.Close())
}

func equal(a, b ssh.PublicKey) bool { return string(a.Marshal()) == string(b.Marshal()) }

// noKey is a key that is in no file.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// nowhere is an address that is in no file.
type nowhere struct{}

func (nowhere) Network() string { return "tcp" }
func (nowhere) String() string  { return "0.0.0.0:0" }

// identities are the key files that OpenSSH would try.
func identities() []string {
	dir := home()
	if dir == "" {
		return nil
	}
	var all []string
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		if path := filepath.Join(dir, ".ssh", name); isFile(path) {
			all = append(all, path)
		}
	}
	return all
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// short is a path as people write it.
func short(path string) string {
	if dir := home(); dir != "" && strings.HasPrefix(path, dir+string(os.PathSeparator)) {
		return "~" + path[len(dir):]
	}
	return path
}
