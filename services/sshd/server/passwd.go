//go:build linux

package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"gwinit/internal/applet"
	"gwinit/internal/atomicfile"
	"gwinit/internal/crypt"
)

// passwdFile is where root's password is, and shadowFile where it is instead
// if passwd says so.
const (
	passwdFile = "/userdata/etc/passwd"
	shadowFile = "/userdata/etc/shadow"
)

// minPassword is the shortest password that may be set, in bytes.
const minPassword = 8

// Passwd returns the applet that sets root's password.
func Passwd() applet.Applet {
	return applet.Applet{
		Name: "passwd", Group: applet.Manage, Summary: "set root's password for SSH, or lock it",
		Usage: `passwd [-l]

Asks for a new password (at least 8 characters; twice on a terminal, one line of
standard input otherwise) and stores it. A key is safer: see docs/manage.md.

  -l  lock it: no login by password any more`,
		Run: func(_ context.Context, std applet.IO, args []string) error {
			lock := len(args) == 1 && args[0] == "-l"
			if len(args) > 0 && !lock {
				return applet.Usagef("passwd takes -l or nothing")
			}
			hash := "!"
			if !lock {
				password, err := askPassword(std)
				if err != nil {
					return err
				}
				if hash, err = makeHash(password); err != nil {
					return err
				}
			}
			if err := setPassword(passwdFile, shadowFile, hash); err != nil {
				return err
			}
			fmt.Fprintln(std.Out, map[bool]string{true: "The password is locked.", false: "The password is set."}[lock])
			return nil
		},
	}
}

// askPassword asks twice on a terminal, and reads a line of anything else.
func askPassword(std applet.IO) (string, error) {
	f, ok := std.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		line, err := bufio.NewReader(std.In).ReadString('\n')
		if err != nil && line == "" {
			return "", fmt.Errorf("read the new password: %w", err)
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	var got [2]string
	for i, prompt := range []string{"New password: ", "Again: "} {
		fmt.Fprint(std.Err, prompt)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(std.Err)
		if err != nil {
			return "", fmt.Errorf("read the new password: %w", err)
		}
		got[i] = string(b)
	}
	if got[0] != got[1] {
		return "", errors.New("the two are different, and nothing was changed")
	}
	return got[0], nil
}

func makeHash(password string) (string, error) {
	if len(password) < minPassword {
		return "", fmt.Errorf("it has fewer than %d characters, and nothing was changed", minPassword)
	}
	var random [12]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("make a salt: %w", err)
	}
	return crypt.SHA512(password, crypt.Salt(random))
}

// setPassword puts hash into root's line of passwd, or of shadow where passwd
// leads there.
func setPassword(passwd, shadow, hash string) error {
	path := passwd
	if b, err := os.ReadFile(passwd); err == nil && passwordField(b) == "x" {
		path = shadow
	}
	err := atomicfile.Update(path, 0o600, func(old []byte, _ bool) ([]byte, error) {
		return withPassword(old, hash, path == shadow), nil
	})
	if err != nil {
		return fmt.Errorf("%w; is /userdata mounted? gwctl status says so", err)
	}
	return nil
}

// withPassword is a passwd or shadow file with another hash for root, and a
// line for it if there is none.
func withPassword(file []byte, hash string, shadow bool) []byte {
	var b strings.Builder
	found := false
	for line := range strings.Lines(string(file)) {
		rest, ok := strings.CutPrefix(line, userRoot+":")
		_, behind, more := strings.Cut(rest, ":")
		if ok && more && !found {
			line, found = userRoot+":"+hash+":"+behind, true
		}
		b.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	if !found {
		rest := ":0:0:root:/root:/bin/sh\n"
		if shadow {
			rest = ":::::::\n"
		}
		b.WriteString(userRoot + ":" + hash + rest)
	}
	return []byte(b.String())
}
