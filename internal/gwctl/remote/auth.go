package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// asker is who may be asked something: the person at the terminal, or nobody.
type asker interface {
	there() bool // somebody
	yes(question string) (bool, error)
	line(prompt string) (string, error)
	secret(prompt string) (string, error)
	say(text string)
}

// errNobody is what a program gets that runs gwctl.
var errNobody = errors.New("nobody can be asked, since this is no terminal")

// offers is what a login tried, for a message.
type offers []string

func (o offers) String() string {
	if len(o) == 0 {
		return "no key is in the agent or in ~/.ssh, and no password was given"
	}
	return strings.Join(o, ", ")
}

// methods are the ways to log in: the agent's keys, key files, a password. They
// add to tried. done must be called when the login is over.
func (r *runner) methods(ctx context.Context, t target, watch *watchdog, tried *offers) (all []ssh.AuthMethod, done func()) {
	offer := func(what string) { *tried = append(*tried, what) }
	var a io.ReadWriteCloser
	done = func() {
		if a != nil {
			a.Close()
		}
	}
	keys := func() (signers []ssh.Signer, _ error) {
		if a == nil && r.identity == "" {
			if a = openAgent(ctx); a != nil {
				got, err := agent.NewClient(a).Signers()
				if err != nil {
					offer("the agent does not answer: " + err.Error())
				}
				for _, s := range got {
					offer("the agent's " + ssh.FingerprintSHA256(s.PublicKey()))
					signers = append(signers, s)
				}
			}
		}
		files := identities()
		if r.identity != "" {
			files = []string{r.identity}
		}
		for _, path := range files {
			s, err := r.key(path, watch)
			if err != nil {
				offer(short(path) + ": " + err.Error())
				continue
			}
			offer(short(path))
			signers = append(signers, s)
		}
		return signers, nil
	}
	all = append(all, ssh.PublicKeysCallback(keys))
	if !r.ask.there() {
		return all, done
	}
	if t.user != setupUser {
		password := func() (string, error) {
			watch.pause()
			defer watch.resume()
			p, err := r.ask.secret(t.user + "@" + t.host + "'s password: ")
			if err == nil {
				offer("that password")
			}
			return p, err
		}
		all = append(all, ssh.RetryableAuthMethod(ssh.PasswordCallback(password), 3))
	}
	all = append(all, ssh.KeyboardInteractive(func(_, instruction string, questions []string, echos []bool) ([]string, error) {
		watch.pause()
		defer watch.resume()
		if instruction != "" {
			r.ask.say(instruction + "\n")
		}
		answers := make([]string, len(questions))
		for i, q := range questions {
			get := r.ask.secret
			if echos[i] {
				get = r.ask.line
			}
			var err error
			if answers[i], err = get(plain(q)); err != nil {
				return nil, err
			}
		}
		return answers, nil
	}))
	return all, done
}

// key reads a private key, and asks for its passphrase if it has one. It is
// kept for the next gateway.
func (r *runner) key(path string, watch *watchdog) (ssh.Signer, error) {
	r.keyMu.Lock()
	defer r.keyMu.Unlock()
	if s, ok := r.keys[path]; ok {
		return s.signer, s.err
	}
	s, err := readKey(path, func() (string, error) {
		if watch != nil {
			watch.pause()
			defer watch.resume()
		}
		return r.ask.secret("passphrase of " + short(path) + ": ")
	})
	if r.keys == nil {
		r.keys = map[string]readOnce{}
	}
	r.keys[path] = readOnce{s, err}
	return s, err
}

// readOnce is what came of a key file.
type readOnce struct {
	signer ssh.Signer
	err    error
}

func readKey(path string, passphrase func() (string, error)) (ssh.Signer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := ssh.ParsePrivateKey(b)
	var locked *ssh.PassphraseMissingError
	if !errors.As(err, &locked) {
		if err != nil {
			return nil, fmt.Errorf("%s is no private key that can be used here: %w", path, err)
		}
		return s, nil
	}
	p, err := passphrase()
	if err != nil {
		return nil, fmt.Errorf("it has a passphrase, and %w; ssh-add puts it into the agent", err)
	}
	if s, err = ssh.ParsePrivateKeyWithPassphrase(b, []byte(p)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// plain leaves out of a peer's text what could steer a terminal.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return -1
		}
		return c
	}, s)
}
