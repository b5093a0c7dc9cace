//go:build linux

package bridge

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A radio that takes nothing is reported and its client kept, with every byte.
func TestRadioThatTakesNothing(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Limits.Stall = 300 * time.Millisecond }).open()
	c := g.client()
	p := noise(1 << 20)
	sent := make(chan struct{})
	go func() { write(t, c, p); close(sent) }()
	g.says("warning: the radio has taken nothing for", "bytes wait for it", "it holds CTS off")
	s := g.status()
	if s.Stalls != 1 || s.Client == nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "the radio has taken nothing for") {
		t.Errorf("%d stalls, client %v, warnings %q", s.Stalls, s.Client, s.Warnings)
	}
	if !bytes.Equal(g.radioHears(len(p)), p) {
		t.Error("bytes differ")
	}
	<-sent
	g.says("the radio takes bytes again, after")
	g.active(c)
	if s := g.status(); len(s.Warnings) != 0 || s.Stalls != 1 || s.XOFFs != 0 {
		t.Errorf("%d stalls, %d XOFFs, warnings %q", s.Stalls, s.XOFFs, s.Warnings)
	}
}

// A client that reads nothing is said to, also when all that waits for it is in
// the kernel's send buffer and the kernel gives it up: its host answers.
func TestClientThatReadsNothingOfLittle(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Limits.Stall = 300 * time.Millisecond }).open()
	c := g.slowReader()
	g.radioSays(noise(16 << 10))
	g.says("client "+c.LocalAddr().String()+" disconnected", "16384 bytes from the radio", ": it took nothing for 300ms")
}

// The same where all that waits is in the driver: a client of a radio that is
// not answered says no more.
func TestBytesThatStayInTheDriver(t *testing.T) {
	h := &holding{}
	g := start(t, func(g *gateway, o *Options) {
		o.Limits.Stall = 200 * time.Millisecond
		o.Open = func(ctx context.Context) (Port, func(), error) {
			p, release, err := g.opener.Open(ctx)
			h.Port = p
			return h, release, err
		}
	}).open()
	c := g.client()
	h.hold(5)
	write(t, c, []byte("\x1ahell"))
	g.says("warning: the radio has taken nothing for", "5 bytes wait for it")
	h.hold(2)
	g.says("the radio takes bytes again, after")
	h.hold(0)
	g.active(c)
	if s := g.status(); len(s.Warnings) != 0 || s.TxBytes != 5 {
		t.Errorf("%d bytes, warnings %q", s.TxBytes, s.Warnings)
	}
}

// An XOFF that nothing undoes holds nobody for longer than a second.
func TestXOFFFailsOpen(t *testing.T) {
	g := start(t, func(g *gateway, o *Options) {
		g.opener.Flow = "sw"
		o.Limits.XOFF = 100 * time.Millisecond
	}).open()
	c := g.client()
	for round := range 2 {
		g.radioSays([]byte{xoff, 'x'})
		if got := readN(t, c, 1); string(got) != "x" {
			t.Fatalf("client got %q", got)
		}
		write(t, c, []byte("\x1ago"))
		if got := g.radioHears(3); string(got) != "\x1ago" {
			t.Errorf("radio heard %q", got)
		}
		if n := g.status().XOFFs; n != uint64(round)+1 {
			t.Errorf("%d XOFFs undone in round %d", n, round)
		}
	}
	// One that the radio takes back in time is its own business.
	before := g.status().XOFFs
	g.radioSays([]byte{xoff, xon, 'y'})
	readN(t, c, 1)
	write(t, c, []byte("\x1a"))
	g.radioHears(1)
	if n := g.status().XOFFs; n != before {
		t.Errorf("%d more", n-before)
	}
}

// FIN, not RST, though what the loser said is unread and it goes on (the radio
// takes nothing of it): all of that is heard, so that no write fails, until its
// own FIN, and no longer.
func TestTakeoverWithBytesUnread(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Limits.Linger = 3 * patience }).open()
	before := descriptors(t)
	first := g.client()
	said := make(chan error, 1)
	go func() { _, err := first.Write(noise(4 << 20)); said <- err }()
	g.until("stop", stands(func() uint64 { return g.status().TxBytes }))
	second := g.dial()
	write(t, second, []byte{0x1a})
	ends(t, first)
	g.active(second)
	if err := errors.Join(<-said, first.CloseWrite()); err != nil {
		t.Errorf("after the end: %v", err)
	}
	first.Close()
	second.Close()
	g.until("descriptors", func() bool { return descriptors(t) <= before })
}

// A UART that answers with an error is given up like one that hung up, and the
// client with it.
func TestUARTThatErrs(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	g := start(t, func(g *gateway, o *Options) {
		o.Open = func(ctx context.Context) (Port, func(), error) {
			p, release, err := g.opener.Open(ctx)
			if opened++; err != nil || opened > 1 {
				return p, release, err
			}
			return &elsewhere{Port: p, fd: pair[0]}, release, nil
		}
	}).open()
	c := g.client()
	write(t, c, []byte{0x1a})
	g.until("byte", func() bool { return g.status().TxBytes == 1 })
	unix.Close(pair[1]) // with a byte unread: ECONNRESET
	ends(t, c)
	g.says(c.LocalAddr().String(), "disconnected", "the UART broke: connection reset by peer")
	g.open()
	unix.Close(pair[0])
	g.client()
}

// elsewhere is a port whose descriptor is another one.
type elsewhere struct {
	Port
	fd int
}

func (e *elsewhere) FD() int { return e.fd }
