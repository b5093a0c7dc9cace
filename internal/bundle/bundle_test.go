package bundle_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/crypto/blake2b"

	"gwinit/internal/bundle"
	"gwinit/internal/bundle/bundletest"
	"gwinit/internal/minisign"
)

var binary = bytes.Repeat([]byte("not a program\n"), 9000)

func manifest() *bundle.Manifest {
	return &bundle.Manifest{Version: "1.2-g0", Boards: []string{"lidl", "sengled-e39-g8c"}, Kernel: "5.10", Size: int64(len(binary)), SHA256: sha256.Sum256(binary)}
}

func signed(t testing.TB, m *bundle.Manifest) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := bundle.Write(&b, m, bytes.NewReader(binary)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read is all that a reader does.
func read(r io.Reader, keys ...minisign.PublicKey) (*bundle.Reader, []byte, error) {
	hash, err := blake2b.New512(nil)
	if err != nil {
		return nil, nil, err
	}
	b, err := bundle.Open(r, hash)
	if err != nil {
		return nil, nil, err
	}
	var got bytes.Buffer
	err = b.Copy(&got, keys, sha256.New())
	return b, got.Bytes(), err
}

func TestReadWhatWasWritten(t *testing.T) {
	t.Parallel()
	s := bundletest.New(t)
	file := s.Sign(t, signed(t, manifest()))
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(file), "a byte at a time": iotest.OneByteReader(bytes.NewReader(file)), "data with its end": iotest.DataErrReader(bytes.NewReader(file))} {
		b, got, err := read(r, s.Key)
		if err != nil || !bytes.Equal(got, binary) {
			t.Fatalf("%s: %v, %d bytes", name, err, len(got))
		}
		m := b.Manifest
		if m.Version != "1.2-g0" || strings.Join(m.Boards, "+") != "lidl+sengled-e39-g8c" || m.Kernel != "5.10" || m.Size != 126000 || b.Comment() != "1.2" {
			t.Errorf("%s: %+v, %q", name, m, b.Comment())
		}
	}
	if _, _, err := read(bytes.NewReader(file), bundletest.New(t).Key); !errors.Is(err, minisign.ErrKey) {
		t.Errorf("another's key: %v", err)
	}
}

// No bit of a bundle but those of the untrusted comment may be another, and no
// byte may be missing.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	s := bundletest.New(t)
	file := s.Sign(t, signed(t, manifest()))
	comment := bytes.IndexByte(file, '\n')
	for i := 0; i < len(file); i += 1 + i/2000*97 {
		b := bytes.Clone(file)
		b[i] ^= 1 << (i % 8)
		if _, _, err := read(bytes.NewReader(b), s.Key); err == nil && i >= comment {
			t.Fatalf("byte %d changed, and the bundle is good", i)
		}
		if _, _, err := read(bytes.NewReader(file[:i]), s.Key); !errors.Is(err, bundle.ErrShort) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if _, _, err := read(bytes.NewReader(append(bytes.Clone(file), 0)), s.Key); !errors.Is(err, bundle.ErrFormat) {
		t.Errorf("a byte behind the end: %v", err)
	}
}

// A manifest that says what is not so is refused although it is signed.
func TestManifestRefused(t *testing.T) {
	t.Parallel()
	s := bundletest.New(t)
	good := string(signed(t, manifest()))
	for name, change := range map[string]func(string) string{
		"later format":     func(x string) string { return strings.Replace(x, "update 1", "update 2", 1) },
		"no version":       func(x string) string { return strings.Replace(x, "VERSION=1.2-g0\n", "", 1) },
		"path for version": func(x string) string { return strings.Replace(x, "1.2-g0", "../../etc", 1) },
		"no boards":        func(x string) string { return strings.Replace(x, "lidl sengled-e39-g8c", "", 1) },
		"no size":          func(x string) string { return strings.Replace(x, "SIZE=126000\n", "", 1) },
		"size negative":    func(x string) string { return strings.Replace(x, "SIZE=1", "SIZE=-1", 1) },
		"size huge":        func(x string) string { return strings.Replace(x, "SIZE=1", "SIZE=99999999991", 1) },
		"sum short":        func(x string) string { return strings.Replace(x, "SHA256=", "SHA256=00\nX=", 1) },
		"a name twice":     func(x string) string { return strings.Replace(x, "KERNEL=", "KERNEL=1\nKERNEL=", 1) },
		"no text":          func(x string) string { return strings.Replace(x, "KERNEL=", "KERNEL=\x1b[2J", 1) },
		"no line":          func(x string) string { return strings.Replace(x, "KERNEL=", "KERNEL ", 1) },
		"no end":           func(x string) string { return strings.Replace(x, "\n\n", "\n"+strings.Repeat("X=\n", 3000), 1) },
		"another sum": func(x string) string {
			return strings.Replace(x, "SHA256=", "SHA256="+strings.Repeat("0", 64)+"\nX=", 1)
		},
	} {
		if _, _, err := read(bytes.NewReader(s.Sign(t, []byte(change(good)))), s.Key); !errors.Is(err, bundle.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What a later program adds is no reason.
	if _, _, err := read(bytes.NewReader(s.Sign(t, []byte(strings.Replace(good, "KERNEL=", "LATER=x\nKERNEL=", 1)))), s.Key); err != nil {
		t.Error(err)
	}
	m := manifest()
	m.Version = "1\n2"
	if err := bundle.Write(io.Discard, m, bytes.NewReader(binary)); !errors.Is(err, bundle.ErrFormat) {
		t.Errorf("a version of two lines is written: %v", err)
	}
	if err := bundle.Write(io.Discard, manifest(), strings.NewReader("short")); err == nil {
		t.Error("a binary of another size is written")
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		boards, needs, board, kernel string
		ok                           bool
	}{
		{"any", "", "lidl", "", true},
		{"lidl x", "5.10", "lidl", "5.10.246", true},
		{"lidl x", "5.10", "x", "6.1.0-rc3", true},
		{"lidl x", "5.10", "lidl", "5.9.99", false},
		{"lidl x", "5.10", "lidl", "4.19", false},
		{"lidl x", "6", "lidl", "5.10", false},
		{"lidl x", "", "y", "6.1", false},
		{"lidl x", "5.4", "lidl", "", false},
	} {
		m := bundle.Manifest{Boards: strings.Fields(test.boards), Kernel: test.needs}
		if err := m.Fits(test.board, test.kernel); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// A writer that fails, as a full flash does, is told as it is.
func TestCopyTellsTheWritersError(t *testing.T) {
	t.Parallel()
	s := bundletest.New(t)
	hash, err := blake2b.New512(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(bytes.NewReader(s.Sign(t, signed(t, manifest()))), hash)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left")
	if err := b.Copy(failing{full}, []minisign.PublicKey{s.Key}, sha256.New()); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzOpen(f *testing.F) {
	f.Add(bundletest.New(f).Sign(f, signed(f, manifest()))[:1000])
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, _, err := read(bytes.NewReader(file)); err == nil {
			t.Error("a bundle is good without a key")
		}
	})
}
