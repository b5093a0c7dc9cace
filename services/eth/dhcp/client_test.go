package dhcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"gwinit/services/eth/dhcp"
	"gwinit/services/eth/dhcp/dhcptest"
)

var (
	mac  = [6]byte{0x02, 0x12, 0x34, 0x56, 0x78, 0x9a}
	home = dhcptest.Server{ID: ip("10.0.0.1"), Addr: ip("10.0.0.50"), Lease: time.Hour}
	away = dhcptest.Server{ID: ip("172.16.0.1"), Addr: ip("172.16.0.9"), Lease: time.Hour}
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// told is a dhcp.Handler that remembers.
type told struct {
	mu     sync.Mutex
	began  time.Time
	lines  []string
	leases []dhcp.Lease
}

func (h *told) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *told) Bound(l dhcp.Lease) {
	h.add("bound " + l.Addr.String())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases = append(h.leases, l)
}
func (h *told) Lost(why string) { h.add("lost: " + why) }
func (h *told) NoServer()       { h.add(fmt.Sprintf("no server after %v", time.Since(h.began))) }
func (h *told) InUse(addr netip.Addr, other [6]byte) {
	h.add(fmt.Sprintf("%v in use by %x", addr, other))
}
func (h *told) Event(text string) { h.add("event: " + text) }

func (h *told) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines
	h.lines = nil
	return l
}

// lab is a running client in a synctest bubble.
type lab struct {
	*dhcptest.Net
	t      *testing.T
	client *dhcp.Client
	told   *told
}

// resumeAge is the age of a Config's Resume.
const resumeAge = 10 * time.Minute

func run(t *testing.T, cfg dhcp.Config, test func(l *lab)) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{Net: dhcptest.New(), t: t, told: &told{began: time.Now()}}
		cfg.MAC = mac
		cfg.Resume.Acquired = time.Now().Add(-resumeAge)
		l.client = dhcp.New(cfg, l.Net, l.told)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.client.Run(ctx)
		}()
		test(l)
		stop()
		<-done
		if n := l.Open(); n != 0 {
			t.Errorf("%d sockets left open", n)
		}
	})
}

// pass lets d go by and returns what was sent meanwhile.
func (l *lab) pass(d time.Duration) []dhcptest.Sent {
	l.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	return l.Take()
}

// expect compares what was sent and told with the course that should be.
func (l *lab) expect(sent []dhcptest.Sent, want []string, told ...string) {
	l.t.Helper()
	var got []string
	for _, s := range sent {
		got = append(got, s.String())
	}
	if !slices.Equal(got, want) {
		l.t.Errorf("sent\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	if said := l.told.take(); !slices.Equal(said, told) {
		l.t.Errorf("told %q, want %q", said, told)
	}
}

// bind gets a lease from home.
func (l *lab) bind() {
	l.t.Helper()
	l.Serve(home.Answer)
	l.client.Carrier(true)
	l.expect(l.pass(500*time.Millisecond), []string{
		"DISCOVER packet 255.255.255.255",
		"REQUEST packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
	}, "bound 10.0.0.50/24")
	if l.Open() != 0 {
		l.t.Error("a socket is open while bound")
	}
}

func TestRenewRebindExpire(t *testing.T) {
	run(t, dhcp.Config{Hostname: "gw"}, func(l *lab) {
		l.bind()
		l.expect(l.pass(29*time.Minute), nil)
		// T1: to the server that option 54 named, and nobody else.
		l.expect(l.pass(2*time.Minute), []string{"REQUEST udp 10.0.0.1 ciaddr 10.0.0.50"}, "bound 10.0.0.50/24")
		l.expect(l.pass(28*time.Minute), nil)

		// It counts from the renewal, sent at 30:00, so T1 is at 60:00,
		// T2 at 82:30, the end at 90:00. Now 59:00.
		l.Serve(nil)
		var sent []string
		for _, s := range l.pass(23 * time.Minute) {
			sent = append(sent, s.String())
		}
		if len(sent) < 4 || slices.ContainsFunc(sent, func(s string) bool { return s != "REQUEST udp 10.0.0.1 ciaddr 10.0.0.50" }) {
			t.Errorf("renewing sent %q", sent)
		}
		l.told.take()
		last := l.pass(time.Minute)
		l.expect(last[len(last)-1:], []string{"REQUEST udp 255.255.255.255 ciaddr 10.0.0.50"},
			"event: 10.0.0.1 does not renew the lease, asking everybody")
		l.pass(6*time.Minute + 50*time.Second)
		if said := l.told.take(); len(said) != 0 {
			t.Errorf("told %q before the end", said)
		}
		if got := l.pass(15 * time.Second); len(got) == 0 || got[0].String() != "DISCOVER packet 255.255.255.255" {
			t.Errorf("at the lease's end sent %v", got)
		}
		if said := l.told.take(); !slices.Equal(said, []string{"lost: the lease ended unrenewed"}) {
			t.Errorf("told %q", said)
		}
		// And it comes back by itself, whenever that is.
		l.pass(12 * time.Hour)
		l.told.take()
		l.Serve(home.Answer)
		l.pass(73 * time.Second)
		if said := l.told.take(); !slices.Equal(said, []string{"bound 10.0.0.50/24"}) {
			t.Errorf("told %q", said)
		}
	})
}

func TestRebindByOtherServer(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.bind()
		other := home
		other.ID = ip("10.0.0.2")
		l.Serve(other.Answer)
		l.pass(55 * time.Minute)
		l.told.take()
		if got := l.told.leases[len(l.told.leases)-1]; got.Server != other.ID {
			t.Errorf("lease of %v, want %v's", got.Server, other.ID)
		}
	})
}

// A dnsmasq lease is 2 minutes at least; half of what is left, but 60 s, would
// be one renewal.
func TestShortLeaseIsRenewedMoreThanOnce(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		short := home
		short.Lease = 2 * time.Minute
		l.Serve(short.Answer)
		l.client.Carrier(true)
		l.pass(time.Second)
		l.Serve(nil)
		n := len(l.pass(103 * time.Second)) // T1 60 s, T2 105 s
		if n < 2 || n > 8 {
			t.Errorf("%d renewals asked for in 45 s", n)
		}
	})
}

func TestNoServer(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.client.Carrier(true)
		sent := l.pass(10 * time.Minute)
		if said := l.told.take(); !slices.Equal(said, []string{"no server after 10s"}) {
			t.Errorf("told %q", said)
		}
		for i, s := range sent {
			if s.String() != "DISCOVER packet 255.255.255.255" {
				t.Fatalf("sent %v", s)
			}
			if i == 0 {
				continue
			}
			gap := s.At - sent[i-1].At
			want := min(time.Minute, time.Second<<min(i-1, 8))
			if gap < want*8/10 || gap > want*12/10 {
				t.Errorf("try %d came %v after the one before, want %v and 20 %% either way", i, gap, want)
			}
		}
		if n := len(sent); n < 14 {
			t.Errorf("%d tries in 10 minutes: it gave up", n)
		}
		if a, b := sent[len(sent)-1].At-sent[len(sent)-2].At, sent[len(sent)-2].At-sent[len(sent)-3].At; a == b {
			t.Error("no jitter")
		}
		l.Serve(home.Answer)
		l.pass(73 * time.Second)
		if said := l.told.take(); !slices.Equal(said, []string{"bound 10.0.0.50/24"}) {
			t.Errorf("told %q", said)
		}
	})
}

// Nothing is asked without a cable, and the lease still ends.
func TestNoCarrier(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.Serve(home.Answer)
		l.expect(l.pass(time.Hour), nil)
		l.client.Carrier(true)
		l.pass(time.Second)
		l.told.take()
		l.client.Carrier(false)
		l.expect(l.pass(58*time.Minute), nil)
		l.expect(l.pass(2*time.Minute), nil, "lost: the lease ended unrenewed")
		l.client.Carrier(true)
		l.expect(l.pass(2*time.Second), []string{
			"DISCOVER packet 255.255.255.255",
			"REQUEST packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
		}, "bound 10.0.0.50/24")
	})
}

func TestCableMoved(t *testing.T) {
	tests := []struct {
		name  string
		there func(dhcptest.Sent) *dhcpv4.DHCPv4
		sent  []string
		told  []string
	}{
		{
			"back on the same network", home.Answer,
			[]string{"REQUEST packet 255.255.255.255 want 10.0.0.50"},
			[]string{"bound 10.0.0.50/24"},
		},
		{
			"its server says no", away.Answer,
			[]string{
				"REQUEST packet 255.255.255.255 want 10.0.0.50",
				"DISCOVER packet 255.255.255.255",
				"REQUEST packet 255.255.255.255 want 172.16.0.9 server 172.16.0.1",
			},
			[]string{"lost: refused by 172.16.0.1: wrong network", "bound 172.16.0.9/24"},
		},
		{
			"its server knows nothing of us and is silent",
			func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
				if s.Msg.MessageType() == dhcpv4.MessageTypeRequest && s.Msg.ServerIdentifier() == nil {
					return nil
				}
				return away.Answer(s)
			},
			[]string{
				"REQUEST packet 255.255.255.255 want 10.0.0.50",
				"REQUEST packet 255.255.255.255 want 10.0.0.50",
				"DISCOVER packet 255.255.255.255 want 10.0.0.50",
				"REQUEST packet 255.255.255.255 want 172.16.0.9 server 172.16.0.1",
			},
			[]string{"bound 172.16.0.9/24"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, dhcp.Config{}, func(l *lab) {
				l.bind()
				l.pass(5 * time.Minute)
				l.client.Carrier(false)
				l.pass(5 * time.Second)
				l.Serve(tt.there)
				l.client.Carrier(true)
				l.expect(l.pass(3*time.Second), tt.sent, tt.told...)
			})
		})
	}
}

// The address stays in use where nobody answers after the cable came back: the
// server may be booting too.
func TestServerGoneAfterFlap(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.bind()
		l.Serve(nil)
		l.client.Carrier(true)
		sent := l.pass(10 * time.Minute)
		if said := l.told.take(); len(said) != 0 {
			t.Errorf("told %q", said)
		}
		if s := sent[len(sent)-1]; s.Msg.MessageType() != dhcpv4.MessageTypeDiscover {
			t.Errorf("last sent %v", s)
		}
		l.pass(51 * time.Minute)
		if said := l.told.take(); len(said) == 0 || said[0] != "lost: the lease ended unrenewed" {
			t.Errorf("told %q", said)
		}
	})
}

// Ten flaps a second for a minute are no storm of requests.
func TestFlapping(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.bind()
		for range 600 {
			l.client.Carrier(false)
			time.Sleep(50 * time.Millisecond)
			l.client.Carrier(true)
			time.Sleep(50 * time.Millisecond)
		}
		if n := len(l.Take()); n > 61 {
			t.Errorf("%d messages in a minute", n)
		}
		l.told.take()
		l.expect(l.pass(2*time.Second), []string{"REQUEST packet 255.255.255.255 want 10.0.0.50"}, "bound 10.0.0.50/24")
	})
}

func TestNak(t *testing.T) {
	t.Run("of a renewal", func(t *testing.T) {
		run(t, dhcp.Config{}, func(l *lab) {
			l.bind()
			moved := home
			moved.Addr = ip("10.0.0.77")
			l.Serve(moved.Answer)
			l.expect(l.pass(31*time.Minute), []string{
				"REQUEST udp 10.0.0.1 ciaddr 10.0.0.50",
				"DISCOVER packet 255.255.255.255",
				"REQUEST packet 255.255.255.255 want 10.0.0.77 server 10.0.0.1",
			}, "lost: refused by 10.0.0.1: wrong network", "bound 10.0.0.77/24")
		})
	})
	t.Run("of every offer", func(t *testing.T) {
		run(t, dhcp.Config{}, func(l *lab) {
			l.Serve(func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
				if s.Msg.MessageType() == dhcpv4.MessageTypeRequest {
					return home.Reply(s.Msg, dhcpv4.MessageTypeNak)
				}
				return home.Answer(s)
			})
			l.client.Carrier(true)
			if n := len(l.pass(10 * time.Minute)); n < 20 || n > 60 {
				t.Errorf("%d messages in 10 minutes", n)
			}
			l.told.take()
		})
	})
	t.Run("of a server that was not asked", func(t *testing.T) {
		run(t, dhcp.Config{}, func(l *lab) {
			l.Serve(func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
				if s.Msg.MessageType() == dhcpv4.MessageTypeRequest {
					l := home.Reply(s.Msg, dhcpv4.MessageTypeNak)
					l.UpdateOption(dhcpv4.OptServerIdentifier(away.ID.AsSlice()))
					return l
				}
				return home.Answer(s)
			})
			l.client.Carrier(true)
			l.pass(time.Second)
			l.Serve(home.Answer)
			l.pass(3 * time.Second)
			if said := l.told.take(); !slices.Equal(said, []string{"bound 10.0.0.50/24"}) {
				t.Errorf("told %q", said)
			}
		})
	})
}

// A process that was restarted asks to keep the lease of the one before, and
// holds it until its end where nobody answers.
func TestRestart(t *testing.T) {
	held := dhcp.Lease{
		Addr: netip.PrefixFrom(home.Addr, 24), Server: home.ID,
		Duration: time.Hour, T1: 30 * time.Minute, T2: 50 * time.Minute,
	}
	run(t, dhcp.Config{Resume: held}, func(l *lab) {
		l.Serve(home.Answer)
		l.client.Carrier(true)
		l.expect(l.pass(time.Second), []string{"REQUEST packet 255.255.255.255 want 10.0.0.50"}, "bound 10.0.0.50/24")
	})
	elsewhere := held
	elsewhere.Addr = netip.MustParsePrefix("192.168.1.254/24")
	run(t, dhcp.Config{Resume: elsewhere}, func(l *lab) {
		l.Serve(home.Answer)
		l.client.Carrier(true)
		l.expect(l.pass(time.Second), []string{
			"REQUEST packet 255.255.255.255 want 192.168.1.254",
			"DISCOVER packet 255.255.255.255",
			"REQUEST packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
		}, "lost: refused by 10.0.0.1: wrong network", "bound 10.0.0.50/24")
	})
	run(t, dhcp.Config{Resume: held}, func(l *lab) { // a server that is silent
		l.client.Carrier(true)
		sent := l.pass(49 * time.Minute)
		if len(sent) < 5 || sent[0].String() != "REQUEST packet 255.255.255.255 want 10.0.0.50" || sent[2].String() != "DISCOVER packet 255.255.255.255 want 10.0.0.50" {
			t.Errorf("sent %v", sent)
		}
		l.expect(nil, nil)
		l.pass(2 * time.Minute)
		l.expect(nil, nil, "lost: the lease ended unrenewed", "no server after 50m10s")
	})
	run(t, dhcp.Config{Resume: held}, func(l *lab) { // without a cable
		l.pass(49 * time.Minute)
		l.expect(nil, nil)
		l.pass(2 * time.Minute)
		l.expect(nil, nil, "lost: the lease ended unrenewed")
	})
	held.Duration = resumeAge
	run(t, dhcp.Config{Resume: held}, func(l *lab) { // one that has just ended
		l.Serve(home.Answer)
		l.client.Carrier(true)
		l.expect(l.pass(time.Second), []string{
			"DISCOVER packet 255.255.255.255",
			"REQUEST packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
		}, "lost: the lease ended unrenewed", "bound 10.0.0.50/24")
	})
}

// An answer that got lost, and a server that offers and then is gone.
func TestLostAnswers(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		drop := 2
		l.Serve(func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
			if s.Msg.MessageType() == dhcpv4.MessageTypeRequest && drop > 0 {
				drop--
				return nil
			}
			return home.Answer(s)
		})
		l.client.Carrier(true)
		l.pass(10 * time.Second)
		if said := l.told.take(); !slices.Equal(said, []string{"bound 10.0.0.50/24"}) {
			t.Errorf("told %q", said)
		}
	})
	run(t, dhcp.Config{}, func(l *lab) {
		l.Serve(func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
			if s.Msg.MessageType() == dhcpv4.MessageTypeRequest {
				return nil
			}
			return home.Answer(s)
		})
		l.client.Carrier(true)
		l.pass(time.Second)
		l.Serve(away.Answer)
		l.pass(time.Minute)
		said := l.told.take()
		want := []string{"no server after 10s", "event: 10.0.0.1 offered 10.0.0.50 and does not grant it", "bound 172.16.0.9/24"}
		if !slices.Equal(said, want) {
			t.Errorf("told %q, want %q", said, want)
		}
	})
}

// What is not an answer to this client changes nothing.
func TestForeignMessages(t *testing.T) {
	change := map[string]func(m *dhcpv4.DHCPv4){
		"another transaction": func(m *dhcpv4.DHCPv4) { m.TransactionID[0] ^= 1 },
		"another MAC":         func(m *dhcpv4.DHCPv4) { m.ClientHWAddr = []byte{2, 0, 0, 0, 0, 1} },
		"another client id":   func(m *dhcpv4.DHCPv4) { m.UpdateOption(dhcpv4.OptClientIdentifier([]byte{0, 1})) },
		"a request":           func(m *dhcpv4.DHCPv4) { m.OpCode = dhcpv4.OpcodeBootRequest },
		"no address":          func(m *dhcpv4.DHCPv4) { m.YourIPAddr = []byte{0, 0, 0, 0} },
		"a multicast address": func(m *dhcpv4.DHCPv4) { m.YourIPAddr = []byte{224, 0, 0, 1} },
		"no server":           func(m *dhcpv4.DHCPv4) { m.Options.Del(dhcpv4.OptionServerIdentifier) },
		"a mask with a hole":  func(m *dhcpv4.DHCPv4) { m.Options[1] = []byte{255, 0, 255, 0} },
		"an ack":              func(m *dhcpv4.DHCPv4) { m.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeAck)) },
	}
	for name, f := range change {
		t.Run(name, func(t *testing.T) {
			run(t, dhcp.Config{}, func(l *lab) {
				l.Serve(func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
					m := home.Answer(s)
					f(m)
					return m
				})
				l.client.Carrier(true)
				for _, s := range l.pass(5 * time.Second) {
					if s.Msg.MessageType() != dhcpv4.MessageTypeDiscover {
						t.Errorf("sent %v", s)
					}
				}
				l.Deliver([]byte("noise"))
				l.Deliver(nil)
				l.pass(time.Second)
			})
		})
	}
}

// Host name, client id, parameter list and size are the same in every message.
func TestEveryMessageSaysTheSame(t *testing.T) {
	run(t, dhcp.Config{Hostname: "kitchen"}, func(l *lab) {
		l.Serve(home.Answer)
		l.client.Carrier(true)
		sent := l.pass(31 * time.Minute) // discover, request, renewal
		l.Serve(nil)
		sent = append(sent, l.pass(time.Hour)...) // rebind, discover
		l.Serve(home.Answer)
		sent = append(sent, l.pass(73*time.Second)...)
		l.client.Carrier(true)
		sent = append(sent, l.pass(2*time.Second)...) // init-reboot
		kinds := map[string]bool{}
		for _, s := range sent {
			kinds[strings.Fields(s.String())[0]+fmt.Sprint(s.UDP, s.Msg.ServerIdentifier() != nil)] = true
			for code, want := range map[uint8]string{
				12: "kitchen",
				55: "\x01\x03\x06\x0c\x0f\x1a\x1c\x2a\x33\x36\x3a\x3b\x77\x79",
				57: "\x05\xc0",
				61: "\x01\x02\x12\x34\x56\x78\x9a",
			} {
				if got := string(s.Msg.Options.Get(dhcpv4.GenericOptionCode(code))); got != want {
					t.Errorf("%v: option %d is %q, want %q", s, code, got, want)
				}
			}
		}
		if len(kinds) != 4 {
			t.Errorf("kinds of messages seen: %v", kinds)
		}
	})
}

func TestSocketTrouble(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.Serve(home.Answer)
		l.Fail(errors.New("network is down"))
		l.client.Carrier(true)
		l.expect(l.pass(5*time.Minute), nil, "event: cannot ask for an address: network is down", "no server after 10s")
		l.Fail(nil)
		l.pass(73 * time.Second)
		if said := l.told.take(); !slices.Equal(said, []string{"bound 10.0.0.50/24"}) {
			t.Errorf("told %q", said)
		}
	})
	// It fails, works and fails for good: told twice, a minute apart.
	run(t, dhcp.Config{}, func(l *lab) {
		for range 2 {
			l.Fail(errors.New("network is down"))
			l.client.Carrier(true)
			l.pass(2 * time.Second)
			l.Fail(nil)
			l.pass(5 * time.Second)
		}
		l.Fail(errors.New("network is down"))
		l.pass(10 * time.Minute)
		said := slices.DeleteFunc(l.told.take(), func(line string) bool { return strings.HasPrefix(line, "no server") })
		if !slices.Equal(said, slices.Repeat([]string{"event: cannot ask for an address: network is down"}, 2)) {
			t.Errorf("told %q", said)
		}
	})
}

func TestLeaseContent(t *testing.T) {
	hour := dhcp.Lease{
		Addr: netip.MustParsePrefix("10.0.0.50/24"), Server: home.ID, Routers: []netip.Addr{home.ID},
		Duration: time.Hour, T1: 30 * time.Minute, T2: 52*time.Minute + 30*time.Second,
	}
	tests := []struct {
		name    string
		options map[uint8][]byte
		want    func(*dhcp.Lease)
	}{
		{"plain", nil, func(*dhcp.Lease) {}},
		{"for ever", map[uint8][]byte{51: {255, 255, 255, 255}}, func(l *dhcp.Lease) {
			l.Duration, l.T1, l.T2 = dhcp.Infinite, dhcp.Infinite, dhcp.Infinite
		}},
		{"for a second", map[uint8][]byte{51: {0, 0, 0, 1}}, func(l *dhcp.Lease) {
			l.Duration, l.T1, l.T2 = 10*time.Second, 5*time.Second, 8750*time.Millisecond
		}},
		{"for no time at all", map[uint8][]byte{51: {0, 0, 0, 0}}, func(l *dhcp.Lease) {
			l.Duration, l.T1, l.T2 = 10*time.Second, 5*time.Second, 8750*time.Millisecond
		}},
		{"for 136 years", map[uint8][]byte{51: {255, 255, 255, 254}}, func(l *dhcp.Lease) {
			l.Duration = (1<<32 - 2) * time.Second
			l.T1, l.T2 = l.Duration/2, l.Duration/8*7
		}},
		{"T1 for ever", map[uint8][]byte{58: {255, 255, 255, 255}, 59: {255, 255, 255, 255}}, func(*dhcp.Lease) {}},
		{"nothing in any option", map[uint8][]byte{1: {}, 3: {}, 6: {}, 12: {}, 15: {}, 26: {}, 28: {}, 42: {}, 51: {}, 52: {}, 56: {}, 58: {}, 59: {}, 61: {}, 119: {}, 121: {}}, func(l *dhcp.Lease) {
			l.Addr, l.Routers = netip.MustParsePrefix("10.0.0.50/8"), nil
		}},
		{"a byte too many", map[uint8][]byte{3: {10, 0, 0, 1, 9}, 26: {5, 120, 0}, 28: {10, 0, 0, 7, 0}, 51: {0, 0, 0, 60, 0}, 52: {3, 3}, 58: {0, 0, 0, 9, 9}, 59: {0, 0, 0, 9, 9}}, func(*dhcp.Lease) {}},
		{"a byte too few", map[uint8][]byte{3: {10, 0, 0}, 6: {10, 0, 0}, 26: {5}, 28: {10, 0, 0}, 42: {10}, 51: {0, 0, 0}, 58: {0, 0, 9}, 59: {0, 0, 9}, 119: {5, 'a'}, 121: {0, 10, 0, 0}}, func(l *dhcp.Lease) {
			l.Routers = nil
		}},
		{"routers that are none", map[uint8][]byte{3: {10, 0, 0, 50, 10, 0, 0, 0, 10, 0, 0, 255, 255, 255, 255, 255, 127, 0, 0, 1, 10, 0, 0, 7, 192, 168, 5, 1}}, func(l *dhcp.Lease) {
			l.Routers = []netip.Addr{ip("10.0.0.7"), ip("192.168.5.1")}
		}},
		{"no router but itself", map[uint8][]byte{3: {10, 0, 0, 50}}, func(l *dhcp.Lease) { l.Routers = []netip.Addr{} }},
		{"one host's mask", map[uint8][]byte{1: {255, 255, 255, 255}}, func(l *dhcp.Lease) { l.Addr = netip.MustParsePrefix("10.0.0.50/32") }},
		{"a broadcast address that is none", map[uint8][]byte{28: {8, 8, 8, 8}}, func(*dhcp.Lease) {}},
		{"a domain of another alphabet", map[uint8][]byte{15: []byte("k\u00fcche.example")}, func(*dhcp.Lease) {}},
		{"a domain of 300 bytes", map[uint8][]byte{15: []byte(strings.Repeat("long.", 60) + "x")}, func(*dhcp.Lease) {}},
		{"more servers than anybody asks", map[uint8][]byte{6: []byte(strings.Repeat("\x0a\x00\x00\x02", 200))}, func(l *dhcp.Lease) {
			l.DNS = slices.Repeat([]netip.Addr{ip("10.0.0.2")}, 8)
		}},
		{"a search list in two options, RFC 3396", map[uint8][]byte{119: []byte("\x3f" + strings.Repeat("x", 63) + "\x3f" + strings.Repeat("y", 63) + "\x3f" + strings.Repeat("z", 63) + "\x00" + "\x3f" + strings.Repeat("v", 63) + "\x03lan\x00\x01b\xc1\x01")}, func(l *dhcp.Lease) {
			l.Search = []string{strings.Repeat("x", 63) + "." + strings.Repeat("y", 63) + "." + strings.Repeat("z", 63), strings.Repeat("v", 63) + ".lan", "b.lan"}
		}},
		{"no lease time", map[uint8][]byte{51: nil}, func(*dhcp.Lease) {}},
		{"its own T1 and T2", map[uint8][]byte{58: {0, 0, 0, 60}, 59: {0, 0, 0, 120}}, func(l *dhcp.Lease) {
			l.T1, l.T2 = time.Minute, 2*time.Minute
		}},
		{"T1 and T2 beyond the end", map[uint8][]byte{58: {0, 1, 0, 60}, 59: {0, 1, 0, 120}}, func(*dhcp.Lease) {}},
		{"T1 after T2", map[uint8][]byte{58: {0, 0, 0, 120}, 59: {0, 0, 0, 60}}, func(l *dhcp.Lease) {
			l.T1, l.T2 = time.Minute, time.Minute
		}},
		{"T1 zero", map[uint8][]byte{58: {0, 0, 0, 0}, 59: {0, 0, 0, 0}}, func(*dhcp.Lease) {}},
		{"no mask", map[uint8][]byte{1: nil}, func(l *dhcp.Lease) { l.Addr = netip.MustParsePrefix("10.0.0.50/8") }},
		{"servers", map[uint8][]byte{6: {10, 0, 0, 2, 0, 0, 0, 0, 10, 0, 0, 3}, 42: {10, 0, 0, 4, 9}}, func(l *dhcp.Lease) {
			l.DNS = []netip.Addr{ip("10.0.0.2"), ip("10.0.0.3")}
			l.NTP = []netip.Addr{ip("10.0.0.4")}
		}},
		{"domain", map[uint8][]byte{15: []byte("lan.example\x00")}, func(l *dhcp.Lease) { l.Domain = "lan.example" }},
		{"a domain that is a line of resolv.conf", map[uint8][]byte{15: []byte("x\nnameserver 6.6.6.6")}, func(*dhcp.Lease) {}},
		{"search list", map[uint8][]byte{119: {1, 'a', 3, 'l', 'a', 'n', 0, 1, 'b', 0xc0, 2, 3, 'x', '\n', 'y', 0}}, func(l *dhcp.Lease) {
			l.Search = []string{"a.lan", "b.lan"}
		}},
		{"MTU", map[uint8][]byte{26: {5, 120}}, func(l *dhcp.Lease) { l.MTU = 1400 }},
		{"an MTU of 0", map[uint8][]byte{26: {0, 0}}, func(*dhcp.Lease) {}},
		{"an MTU of 68", map[uint8][]byte{26: {0, 68}}, func(*dhcp.Lease) {}},
		{"an MTU of 575", map[uint8][]byte{26: {2, 63}}, func(*dhcp.Lease) {}},
		{"an MTU of 576", map[uint8][]byte{26: {2, 64}}, func(l *dhcp.Lease) { l.MTU = 576 }},
		{"an MTU of 65535", map[uint8][]byte{26: {255, 255}}, func(*dhcp.Lease) {}},
		{"classless routes replace the router", map[uint8][]byte{121: {0, 10, 0, 0, 9, 16, 172, 16, 0, 0, 0, 0}}, func(l *dhcp.Lease) {
			l.Routers = nil
			l.Routes = []dhcp.Route{
				{Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: ip("10.0.0.9")},
				{Dst: netip.MustParsePrefix("172.16.0.0/16"), Via: ip("0.0.0.0")},
			}
		}},
		{"classless routes cut short", map[uint8][]byte{121: {24, 10, 0}}, func(*dhcp.Lease) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, dhcp.Config{}, func(l *lab) {
				s := home
				s.Options = tt.options
				l.Serve(s.Answer)
				l.client.Carrier(true)
				l.pass(time.Second)
				if len(l.told.leases) != 1 {
					t.Fatalf("told %q", l.told.take())
				}
				want := hour
				tt.want(&want)
				got := l.told.leases[0]
				if got.Acquired.IsZero() || time.Since(got.Acquired) > 2*time.Second {
					t.Errorf("acquired %v", got.Acquired)
				}
				got.Acquired = time.Time{}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("lease\n  %+v\nwant\n  %+v", got, want)
				}
			})
		})
	}
}

var other = [6]byte{2, 0, 0, 0, 0, 7}

// The address that was granted is somebody's: it is declined, and after 10 s
// another one is asked for.
func TestDecline(t *testing.T) {
	run(t, dhcp.Config{Hostname: "gw"}, func(l *lab) {
		l.Use(home.Addr, other)
		l.Serve(home.Answer)
		l.client.Carrier(true)
		sent := l.pass(9 * time.Second)
		l.expect(sent, []string{
			"DISCOVER packet 255.255.255.255",
			"REQUEST packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
			"DECLINE packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
		}, "10.0.0.50 in use by 020000000007", "event: 10.0.0.50 is used by another host, 02:00:00:00:00:07")
		if m := sent[2].Msg; m.TransactionID == sent[1].Msg.TransactionID || !m.ClientIPAddr.IsUnspecified() || string(m.Options[61]) != "\x01"+string(mac[:]) || len(m.Options) != 4 {
			t.Errorf("declined with %v", m.Summary())
		}
		next := home
		next.Addr = ip("10.0.0.51")
		l.Serve(next.Answer)
		l.expect(l.pass(2*time.Second), []string{
			"DISCOVER packet 255.255.255.255",
			"REQUEST packet 255.255.255.255 want 10.0.0.51 server 10.0.0.1",
		}, "bound 10.0.0.51/24")
	})
	// A server that offers nothing else is asked at its pace, and the fallback
	// has its time.
	run(t, dhcp.Config{}, func(l *lab) {
		l.Use(home.Addr, other)
		l.Serve(home.Answer)
		l.client.Carrier(true)
		if n := len(l.pass(59 * time.Second)); n != 18 {
			t.Errorf("%d messages in a minute of six attempts", n)
		}
		// Nor does it put the fallback off, as if a host claimed every address.
		said := slices.DeleteFunc(l.told.take(), func(line string) bool {
			return strings.Contains(line, "02:00:00:00:00:07") || strings.Contains(line, "in use by")
		})
		if !slices.Equal(said, []string{"no server after 20s"}) {
			t.Errorf("told %q", said)
		}
	})
}

// A host that takes our address while it is in use, and does not let go.
func TestConflictWhileBound(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.bind()
		l.client.Conflict(ip("10.0.0.99"), other) // not ours
		l.expect(l.pass(time.Second), nil)
		l.client.Conflict(home.Addr, other)
		l.expect(l.pass(9*time.Second), []string{"DECLINE packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1"},
			"10.0.0.50 in use by 020000000007", "lost: 10.0.0.50 is used by another host, 02:00:00:00:00:07")
		l.expect(l.pass(2*time.Second), []string{
			"DISCOVER packet 255.255.255.255",
			"REQUEST packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
		}, "bound 10.0.0.50/24")
	})
	// Where the cable went, it may be somebody's.
	run(t, dhcp.Config{}, func(l *lab) {
		l.bind()
		l.Use(home.Addr, other)
		l.client.Carrier(true)
		l.expect(l.pass(2*time.Second), []string{
			"REQUEST packet 255.255.255.255 want 10.0.0.50",
			"DECLINE packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
		}, "10.0.0.50 in use by 020000000007", "lost: 10.0.0.50 is used by another host, 02:00:00:00:00:07")
	})
}

// What happens while the others are asked.
func TestInterruptedCheck(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.Serve(home.Answer)
		l.client.Carrier(true)
		l.expect(l.pass(200*time.Millisecond), []string{
			"DISCOVER packet 255.255.255.255",
			"REQUEST packet 255.255.255.255 want 10.0.0.50 server 10.0.0.1",
		})
		l.client.Carrier(false)
		l.expect(l.pass(time.Minute), nil)
		l.client.Carrier(true)
		l.pass(2 * time.Second)
		l.expect(nil, nil, "bound 10.0.0.50/24")
	})
	run(t, dhcp.Config{}, func(l *lab) { // and the process ends, see run
		l.Serve(home.Answer)
		l.client.Carrier(true)
		l.pass(200 * time.Millisecond)
	})
}

// INV 11: a kernel that cannot ask is no reason to stay without an address.
func TestCheckThatCannotBe(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		l.FailCheck(errors.New("no packet sockets"))
		l.Serve(home.Answer)
		l.client.Carrier(true)
		l.pass(time.Second)
		l.expect(nil, nil, "event: cannot ask whether 10.0.0.50 is in use: no packet sockets", "bound 10.0.0.50/24")
	})
}

// The address of the boot before is asked for first, and not used unasked.
func TestKnown(t *testing.T) {
	known := dhcp.Known{Addr: home.Addr, Server: home.ID}
	run(t, dhcp.Config{Known: known}, func(l *lab) {
		l.Serve(home.Answer)
		l.client.Carrier(true)
		l.expect(l.pass(time.Second), []string{"REQUEST packet 255.255.255.255 want 10.0.0.50"}, "bound 10.0.0.50/24")
	})
	run(t, dhcp.Config{Known: known}, func(l *lab) {
		l.Serve(away.Answer)
		l.client.Carrier(true)
		l.expect(l.pass(2*time.Second), []string{
			"REQUEST packet 255.255.255.255 want 10.0.0.50",
			"DISCOVER packet 255.255.255.255",
			"REQUEST packet 255.255.255.255 want 172.16.0.9 server 172.16.0.1",
		}, "event: refused by 172.16.0.1: wrong network", "bound 172.16.0.9/24")
	})
	run(t, dhcp.Config{Known: known}, func(l *lab) {
		l.client.Carrier(true)
		sent := l.pass(11 * time.Second)
		if len(sent) < 4 || sent[1].String() != "REQUEST packet 255.255.255.255 want 10.0.0.50" || sent[2].String() != "DISCOVER packet 255.255.255.255 want 10.0.0.50" {
			t.Errorf("sent %v", sent)
		}
		l.expect(nil, nil, "no server after 10s")
	})
}

// both answers for two servers; the first one's answer is heard first.
func (l *lab) both(first, second func(dhcptest.Sent) *dhcpv4.DHCPv4) {
	l.Serve(func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
		if m := second(s); m != nil {
			raw := m.ToBytes()
			time.AfterFunc(20*time.Millisecond, func() { l.Deliver(raw) })
		}
		return first(s)
	})
}

// A second server that was plugged in, and is quicker than the one of the lease.
func TestRogueServer(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) { // refuses what it has not granted
		l.bind()
		l.both(away.Answer, home.Answer)
		l.client.Carrier(true)
		l.expect(l.pass(2*time.Second), []string{"REQUEST packet 255.255.255.255 want 10.0.0.50"}, "bound 10.0.0.50/24")
		// Nor does it get anywhere with a renewal, which it was not asked for.
		l.Serve(func(s dhcptest.Sent) *dhcpv4.DHCPv4 { return away.Reply(s.Msg, dhcpv4.MessageTypeNak) })
		l.pass(52 * time.Minute)
		l.expect(nil, nil)
	})
	run(t, dhcp.Config{Known: dhcp.Known{Addr: ip("10.0.0.7"), Server: home.ID}}, func(l *lab) { // offers
		l.both(func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
			if s.Msg.MessageType() == dhcpv4.MessageTypeRequest && s.Msg.ServerIdentifier() == nil {
				return nil
			}
			return away.Answer(s)
		}, func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
			if s.Msg.MessageType() == dhcpv4.MessageTypeRequest && s.Msg.ServerIdentifier() == nil {
				return nil
			}
			return home.Answer(s)
		})
		l.client.Carrier(true)
		l.pass(4 * time.Second)
		l.expect(nil, nil, "bound 10.0.0.50/24")
	})
	run(t, dhcp.Config{}, func(l *lab) { // and in REBINDING
		l.bind()
		l.Serve(nil)
		l.pass(53 * time.Minute)
		l.told.take()
		l.both(away.Answer, func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
			if s.Msg.MessageType() != dhcpv4.MessageTypeRequest {
				return nil
			}
			return home.Answer(s)
		})
		l.pass(4 * time.Minute)
		l.expect(nil, nil, "bound 10.0.0.50/24")
	})
	// The one of the lease is gone: then the other one will do.
	run(t, dhcp.Config{}, func(l *lab) {
		l.bind()
		l.Serve(away.Answer)
		l.pass(53*time.Minute + 30*time.Second)
		said := l.told.take()
		if n := len(said); n < 3 || said[n-2] != "lost: refused by 172.16.0.1: wrong network" || said[n-1] != "bound 172.16.0.9/24" {
			t.Errorf("told %q", said)
		}
	})
}

// It grants what another one has offered or granted, with itself as the router.
func TestServerThatGrantsWhatIsNotIts(t *testing.T) {
	rogue := dhcptest.Server{ID: ip("10.0.0.66"), Addr: home.Addr, Lease: time.Hour}
	grant := func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
		if s.Msg.MessageType() != dhcpv4.MessageTypeRequest {
			return nil
		}
		return rogue.Reply(s.Msg, dhcpv4.MessageTypeAck)
	}
	last := func(l *lab) netip.Addr {
		t.Helper()
		l.pass(10 * time.Second) // a question is repeated by then
		l.expect(nil, nil, "bound 10.0.0.50/24")
		return l.told.leases[len(l.told.leases)-1].Server
	}
	run(t, dhcp.Config{}, func(l *lab) {
		l.both(grant, func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
			if s.Msg.MessageType() == dhcpv4.MessageTypeDiscover {
				return home.Answer(s)
			}
			return nil
		})
		l.client.Carrier(true)
		// Nobody but who offered it.
		if l.pass(3 * time.Second); len(l.told.leases) != 0 {
			t.Errorf("told %q", l.told.take())
		}
		l.both(grant, home.Answer)
		if got := last(l); got != home.ID {
			t.Errorf("granted by %v", got)
		}
		// When the cable was out: who is quicker does not win.
		l.client.Carrier(true)
		if got := last(l); got != home.ID {
			t.Errorf("confirmed by %v", got)
		}
		// Unless the other one is gone. The lease counts from the question.
		l.Serve(grant)
		l.client.Carrier(true)
		asked := time.Now()
		got := last(l)
		if got != rogue.ID {
			t.Errorf("confirmed by %v", got)
		}
		if lease := l.told.leases[len(l.told.leases)-1]; lease.Acquired.Sub(asked) > 200*time.Millisecond {
			t.Errorf("acquired %v after the link came up", lease.Acquired.Sub(asked))
		}
	})
}

// An offer that is of no use is told of now and then, however many there are.
func TestUselessOffers(t *testing.T) {
	for name, edit := range map[string]func(*dhcpv4.DHCPv4){
		"no address":              func(m *dhcpv4.DHCPv4) { m.YourIPAddr = []byte{0, 0, 0, 0} },
		"a loopback address":      func(m *dhcpv4.DHCPv4) { m.YourIPAddr = []byte{127, 0, 0, 1} },
		"everybody's address":     func(m *dhcpv4.DHCPv4) { m.YourIPAddr = []byte{255, 255, 255, 255} },
		"its network's address":   func(m *dhcpv4.DHCPv4) { m.YourIPAddr = []byte{10, 0, 0, 0} },
		"its network's broadcast": func(m *dhcpv4.DHCPv4) { m.YourIPAddr = []byte{10, 0, 0, 255} },
		"a mask with holes":       func(m *dhcpv4.DHCPv4) { m.Options[1] = []byte{255, 0, 255, 0} },
		"a mask of everything":    func(m *dhcpv4.DHCPv4) { m.Options[1] = []byte{0, 0, 0, 0} },
		"two masks":               func(m *dhcpv4.DHCPv4) { m.Options[1] = []byte{255, 255, 255, 0, 255, 255, 255, 0} },
		"no server":               func(m *dhcpv4.DHCPv4) { delete(m.Options, 54) },
		"a server without name":   func(m *dhcpv4.DHCPv4) { m.Options[54] = nil },
		"a multicast server":      func(m *dhcpv4.DHCPv4) { m.Options[54] = []byte{224, 0, 0, 1} },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, dhcp.Config{}, func(l *lab) {
				var raw []byte
				l.Serve(func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
					m := home.Answer(s)
					edit(m)
					raw = m.ToBytes()
					return m
				})
				l.client.Carrier(true)
				l.pass(9 * time.Second)
				for range 50 {
					l.Deliver(raw)
					l.Deliver(raw)
					l.pass(time.Millisecond)
				}
				sent := l.pass(5 * time.Minute)
				for _, s := range sent {
					if s.Msg.MessageType() != dhcpv4.MessageTypeDiscover {
						t.Errorf("sent %v", s)
					}
				}
				said := l.told.take()
				if n := len(said); n < 4 || n > 7 || !strings.HasPrefix(said[0], "event: offer refused: unusable lease: ") || said[1] != "no server after 10s" {
					t.Errorf("told %q", said)
				}
				l.Serve(home.Answer)
				l.pass(2 * time.Minute)
				l.expect(nil, nil, "bound 10.0.0.50/24")
			})
		})
	}
}

// An answer that comes when the question was repeated already is one, too; one
// to an older question is not.
func TestLateAnswers(t *testing.T) {
	run(t, dhcp.Config{}, func(l *lab) {
		late := func(s dhcptest.Sent) *dhcpv4.DHCPv4 {
			if m := home.Answer(s); m != nil {
				raw := m.ToBytes()
				time.AfterFunc(2*time.Second, func() { l.Deliver(raw) })
			}
			return nil
		}
		l.Serve(late)
		l.client.Carrier(true)
		l.pass(8 * time.Second)
		l.expect(nil, nil, "bound 10.0.0.50/24")
		l.pass(10 * time.Second)
		l.expect(nil, nil)
		// The answer to the renewal comes when the link was away since.
		l.pass(30*time.Minute - 18*time.Second)
		l.client.Carrier(false)
		l.Serve(nil)
		l.pass(time.Second)
		l.client.Carrier(true)
		l.pass(500 * time.Millisecond)
		l.expect(nil, nil)
	})
}
