package logring

import "encoding/binary"

// headerBytes is what a record has before its text.
const headerBytes = 8 + 8 + 8 + 1 + 2

// header is the fixed part of a record.
type header struct {
	seq        uint64
	mono, wall int64
	service    uint8
	length     uint16 // of the text
}

// size returns the bytes of the whole record.
func (h header) size() uint64 { return headerBytes + uint64(h.length) }

// slab is a ring of records in one piece of memory. Positions count every byte
// ever written; position modulo length is the place in buf, so a record may
// lie over its end.
type slab struct {
	buf        []byte
	tail, head uint64 // of the oldest record, and behind the newest
	count      int
	limit      int // bytes; buf grows up to it
	lines      int // records at most, 0 for as many as fit
}

// push adds a record whose text is a and b, over the oldest ones if need be.
func (s *slab) push(h header, a, b []byte) {
	size := h.size()
	for len(s.buf) < s.limit && s.head-s.tail+size > uint64(len(s.buf)) {
		s.grow()
	}
	if size > uint64(len(s.buf)) {
		return // cannot be: limit is above what a line can have
	}
	for s.head-s.tail+size > uint64(len(s.buf)) || s.lines > 0 && s.count == s.lines {
		s.tail += s.header(s.tail).size()
		s.count--
	}
	var raw [headerBytes]byte
	binary.NativeEndian.PutUint64(raw[0:], h.seq)
	binary.NativeEndian.PutUint64(raw[8:], uint64(h.mono))
	binary.NativeEndian.PutUint64(raw[16:], uint64(h.wall))
	raw[24] = h.service
	binary.NativeEndian.PutUint16(raw[25:], h.length)
	s.write(raw[:])
	s.write(a)
	s.write(b)
	s.count++
}

// grow doubles buf, and moves the records to its start.
func (s *slab) grow() {
	buf := make([]byte, min(max(1<<10, 2*len(s.buf)), s.limit))
	n := s.head - s.tail
	s.read(buf[:n], s.tail)
	s.buf, s.tail, s.head = buf, 0, n
}

// resize gives buf so many bytes, which becomes the limit, and drops the oldest
// records that no longer fit. Positions stay as they are.
func (s *slab) resize(bytes int) {
	for s.head-s.tail > uint64(bytes) {
		s.tail += s.header(s.tail).size()
		s.count--
	}
	kept := make([]byte, s.head-s.tail)
	s.read(kept, s.tail)
	s.buf, s.limit, s.head = make([]byte, bytes), bytes, s.tail
	s.write(kept)
}

func (s *slab) write(p []byte) {
	at := int(s.head % uint64(len(s.buf)))
	n := copy(s.buf[at:], p)
	copy(s.buf, p[n:])
	s.head += uint64(len(p))
}

func (s *slab) read(p []byte, off uint64) {
	if len(p) == 0 {
		return
	}
	at := int(off % uint64(len(s.buf)))
	n := copy(p, s.buf[at:])
	copy(p[n:], s.buf)
}

func (s *slab) header(off uint64) header {
	var raw [headerBytes]byte
	s.read(raw[:], off)
	return header{
		seq:     binary.NativeEndian.Uint64(raw[0:]),
		mono:    int64(binary.NativeEndian.Uint64(raw[8:])),
		wall:    int64(binary.NativeEndian.Uint64(raw[16:])),
		service: raw[24],
		length:  binary.NativeEndian.Uint16(raw[25:]),
	}
}

// text returns the text of the record at off.
func (s *slab) text(off uint64, h header) string {
	b := make([]byte, h.length)
	s.read(b, off+headerBytes)
	return string(b)
}
