package arp_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netlab"
	"gwinit/services/eth/arp"
	"gwinit/services/eth/arp/arptest"
	"gwinit/test/hostile"
)

func TestMain(m *testing.M) { netlab.Main(m) }

var (
	mac   = netdev.MAC{2, 0x12, 0x34, 0x56, 0x78, 0x9a}
	other = netdev.MAC{2, 0, 0, 0, 0, 7}
	addr  = netip.MustParseAddr("10.0.0.50")
	none  = netip.IPv4Unspecified()
)

// By hand from RFC 826 and RFC 5227 section 2.1.1, so that a CPU of the other
// byte order is found out.
func TestBytes(t *testing.T) {
	tests := []struct {
		name string
		p    arp.Packet
		want string
	}{
		{"probe", arp.Packet{Request: true, Sender: mac, SenderIP: none, TargetIP: addr}, "0001 0800 06 04 0001 02123456789a 00000000 000000000000 0a000032"},
		{"announcement", arp.Packet{Request: true, Sender: mac, SenderIP: addr, TargetIP: addr}, "0001 0800 06 04 0001 02123456789a 0a000032 000000000000 0a000032"},
		{"reply", arp.Packet{Sender: other, SenderIP: addr, TargetIP: none}, "0001 0800 06 04 0002 020000000007 0a000032 000000000000 00000000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, err := hex.DecodeString(strings.ReplaceAll(tt.want, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.p.Marshal(); !bytes.Equal(got, want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
			got, err := arp.Parse(append(want, make([]byte, 18)...)) // as padded to 60 bytes
			if err != nil || got != tt.p {
				t.Errorf("parsed %+v, %v", got, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	good := arp.Packet{Sender: mac, SenderIP: addr, TargetIP: addr}.Marshal()
	for name, change := range map[string]func([]byte) []byte{
		"short":         func(b []byte) []byte { return b[:27] },
		"not Ethernet":  func(b []byte) []byte { b[1] = 6; return b },
		"not IPv4":      func(b []byte) []byte { b[2] = 0x86; return b },
		"long address":  func(b []byte) []byte { b[5] = 16; return b },
		"reverse":       func(b []byte) []byte { b[7] = 3; return b },
		"operation 257": func(b []byte) []byte { b[6], b[7] = 1, 1; return b },
	} {
		if p, err := arp.Parse(change(bytes.Clone(good))); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(arp.Packet{Request: true, Sender: mac, SenderIP: none, TargetIP: addr}.Marshal())
	f.Add([]byte{0, 1, 8, 0, 6, 4, 0, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := arp.Parse(b)
		if err != nil {
			return
		}
		if again := p.Marshal(); !bytes.Equal(again[:18], b[:18]) || !bytes.Equal(again[24:], b[24:28]) {
			t.Errorf("%x becomes %x", b, again)
		}
	})
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*arptest.Cable)
		used    bool
		after   time.Duration
		sent    int
	}{
		{"nobody's", func(*arptest.Cable) {}, false, arp.CheckTime, 3},
		{"another host's", func(c *arptest.Cable) { c.Take(addr, other) }, true, 0, 1},
		{"ours, said by a switch that sends back", func(c *arptest.Cable) { c.Take(addr, mac) }, false, arp.CheckTime, 3},
		{"one that answers late", func(c *arptest.Cable) {
			time.AfterFunc(400*time.Millisecond, func() { c.Say(arp.Packet{Sender: other, SenderIP: addr, TargetIP: none}) })
		}, true, 400 * time.Millisecond, 3},
		{"a switch that asks who is there", func(c *arptest.Cable) {
			time.AfterFunc(100*time.Millisecond, func() { c.Say(arp.Packet{Request: true, Sender: other, SenderIP: none, TargetIP: addr}) })
		}, false, arp.CheckTime, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cable := arptest.New()
				tt.prepare(cable)
				began := time.Now()
				got, used, err := arp.Host{MAC: mac, Open: cable.Open}.Check(t.Context(), addr)
				if err != nil || used != tt.used || used && got != other {
					t.Errorf("%v %v %v", got, used, err)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("after %v, want %v", took, tt.after)
				}
				if sent := cable.Sent(); len(sent) != tt.sent || sent[0] != "probe 10.0.0.50" {
					t.Errorf("sent %q", sent)
				}
				if cable.Sockets() != 0 {
					t.Error("a socket is left open")
				}
			})
		})
	}
}

func TestCheckEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cable := arptest.New()
		host := arp.Host{MAC: mac, Open: cable.Open}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, used, err := host.Check(ctx, addr); used || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", used, err)
		}
		down := errors.New("network is down")
		cable.Fail(down)
		if _, used, err := host.Check(t.Context(), addr); used || !errors.Is(err, down) {
			t.Errorf("%v, %v", used, err)
		}
	})
}

// guarded runs a Guard and returns what it told since the last call of told.
func guarded(t *testing.T, cable *arptest.Cable, check bool, test func(told func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- arp.Host{MAC: mac, Open: cable.Open}.Guard(ctx, addr, check, func(by netdev.MAC, used bool) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, fmt.Sprint(by, used))
			})
		}()
		test(func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			l := lines
			lines = nil
			return l
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if cable.Sockets() != 0 {
			t.Error("a socket is left open")
		}
	})
}

const (
	isUsed = "02:00:00:00:00:07 true"
	isFree = "00:00:00:00:00:00 false"
)

func TestGuard(t *testing.T) {
	expect := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	const announce, probe = "announce 10.0.0.50", "probe 10.0.0.50"
	t.Run("calm", func(t *testing.T) {
		cable := arptest.New()
		guarded(t, cable, false, func(told func() []string) {
			time.Sleep(time.Hour)
			expect("told", told())
			expect("sent", cable.Sent(), announce, announce)
		})
	})
	t.Run("asked first", func(t *testing.T) {
		cable := arptest.New()
		guarded(t, cable, true, func(told func() []string) {
			time.Sleep(time.Hour)
			expect("told", told())
			expect("sent", cable.Sent(), probe, probe, probe, announce, announce)
		})
	})
	t.Run("shared, and then not", func(t *testing.T) {
		cable := arptest.New()
		cable.Take(addr, other)
		guarded(t, cable, true, func(told func() []string) {
			expect("told at once", told(), isUsed)
			time.Sleep(3*time.Minute + time.Second)
			expect("told while", told(), isUsed, isUsed, isUsed)
			cable.Leave(addr)
			time.Sleep(2 * time.Minute)
			expect("told after", told(), isFree)
			for _, s := range cable.Sent() {
				if s == announce {
					t.Error("an address of another host was announced")
				}
			}
		})
	})
	t.Run("taken by a host that keeps it", func(t *testing.T) {
		cable := arptest.New()
		guarded(t, cable, false, func(told func() []string) {
			time.Sleep(5 * time.Second)
			cable.Sent()
			cable.Take(addr, other)
			for range 90 { // it asks for others, 10 times a second
				cable.Say(arp.Packet{Request: true, Sender: other, SenderIP: addr, TargetIP: netip.MustParseAddr("10.0.0.1")})
				time.Sleep(100 * time.Millisecond)
			}
			expect("told", told(), isUsed)
			expect("sent", cable.Sent(), announce, probe)
		})
	})
	t.Run("said 1000 times a second, by many", func(t *testing.T) {
		cable := arptest.New()
		guarded(t, cable, false, func(told func() []string) {
			time.Sleep(5 * time.Second)
			cable.Sent()
			cable.Take(addr, other)
			for i := range 25_000 {
				cable.Say(arp.Packet{Sender: netdev.MAC{2, 1, 4: byte(i >> 8), 5: byte(i)}, SenderIP: addr, TargetIP: none})
				time.Sleep(time.Millisecond)
			}
			if n := len(told()); n != 3 { // at 0, 10 and 20 s
				t.Errorf("told %d times", n)
			}
			if n := cable.Heard(); n > 30 {
				t.Errorf("heard %d packets", n)
			}
			expect("sent", cable.Sent(), announce, probe, announce, probe, announce, probe)
			// It ends: the next question hears the answer, and there is none.
			cable.Leave(addr)
			time.Sleep(2 * time.Minute)
			expect("told after", told(), isFree)
			cable.Say(arp.Packet{Sender: other, SenderIP: addr, TargetIP: none})
			time.Sleep(time.Second)
			if n := cable.Heard(); n != 1 {
				t.Errorf("heard %d packets of one", n)
			}
		})
	})
	t.Run("taken by a host that gives way", func(t *testing.T) {
		cable := arptest.New()
		guarded(t, cable, false, func(told func() []string) {
			time.Sleep(5 * time.Second)
			cable.Sent()
			cable.Say(arp.Packet{Request: true, Sender: other, SenderIP: addr, TargetIP: addr})
			time.Sleep(time.Minute)
			expect("told", told())
			expect("sent", cable.Sent(), announce, probe, probe, probe)
		})
	})
	t.Run("no network", func(t *testing.T) {
		cable := arptest.New()
		guarded(t, cable, false, func(told func() []string) {
			expect("told", told()) // it listens
			cable.Fail(errors.New("network is down"))
			time.Sleep(time.Minute)
			expect("told", told())
		})
	})
}

// On the kernel: a socket that is deaf hears nothing, and then does again.
func TestDeafSocket(t *testing.T) {
	peer := netlab.Cable(t, "eth0", "other0")
	netlab.Run(t, "ip", "link", "set", "eth0", "address", mac.String(), "up")
	link, err := netdev.System{}.Link("eth0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := arp.On(link)(addr)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan netdev.MAC, 8)
	go func() {
		defer close(heard)
		for {
			p, err := conn.Receive()
			if err != nil {
				return
			}
			heard <- p.Sender
		}
	}()
	claim := hostile.Claim(addr)
	for n, deaf := range []bool{true, false} {
		if err := conn.Deaf(deaf); err != nil {
			t.Fatal(err)
		}
		peer.Send("other0", claim(uint32(n)))
	}
	// In order, so that the first one has passed by when the second is heard.
	want := [6]byte(claim(1)[6:12])
	select {
	case got := <-heard:
		if got != want {
			t.Errorf("heard %v, want %v", got, netdev.MAC(want))
		}
	case <-time.After(10 * time.Second):
		t.Error("deaf for good")
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	for got := range heard {
		t.Errorf("heard %v, too", got)
	}
}

// On the kernel: another host of this address is found by its answer, and by
// what it asks.
func TestSocket(t *testing.T) {
	peer := netlab.Cable(t, "eth0", "other0")
	netlab.Run(t, "ip", "link", "set", "eth0", "address", mac.String(), "up")
	peer.Run("ip", "link", "set", "other0", "address", other.String())
	peer.Run("ip", "addr", "add", "10.0.0.7/24", "dev", "other0")
	link, err := netdev.System{}.Link("eth0")
	if err != nil {
		t.Fatal(err)
	}
	host := arp.Host{MAC: link.MAC, Open: arp.On(link)}
	if by, used, err := host.Check(t.Context(), addr); used || err != nil {
		t.Errorf("nobody's address: %v %v %v", by, used, err)
	}
	peer.Run("ip", "addr", "add", addr.String()+"/24", "dev", "other0")
	if by, used, err := host.Check(t.Context(), addr); !used || by != other || err != nil {
		t.Errorf("another host's address: %v %v %v", by, used, err)
	}
	peer.Run("ip", "addr", "del", addr.String()+"/24", "dev", "other0")

	// Guarded: with our address in use, too.
	netlab.Run(t, "ip", "addr", "add", addr.String()+"/24", "dev", "eth0")
	peer.Run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/other0/arp_accept")
	told := make(chan string, 8)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- host.Guard(ctx, addr, true, func(by netdev.MAC, used bool) { told <- fmt.Sprint(by, used) })
	}()
	// It says whose it is.
	deadline := time.After(5 * time.Second)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for known := false; !known; {
		select {
		case <-deadline:
			t.Fatal("no announcement")
		case <-poll.C:
			known = strings.Contains(peer.Run("ip", "neigh"), mac.String())
		}
	}
	peer.Run("ip", "addr", "add", addr.String()+"/32", "dev", "other0")
	peer.Run("busybox", "arping", "-U", "-c1", "-I", "other0", addr.String())
	select {
	case line := <-told:
		if line != isUsed {
			t.Errorf("told %q", line)
		}
	case <-time.After(10 * time.Second):
		t.Error("a host that uses our address was not noticed")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
