// Package linetest holds a fake far end for package line.
package linetest

import (
	"io"
	"sync"
)

// Port is a line.Port in memory. Room limits what TryWrite takes.
type Port struct {
	in     chan []byte
	rest   []byte
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	got  []byte
	room int // -1: no limit
}

// New returns a port whose far end takes everything.
func New() *Port {
	return &Port{in: make(chan []byte, 64), closed: make(chan struct{}), room: -1}
}

// Feed makes the host send p.
func (p *Port) Feed(b []byte) { p.in <- append([]byte(nil), b...) }

// Read implements line.Port.
func (p *Port) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		select {
		case p.rest = <-p.in:
		case <-p.closed:
			return 0, io.EOF
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// TryWrite implements line.Port.
func (p *Port) TryWrite(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	if p.room >= 0 {
		n = min(n, p.room)
		p.room -= n
	}
	p.got = append(p.got, b[:n]...)
	return n, nil
}

// Close implements line.Port.
func (p *Port) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// SetRoom says how many more bytes the host takes; -1 is no limit.
func (p *Port) SetRoom(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = n
}

// Take returns what the host has received since the last call.
func (p *Port) Take() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.got
	p.got = nil
	return b
}
