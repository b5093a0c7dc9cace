//go:build linux

package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/applet"
	"gwinit/internal/enrol"
)

// SetupUsage is the help of Setup.
const SetupUsage = `usage: gwctl setup
let a key in by SSH, for good

Asks for the line of a .pub file (ssh-keygen -t ed25519 makes one; ~/.ssh/id_ed25519.pub),
or takes it from standard input, and adds it to /userdata/ssh/authorized_keys. From
another computer: gwctl -H GATEWAY setup, with the code that the serial console shows.
`

// maxKeyLine bounds a line of a .pub file, in bytes.
const maxKeyLine = 16 << 10

// Setup adds a key that is pasted to those of the gateway below root ("" on the box).
func Setup(root string, std applet.IO, args []string) error {
	if len(args) > 0 {
		return applet.Usagef("setup takes no arguments")
	}
	fmt.Fprintln(std.Err, "Paste the line of your .pub file (ssh-ed25519 AAAA... you@computer), and press Enter:")
	line, err := bufio.NewReader(io.LimitReader(std.In, maxKeyLine)).ReadString('\n')
	if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
		return fmt.Errorf("read a key: %w", err)
	}
	line = strings.TrimSpace(line)
	k, err := parseAuthorized([]byte(line))
	if err != nil {
		return err
	}
	fingerprint := ssh.FingerprintSHA256(k.key)
	old, err := readSmall(filepath.Join("/", root, keyFiles[0]), maxKeysFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("/%s: %w", keyFiles[0], err)
	}
	for _, there := range lines(old) {
		if string(there) == line {
			_, err := fmt.Fprintln(std.Out, fingerprint+" is let in already.")
			return err
		}
	}
	if err := enrol.Add(filepath.Join("/", root), line+"\n"); err != nil {
		return fmt.Errorf("the key cannot be kept: %w; what became of /userdata is in gwctl status", err)
	}
	_, err = fmt.Fprintln(std.Out, fingerprint+" is let in from now on, as the user root.")
	return err
}
