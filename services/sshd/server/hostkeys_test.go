//go:build linux

package server

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// dropbearkey makes a key of that type at path and returns the public one.
func dropbearkey(t testing.TB, kind, path string, args ...string) []byte {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("dropbearkey", append([]string{"-t", kind, "-f", path}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("dropbearkey: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 2 && (strings.HasPrefix(f[0], "ssh-") || strings.HasPrefix(f[0], "ecdsa-")) {
			blob, err := base64.StdEncoding.DecodeString(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return blob
		}
	}
	t.Fatalf("dropbearkey said no public key:\n%s", out)
	return nil
}

func TestDropbearKeys(t *testing.T) {
	for _, tt := range []struct {
		kind, size string
	}{{"ed25519", ""}, {"ecdsa", "256"}, {"rsa", "2048"}} {
		t.Run(tt.kind+tt.size, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			var args []string
			if tt.size != "" {
				args = []string{"-s", tt.size}
			}
			public := dropbearkey(t, tt.kind, path, args...)
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseDropbear(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.PublicKey().Marshal(), public) {
				t.Errorf("public key %x, dropbear's is %x", s.PublicKey().Marshal(), public)
			}
			sig, err := s.Sign(rand.Reader, []byte("text"))
			if err != nil || s.PublicKey().Verify([]byte("text"), sig) != nil {
				t.Errorf("signature: %v", err)
			}
			if tt.kind == "rsa" {
				m, ok := s.(ssh.MultiAlgorithmSigner)
				if !ok || strings.Join(m.Algorithms(), " ") != "rsa-sha2-512 rsa-sha2-256" {
					t.Fatalf("%T may sign with SHA-1", s)
				}
				if _, err := m.SignWithAlgorithm(rand.Reader, []byte("text"), ssh.KeyAlgoRSA); err == nil {
					t.Error("signs with SHA-1")
				}
			}
			for n := range file {
				if _, err := parseDropbear(file[:n]); err == nil {
					t.Fatalf("took the first %d of %d bytes", n, len(file))
				}
			}
			if _, err := parseDropbear(append(bytes.Clone(file), 0)); err == nil {
				t.Error("took a byte too many")
			}
			// The public half is of another key.
			changed := bytes.Clone(file)
			changed[len(changed)-1] ^= 1
			if s, err := parseDropbear(changed); err == nil && bytes.Equal(s.PublicKey().Marshal(), public) {
				t.Error("took two halves of different keys")
			}
		})
	}
}

// What this package writes is dropbear's, too.
func TestDropbearReadsOurs(t *testing.T) {
	root := t.TempDir()
	keys, err := hostKeys(root, rand.Reader, func(string) {})
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	path := filepath.Join(root, hostKeyDir, ed25519File)
	out, err := exec.Command("dropbearkey", "-y", "-f", path).CombinedOutput()
	if err != nil || !strings.Contains(string(out), ssh.FingerprintSHA256(keys[0].PublicKey())) {
		t.Errorf("%v: %s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A client that knows the gateway by dropbear's RSA key gets that, by SHA-2.
func TestRSAHostKey(t *testing.T) {
	b := newBox(t, func(o *Options) {
		dropbearkey(t, "rsa", filepath.Join(o.Root, hostKeyDir, "dropbear_rsa_host_key"), "-s", "2048")
	})
	c := newClient(t, b)
	if out, status := c.try("", "ssh", c.options("id_ed25519", "-o", "HostKeyAlgorithms=rsa-sha2-256", "root@"+c.host, "echo by RSA")...); status != 0 || !strings.HasSuffix(out, "by RSA\n") {
		t.Errorf("%d, %q", status, out)
	}
}

func TestHostKeys(t *testing.T) {
	types := func(keys []ssh.Signer) string {
		var names []string
		for _, k := range keys {
			names = append(names, k.PublicKey().Type())
		}
		return strings.Join(names, " ")
	}
	t.Run("made once", func(t *testing.T) {
		root := t.TempDir()
		var logged []string
		log := func(s string) { logged = append(logged, s) }
		a, err := hostKeys(root, rand.Reader, log)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hostKeys(root, nil, log) // without a source of randomness
		if err != nil || !bytes.Equal(a[0].PublicKey().Marshal(), b[0].PublicKey().Marshal()) {
			t.Errorf("another key, %v", err)
		}
		if len(logged) != 1 || logged[0] != "made the host key "+ssh.FingerprintSHA256(a[0].PublicKey()) {
			t.Errorf("logged %q", logged)
		}
	})
	t.Run("dropbear's", func(t *testing.T) {
		root := t.TempDir()
		ecdsa := dropbearkey(t, "ecdsa", filepath.Join(root, hostKeyDir, "dropbear_ecdsa_host_key"))
		ed := dropbearkey(t, "ed25519", filepath.Join(root, hostKeyDir, ed25519File))
		keys, err := hostKeys(root, nil, func(s string) { t.Error(s) })
		if err != nil || types(keys) != "ssh-ed25519 ecdsa-sha2-nistp256" {
			t.Fatalf("%s, %v", types(keys), err)
		}
		if !bytes.Equal(keys[0].PublicKey().Marshal(), ed) || !bytes.Equal(keys[1].PublicKey().Marshal(), ecdsa) {
			t.Error("not dropbear's keys")
		}
	})
	t.Run("a torn one", func(t *testing.T) {
		root := t.TempDir()
		path := filepath.Join(root, hostKeyDir, ed25519File)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("\x00\x00\x00\x0bssh-ed25519\x00\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
		var logged []string
		log := func(s string) { logged = append(logged, s) }
		keys, err := hostKeys(root, rand.Reader, log)
		if err != nil || len(keys) != 1 {
			t.Fatalf("%d, %v", len(keys), err)
		}
		all := strings.Join(logged, "\n")
		if !strings.Contains(all, "delete the file") || !strings.Contains(all, "another after the next boot") {
			t.Errorf("logged %q", all)
		}
		again, err := hostKeys(root, nil, log) // for this boot it is the same
		if err != nil || !bytes.Equal(again[0].PublicKey().Marshal(), keys[0].PublicKey().Marshal()) {
			t.Errorf("another key in the same boot: %v", err)
		}
		if file, _ := os.ReadFile(path); len(file) != 17 {
			t.Error("somebody's file was replaced")
		}
	})
	t.Run("an empty one", func(t *testing.T) {
		root := t.TempDir()
		path := filepath.Join(root, hostKeyDir, ed25519File)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if keys, err := hostKeys(root, rand.Reader, func(string) {}); err != nil || len(keys) != 1 {
			t.Fatalf("%d, %v", len(keys), err)
		}
		if file, _ := os.ReadFile(path); len(file) == 0 {
			t.Error("a power cut's leavings were kept")
		}
	})
	t.Run("nowhere to keep it", func(t *testing.T) {
		root := t.TempDir()
		for _, name := range []string{"userdata", "run"} {
			if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var logged []string
		keys, err := hostKeys(root, rand.Reader, func(s string) { logged = append(logged, s) })
		if err != nil || len(keys) != 1 || !strings.Contains(strings.Join(logged, "\n"), "another at the next session") {
			t.Errorf("%d, %v, %q", len(keys), err, logged)
		}
	})
}

func FuzzParseDropbear(f *testing.F) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(dropbearED25519(key))
	for _, kind := range []string{"ecdsa", "rsa"} {
		path := filepath.Join(f.TempDir(), kind)
		dropbearkey(f, kind, path)
		file, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > maxKeyFile {
			return
		}
		s, err := parseDropbear(file)
		if err != nil {
			return
		}
		sig, err := s.Sign(rand.Reader, []byte("text"))
		if err != nil {
			if _, ok := s.(*rsaSigner); ok { // looks at the whole key only now
				return
			}
			t.Fatalf("cannot sign: %v", err)
		}
		if err := s.PublicKey().Verify([]byte("text"), sig); err != nil {
			t.Fatalf("signs what it does not verify: %v", err)
		}
	})
}
