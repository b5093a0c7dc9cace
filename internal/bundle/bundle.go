// Package bundle reads and writes updates: one file that has the signature, a
// manifest, and the binary that is the userland. It is made to be streamed: who
// reads it hashes what goes by and has the verdict behind the last byte.
//
//	the four lines of a minisign signature (package minisign) of all that follows
//	"gateway-update 1\n"
//	lines NAME=value, in ASCII: see Manifest
//	an empty line
//	the binary, size bytes, and nothing behind it
//
// So `tail -n +5` of a bundle is what minisign signed, `head -n 4` its .minisig.
package bundle

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"

	"gwinit/internal/minisign"
)

// magic is the first line that is signed. The number is the format's.
const magic = "gateway-update 1"

// MaxSize bounds a binary, in bytes: two of them, compressed, and JFFS2's reserve
// must fit 12 MiB.
const MaxSize = 16 << 20

// maxManifest bounds a manifest, in bytes.
const maxManifest = 4 << 10

// Manifest says what a bundle holds.
type Manifest struct {
	Version string   // VERSION, as in /etc/gw-release; no white space
	Boards  []string // BOARDS, their IDs as in api.Board.ID, or one "any"; separated by white space
	Kernel  string   // KERNEL, the oldest kernel it runs on, "5.10"; "" is any
	Size    int64    // SIZE of the binary in bytes
	SHA256  [32]byte // SHA256 of the binary
}

// Errors of a bundle, with what to do. Those of package minisign come as well.
var (
	// ErrFormat: it is no bundle, or one of a later format.
	ErrFormat = errors.New("not an update for this firmware")
	// ErrShort: it ends too early.
	ErrShort = errors.New("the update is not whole: fetch it again")
)

// Fits tells whether a board and a kernel ("6.1.94", as uname has it) are what it
// is for; the error says which is not.
func (m *Manifest) Fits(board, kernel string) error {
	if !slices.Contains(m.Boards, "any") && !slices.Contains(m.Boards, board) {
		return fmt.Errorf("the update is for %s, and this is %s", strings.Join(m.Boards, ", "), board)
	}
	if older(kernel, m.Kernel) {
		return fmt.Errorf("the update needs Linux %s, and this is %s: flash a newer kernel first", m.Kernel, kernel)
	}
	return nil
}

// older tells whether kernel a is before b, by their first two numbers.
func older(a, b string) bool {
	x, y := numbers(a), numbers(b)
	return slices.Compare(x[:], y[:]) < 0
}

func numbers(version string) (n [2]int) {
	for i, part := range strings.SplitN(version, ".", 3) {
		if i < len(n) {
			digits := strings.IndexFunc(part+"x", func(r rune) bool { return r < '0' || r > '9' })
			n[i], _ = strconv.Atoi(part[:digits]) // none is 0
		}
	}
	return n
}

// text is the manifest as it is written.
func (m *Manifest) text() string {
	return fmt.Sprintf("%s\nVERSION=%s\nBOARDS=%s\nKERNEL=%s\nSIZE=%d\nSHA256=%x\n\n",
		magic, m.Version, strings.Join(m.Boards, " "), m.Kernel, m.Size, m.SHA256)
}

// Write writes what is signed: the manifest, and the binary. The signature goes in
// front of it.
func Write(w io.Writer, m *Manifest, binary io.Reader) error {
	if _, err := parse(strings.Split(strings.TrimSuffix(m.text(), "\n\n"), "\n")); err != nil {
		return err
	}
	if _, err := io.WriteString(w, m.text()); err != nil {
		return err
	}
	n, err := io.Copy(w, binary)
	if err == nil && n != m.Size {
		err = fmt.Errorf("the binary has %d bytes and not the manifest's %d", n, m.Size)
	}
	return err
}

// parse reads a manifest's lines, without the empty one. A name it does not know
// is for a later program, and skipped.
func parse(lines []string) (*Manifest, error) {
	refuse := func(format string, args ...any) (*Manifest, error) {
		return nil, fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
	}
	if len(lines) == 0 || lines[0] != magic {
		return refuse("it does not begin with %q", magic)
	}
	var m Manifest
	seen := map[string]bool{}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, "=")
		if !ok || seen[name] {
			return refuse("line %q", line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			return refuse("line %q is not plain text", line)
		}
		seen[name] = true
		switch name {
		case "VERSION":
			m.Version = value
		case "BOARDS":
			m.Boards = strings.Fields(value)
		case "KERNEL":
			m.Kernel = value
		case "SIZE":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n <= 0 || n > MaxSize {
				return refuse("a binary of %q bytes, want 1 to %d", value, MaxSize)
			}
			m.Size = n
		case "SHA256":
			if b, err := hex.DecodeString(value); err != nil || copy(m.SHA256[:], b) != len(m.SHA256) || len(b) != len(m.SHA256) {
				return refuse("SHA256=%s", value)
			}
		}
	}
	switch {
	case m.Version == "" || strings.ContainsAny(m.Version, " /"):
		return refuse("VERSION=%s", m.Version)
	case len(m.Boards) == 0:
		return refuse("no BOARDS")
	case m.Size == 0 || !seen["SHA256"]:
		return refuse("no SIZE or no SHA256")
	}
	return &m, nil
}

// Reader reads a bundle from front to end.
type Reader struct {
	// Manifest is not to be believed before Copy has ended without error. It may
	// well be used to refuse: what it asks for would be refused then.
	Manifest *Manifest

	in        *bufio.Reader
	signature minisign.Signature
	signed    hash.Hash
}

// Open reads the signature and the manifest. signed is a new BLAKE2b-512.
func Open(r io.Reader, signed hash.Hash) (*Reader, error) {
	b := &Reader{in: bufio.NewReaderSize(r, maxManifest), signed: signed}
	head, err := b.lines(4, minisign.MaxSignature)
	if err != nil {
		return nil, err
	}
	if b.signature, err = minisign.ParseSignature(head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	text, err := b.manifest()
	if err != nil {
		return nil, err
	}
	b.signed.Write(text) // a hash takes everything
	b.Manifest, err = parse(strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n"))
	return b, err
}

// lines reads n lines of so many bytes at most.
func (b *Reader) lines(n, most int) ([]byte, error) {
	var all []byte
	for range n {
		line, err := b.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull), err == nil && len(all)+len(line) > most:
			return nil, fmt.Errorf("%w: no lines of text in front", ErrFormat)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w (it has %d bytes)", ErrShort, len(all)+len(line))
		case err != nil:
			return nil, err
		}
		all = append(all, line...)
	}
	return all, nil
}

// manifest reads up to the empty line, which is in what it returns.
func (b *Reader) manifest() ([]byte, error) {
	var text []byte
	for !bytes.HasSuffix(text, []byte("\n\n")) {
		line, err := b.lines(1, maxManifest-len(text))
		if err != nil {
			return nil, err
		}
		if text = append(text, line...); string(text) != magic+"\n" && !bytes.HasPrefix(text, []byte(magic+"\n")) {
			return nil, fmt.Errorf("%w: it does not begin with %q", ErrFormat, magic)
		}
	}
	return text, nil
}

// Copy writes the binary to w and tells whether one of the keys signed the bundle
// and the binary is the manifest's: only then is the error nil. binary is a new
// SHA-256. What w got is for nothing if there is an error.
func (b *Reader) Copy(w io.Writer, keys []minisign.PublicKey, binary hash.Hash) error {
	n, err := io.CopyN(io.MultiWriter(w, b.signed, binary), b.in, b.Manifest.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%d bytes of the binary are missing)", ErrShort, b.Manifest.Size-n)
	}
	if err != nil {
		return err
	}
	switch _, err := b.in.ReadByte(); {
	case err == nil:
		return fmt.Errorf("%w: something is behind its end", ErrFormat)
	case !errors.Is(err, io.EOF):
		return err
	}
	var sum [minisign.HashSize]byte
	b.signed.Sum(sum[:0])
	if err := b.signature.Verify(keys, sum); err != nil {
		return err
	}
	if !bytes.Equal(binary.Sum(nil), b.Manifest.SHA256[:]) {
		return fmt.Errorf("%w: the binary is not the manifest's: it was made wrong", ErrFormat)
	}
	return nil
}

// Comment is the signature's trusted comment, to be believed as the manifest is.
func (b *Reader) Comment() string { return b.signature.Comment }
