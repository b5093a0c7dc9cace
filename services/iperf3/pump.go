//go:build linux

package iperf3

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gwinit/services/iperf3/proto"
)

const (
	// turns is how many blocks of one stream are moved before the others have
	// their turn, and the control connection.
	turns = 8
	// batch is how many datagrams one call receives; 64 full ones are 5 ms at
	// 100 Mbit/s.
	batch = 64
	// lookEvery is after how many waits the clock is read where the deadline need
	// not be met exactly: a read is a system call on the gateways.
	lookEvery = 64
)

// kind is what a stream does.
type kind uint8

const (
	receiveTCP kind = iota
	sendTCP
	receiveUDP
	sendUDP

	sends kind = 1 // the bit of those that send
)

// unequal is in what is never compared: the compiler then makes no code for that.
type unequal [0]func()

// stream is one, as far as the data path is concerned.
type stream struct {
	fd    int32
	over  bool // its end has come
	kind  kind
	err   unix.Errno // what it ended by; 0: the peer
	bytes uint64     // moved
	sent  uint64     // datagrams
	got   proto.Receiver
	paced bool // the server sends it, by its rate; else the pump does
}

// datagram is struct mmsghdr: a header, 4 bytes for the length, and on 64-bit
// machines 4 more, which stay 0.
type datagram struct {
	header unix.Msghdr
	length uintptr
}

// controlBytes has room for a time and more.
const controlBytes = 64

// inbox is where datagrams are received: each has its own place for the header,
// and what follows is of no interest and has one for all.
type inbox struct {
	datagrams [batch]datagram
	pieces    [batch][2]unix.Iovec
	headers   [batch][proto.HeaderBytes]byte
	control   [batch][controlBytes / 8]uint64 // aligned
}

// newInbox returns one whose datagrams may be longer than rest by their header.
func newInbox(rest []byte) *inbox {
	b := new(inbox)
	for i := range b.datagrams {
		b.pieces[i][0].Base = &b.headers[i][0]
		b.pieces[i][0].SetLen(proto.HeaderBytes)
		b.pieces[i][1].Base = unsafe.SliceData(rest)
		b.pieces[i][1].SetLen(len(rest))
		h := &b.datagrams[i].header
		h.Iov = &b.pieces[i][0]
		h.SetIovlen(2)
		h.Control = (*byte)(unsafe.Pointer(&b.control[i]))
	}
	return b
}

// pump waits for events, and moves the data of streams by itself.
type pump struct {
	fds      []unix.PollFd
	first    int // of the streams' in fds
	streams  []stream
	timeout  int   // ms; -1: none
	deadline int64 // of nanotime, 0: none
	exact    bool  // the deadline is one that shows in what is counted
	block    []byte
	receive  uintptr // flags
	inbox    *inbox  // nil: no UDP is received
	wide     bool    // 64-bit counters
}

// wait returns when there is an event that is not a stream's, a stream has come to
// its end, or the deadline is over: then n is 0 or less.
//
// From entersyscall to exitsyscall this goroutine counts as being in a system
// call. Nothing in between may grow the stack, allocate, write a pointer or panic.
//
//go:nosplit
//go:norace
func (p *pump) wait() (n int, e unix.Errno) {
	entersyscall()
	for waits := 1; ; waits++ {
		n, e = rawPoll(p.fds, p.timeout)
		if n <= 0 {
			break
		}
		ended := false
		for i := range p.streams {
			f := &p.fds[p.first+i]
			if f.Revents == 0 {
				continue
			}
			n--
			s := &p.streams[i]
			switch s.kind {
			case receiveTCP:
				p.receiveTCP(s)
			case sendTCP:
				p.sendTCP(s)
			case receiveUDP:
				p.receiveUDP(s)
			case sendUDP:
				p.sendUDP(s)
			}
			if s.over {
				f.Fd, ended = -1, true
			}
		}
		if n > 0 || ended {
			break
		}
		if p.deadline != 0 && (p.exact || waits%lookEvery == 0) && nanotime() >= p.deadline {
			n = 0
			break
		}
	}
	exitsyscall()
	return n, e
}

//go:nosplit
//go:norace
func (p *pump) receiveTCP(s *stream) {
	for range turns {
		n, e := rawRecv(s.fd, p.block, p.receive)
		switch {
		case e != 0:
			if !again(e) {
				s.over, s.err = true, e
			}
			return
		case n <= 0:
			s.over = true
			return
		}
		s.bytes += uint64(n)
		if n < len(p.block) {
			return // there is no more
		}
	}
}

//go:nosplit
//go:norace
func (p *pump) sendTCP(s *stream) {
	for range turns {
		n, e := rawSend(s.fd, p.block)
		if e != 0 {
			if !again(e) {
				s.over, s.err = true, e
			}
			return
		}
		s.bytes += uint64(n)
		if n < len(p.block) {
			return // there is no more room
		}
	}
}

//go:nosplit
//go:norace
func (p *pump) sendUDP(s *stream) {
	for range turns {
		if !p.datagram(s) {
			return
		}
	}
}

// datagram sends one, and tells whether another may follow.
//
//go:nosplit
//go:norace
func (p *pump) datagram(s *stream) bool {
	sec, usec := clock()
	proto.PutHeader((*[proto.HeaderBytes]byte)(p.block), sec, usec, s.sent+1, p.wide)
	n, e := rawSend(s.fd, p.block)
	switch {
	case e == unix.ECONNREFUSED: // of an earlier one: the client has just ended
		return false
	case e != 0:
		if !again(e) {
			s.over, s.err = true, e
		}
		return false
	}
	s.sent++
	s.bytes += uint64(n)
	return true
}

//go:nosplit
//go:norace
func (p *pump) receiveUDP(s *stream) {
	b := p.inbox
	for i := range b.datagrams {
		b.datagrams[i].header.SetControllen(controlBytes)
	}
	n, e := rawReceiveMany(s.fd, &b.datagrams)
	if e != 0 {
		if !again(e) && e != unix.ECONNREFUSED {
			s.over, s.err = true, e
		}
		return
	}
	for i := 0; i < n && i < batch; i++ {
		d := &b.datagrams[i]
		s.bytes += uint64(d.length)
		if d.length < 12 || p.wide && d.length < proto.HeaderBytes {
			continue
		}
		sec, usec, ok := received(&b.control[i], uintptr(d.header.Controllen))
		if !ok {
			sec, usec = clock()
		}
		s.got.Got(&b.headers[i], sec, usec, p.wide)
	}
}

// received finds the time at which the kernel got a datagram among its control
// messages (SO_TIMESTAMPNS), of which it is the first.
//
//go:nosplit
//go:norace
func received(control *[controlBytes / 8]uint64, length uintptr) (sec, usec uint32, ok bool) {
	h := (*unix.Cmsghdr)(unsafe.Pointer(control))
	if length < unix.SizeofCmsghdr+unsafe.Sizeof(unix.Timespec{}) || h.Level != unix.SOL_SOCKET || h.Type != unix.SO_TIMESTAMPNS {
		return 0, 0, false
	}
	ts := (*unix.Timespec)(unsafe.Add(unsafe.Pointer(control), unix.SizeofCmsghdr))
	return uint32(ts.Sec), uint32(ts.Nsec) / 1000, true
}
