//go:build linux

package iperf3

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/services/iperf3/proto"
)

// phase is what a test waits for.
type phase uint8

const (
	cookie phase = iota
	paramsLength
	params
	connecting // streams
	running
	resultsLength
	results
	lastWord
)

// test is one test. Times are of nanotime; 0 is none.
type test struct {
	s     *Server
	fd    int // the control connection
	peer  netip.AddrPort
	phase phase
	buf   []byte
	need  int // bytes on the control connection, for the next step
	until int64

	cookie  []byte
	p       *proto.Params
	begun   bool // it was told of
	udp     int  // the socket for the next UDP stream; -1: none
	own     bool // the listener has the test's options
	closed  bool // the streams are
	streams []stream
	seen    []seen
	used    string // congestion control

	started  int64
	omitEnd  int64
	report   int64 // the next line of output
	paceAt   int64
	cpu      unix.Rusage
	cpuStart int64
	out      strings.Builder
}

// seen is what is known of a stream beside its data.
type seen struct {
	_            unequal
	local, peer  netip.AddrPort
	retransmits  int64 // at the start, or at the end of what is omitted
	lost         int64 // likewise
	packets      uint64
	shown        uint64 // bytes, up to the last line of output
	lastLost     int64
	lastPackets  uint64
	lastAt       int64
	retransAtEnd int64
}

// begin begins a test with who has connected.
func (s *Server) begin(fd int, peer netip.AddrPort, now int64) {
	for _, o := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdleSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepIntervalSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepProbes},
	} {
		if unix.SetsockoptInt(fd, o.level, o.name, o.value) != nil {
			unix.Close(fd) // it has gone already
			return
		}
	}
	s.test = &test{s: s, fd: fd, peer: peer, udp: -1, need: proto.CookieBytes, until: now + int64(wordTime)}
}

// control reads from the control connection.
func (t *test) control(now int64) {
	for t.s.test == t {
		var ok bool
		if t.buf, ok = fill(t.fd, t.buf, t.need); !ok {
			t.s.finish("the client closed the connection", 0)
			return
		}
		if len(t.buf) < t.need {
			return
		}
		got := t.buf
		t.buf, t.need = nil, 1
		t.step(got, now)
	}
}

// step goes on with what has come.
func (t *test) step(got []byte, now int64) {
	switch t.phase {
	case cookie:
		t.cookie = got
		t.phase, t.need = paramsLength, 4
		t.say(proto.ParamExchange)
	case paramsLength, resultsLength:
		n, err := proto.Length([4]byte(got), len(t.streams))
		if err != nil {
			t.fail(&proto.Fault{Number: proto.ErrParams, Text: err.Error()})
			return
		}
		t.need = n
		t.phase++
	case params:
		p, err := proto.ParseParams(got)
		if err == nil {
			t.p = p
			err = t.prepare()
		}
		if err != nil {
			t.fail(err)
			return
		}
		t.phase, t.until = connecting, now+int64(streamsTime)
		t.say(proto.CreateStreams)
	case results:
		if err := proto.CheckResults(got); err != nil {
			t.fail(err)
			return
		}
		t.phase, t.until = lastWord, now+int64(wordTime)
		t.tell()
	default:
		t.state(proto.State(int8(got[0])), now)
	}
}

// state deals with a state that the client sent.
func (t *test) state(st proto.State, now int64) {
	switch {
	case st == proto.TestEnd && t.phase == running:
		t.end(now)
		t.phase, t.need, t.until = resultsLength, 4, now+int64(resultsTime)
		t.say(proto.ExchangeResults)
	case st == proto.Done && t.phase == lastWord:
		t.s.finish("", 0)
	case st == proto.ClientTerminate:
		t.s.finish("the client ended it", 0)
	default:
		t.fail(&proto.Fault{Number: proto.ErrMessage, Text: "the client said something at a wrong time"})
	}
}

// say sends a state.
func (t *test) say(st proto.State) {
	if !sendAll(t.fd, []byte{byte(st)}) {
		t.s.finish("the client takes nothing", 0)
	}
}

// sendAll sends all of b, and waits for the peer to take it for a while; what is
// sent here fits the socket's buffer nearly always.
func sendAll(fd int, b []byte) bool {
	until := time.Now().Add(sendTime)
	for len(b) > 0 {
		n, e := rawSend(int32(fd), b)
		switch {
		case e == 0:
			b = b[n:]
		case !again(e):
			return false
		default:
			left := time.Until(until)
			if left <= 0 {
				return false
			}
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			_, _ = unix.Poll(p, int(left.Milliseconds())+1)
		}
	}
	return true
}

// fail ends the test and tells the client why.
func (t *test) fail(err error) {
	number, text := proto.ErrStream, err.Error()
	var f *proto.Fault
	if errors.As(err, &f) {
		number = f.Number
	}
	var e unix.Errno
	_ = errors.As(err, &e) // else it is 0, which is none
	refused := proto.ServerError
	b := binary.BigEndian.AppendUint32([]byte{byte(refused)}, uint32(number))
	_ = sendAll(t.fd, binary.BigEndian.AppendUint32(b, uint32(e)))
	t.s.finish(text, 0)
}

// finish ends the test; last, if it is not 0, is said to the client.
func (s *Server) finish(why string, last proto.State) {
	t := s.test
	s.test = nil
	if last != 0 {
		_ = sendAll(t.fd, []byte{byte(last)})
	}
	t.closeStreams()
	if t.udp >= 0 {
		unix.Close(t.udp)
	}
	for i := 0; i < len(s.waiting); { // its streams
		if w := s.waiting[i]; !w.going {
			unix.Close(w.fd)
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			continue
		}
		i++
	}
	s.linger(t.fd, nanotime())
	if t.own {
		if err := s.forEverybody(t.p); err != nil {
			s.fault = fmt.Errorf("the port keeps the options of a test: %w", err)
		}
	}
	s.pump = pump{fds: s.pump.fds[:0]}
	if why != "" {
		s.o.Log(t.peer.Addr().String() + ": " + why)
	}
	if t.begun {
		s.o.Event(Ends, t.peer.Addr())
	}
}

// closeStreams closes them; what they have counted stays.
func (t *test) closeStreams() {
	if t.closed {
		return
	}
	t.closed = true
	for i := range t.streams {
		unix.Close(int(t.streams[i].fd))
	}
}

// prepare has what streams will connect to.
func (t *test) prepare() (err error) {
	if t.p.UDP {
		err = t.listenUDP()
	} else if t.p.Window > 0 || t.p.MSS > 0 || t.p.NoDelay {
		t.own = true
		err = t.s.forStreams(t.p)
	}
	return err
}

// listenUDP makes the socket for the next stream.
func (t *test) listenUDP() (err error) {
	if t.udp, err = t.s.bound(unix.SOCK_DGRAM); err == nil {
		err = sized(t.udp, t.p.Window)
	}
	return err
}

// acceptUDP makes a stream of the socket that a client's first datagram has come
// to, and a new socket for the next one.
func (t *test) acceptUDP(now int64) {
	var b [5]byte
	n, sa, err := unix.Recvfrom(t.udp, b[:], unix.MSG_DONTWAIT)
	if err != nil {
		return // it was damaged
	}
	reply, ok := proto.Hello(b[:n])
	if !ok || addrPort(sa).Addr() != t.peer.Addr() {
		return // somebody else's
	}
	fd := t.udp
	t.udp = -1
	if err = unix.Connect(fd, sa); err == nil && len(t.streams)+1 < t.p.Sends()+t.p.Receives() {
		err = t.listenUDP()
	}
	if err == nil {
		err = t.tune(fd)
	}
	if err == nil {
		_, err = unix.Write(fd, reply)
	}
	if err != nil {
		unix.Close(fd)
		t.fail(err)
		return
	}
	t.connected(fd, now)
}

// tune sets what a UDP socket needs beside its buffers.
func (t *test) tune(fd int) error {
	if t.p.DontFragment {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO); err != nil {
			return err
		}
	}
	// Without it the time is that of the read.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	return nil
}

// connected takes a stream. Those that the server receives come first.
func (t *test) connected(fd int, now int64) {
	st := stream{fd: int32(fd), kind: receiveTCP}
	if len(t.streams) >= t.p.Receives() {
		st.kind = sendTCP
		st.paced = t.p.Rate > 0
	}
	if t.p.UDP {
		st.kind += receiveUDP - receiveTCP
	}
	if err := t.common(fd); err != nil {
		unix.Close(fd)
		t.fail(err)
		return
	}
	local, _ := unix.Getsockname(fd)
	peer, _ := unix.Getpeername(fd)
	t.streams = append(t.streams, st)
	t.seen = append(t.seen, seen{local: addrPort(local), peer: addrPort(peer)})
	if len(t.streams) == t.p.Sends()+t.p.Receives() {
		t.start(now)
	}
}

// common sets what streams of both protocols have.
func (t *test) common(fd int) error {
	p := t.p
	if p.TOS > 0 {
		err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, p.TOS)
		if t.peer.Addr().Is6() {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, p.TOS)
		}
		if err != nil {
			return err
		}
	}
	if p.PacingRate >= 8 {
		// A kernel or queue that does not pace sends as fast as it can.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, int(min(p.PacingRate/8, 1<<31-1)))
	}
	if p.UDP {
		return nil
	}
	if p.Congestion != "" {
		// One that this kernel does not have is not used, as with iperf3: what
		// is used is in the results.
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, p.Congestion)
	}
	used, _ := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	t.used = strings.TrimRight(used, "\x00")
	return nil
}

// start starts the test.
func (t *test) start(now int64) {
	t.begun = true
	t.s.o.Event(Begins, t.peer.Addr())
	t.say(proto.TestStart)
	if t.s.test != t {
		return
	}
	p := &t.s.pump
	*p = pump{fds: p.fds, block: make([]byte, t.p.Block), wide: t.p.Counters64}
	fillBlock(p.block)
	if t.p.SkipCopy && !t.p.UDP {
		p.receive = unix.MSG_TRUNC
	}
	if t.p.UDP && t.p.Receives() > 0 {
		p.inbox = newInbox(p.block)
	}
	t.phase, t.started, t.cpuStart, t.until = running, now, now, 0
	if t.p.Seconds > 0 {
		t.until = now + int64(time.Duration(t.p.Seconds+t.p.Omit)*time.Second+graceTime)
	}
	if t.p.Omit > 0 {
		t.omitEnd = now + int64(t.p.Omit)*int64(time.Second)
	}
	_ = unix.Getrusage(unix.RUSAGE_SELF, &t.cpu) // fails for a bad pointer only
	for i := range t.streams {
		t.seen[i].retransmits, t.seen[i].lastAt = retransmits(&t.streams[i]), now
		if t.streams[i].paced {
			t.paceAt = now
		}
	}
	if t.p.ServerOutput {
		t.report = now + int64(time.Second)
		t.head()
	}
	t.say(proto.TestRunning)
}

// fillBlock fills a block with bytes that do not compress.
func fillBlock(b []byte) {
	x := uint32(2463534242) // any but 0: Marsaglia's xorshift
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
}

// due does what a deadline of the test is over for.
func (t *test) due(now int64) {
	if t.paceAt != 0 && now >= t.paceAt && t.phase == running {
		t.paceAt = t.pace(now)
	}
	if t.omitEnd != 0 && now >= t.omitEnd {
		t.omitted(now)
	}
	if t.report != 0 && now >= t.report {
		t.lines(now, false)
		t.report += int64(time.Second)
	}
	if t.until == 0 || now < t.until {
		return
	}
	if t.phase == running {
		t.fail(&proto.Fault{Number: proto.ErrDuration, Text: "the client did not end its test in time"})
		return
	}
	t.s.finish("the client says nothing", 0)
}

// omitted forgets what was counted so far.
func (t *test) omitted(now int64) {
	t.omitEnd, t.started = 0, now
	for i := range t.streams {
		st, s := &t.streams[i], &t.seen[i]
		st.bytes = 0
		s.retransmits, s.lost, s.packets = retransmits(st), st.got.Lost, packets(st)
		s.shown, s.lastAt, s.lastLost, s.lastPackets = 0, now, s.lost, s.packets
		st.got.ForgetJitter()
	}
	if t.report != 0 {
		t.report = now + int64(time.Second)
	}
}

func packets(st *stream) uint64 {
	if st.kind == sendUDP {
		return st.sent
	}
	return st.got.Packets
}

// pace sends what is due of streams with a rate, and returns when to go on.
func (t *test) pace(now int64) int64 {
	p := &t.s.pump
	burst := max(1, t.p.Burst)
	left := false
	for i := range t.streams {
		st := &t.streams[i]
		if !st.paced || st.over {
			continue
		}
		left = true
		allowed := uint64(float64(now-t.started) * float64(t.p.Rate) / 8e9)
	sending:
		for st.bytes <= allowed && !st.over {
			for range burst {
				if st.kind == sendUDP {
					if !p.datagram(st) {
						break sending
					}
					continue
				}
				n, e := rawSend(st.fd, p.block)
				if e != 0 {
					if !again(e) {
						st.over, st.err = true, e
					}
					break sending
				}
				st.bytes += uint64(n)
			}
		}
	}
	if !left {
		return 0
	}
	return now + int64(pace)
}

// retransmits is how often the kernel sent a stream's data again; -1: not known.
func retransmits(st *stream) int64 {
	if st.kind != sendTCP {
		return -1
	}
	info, err := unix.GetsockoptTCPInfo(int(st.fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return -1
	}
	return int64(info.Total_retrans)
}

// end ends the moving of data.
func (t *test) end(now int64) {
	t.drain()
	if t.report != 0 {
		t.lines(now, false)
		t.lines(now, true)
	}
	var cpu unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &cpu)
	cpu.Utime = unix.NsecToTimeval(cpu.Utime.Nano() - t.cpu.Utime.Nano())
	cpu.Stime = unix.NsecToTimeval(cpu.Stime.Nano() - t.cpu.Stime.Nano())
	t.cpu = cpu
	t.cpuStart = now - t.cpuStart // how long it took
	for i := range t.streams {
		st, s := &t.streams[i], &t.seen[i]
		s.retransAtEnd = retransmits(st)
		s.lastAt = now
	}
	t.omitEnd, t.report, t.paceAt = 0, 0, 0
	t.closeStreams()
}

// mostDrained bounds what drain takes of a stream: more than a socket holds.
const mostDrained = 8 << 20

// drain counts what has been received and not been read yet: with an end by bytes
// all of it may be.
func (t *test) drain() {
	p := &t.s.pump
	for i := range t.streams {
		st := &t.streams[i]
		from, before := st.bytes, ^uint64(0)
		for st.kind == receiveTCP && !st.over && st.bytes != before && st.bytes-from < mostDrained {
			before = st.bytes
			p.receiveTCP(st)
		}
	}
}

// tell sends the results.
func (t *test) tell() {
	r := proto.Results{HasRetransmits: -1, Congestion: t.used, Output: t.out.String()}
	wall := float64(max(t.cpuStart, 1))
	r.CPUUser, r.CPUSystem = 100*float64(t.cpu.Utime.Nano())/wall, 100*float64(t.cpu.Stime.Nano())/wall
	r.CPUTotal = r.CPUUser + r.CPUSystem
	if t.p.Sends() > 0 {
		r.HasRetransmits = 0
		if !t.p.UDP {
			r.HasRetransmits = 1
		}
	}
	var sum [2]uint64
	took := 0.0
	r.Streams = make([]proto.Stream, len(t.streams))
	for i := range t.streams {
		st, s, one := &t.streams[i], &t.seen[i], &r.Streams[i]
		took = float64(s.lastAt-t.started) / 1e9
		one.ID, one.Bytes, one.Retransmits, one.End = proto.StreamID(i), st.bytes, -1, took
		one.Jitter, one.Errors, one.OmittedErrors = st.got.Jitter(), st.got.Lost, s.lost
		one.Packets, one.OmittedPackets = packets(st), s.packets
		if s.retransAtEnd >= 0 {
			one.Retransmits = s.retransAtEnd - max(0, s.retransmits)
		}
		sum[st.kind&sends] += st.bytes
	}
	b, err := r.Append(nil)
	if err != nil || !sendAll(t.fd, b) {
		t.s.finish("the client does not take the results", 0)
		return
	}
	t.say(proto.DisplayResults)
	t.s.o.Log(fmt.Sprintf("%s: %.1f s, %.1f %% CPU, %d bytes received, %d sent", t.peer.Addr(), took, r.CPUTotal, sum[0], sum[1]))
}
