//go:build linux

package iperf3

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/services/iperf3/proto"
)

// served is a server with what it has told.
type served struct {
	*Server
	t *testing.T

	mu     sync.Mutex // guards the following
	events string
	lines  []string
}

func serve(t *testing.T, o Options) *served {
	t.Helper()
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Fatalf("%v: apt-get install iperf3", err)
	}
	s := &served{t: t}
	also := o.Event
	o.Event = func(kind EventKind, peer netip.Addr) {
		if also != nil {
			also(kind, peer)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events += string(rune(kind))
	}
	o.Log = func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(s.lines, line)
	}
	var err error
	if s.Server, err = Listen(o); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run() }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

// sum is that of a client's streams.
type sum struct {
	Bytes   float64
	Seconds float64
	Rate    float64 `json:"bits_per_second"`
	Lost    float64 `json:"lost_packets"`
	Packets float64
	Jitter  float64 `json:"jitter_ms"`
	Retrans *int    `json:"retransmits"`
}

// report is a client's.
type report struct {
	Error string
	End   struct {
		Streams      []json.RawMessage
		Sum          sum
		Sent         sum    `json:"sum_sent"`
		Received     sum    `json:"sum_received"`
		SentBack     sum    `json:"sum_sent_bidir_reverse"`
		ReceivedBack sum    `json:"sum_received_bidir_reverse"`
		Congestion   string `json:"sender_tcp_congestion"`
		CPU          struct {
			Remote float64 `json:"remote_total"`
		} `json:"cpu_utilization_percent"`
	}
	Output string `json:"server_output_text"`
}

// client runs iperf3.
func (s *served) client(args ...string) (r report, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	host := "127.0.0.1"
	if args[0] == "-6" {
		host = "::1"
	}
	all := append([]string{"-J", "-c", host, "-p", fmt.Sprint(s.Port())}, args...)
	text, err := exec.CommandContext(ctx, "iperf3", all...).Output()
	if jerr := json.Unmarshal(text, &r); jerr != nil {
		return r, errors.Join(err, jerr)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, err
}

// The real client, by what its options have the server do.
func TestRealClient(t *testing.T) {
	s := serve(t, Options{})
	near := func(t *testing.T, what string, got, want, tolerance float64) {
		t.Helper()
		if got < want*(1-tolerance) || got > want*(1+tolerance) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	tests := []struct {
		args  string
		check func(t *testing.T, r *report)
	}{
		{"-t 1", nil},
		{"-t 1 -R", func(t *testing.T, r *report) {
			if r.End.Sent.Retrans == nil || r.End.Congestion == "" {
				t.Errorf("the sender's end: %+v, congestion control %q", r.End.Sent, r.End.Congestion)
			}
		}},
		{"-t 1 --bidir", func(t *testing.T, r *report) {
			if r.End.SentBack.Bytes < 1e6 || r.End.ReceivedBack.Bytes < 1e6 {
				t.Errorf("back: %+v, %+v", r.End.SentBack, r.End.ReceivedBack)
			}
		}},
		{"-t 1 -P 5", func(t *testing.T, r *report) {
			if len(r.End.Streams) != 5 {
				t.Errorf("%d streams", len(r.End.Streams))
			}
		}},
		{"-t 1 -P 3 -R", nil},
		{"-t 1 -P 2 --bidir", func(t *testing.T, r *report) {
			if len(r.End.Streams) != 4 {
				t.Errorf("%d streams", len(r.End.Streams))
			}
		}},
		{"-6 -t 1", nil},
		{"-n 20M", func(t *testing.T, r *report) { near(t, "received", r.End.Received.Bytes, 20<<20, 0.01) }},
		{"-n 20M -R", func(t *testing.T, r *report) {
			if r.End.Received.Bytes < 20<<20 {
				t.Errorf("received %v", r.End.Received.Bytes)
			}
		}},
		{"-k 100 -l 10000", func(t *testing.T, r *report) { near(t, "received", r.End.Received.Bytes, 1e6, 0.01) }},
		{"-t 2 -R -b 20M", func(t *testing.T, r *report) { near(t, "rate", r.End.Sent.Rate, 20e6, 0.15) }},
		{"-t 2 -b 20M", func(t *testing.T, r *report) { near(t, "rate", r.End.Received.Rate, 20e6, 0.15) }},
		{"-t 1 -R -C reno", func(t *testing.T, r *report) {
			if r.End.Congestion != "reno" {
				t.Errorf("congestion control %s", r.End.Congestion)
			}
		}},
		{"-t 1 -w 100K", nil},
		{"-t 1 -R -w 100K -M 900 -N", nil},
		{"-t 1 -S 32", nil},
		{"-t 1 -R -Z", nil},
		{"-t 1 -O 1", func(t *testing.T, r *report) { near(t, "time", r.End.Received.Seconds, 1, 0.4) }},
		{"-t 1 --get-server-output", func(t *testing.T, r *report) {
			if !strings.Contains(r.Output, "Accepted connection from 127.0.0.1:") || !strings.Contains(r.Output, "Mbits/sec  receiver\n") {
				t.Errorf("output %q", r.Output)
			}
		}},
		{"-t 2 -R --get-server-output", func(t *testing.T, r *report) {
			if n := strings.Count(r.Output, "Mbits/sec"); n < 3 || !strings.Contains(r.Output, "sender\n") {
				t.Errorf("output %q", r.Output)
			}
		}},
		{"-u -t 2 -b 8M -l 1000", func(t *testing.T, r *report) {
			near(t, "datagrams", r.End.Sum.Packets, 2000, 0.1)
			if r.End.Sum.Lost > r.End.Sum.Packets/2 || r.End.Sum.Jitter <= 0 || r.End.Sum.Jitter > 100 {
				t.Errorf("%+v", r.End.Sum)
			}
		}},
		{"-u -t 2 -b 8M -l 1000 -R", func(t *testing.T, r *report) { near(t, "datagrams", r.End.Sum.Packets, 2000, 0.1) }},
		{"-u -t 1 -b 2M -l 1000 --bidir", nil},
		{"-u -t 1 -b 2M -l 1000 -P 3", func(t *testing.T, r *report) {
			if len(r.End.Streams) != 3 {
				t.Errorf("%d streams", len(r.End.Streams))
			}
		}},
		{"-u -t 1 -b 2M --udp-counters-64bit -R", nil},
		{"-6 -u -t 1 -b 2M -l 1000", nil},
		{"-u -t 1 -b 0 -l 1000", func(t *testing.T, r *report) { // more than is taken: what is lost is counted
			if r.End.Sum.Lost >= r.End.Sum.Packets || r.End.Sum.Packets < 1000 {
				t.Errorf("%+v", r.End.Sum)
			}
		}},
		{"-u -t 1 -b 0 -l 1000 -R", nil},
		{"-u -t 1 -b 2M -l 1000 -O 1", nil},
		{"-u -t 1 -b 2M -w 200K --dont-fragment", nil},
		{"-u -t 1 -b 2M -l 1000 --get-server-output", func(t *testing.T, r *report) {
			if !strings.Contains(r.Output, " ms  0/") {
				t.Errorf("output %q", r.Output)
			}
		}},
	}
	for i, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			r, err := s.client(strings.Fields(tt.args)...)
			if err != nil {
				t.Fatal(err)
			}
			if sent, got := r.End.Sent, r.End.Received; !strings.Contains(tt.args, "-u") && !strings.Contains(tt.args, "-O") && (sent.Bytes < 1e5 || got.Bytes < 1e5 || got.Bytes > sent.Bytes+1) {
				t.Errorf("sent %+v, received %+v", sent, got)
			}
			if tt.check != nil {
				tt.check(t, &r)
			}
		})
		s.await(strings.Repeat("be", i+1))
	}
}

// What cannot be had is an error that the client prints.
func TestRefusesParameters(t *testing.T) {
	s := serve(t, Options{})
	if _, err := s.client("-t", "1", "-w", "500M"); err == nil || !strings.Contains(err.Error(), "socket buffer size") {
		t.Errorf("buffers of 500 MiB: %v", err)
	}
	if _, err := s.client("-t", "1"); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestSecondClientIsRefused(t *testing.T) {
	s := serve(t, Options{})
	done := make(chan error, 1)
	go func() {
		_, err := s.client("-t", "3")
		done <- err
	}()
	s.await("b")
	if _, err := s.client("-t", "1"); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("the second: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("the first: %v", err)
	}
	s.await("bre")
}

func (s *served) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// await waits for events.
func (s *served) await(events string) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); s.seen() != events; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("events %s, want %s", s.seen(), events)
		}
	}
}

func TestOnlyThePeer(t *testing.T) {
	s := serve(t, Options{Peer: netip.MustParseAddr("192.0.2.9")})
	if _, err := s.client("-t", "1"); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("somebody else: %v", err)
	}
	s = serve(t, Options{Peer: netip.MustParseAddr("127.0.0.1")})
	if _, err := s.client("-t", "1"); err != nil {
		t.Errorf("the peer: %v", err)
	}
}

// A client that is killed, or never says anything sensible, ends its own test and
// nothing else.
func TestBrokenClients(t *testing.T) {
	s := serve(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "iperf3", "-c", "127.0.0.1", "-p", fmt.Sprint(s.Port()), "-t", "60", "-P", "3")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.await("b")
	cancel()
	_ = cmd.Wait()
	s.await("be")

	cookie := strings.Repeat("c", proto.CookieBytes-1) + "\x00"
	sized := func(text string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text }
	for _, said := range []string{
		"", "SSH-2.0-x\r\n", cookie, cookie + "\xff\xff\xff\xff", cookie + "\x00\x00\x00\x00", cookie + sized("{"),
		cookie + sized(`{"tcp":true,"len":1000}`), cookie + sized(`{"tcp":true,"len":1000,"nodelay":true}`), cookie + sized(`{"udp":true}`),
		cookie + sized(`{"tcp":true,"len":1000}`) + "\x04", cookie + sized(`{"tcp":true,"len":1000}`) + "\x0c",
	} {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port()))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, said)
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: %v", said, err)
		}
		c.Close()
	}
	if _, err := s.client("-t", "1", "-R"); err != nil {
		t.Errorf("after those: %v", err)
	}
}

// Descriptors are as many after tests as before.
func TestDescriptors(t *testing.T) {
	s := serve(t, Options{})
	count := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(d)
	}
	if _, err := s.client("-t", "1"); err != nil {
		t.Fatal(err)
	}
	s.await("be")
	settled := func() (n int) {
		for end := time.Now().Add(2 * lingerTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			n = count()
		}
		return n
	}
	before := settled()
	for i, args := range []string{"-n 1M -P 4", "-u -t 1 -P 3", "-t 1 -R -w 100K", "-u -t 1 -R"} {
		if _, err := s.client(strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
		// Nobody listens for a moment after one with -w.
		s.await(strings.Repeat("be", i+2))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "iperf3", "-c", "127.0.0.1", "-p", fmt.Sprint(s.Port()), "-t", "60", "-P", "3", "-R")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.await("bebebebebeb")
	cancel()
	_ = cmd.Wait()
	s.await("bebebebebebe")
	if after := settled(); after != before {
		t.Errorf("%d descriptors, and %d before", after, before)
	}
}

// talks is how a client written here talks to a server: it dials, and reads what
// it wants to be said next.
func talks(t *testing.T, port uint16) (dial func() net.Conn, read func(c net.Conn, want string)) {
	dial = func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	read = func(c net.Conn, want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
			t.Fatalf("it said %q, %v; want %q", b, err, want)
		}
	}
	return dial, read
}

// A stream with another cookie is not one of the test's.
func TestForeignStream(t *testing.T) {
	s := serve(t, Options{})
	dial, read := talks(t, s.Port())
	cookie := strings.Repeat("c", proto.CookieBytes-1) + "\x00"
	control := dial()
	_, _ = io.WriteString(control, cookie)
	read(control, "\x09")
	const params = `{"tcp":true,"len":1000,"time":1}`
	_, _ = control.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(params))), params...))
	read(control, "\x0a")
	foreign := dial()
	_, _ = io.WriteString(foreign, strings.Replace(cookie, "c", "d", 1))
	read(foreign, "\xff")
	stream := dial()
	_, _ = io.WriteString(stream, cookie[:10])
	_, _ = io.WriteString(stream, cookie[10:])
	read(control, "\x01\x02")
	_, _ = stream.Write(make([]byte, 12345))
	_ = stream.(*net.TCPConn).CloseWrite()
	// It has read them all when it has seen the end.
	if b, err := io.ReadAll(io.LimitReader(stream, 1)); err == nil && len(b) > 0 {
		t.Errorf("it sends %q", b)
	}
}

// The streams of a test with -w, -M and -N have these options, and it leaves nothing
// behind: the socket that listens is the same throughout, and the next test's
// streams are as if there had been none.
func TestSocketOptions(t *testing.T) {
	var s atomic.Pointer[Server]
	type options struct{ receive, send, lock, mss, noDelay int }
	look := func(fd int) (o options) {
		for _, v := range []struct {
			to          *int
			level, name int
		}{
			{&o.receive, unix.SOL_SOCKET, unix.SO_RCVBUF},
			{&o.send, unix.SOL_SOCKET, unix.SO_SNDBUF},
			{&o.lock, unix.SOL_SOCKET, unix.SO_BUF_LOCK},
			{&o.mss, unix.IPPROTO_TCP, unix.TCP_MAXSEG},
			{&o.noDelay, unix.IPPROTO_TCP, unix.TCP_NODELAY},
		} {
			n, err := unix.GetsockoptInt(fd, v.level, v.name)
			if err != nil {
				t.Errorf("option %d: %v", v.name, err)
			}
			*v.to = n
		}
		return o
	}
	seen := make(chan [2]options, 8)                                       // the listener's and a stream's, of each test
	served := serve(t, Options{Event: func(kind EventKind, _ netip.Addr) { // of Run's goroutine
		if kind == Begins {
			seen <- [2]options{look(s.Load().listener), look(int(s.Load().test.streams[0].fd))}
		} else {
			seen <- [2]options{look(s.Load().listener)}
		}
	}})
	s.Store(served.Server) // before anybody connects
	listens := func() string {
		b, err := os.ReadFile("/proc/net/tcp6")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); strings.HasSuffix(f[1], fmt.Sprintf(":%04X", served.Port())) && f[3] == "0A" {
				return f[9] // its inode
			}
		}
		t.Fatal("nobody listens")
		return ""
	}
	inode := listens()
	var plain [2]options
	for i, args := range [][]string{{"-t", "1"}, {"-t", "1", "-w", "100K", "-M", "900", "-N"}, {"-t", "1"}, {"-t", "1", "-R", "-w", "30K"}, {"-t", "1"}} {
		if _, err := served.client(args...); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		begin, end := <-seen, <-seen
		if now := listens(); now != inode {
			t.Errorf("after %q another socket listens", args)
		}
		if i == 0 {
			plain = [2]options{begin[0], begin[1]}
			continue
		}
		if end[0] != plain[0] {
			t.Errorf("after %q the listener has %+v, and had %+v", args, end[0], plain[0])
		}
		stream := begin[1]
		switch i {
		case 1:
			if stream.receive != 200<<10 || stream.send != 200<<10 || stream.lock != 3 || stream.mss > 900 || stream.noDelay != 1 {
				t.Errorf("%q: a stream has %+v", args, stream)
			}
		case 3:
			if stream.receive != 60<<10 || stream.send != 60<<10 || stream.noDelay != 0 {
				t.Errorf("%q: a stream has %+v", args, stream)
			}
		default:
			if stream.lock != 0 || stream.mss != plain[1].mss || stream.noDelay != 0 {
				t.Errorf("%q: a stream has %+v, and had %+v", args, stream, plain[1])
			}
		}
	}
}

// A client that connects while a test with socket options of its own ends is
// served.
func TestConnectsAtAnEnd(t *testing.T) {
	begins, goOn := make(chan bool), make(chan bool)
	s, err := Listen(Options{Event: func(kind EventKind, _ netip.Addr) {
		if kind == Begins {
			begins <- true
			<-goOn
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run() }()
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(func() {
		release()
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	dial, read := talks(t, s.Port())
	cookie := strings.Repeat("c", proto.CookieBytes-1) + "\x00"
	first := dial()
	_, _ = io.WriteString(first, cookie)
	read(first, "\x09")
	const params = `{"tcp":true,"len":1000,"time":1,"nodelay":true}`
	_, _ = first.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(params))), params...))
	read(first, "\x0a")
	stream := dial()
	_, _ = io.WriteString(stream, cookie)
	select {
	case <-begins:
	case <-time.After(time.Minute):
		t.Fatal("it does not begin")
	}
	// The server stands still: when it goes on, it sees the end of the one and the
	// other at once.
	_, _ = io.WriteString(first, "\x0c")
	next, third := dial(), dial()
	release()
	_, _ = io.WriteString(next, cookie)
	read(next, "\x09")
	read(third, "\xff")
}
