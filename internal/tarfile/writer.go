package tarfile

import (
	"errors"
	"io"
	"strings"
)

// Writer writes an archive, entry by entry: WriteHeader, then the contents,
// exactly as many as the header says.
type Writer struct {
	out  io.Writer
	left int64
	pad  int64
	err  error
}

// NewWriter returns a writer to out. Without Close the archive has no end.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// WriteHeader begins an entry.
func (w *Writer) WriteHeader(h *Header) error {
	if err := w.end(); err != nil {
		return err
	}
	if strings.ContainsRune(h.Name, 0) || strings.ContainsRune(h.Link, 0) {
		return errors.New("a name with a zero byte")
	}
	var b block
	for _, t := range []struct {
		kind  byte
		text  string
		field []byte
	}{{longName, h.Name, b.name()}, {longLink, h.Link, b.link()}} {
		if len(t.text) > len(t.field) {
			if err := w.long(t.kind, t.text); err != nil {
				return err
			}
		}
		copy(t.field, t.text)
	}
	mode := int64(h.Mode.Perm())
	for _, s := range special {
		if h.Mode&s.mode != 0 {
			mode |= s.bit
		}
	}
	*b.kind() = h.Kind
	size := int64(0)
	if h.Kind == File {
		size = h.Size
	}
	return w.header(&b, mode, size, h)
}

// long writes an entry with a text that does not fit its field.
func (w *Writer) long(kind byte, text string) error {
	var b block
	copy(b.name(), "././@LongLink")
	*b.kind() = kind
	if err := w.header(&b, 0, int64(len(text))+1, &Header{}); err != nil {
		return err
	}
	if _, err := io.WriteString(w, text+"\x00"); err != nil {
		return err
	}
	return w.end()
}

// header completes and writes one. What is before 1970 becomes 1970.
func (w *Writer) header(b *block, mode, size int64, h *Header) error {
	seconds := int64(0)
	if !h.ModTime.IsZero() {
		seconds = max(0, h.ModTime.Unix())
	}
	put(b.mode(), mode)
	put(b.uid(), int64(uint32(h.UID))) // as the kernel has them
	put(b.gid(), int64(uint32(h.GID)))
	put(b.size(), size)
	put(b.modTime(), seconds)
	copy(b.magic(), magicGNU)
	if h.Kind == Char || h.Kind == Block {
		put(b.major(), int64(h.Major))
		put(b.minor(), int64(h.Minor))
	}
	sum, _ := b.sums()
	put(b.sum()[:7], sum)
	b.sum()[7] = ' '
	if _, w.err = w.out.Write(b[:]); w.err != nil {
		return w.err
	}
	w.left, w.pad = size, -size&(blockSize-1)
	return nil
}

// put writes a number of 0 or more in octal digits with a zero byte behind, or
// as GNU does what does not fit (see number).
func put(field []byte, n int64) {
	rest := n
	for i := len(field) - 2; i >= 0; i-- {
		field[i] = '0' + byte(rest&7)
		rest >>= 3
	}
	field[len(field)-1] = 0
	if rest == 0 {
		return
	}
	for i := len(field) - 1; i >= 0; i-- {
		field[i] = byte(n)
		n >>= 8
	}
	field[0] = 0x80
}

// Write writes contents of the entry that WriteHeader began.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if int64(len(p)) > w.left {
		return 0, ErrTooLong
	}
	n, err := w.out.Write(p)
	w.left -= int64(n)
	w.err = err
	return n, err
}

// end fills the current entry's last block up.
func (w *Writer) end() error {
	if w.err != nil {
		return w.err
	}
	if w.left > 0 {
		return errors.New("less contents than the header says")
	}
	var zero block
	_, w.err = w.out.Write(zero[:w.pad])
	w.pad = 0
	return w.err
}

// Close ends the archive. It does not close what it is written to.
func (w *Writer) Close() error {
	if err := w.end(); err != nil {
		return err
	}
	_, w.err = w.out.Write(make([]byte, 2*blockSize))
	return w.err
}
