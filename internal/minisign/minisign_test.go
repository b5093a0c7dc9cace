package minisign_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/blake2b"

	"gwinit/internal/minisign"
)

// A key and a signature that minisign 0.11 made:
//
//	minisign -G -W -p key.pub -s key; printf 'hello\n' >hello; minisign -SHm hello -s key -t 'version 1.2'
const (
	key = `RWRHfuAUYmI6XWZwFvc0OeNwSzVAH79aafamTCv0lSc5Z/rhC9/iPLq+`
	sig = `untrusted comment: signature from minisign secret key
RURHfuAUYmI6XWl26LJD6oK6OW9qfYcbpqRay/zNY976seYLBnV2j3Vd9mxPO0XegB1UvXgPSqT5SZZkF0IAD91scslV8E+RGgQ=
trusted comment: version 1.2
OZ/fkZtMMbnnfDfdWZlVaTJRtpszDapdl6JZtepM3MhaeSTCUV6FxKaur42xOMasFpU09wfZC+Zotu5biWC6Aw==
`
)

func parsed(t *testing.T, key, sig string) (minisign.PublicKey, minisign.Signature) {
	t.Helper()
	k, err := minisign.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := minisign.ParseSignature([]byte(sig))
	if err != nil {
		t.Fatal(err)
	}
	return k, s
}

func TestVerify(t *testing.T) {
	t.Parallel()
	k, s := parsed(t, key, sig)
	hash := blake2b.Sum512([]byte("hello\n"))
	if err := s.Verify([]minisign.PublicKey{k}, hash); err != nil || s.Comment != "version 1.2" {
		t.Fatalf("%v, comment %q", err, s.Comment)
	}
	other := s
	other.Comment = "version 1.3"
	if err := other.Verify([]minisign.PublicKey{k}, hash); !errors.Is(err, minisign.ErrWrong) {
		t.Errorf("another comment: %v", err)
	}
	if err := s.Verify([]minisign.PublicKey{k}, blake2b.Sum512([]byte("hello"))); !errors.Is(err, minisign.ErrWrong) {
		t.Errorf("other contents: %v", err)
	}
	if err := s.Verify(nil, hash); !errors.Is(err, minisign.ErrKey) {
		t.Errorf("no key: %v", err)
	}
	// The same ID does not make the same key.
	b := []byte(key)
	b[len(b)-10] ^= 'A' ^ 'B'
	if k, err := minisign.ParseKey(string(b)); err != nil {
		t.Error(err)
	} else if err := s.Verify([]minisign.PublicKey{k}, hash); !errors.Is(err, minisign.ErrWrong) {
		t.Errorf("another key of that ID: %v", err)
	}
}

// What minisign signs is right here, and what is changed of it is not.
func TestRealMinisign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("minisign", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("minisign %s: %v\n%s", args, err, out)
		}
	}
	run("-G", "-W", "-p", "key.pub", "-s", "key")
	contents := bytes.Repeat([]byte("contents "), 100_000)
	if err := os.WriteFile(filepath.Join(dir, "file"), contents, 0o600); err != nil {
		t.Fatal(err)
	}
	run("-S", "-H", "-m", "file", "-s", "key", "-t", "board any, of Δ")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	k, s := parsed(t, read("key.pub"), read("file.minisig"))
	if err := s.Verify([]minisign.PublicKey{{}, k}, blake2b.Sum512(contents)); err != nil || s.Comment != "board any, of Δ" {
		t.Errorf("%v, comment %q", err, s.Comment)
	}
	run("-S", "-l", "-m", "file", "-s", "key")
	if _, err := minisign.ParseSignature([]byte(read("file.minisig"))); !errors.Is(err, minisign.ErrFormat) || !strings.Contains(err.Error(), "-SH") {
		t.Errorf("a signature that is not prehashed: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(sig, "\n")
	for name, text := range map[string]string{
		"empty":               "",
		"a line short":        strings.Join(lines[:3], ""),
		"a line more":         sig + "more\n",
		"no comment":          strings.Replace(sig, "untrusted", "entrusted", 1),
		"no trusted comment":  strings.Replace(sig, "\ntrusted", "\ndistrusted", 1),
		"not base64":          lines[0] + "!" + lines[1][1:] + lines[2] + lines[3],
		"signature short":     lines[0] + lines[1][4:] + lines[2] + lines[3],
		"global short":        lines[0] + lines[1] + lines[2] + lines[3][4:],
		"very long":           sig[:len(sig)-1] + strings.Repeat("x", minisign.MaxSignature) + "\n",
		"another algorithm":   lines[0] + "XX" + lines[1][2:] + lines[2] + lines[3],
		"bits behind the end": lines[0] + lines[1] + lines[2] + strings.Replace(lines[3], "==\n", "=\n", 1),
	} {
		if _, err := minisign.ParseSignature([]byte(text)); !errors.Is(err, minisign.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "RW", key + "A", key[4:], "XX" + key[2:], "a comment\n" + key} {
		if _, err := minisign.ParseKey(text); !errors.Is(err, minisign.ErrFormat) {
			t.Errorf("key %q: %v", text, err)
		}
	}
	// What Windows makes of the ends of lines.
	if _, err := minisign.ParseSignature([]byte(strings.ReplaceAll(sig, "\n", "\r\n"))); err != nil {
		t.Error(err)
	}
}

func FuzzParseSignature(f *testing.F) {
	f.Add([]byte(sig), key)
	f.Fuzz(func(t *testing.T, text []byte, keyText string) {
		s, err := minisign.ParseSignature(text)
		k, kerr := minisign.ParseKey(keyText)
		if err != nil || kerr != nil {
			return
		}
		if s.Verify([]minisign.PublicKey{k}, [minisign.HashSize]byte{}) == nil {
			t.Errorf("signs what it was not made for: %q", text)
		}
	})
}
