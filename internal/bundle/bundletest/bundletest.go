// Package bundletest makes signed updates for tests, by the program minisign.
package bundletest

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/bundle"
	"gwinit/internal/minisign"
)

// Signer signs with a key of its own.
type Signer struct {
	Key    minisign.PublicKey
	Public string // the line of the public key

	dir string
}

// New makes a key.
func New(t testing.TB) *Signer {
	t.Helper()
	s := &Signer{dir: t.TempDir()}
	s.run(t, "-G", "-W", "-p", "key.pub", "-s", "key")
	text, err := os.ReadFile(filepath.Join(s.dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Key, err = minisign.ParseKey(string(text)); err != nil {
		t.Fatal(err)
	}
	_, s.Public, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	return s
}

func (s *Signer) run(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.Command("minisign", args...)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("minisign %s: %v\n%s", args, err, out)
	}
}

// Sign puts a signature in front of what is signed.
func (s *Signer) Sign(t testing.TB, signed []byte) []byte {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "signed"), signed, 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t, "-S", "-H", "-m", "signed", "-s", "key", "-t", "1.2")
	sig, err := os.ReadFile(filepath.Join(s.dir, "signed.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	return append(sig, signed...)
}

// Bundle makes a signed update; it fills size and hash of the manifest in.
func (s *Signer) Bundle(t testing.TB, m bundle.Manifest, binary []byte) []byte {
	t.Helper()
	m.Size, m.SHA256 = int64(len(binary)), sha256.Sum256(binary)
	var b bytes.Buffer
	if err := bundle.Write(&b, &m, bytes.NewReader(binary)); err != nil {
		t.Fatal(err)
	}
	return s.Sign(t, b.Bytes())
}
