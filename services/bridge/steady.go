//go:build linux

package bridge

import (
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// leastRoom is how much of a buffer is worth a read; with less, the slow way
// begins at its front again.
const leastRoom = 512

// steady waits for events and, while nothing but plain bytes comes, moves them:
// the state that a bridge is in nearly all the time. See "Past the scheduler"
// in the package comment.
type steady struct {
	fds     *[pollSlots]unix.PollFd
	used    int // of fds
	timeout int // ms; -1: none
	rx, tx  pipe
	// What was read, in order: the watch gets to see it afterwards.
	pieces [2 * sampleEvery]piece
	n      int // of pieces
}

// piece is what one read gave.
type piece struct {
	size int
	from origin
}

// pipe is one direction: what is read from one end is written to the other at
// once. The reads fill the queue's buffer from its front on.
type pipe struct {
	buf      []byte
	at       int    // of buf, where the next read goes
	budget   int    // reads
	moved    uint64 // bytes that came and went
	left     int    // of the last read, what did not go
	readErr  unix.Errno
	ended    bool // a read gave nothing
	writeErr unix.Errno
}

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// wait is poll(2). With move it takes care of plain bytes and polls again,
// until there is something else: an event of another descriptor or of another
// kind, an error, or bytes that the other side does not take. Events that it
// took care of are not in the answer.
//
// From entersyscall to exitsyscall the goroutine counts as being in a system
// call: a collection may run, the P is somebody else's. So nothing in between
// may grow the stack, allocate, write a pointer or panic; and s, which the
// collector finds on this stack, is in use all the while.
//
//go:nosplit
//go:norace
func (s *steady) wait(move bool) (n int, e unix.Errno) {
	entersyscall()
	for {
		n, e = rawPoll(s.fds[:s.used], s.timeout)
		if n <= 0 || !move {
			break
		}
		if n = s.move(n); n != 0 {
			break
		}
	}
	exitsyscall()
	return n, e
}

// move takes care of n events and returns how many are left: 0 to go on, or -1
// when none is and something has to be looked at all the same.
//
//go:nosplit
//go:norace
func (s *steady) move(n int) int {
	uart, client := &s.fds[atUART], &s.fds[atClient]
	plain := 0
	if uart.Revents == unix.POLLIN && s.rx.ready() {
		plain++
	}
	if client.Revents == unix.POLLIN && s.tx.ready() {
		plain++
	}
	if plain != n {
		return n
	}
	if uart.Revents != 0 {
		uart.Revents = 0
		if !s.rx.move(s, fromRadio, uart.Fd, client.Fd) {
			n = -1
		}
	}
	if client.Revents != 0 {
		client.Revents = 0
		if !s.tx.move(s, fromClient, client.Fd, uart.Fd) {
			n = -1
		}
	}
	return min(n, 0)
}

// ready tells whether p can take a read.
//
//go:nosplit
//go:norace
func (p *pipe) ready() bool { return p.budget > 0 && len(p.buf)-p.at >= leastRoom }

// move reads once and writes what came; false: not everything went well.
//
//go:nosplit
//go:norace
func (p *pipe) move(s *steady, who origin, from, to int32) bool {
	n, e := rawRead(int(from), p.buf[p.at:])
	if n <= 0 || e != 0 {
		p.readErr, p.ended = e, e == 0
		return again(e)
	}
	came := p.buf[p.at : p.at+n]
	p.at += n
	p.budget--
	s.pieces[s.n] = piece{n, who}
	s.n++
	var sent int
	if who == fromRadio {
		sent, e = rawSend(int(to), came)
	} else {
		sent, e = rawWrite(int(to), came)
	}
	if e != 0 {
		sent, p.writeErr = 0, e
	}
	p.moved += uint64(sent)
	p.left = n - sent
	return p.left == 0
}

// plain tells whether a plain byte needs nothing but to be passed on.
func (l *loop) plain() bool {
	c := &l.client
	return c.fd >= 0 && l.port != nil && l.due == never &&
		c.sniffed && !c.halfClosed && !c.readAll && !c.deaf && c.stalled == never &&
		l.line == nil && l.rx.empty() && l.tx.empty() && !l.watch.tap.wanted
}

// moved acts on what the steady state left behind.
func (l *loop) moved() {
	s := &l.steady
	seen := [2]int{}
	for _, p := range s.pieces[:s.n] {
		q, pipe := &l.rx, &s.rx
		if p.from == fromClient {
			q, pipe = &l.tx, &s.tx
		}
		q.countdown--
		l.watch.saw(p.from, pipe.buf[seen[p.from]:][:p.size])
		seen[p.from] += p.size
	}
	rx, tx := s.rx, s.tx
	s.n, s.rx, s.tx = 0, pipe{buf: rx.buf}, pipe{buf: tx.buf}
	l.n.rx += rx.moved
	l.client.rx += rx.moved
	l.n.tx += tx.moved
	l.client.tx += tx.moved
	l.rx.passed(&rx)
	l.tx.passed(&tx)
	switch {
	case rx.ended, rx.readErr != 0 && !again(rx.readErr):
		l.uartLost(rx.readErr)
	case rx.writeErr != 0 && !again(rx.writeErr):
		l.broke(rx.writeErr)
	case rx.left > 0:
		l.client.stalled, l.dirty = l.now(), true
		l.overflow()
	}
	if l.client.fd < 0 || l.port == nil {
		return
	}
	switch {
	case tx.ended:
		l.halfClose()
		l.client.readAll = true
	case tx.readErr != 0 && !again(tx.readErr):
		l.client.readAll = true
		l.broke(tx.readErr)
	case tx.writeErr != 0 && !again(tx.writeErr):
		l.uartLost(tx.writeErr)
	}
}

// passed puts into q, which is empty, what p read and did not write.
func (q *queue) passed(p *pipe) {
	if p.left == 0 {
		return
	}
	q.head, q.tail = p.at-p.left, p.at
	q.settled()
}
