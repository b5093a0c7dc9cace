// Package symbols reads the symbol file that our linker writes beside a binary
// without files and lines (-ldflags=-symfile=FILE), and says which function,
// file and line a pc is.
//
// The format is described where it is written, in symfile.go of
// toolchain/rlx/edits/_new/cmd/link/internal/ld. The package reads no ELF file
// and no traces of programs that have their lines. It is for workstations: the
// gateway's binary does not have it.
package symbols

import (
	"bufio"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

const (
	// magic and the build ID with a newline are a file's first line.
	magic    = "gwsym 1 "
	idLength = 20
	// maxSize bounds what a file may unpack to, in bytes. The gateway's has 2 MiB.
	maxSize = 256 << 20
)

// ErrFormat is that of a file that is not a symbol file, or is damaged.
var ErrFormat = errors.New("not a symbol file")

// Table is what a symbol file tells.
type Table struct {
	id      string
	strings []string
	quantum uint64
	funcs   []function // by entry
}

// function is one with code of its own.
type function struct {
	entry, size uint64
	name        uint32 // index of Table.strings
	startLine   uint32
	calls       []call // that were inlined in it
	rows        []row  // by offset
}

// call is an inlined one.
type call struct {
	name uint32 // index of Table.strings
	at   uint64 // offset of the instruction whose position is the call's
}

// row is what is in force from an offset on.
type row struct {
	offset uint64
	file   int32 // 1 + index of Table.strings; 0 if not known
	line   int32
	inl    int32 // 1 + index of function.calls; 0 if none
}

// Frame is a call at a pc.
type Frame struct {
	Func string // with package path
	File string // empty if not known
	Line int    // 0 if not known
	// Inlined is that of a function whose code is part of its caller's, which
	// is the next frame.
	Inlined bool
	// Offset is the pc's from the entry of the function that has the code.
	Offset uint64
}

// Position is "FILE:LINE", or "?" if it is not known.
func (f Frame) Position() string {
	if f.File == "" {
		return "?"
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// ReadID returns the build ID of a symbol file from its first line. The error
// is ErrFormat if it has none.
func ReadID(r io.Reader) (string, error) {
	line := make([]byte, len(magic)+idLength+1)
	if _, err := io.ReadFull(r, line); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return "", ErrFormat
		}
		return "", err
	}
	id, ok := strings.CutPrefix(string(line[:len(line)-1]), magic)
	if !ok || line[len(line)-1] != '\n' || !isID(id) {
		return "", ErrFormat
	}
	return id, nil
}

// isID tells whether s can be a build ID.
func isID(s string) bool {
	if len(s) != idLength {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Open reads the symbol file that is named.
func Open(name string) (*Table, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Read reads a symbol file. The error wraps ErrFormat if its contents are not
// what their build ID says.
func Read(r io.Reader) (*Table, error) {
	in := bufio.NewReader(r)
	id, err := ReadID(in)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w, or a damaged one: %w", ErrFormat, err)
	}
	b, err := io.ReadAll(io.LimitReader(z, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%w, or a damaged one: %w", ErrFormat, err)
	}
	if len(b) > maxSize {
		return nil, fmt.Errorf("%w: it unpacks to more than %d bytes", ErrFormat, maxSize)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:])[:idLength] != id {
		return nil, fmt.Errorf("%w, or a damaged one: its contents are not those of build ID %s", ErrFormat, id)
	}
	t, err := parse(b)
	if err != nil {
		return nil, err
	}
	t.id = id
	return t, nil
}

// ID is the build ID: that of the binary whose symbols these are.
func (t *Table) ID() string { return t.id }

// Frames returns the calls at pc, the innermost first: those that were inlined,
// and at last the function whose code it is. It returns none for a pc outside
// of functions.
//
// pc is that of the instruction meant. A return address is not: subtract 1.
func (t *Table) Frames(pc uint64) []Frame {
	i := sort.Search(len(t.funcs), func(i int) bool { return t.funcs[i].entry > pc }) - 1
	if i < 0 || pc-t.funcs[i].entry >= t.funcs[i].size {
		return nil
	}
	f := &t.funcs[i]
	offset := pc - f.entry
	var frames []Frame
	for at := offset; ; {
		r := f.row(at)
		frame := Frame{Func: t.strings[f.name], Line: int(r.line), Offset: offset}
		if r.file > 0 {
			frame.File = t.strings[r.file-1]
		}
		// Calls refer to others of lower depth; a damaged file ends here too.
		if r.inl == 0 || len(frames) > len(f.calls) {
			return append(frames, frame)
		}
		c := f.calls[r.inl-1]
		frame.Func, frame.Inlined = t.strings[c.name], true
		frames = append(frames, frame)
		at = c.at
	}
}

// row is what is in force at an offset.
func (f *function) row(offset uint64) row {
	i := sort.Search(len(f.rows), func(i int) bool { return f.rows[i].offset > offset }) - 1
	if i < 0 {
		return row{}
	}
	return f.rows[i]
}

// reader takes numbers off a slice; after an error it gives zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrFormat, what)
		r.b = nil
	}
}

func (r *reader) num() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("it ends early")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// add returns the number that a difference makes of v, which must be in 0..limit.
func (r *reader) add(v int32, limit int64) int32 {
	d, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("it ends early")
		return 0
	}
	r.b = r.b[n:]
	sum := int64(v) + d
	if d > 1<<31 || d < -1<<31 || sum < 0 || sum > limit {
		r.fail("a difference leads out of the tables")
		return 0
	}
	return int32(sum)
}

// count is a number of things of which each takes at least size bytes.
func (r *reader) count(size int) int {
	n := r.num()
	if n > uint64(len(r.b)/size) {
		r.fail("a count is larger than the file")
		return 0
	}
	return int(n)
}

// below is a number smaller than n.
func (r *reader) below(n int) uint32 {
	v := r.num()
	if v >= uint64(n) && r.err == nil {
		r.fail("an index leads out of the tables")
		return 0
	}
	return uint32(v)
}

const maxAddress = 1 << 62 // so that sums do not overflow

func parse(b []byte) (*Table, error) {
	r := &reader{b: b}
	t := &Table{strings: make([]string, r.count(1))}
	for i := range t.strings {
		n := r.count(1)
		t.strings[i] = string(r.b[:n])
		r.b = r.b[n:]
	}
	t.quantum = r.num()
	if t.quantum == 0 || t.quantum > 16 {
		r.fail("pcs have an impossible unit")
	}
	t.funcs = make([]function, r.count(6))
	end := uint64(0)
	for i := range t.funcs {
		f := &t.funcs[i]
		gap, size := r.num(), r.num()
		if gap > maxAddress || size > maxAddress || end > maxAddress {
			r.fail("a function has an impossible address")
		}
		f.entry, f.size = end+gap, size
		end = f.entry + size
		f.name = r.below(len(t.strings))
		f.startLine = uint32(r.num())
		f.calls = make([]call, r.count(2))
		for j := range f.calls {
			f.calls[j] = call{name: r.below(len(t.strings)), at: r.num()}
		}
		f.rows = make([]row, r.count(4))
		var last row
		for j := range f.rows {
			step := r.num()
			if step > maxAddress/16 || last.offset > maxAddress {
				r.fail("a row has an impossible offset")
			}
			last.offset += step * t.quantum
			last.file = r.add(last.file, int64(len(t.strings)))
			last.line = r.add(last.line, 1<<31-1)
			last.inl = r.add(last.inl, int64(len(f.calls)))
			f.rows[j] = last
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if len(r.b) > 0 {
		return nil, fmt.Errorf("%w: something follows its end", ErrFormat)
	}
	return t, nil
}
