//go:build linux

package bridge

import (
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// steady waits for events and, while nothing but plain bytes comes, moves them:
// the state that a bridge is in nearly all the time. See "Past the scheduler"
// in the package comment.
type steady struct {
	fds     *[pollSlots]unix.PollFd
	used    int // of fds
	timeout int // ms; -1: none
	watch   *watch
	rx, tx  pipe
}

// pipe is one direction: what is read from one end is written to the other at
// once. Its queue is empty before, and gets what did not go.
type pipe struct {
	queue    *queue
	may      bool   // read at all
	came     int    // bytes of the last read, which the watch has not seen
	moved    uint64 // bytes that came and went
	readErr  unix.Errno
	ended    bool // a read gave nothing
	writeErr unix.Errno
}

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

//go:linkname nanotime runtime.nanotime
func nanotime() int64

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
		n = s.move(n)
		s.rx.show(s.watch, fromRadio)
		s.tx.show(s.watch, fromClient)
		if n != 0 {
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
	if uart.Revents == unix.POLLIN && s.rx.may {
		plain++
	}
	if client.Revents == unix.POLLIN && s.tx.may {
		plain++
	}
	if plain != n {
		return n
	}
	if uart.Revents != 0 {
		uart.Revents = 0
		if !s.rx.move(uart.Fd, client.Fd, true) {
			n = -1
		}
	}
	if client.Revents != 0 {
		client.Revents = 0
		if !s.tx.move(client.Fd, uart.Fd, false) {
			n = -1
		}
	}
	return min(n, 0)
}

// move reads once and writes what came; false: there is something to look at.
//
//go:nosplit
//go:norace
func (p *pipe) move(from, to int32, socket bool) bool {
	q := p.queue
	q.reading()
	n, e := rawRead(int(from), q.buf)
	if n <= 0 || e != 0 {
		p.readErr, p.ended = e, e == 0
		return again(e)
	}
	q.added(n)
	p.came = n
	came := q.buf[:n]
	var sent int
	if socket {
		sent, e = rawSend(int(to), came)
	} else {
		sent, e = rawWrite(int(to), came)
	}
	if e != 0 {
		sent, p.writeErr = 0, e
	}
	p.moved += uint64(sent)
	if sent > 0 {
		q.took(sent)
	}
	q.settled()
	return q.empty()
}

// show lets the watch see what move read, behind the write of both directions.
// It is not called by move, for the stack that both need.
//
//go:nosplit
//go:norace
func (p *pipe) show(w *watch, who origin) {
	if p.came > 0 {
		w.frames(who, p.queue.buf[:p.came])
		p.came = 0
	}
}

// plain tells whether a plain byte needs nothing but to be passed on.
func (l *loop) plain() bool {
	c := &l.client
	return c.fd >= 0 && l.port != nil && l.due == never &&
		c.sniffed && !c.halfClosed && !c.readAll && !c.deaf && c.stalled == never &&
		l.line == nil && l.rx.empty() && l.tx.empty() && l.watch.settled()
}

// moved acts on what the steady state left behind.
func (l *loop) moved() {
	s := &l.steady
	rx, tx := s.rx, s.tx
	s.rx, s.tx = pipe{queue: rx.queue}, pipe{queue: tx.queue}
	l.n.rx += rx.moved
	l.client.rx += rx.moved
	l.n.tx += tx.moved
	l.client.tx += tx.moved
	switch {
	case rx.ended, rx.readErr != 0 && !again(rx.readErr):
		l.uartLost(rx.readErr)
	case rx.writeErr != 0 && !again(rx.writeErr):
		l.broke(rx.writeErr)
	case !l.rx.empty():
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
