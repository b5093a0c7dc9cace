package boothold

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"golang.org/x/sys/unix"
)

// The last words of a boot are behind the wish for a mode: a magic, the length
// of the text, its CRC-32, and the text.
const (
	wordLast    = 0x47574C57 // "GWLW"
	lastOffset  = 0x200
	lastHeader  = 12
	minLastRoom = 256
)

// room is how many bytes of text the page has room for.
func (m *memory) room() int { return int(m.page.Bytes) - lastOffset - lastHeader - fromTop }

// LeaveWords leaves text for the next boot, the end of it if the page has no
// room for all. It replaces what was left before. The error wraps ErrNoPage
// where there is none.
func LeaveWords(root string, text []byte) error {
	m, err := open(root)
	if err != nil {
		return err
	}
	defer m.close()
	room := m.room()
	if room < minLastRoom {
		return ErrNoPage
	}
	text = text[max(0, len(text)-room):]
	b := make([]byte, lastHeader, lastHeader+len(text))
	binary.BigEndian.PutUint32(b, wordLast)
	binary.BigEndian.PutUint32(b[4:], uint32(len(text)))
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(text))
	b = append(b, text...)
	// A reset in between leaves what the checksum does not fit.
	n, err := unix.Pwrite(m.fd, b, int64(m.page.Base+lastOffset))
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write %d bytes to the boothold page: %w", len(b), err)
	}
	return nil
}

// TakeWords returns what the boot before has left, and forgets it. It is nil
// where there is nothing whole: after a start without power, or without a page.
func TakeWords(root string) ([]byte, error) {
	m, err := open(root)
	if err != nil {
		return nil, err
	}
	defer m.close()
	room := m.room()
	if room < minLastRoom {
		return nil, ErrNoPage
	}
	b := make([]byte, lastHeader+room)
	n, err := unix.Pread(m.fd, b, int64(m.page.Base+lastOffset))
	if err == nil && n != len(b) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("read %d bytes of the boothold page: %w", len(b), err)
	}
	text := parseWords(b)
	if text == nil {
		return nil, nil
	}
	return text, m.put(m.page.Base+lastOffset, 0)
}

// parseWords returns the text of a page's words, or nil.
func parseWords(b []byte) []byte {
	if len(b) < lastHeader || binary.BigEndian.Uint32(b) != wordLast {
		return nil
	}
	n, sum := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	b = b[lastHeader:]
	if n > uint32(len(b)) || crc32.ChecksumIEEE(b[:n]) != sum {
		return nil
	}
	return b[:n]
}
