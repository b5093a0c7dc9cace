package tarfile

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRecord bounds what the archive says about one entry beside its header:
// long names and pax records, in bytes.
const maxRecord = 64 << 10

// maxSize bounds an entry's size, so that sums of sizes fit 64 bits.
const maxSize = 1 << 60

// Reader reads an archive, entry by entry. Its Read has the contents of the
// current one.
type Reader struct {
	in   io.Reader
	left int64 // of the current entry's contents
	pad  int64 // behind them, to a whole block
	err  error // what ended the archive
}

// NewReader returns a reader of in, which it reads by the block.
func NewReader(in io.Reader) *Reader { return &Reader{in: in} }

// Read reads the contents of the entry that Next returned.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil && r.err != io.EOF {
		return 0, r.err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.in.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err == io.EOF {
		err = nil
		if r.left > 0 {
			err = io.ErrUnexpectedEOF
			r.err = err
		}
	}
	return n, err
}

// Next goes to the next entry, over what is left of this one. It returns
// io.EOF behind the last.
func (r *Reader) Next() (*Header, error) {
	if r.err != nil {
		return nil, r.err
	}
	h, err := r.next()
	r.err = err
	return h, err
}

func (r *Reader) next() (*Header, error) {
	var more records
	for {
		if err := r.skip(); err != nil {
			return nil, err
		}
		var b block
		_, err := io.ReadFull(r.in, b[:])
		if err == nil && b == (block{}) {
			_, _ = io.ReadFull(r.in, b[:]) // the second one of the end
			err = io.EOF
		}
		if err == io.EOF && !more.none() { // an archive may have no end of its own, but not here
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		h, err := b.header()
		if err != nil {
			return nil, err
		}
		r.left, r.pad = h.Size, -h.Size&(blockSize-1)
		switch h.Kind {
		case longName, longLink, paxNext:
			text, err := r.record()
			if err != nil {
				return nil, err
			}
			if err := more.add(h.Kind, text); err != nil {
				return nil, err
			}
		case paxGlobal: // comments, mostly; nothing that changes an entry here
		case sparse:
			return nil, ErrSparse
		default:
			if err := more.apply(h); err != nil {
				return nil, err
			}
			r.left, r.pad = h.Size, -h.Size&(blockSize-1)
			// Before there was a kind for folders, the slash was it.
			if h.Kind == File && strings.HasSuffix(h.Name, "/") {
				h.Kind, h.Mode, h.Size = Dir, h.Mode|fs.ModeDir, 0
				r.left, r.pad = 0, r.left+r.pad
			}
			return h, nil
		}
	}
}

// skip goes over what is left of the current entry.
func (r *Reader) skip() error {
	n, err := io.CopyN(io.Discard, r.in, r.left)
	if err == nil {
		r.left -= n
		_, err = io.CopyN(io.Discard, r.in, r.pad)
		r.pad = 0
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// record reads the whole contents of the current entry.
func (r *Reader) record() (string, error) {
	if r.left > maxRecord {
		return "", fmt.Errorf("%w: a name or record of %d bytes", ErrFormat, r.left)
	}
	b := make([]byte, r.left)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", io.ErrUnexpectedEOF
	}
	return string(b), nil
}

// records are what was said about the next entry: the last of each counts.
type records struct {
	name, link string
	pax        map[string]string // of paxKeys
}

// paxKeys are the records that are heeded; others are passed over, so that many
// of them take no memory.
var paxKeys = []string{"path", "linkpath", "size", "uid", "gid", "mtime"}

func (m *records) none() bool { return m.name == "" && m.link == "" && len(m.pax) == 0 }

func (m *records) add(kind byte, text string) error {
	switch kind {
	case longName:
		m.name, _, _ = strings.Cut(text, "\x00")
		return nil
	case longLink:
		m.link, _, _ = strings.Cut(text, "\x00")
		return nil
	}
	if m.pax == nil {
		m.pax = map[string]string{}
	}
	// "LENGTH KEY=VALUE\n", where LENGTH counts all of it.
	for text != "" {
		digits, _, _ := strings.Cut(text, " ")
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || n > uint64(len(text)) || n < uint64(len(digits))+2 || text[n-1] != '\n' {
			return fmt.Errorf("%w: a pax record", ErrFormat)
		}
		key, value, ok := strings.Cut(text[len(digits)+1:n-1], "=")
		if !ok {
			return fmt.Errorf("%w: a pax record", ErrFormat)
		}
		if strings.HasPrefix(key, "GNU.sparse.") {
			return ErrSparse
		}
		if slices.Contains(paxKeys, key) {
			m.pax[key] = value
		}
		text = text[n:]
	}
	return nil
}

// apply completes a header.
func (m *records) apply(h *Header) error {
	if m.name != "" {
		h.Name = m.name
	}
	if m.link != "" {
		h.Link = m.link
	}
	for _, key := range paxKeys {
		value := m.pax[key]
		if value == "" { // an empty one takes an earlier one back (POSIX, pax, extended header)
			continue
		}
		var err error
		switch key {
		case "path":
			h.Name = value
		case "linkpath":
			h.Link = value
		case "size":
			h.Size, err = strconv.ParseInt(value, 10, 64)
		case "uid":
			h.UID, err = id(value)
		case "gid":
			h.GID, err = id(value)
		case "mtime":
			var seconds int64
			whole, _, _ := strings.Cut(value, ".") // no fraction: files here have whole seconds
			seconds, err = strconv.ParseInt(whole, 10, 64)
			h.ModTime = time.Unix(seconds, 0)
		}
		if err != nil || h.Size < 0 || h.Size > maxSize {
			return fmt.Errorf("%w: pax record %s of %q", ErrFormat, key, value)
		}
	}
	if strings.ContainsRune(h.Name, 0) || strings.ContainsRune(h.Link, 0) {
		return fmt.Errorf("%w: a name with a zero byte", ErrFormat)
	}
	if h.Kind >= HardLink && h.Kind <= FIFO {
		h.Size = 0 // none has contents, whatever it says
	}
	return nil
}

// id reads the number of an owner or a group.
func id(value string) (int, error) {
	n, err := strconv.ParseUint(value, 10, 32)
	return int(n), err
}

// header reads a header without what records say.
func (b *block) header() (*Header, error) {
	sum, err := number(b.sum())
	if unsigned, signed := b.sums(); err != nil || sum != unsigned && sum != signed {
		return nil, fmt.Errorf("%w: a header's sum is wrong", ErrFormat)
	}
	var n [7]int64
	for i, field := range [][]byte{b.mode(), b.uid(), b.gid(), b.size(), b.modTime(), b.major(), b.minor()} {
		old := i > 4 && !bytes.HasPrefix(b.magic(), []byte("ustar")) // has no such fields
		if old {
			continue
		}
		if n[i], err = number(field); err != nil {
			return nil, err
		}
	}
	if n[3] < 0 || n[3] > maxSize {
		return nil, fmt.Errorf("%w: a size of %d bytes", ErrFormat, n[3])
	}
	h := &Header{
		Kind: *b.kind(), Name: text(b.name()), Link: text(b.link()), UID: int(n[1]), GID: int(n[2]),
		Size: n[3], ModTime: time.Unix(n[4], 0), Major: uint32(n[5]), Minor: uint32(n[6]),
	}
	if h.Kind == 0 || h.Kind == '7' { // old tar's file, and one that was to be in one piece
		h.Kind = File
	}
	h.Mode = fs.FileMode(n[0]&0o777) | kinds[h.Kind]
	for _, s := range special {
		if n[0]&s.bit != 0 {
			h.Mode |= s.mode
		}
	}
	if string(b.magic()) == magicUSTAR {
		if prefix := text(b.prefix()); prefix != "" {
			h.Name = prefix + "/" + h.Name
		}
	}
	return h, nil
}

// text is a field up to a zero byte.
func text(field []byte) string {
	if i := bytes.IndexByte(field, 0); i >= 0 {
		field = field[:i]
	}
	return string(field)
}

// number reads a field: octal digits with spaces or zero bytes around, or, with
// the highest bit set, a big-endian number in two's complement (GNU).
func number(field []byte) (int64, error) {
	if field[0]&0x80 != 0 {
		n := int64(field[0]&0x7f) << 57 >> 57 // bit 6 is the sign
		for _, c := range field[1:] {
			if n > 1<<55-1 || n < -1<<55 {
				return 0, fmt.Errorf("%w: a number is too large", ErrFormat)
			}
			n = n<<8 | int64(c)
		}
		return n, nil
	}
	digits := strings.Trim(text(bytes.TrimLeft(field, " \x00")), " ")
	if digits == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(digits, 8, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no octal number", ErrFormat, digits)
	}
	return int64(n), nil
}
