//go:build linux

package iperf3

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/services/iperf3/proto"
)

// Port is iperf3's.
const Port = 5201

// Times that a client has.
const (
	wordTime    = 10 * time.Second // for its cookie, its parameters and its last word
	streamsTime = 30 * time.Second // to connect its streams
	resultsTime = 30 * time.Second
	// graceTime is how much longer a test may last than its client said:
	// iperf3's.
	graceTime = 40 * time.Second
	sendTime  = 10 * time.Second // to take what the server says
	// lingerTime is for one who was refused to see it.
	lingerTime = time.Second

	// Keepalive of the control connection: 15 + 3*5 s after its last byte.
	keepIdleSeconds, keepIntervalSeconds, keepProbes = 15, 5, 3

	maxWaiting = 8 // connections that are about to be a stream, or about to be closed
	backlog    = 16
	// pace is how often a stream with a rate sends what is due: iperf3's.
	pace = time.Millisecond
)

// EventKind is what a Server tells of.
type EventKind byte

// The kinds.
const (
	Begins  EventKind = 'b' // a test does
	Ends    EventKind = 'e'
	Refused EventKind = 'r' // somebody was
)

// Options are what a Server works with.
type Options struct {
	Port uint16 // on all addresses; 0: any free one
	// Peer is the only one who may run tests; not valid: everybody.
	Peer netip.Addr
	// Event takes what happens; nil: nobody does.
	Event func(kind EventKind, peer netip.Addr)
	// Log takes a line about each test; nil: nobody does.
	Log func(string)
}

// Server is one port. Make it with Listen and call Run once.
type Server struct {
	o        Options
	port     uint16
	listener int
	plain    [len(buffers)]int // the sizes of its buffers, in bytes
	fault    error             // ends Run

	wake struct {
		mu   sync.Mutex // guards the pipe against its close
		r, w int
	}

	test    *test
	waiting []waiting
	pump    pump
}

// waiting is a connection that waits for its cookie, or to be closed.
type waiting struct {
	fd    int
	peer  netip.AddrPort
	until int64 // of nanotime
	buf   []byte
	going bool // it was refused
}

// Listen opens the port.
func Listen(o Options) (*Server, error) {
	if o.Event == nil {
		o.Event = func(EventKind, netip.Addr) {}
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	s := &Server{o: o, port: o.Port}
	var err error
	if err = s.listen(); err != nil {
		return nil, fmt.Errorf("listen on port %d: %w", o.Port, err)
	}
	sa, err := unix.Getsockname(s.listener)
	var p [2]int
	if err == nil {
		s.port = addrPort(sa).Port()
		err = unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC)
	}
	if err != nil {
		unix.Close(s.listener)
		return nil, err
	}
	s.wake.r, s.wake.w = p[0], p[1]
	return s, nil
}

// Port returns the port.
func (s *Server) Port() uint16 { return s.port }

// Close ends Run. It may be called at any time, and more than once.
func (s *Server) Close() {
	s.wake.mu.Lock()
	defer s.wake.mu.Unlock()
	if s.wake.w >= 0 {
		unix.Close(s.wake.w)
		s.wake.w = -1
	}
}

// Run serves until Close, and returns nil then.
func (s *Server) Run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer s.stop()
	p := &s.pump
	for {
		s.arrange()
		n, e := p.wait()
		now := nanotime()
		if n < 0 && e != unix.EINTR {
			return fmt.Errorf("poll: %w", e)
		}
		if p.fds[0].Revents != 0 {
			return nil // the other end is closed
		}
		if n > 0 {
			s.events(now)
		}
		s.due(now)
		if s.fault != nil {
			return s.fault
		}
	}
}

// stop closes everything.
func (s *Server) stop() {
	if s.test != nil {
		s.finish("the server ends", proto.ServerTerminate)
	}
	for _, w := range s.waiting {
		unix.Close(w.fd)
	}
	s.waiting = nil
	unix.Close(s.listener)
	s.Close()
	unix.Close(s.wake.r)
}

// arrange fills what is polled in: the wake pipe, the listener, the control
// connection, the socket for UDP streams, connections that wait, and streams.
func (s *Server) arrange() {
	p, t := &s.pump, s.test
	p.streams, p.exact = nil, false
	control, udp, next := -1, -1, int64(0)
	if t != nil {
		control, udp = t.fd, t.udp
		exact := earlier(t.omitEnd, earlier(t.report, t.paceAt))
		p.exact = exact != 0
		next = earlier(t.until, exact)
		if t.phase == running {
			p.streams = t.streams
		}
	}
	p.fds = append(p.fds[:0], readable(s.wake.r), readable(s.listener), readable(control), readable(udp))
	for i := range s.waiting {
		w := &s.waiting[i]
		p.fds = append(p.fds, readable(w.fd))
		next = earlier(next, w.until)
	}
	p.first = len(p.fds)
	for i := range p.streams {
		st := &p.streams[i]
		f := readable(int(st.fd))
		if st.paced || st.over {
			f.Fd = -1
		}
		if st.kind == sendTCP || st.kind == sendUDP {
			f.Events = unix.POLLOUT
		}
		p.fds = append(p.fds, f)
	}
	p.timeout, p.deadline = -1, next
	if next != 0 {
		p.timeout = int(max(0, next-nanotime())/int64(time.Millisecond)) + 1
	}
}

func readable(fd int) unix.PollFd { return unix.PollFd{Fd: int32(fd), Events: unix.POLLIN} }

// earlier is the earlier one of two deadlines, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Places in what is polled.
const (
	atListener = 1
	atControl  = 2
	atUDP      = 3
	atWaiting  = 4
)

// events deals with everything but streams.
func (s *Server) events(now int64) {
	fds := s.pump.fds
	// What happens below changes neither fds nor their meaning: a connection
	// that ends is looked up by its descriptor.
	waits := len(s.waiting)
	for i := range waits {
		if fds[atWaiting+i].Revents != 0 {
			s.hear(int(fds[atWaiting+i].Fd), now)
		}
	}
	if fds[atUDP].Revents != 0 && s.test != nil && s.test.udp == int(fds[atUDP].Fd) {
		s.test.acceptUDP(now)
	}
	if fds[atControl].Revents != 0 && s.test != nil && s.test.fd == int(fds[atControl].Fd) {
		s.test.control(now)
	}
	if fds[atListener].Revents != 0 {
		s.accept(now)
	}
}

// due does what a deadline is over for.
func (s *Server) due(now int64) {
	for i := 0; i < len(s.waiting); {
		if w := &s.waiting[i]; now >= w.until {
			unix.Close(w.fd)
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			continue
		}
		i++
	}
	if s.test != nil {
		s.test.due(now)
	}
}

// accept takes who has connected.
func (s *Server) accept(now int64) {
	for {
		fd, sa, err := unix.Accept4(s.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err != nil {
			return // gone again, or a shortage, which passes
		}
		peer, t := addrPort(sa), s.test
		switch {
		case s.o.Peer.IsValid() && peer.Addr() != s.o.Peer:
			s.refuse(fd, peer, now)
		case t == nil:
			s.begin(fd, peer, now)
		case t.phase == connecting && !t.p.UDP && peer.Addr() == t.peer.Addr() && len(s.waiting) < maxWaiting+2*t.p.Streams:
			s.waiting = append(s.waiting, waiting{fd: fd, peer: peer, until: now + int64(wordTime)})
		default:
			s.refuse(fd, peer, now)
		}
	}
}

// refuse says that the server is busy, as iperf3 does.
func (s *Server) refuse(fd int, peer netip.AddrPort, now int64) {
	denied := proto.AccessDenied
	_, _ = unix.Write(fd, []byte{byte(denied)}) // an empty socket takes it
	s.o.Event(Refused, peer.Addr())
	s.linger(fd, now)
}

// linger closes a connection when its peer has done so: with what it said unread,
// a close would be a reset, and the peer might not see what it was told.
func (s *Server) linger(fd int, now int64) {
	_ = unix.Shutdown(fd, unix.SHUT_WR)
	if len(s.waiting) >= maxWaiting {
		unix.Close(fd)
		return
	}
	s.waiting = append(s.waiting, waiting{fd: fd, until: now + int64(lingerTime), going: true})
}

// hear reads from a connection that waits.
func (s *Server) hear(fd int, now int64) {
	i := 0
	for i < len(s.waiting) && s.waiting[i].fd != fd {
		i++
	}
	if i == len(s.waiting) {
		return
	}
	w, t := &s.waiting[i], s.test
	want := proto.CookieBytes
	if w.going {
		w.buf, want = nil, 256 // of no interest
	}
	buf, ok := fill(fd, w.buf, want)
	w.buf = buf
	if ok && (w.going || len(buf) < want) {
		return
	}
	peer := w.peer
	s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
	switch {
	case !ok:
		unix.Close(fd)
	case t != nil && t.phase == connecting && string(buf) == string(t.cookie):
		t.connected(fd, now)
	default:
		s.refuse(fd, peer, now)
	}
}

// fill reads into buf until it has want bytes, without waiting; false: the
// connection is over.
func fill(fd int, buf []byte, want int) ([]byte, bool) {
	for len(buf) < want {
		room := make([]byte, min(want-len(buf), 4<<10))
		n, e := rawRecv(int32(fd), room, 0)
		switch {
		case e != 0:
			return buf, again(e)
		case n <= 0:
			return buf, false
		}
		buf = append(buf, room[:n]...)
	}
	return buf, true
}

// addrPort returns a socket address as netip has it; IPv4 is never mapped.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// listen makes the listening socket, and notes the sizes of its buffers.
func (s *Server) listen() error {
	fd, err := s.bound(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	if err = unix.Listen(fd, backlog+proto.MaxStreams); err != nil {
		unix.Close(fd)
		return err
	}
	s.listener = fd
	for i, name := range buffers {
		s.plain[i], _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, name) // it cannot fail
	}
	return nil
}

// buffers are the options with the size of a socket's buffers.
var buffers = [...]int{unix.SO_RCVBUF, unix.SO_SNDBUF}

// forStreams gives the listening socket the options that a test has for its streams,
// which inherit them: some of them hold from the first packet on. A socket of
// their own, as iperf3 has it, would be one that nobody listens on for a moment.
func (s *Server) forStreams(p *proto.Params) error {
	err := sized(s.listener, p.Window)
	if err == nil && p.MSS > 0 && unix.SetsockoptInt(s.listener, unix.IPPROTO_TCP, unix.TCP_MAXSEG, p.MSS) != nil {
		err = &proto.Fault{Number: proto.ErrSetMSS, Text: "the MSS"}
	}
	if err == nil && p.NoDelay {
		err = unix.SetsockoptInt(s.listener, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	return err
}

// forEverybody takes them back. Buffers whose size was set have the kernel no longer
// choose it, until it is told to (Linux 5.14).
func (s *Server) forEverybody(p *proto.Params) error {
	err := unix.SetsockoptInt(s.listener, unix.IPPROTO_TCP, unix.TCP_MAXSEG, 0)
	if err == nil {
		err = unix.SetsockoptInt(s.listener, unix.IPPROTO_TCP, unix.TCP_NODELAY, 0)
	}
	if p.Window > 0 {
		for i, name := range buffers {
			if err == nil {
				err = unix.SetsockoptInt(s.listener, unix.SOL_SOCKET, name, s.plain[i]/2) // the kernel doubles it
			}
		}
		if err == nil {
			err = unix.SetsockoptInt(s.listener, unix.SOL_SOCKET, unix.SO_BUF_LOCK, 0)
		}
	}
	return err
}

// bound returns a socket bound to the server's port: of [::], which takes IPv4 as
// well, or where the kernel has no IPv6, of 0.0.0.0.
func (s *Server) bound(kind int) (int, error) {
	family := unix.AF_INET6
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: int(s.port)}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(s.port)}
		fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	}
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// sized sets the size of a socket's buffers, unless it is 0.
func sized(fd, bytes int) error {
	if bytes <= 0 {
		return nil
	}
	for _, name := range buffers {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, bytes) != nil {
			return &proto.Fault{Number: proto.ErrSetBuffer, Text: "the socket buffers"}
		}
		if now, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, name); now < bytes {
			return &proto.Fault{Number: proto.ErrBufferCut, Text: "the kernel has no socket buffers as large"}
		}
	}
	return nil
}
