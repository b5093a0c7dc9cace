//go:build linux

package server

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/applet"
	"gwinit/internal/enrol"
)

// A key that is pasted on the console logs in, and ends the code.
func TestSetupOnTheConsole(t *testing.T) {
	b := newBox(t)
	b.beginSetup()
	u, other := user(t), user(t)
	paste := func(text string, args ...string) (string, error) {
		var out, errs bytes.Buffer
		err := Setup(b.root, applet.IO{In: strings.NewReader(text), Out: &out, Err: &errs}, args)
		return out.String(), err
	}
	for _, bad := range []string{"", "\n", "root:x:0", "ssh-ed25519 AAAA\n", `tunnel="1" ` + line(u), strings.Repeat("x", 1<<20)} {
		if out, err := paste(bad); err == nil {
			t.Errorf("%.40q: %q", bad, out)
		}
	}
	if _, err := os.Stat(filepath.Join(b.root, "userdata/ssh/authorized_keys")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is no key was kept (%v)", err)
	}
	var usage applet.UsageError
	if _, err := paste(line(u), "x"); !errors.As(err, &usage) {
		t.Errorf("an argument: %v", err)
	}
	if out, err := paste("  " + strings.TrimSpace(line(u)) + "\r\n"); err != nil || !strings.Contains(out, ssh.FingerprintSHA256(u.PublicKey())+" is let in from now on") {
		t.Fatalf("%q, %v", out, err)
	}
	if out, err := paste(line(u)); err != nil || !strings.Contains(out, "already") {
		t.Errorf("again: %q, %v", out, err)
	}
	if out, err := paste(strings.TrimSpace(line(other))); err != nil { // without an end
		t.Errorf("another: %q, %v", out, err)
	}
	for _, key := range []ssh.Signer{u, other} {
		if out, status := run(t, b.mustDial("root", ssh.PublicKeys(key)), "echo in"); out != "in\n" || status != 0 {
			t.Errorf("%q, %d", out, status)
		}
	}
	if enrol.Look(b.root).Open() {
		t.Error("the code is good still")
	}
}
