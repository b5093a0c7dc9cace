package clock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/services/clock/clocktest"
)

// near says whether a sample is right about a server that is ahead by that.
func near(t *testing.T, s sample, ahead time.Duration) {
	t.Helper()
	off := s.truth.Sub(s.at.Round(0)) - ahead
	if off.Abs() > s.distance {
		t.Errorf("off by %v, which is more than the %v that it claims", off, s.distance)
	}
}

func TestAsk(t *testing.T) {
	forged := func(a []byte) []byte {
		b := bytes.Clone(a)
		b[24] ^= 1
		b[40] += 9 // another time, too
		return b
	}
	for _, tt := range []struct {
		name   string
		ahead  time.Duration
		change func(a []byte, before int) [][]byte
		want   error
	}{
		{"plain", 0, nil, nil},
		{"years ahead", 20 * 365 * 24 * time.Hour, nil, nil}, // past 2036 and 2038
		{"first one lost", 0, func(a []byte, before int) [][]byte {
			if before == 0 {
				return nil
			}
			return [][]byte{a}
		}, nil},
		{"forged, short and doubled ones before", 0, func(a []byte, _ int) [][]byte {
			return [][]byte{forged(a), a[:20], {}, a, a}
		}, nil},
		{"kiss of death", 0, func(a []byte, _ int) [][]byte {
			a[1] = 0
			copy(a[12:], "RATE")
			return [][]byte{a}
		}, errTooOften},
		{"forged kiss of death before", 0, func(a []byte, _ int) [][]byte {
			k := forged(a)
			k[1] = 0
			copy(k[12:], "DENY")
			return [][]byte{k, a}
		}, nil},
		{"server that does not know", 0, func(a []byte, _ int) [][]byte {
			a[0] |= 0xc0
			return [][]byte{a}
		}, errUnsynced},
		{"server far from true time", 0, func(a []byte, _ int) [][]byte {
			binary.BigEndian.PutUint32(a[8:], 5<<16)
			return [][]byte{a}
		}, errTooFar},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr := clocktest.Serve(t, func() time.Time { return time.Now().Add(tt.ahead) }, tt.change)
			s, err := ask(t.Context(), peer{"test", addr})
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if err == nil {
				near(t, s, tt.ahead)
			}
		})
	}
}

// Nobody there is an answer of its own; nobody who answers takes its time, but
// not beyond the context's end.
func TestAskNobody(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := ask(ctx, peer{"test", addr})
		done <- err
	}()
	var b [64]byte
	if n, _, err := conn.ReadFrom(b[:]); n != packetBytes || err != nil {
		t.Errorf("the question has %d bytes, %v", n, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's end", err)
	}
	conn.Close()
	if _, err := ask(t.Context(), peer{"test", addr}); err == nil || err.Error() != "read: connection refused" {
		t.Errorf("%v, want the refusal, without a port that is another one each time", err)
	}
}

func TestWithoutPort(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&net.DNSError{Err: "read udp 10.0.0.2:40001->10.0.0.1:53: i/o timeout", Name: "time.example", Server: "10.0.0.1:53", IsTimeout: true}, "lookup time.example on 10.0.0.1:53: i/o timeout"},
		{&net.DNSError{Err: "no such host", Name: "time.example", Server: "10.0.0.1:53"}, "lookup time.example on 10.0.0.1:53: no such host"},
		{&net.OpError{Op: "write", Net: "udp", Err: errors.New("network is unreachable")}, "network is unreachable"},
		{errNonsense, errNonsense.Error()},
	} {
		if got := withoutPort(tt.err); got.Error() != tt.want {
			t.Errorf("%v is %v, want %s", tt.err, got, tt.want)
		}
	}
	if withoutPort(nil) != nil {
		t.Error("no error is one")
	}
}

// chronyd is where test/deps/deps.sh has unpacked it: installed, it would be
// the machine's own time service.
func chronyd(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "gwinit/chrony/usr/sbin/chronyd")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; test/deps/deps.sh test gets it", err)
	}
	return path
}

// A real server: chronyd, which leaves the machine's clock alone (-x).
func TestChrony(t *testing.T) {
	// A port that was free a moment ago.
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	addr := free.LocalAddr().(*net.UDPAddr).AddrPort()
	free.Close()
	dir := t.TempDir()
	conf := filepath.Join(dir, "chrony.conf")
	text := "local stratum 8\nallow 127.0.0.1\nbindaddress 127.0.0.1\ncmdport 0\nbindcmdaddress /\npidfile " + dir + "/pid\nport " +
		strings.TrimPrefix(addr.String(), "127.0.0.1:") + "\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(chronyd(t), "-x", "-u", "root", "-d", "-f", conf)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	defer stop()
	for end := time.Now().Add(20 * time.Second); ; {
		s, err := ask(t.Context(), peer{"chrony", addr})
		if err == nil {
			near(t, s, 0)
			if s.stratum != 8 {
				t.Errorf("stratum %d, want 8", s.stratum)
			}
			return
		}
		if time.Now().After(end) {
			stop()
			t.Fatalf("%v; chronyd said:\n%s", err, said.String())
		}
		time.Sleep(50 * time.Millisecond) // until it listens
	}
}

func TestPeerString(t *testing.T) {
	addr := netip.MustParseAddrPort("10.0.0.1:123")
	if s := (peer{"time.example", addr}).String(); s != "time.example (10.0.0.1)" {
		t.Error(s)
	}
	if s := (peer{"10.0.0.1", addr}).String(); s != "10.0.0.1" {
		t.Error(s)
	}
}
