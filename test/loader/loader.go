//go:build linux

package loader

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Config is one loader on one board.
type Config struct {
	Addr     netip.Addr // 192.168.1.6 if it is zero
	Flash    []byte     // 16 MiB; written by Run only
	RAMBytes int        // 32 MiB if 0
	V32      bool       // the idle times of V3.2
	NoBurn   bool       // AUTOBURN 0
	Downs    []byte     // what a download returns before an upload: FLR has read it
	Times    Times
	Faults   Faults
	Log      func(format string, a ...any)
}

// Times are how long things take. Zero is the gateway's own.
type Times struct {
	Block time.Duration // erase, write and compare 64 KiB: 239 ms (61.2 s for 16 MiB)
	Idle  time.Duration // after which another transfer may begin: 20 s, V3.2 15 s
}

// Faults are what goes wrong.
type Faults struct {
	// Lose tells whether a packet is lost, in either direction; op is the TFTP
	// opcode, and nth counts the times that this one was seen.
	Lose func(fromLoader bool, op, block uint16, nth int) bool
	// DiesAt is the block after which it answers nothing at all any more; 0: never.
	DiesAt uint16
	// WriteFails has the comparison fail after this many bytes were written.
	WriteFails int
	CutAt      int  // power fails after this many written bytes: Run returns ErrCut
	NoNotice   bool // the datagram is lost
	Deaf       bool // ARP and ping are answered, TFTP is not
	// Aborts tells whether the console does nothing, whatever it is answered; command
	// is FLR or FLW, and nth counts the times that it was typed.
	Aborts func(command string, nth int) bool
	// LatePrompt has the console show its last prompt a second time when it gets
	// the first character of a line.
	LatePrompt bool
}

// ErrCut is what Run returns when the power failed.
var ErrCut = errors.New("the power was cut while the flash was written")

const (
	mtu       = 1500
	ramBase   = 0x80000000
	loadAddr  = 0x80500000
	firstPort = 2098
	blockLen  = 512
	flashUnit = 64 << 10
)

// Result is how a loader ended.
type Result struct {
	Burnt []string // what was written
	Told  string   // the datagram's text
}

// transfer is the one under way.
type transfer struct {
	peer  peer
	port  uint16
	put   bool
	next  uint16 // block that is awaited (put), or that was sent (get)
	heard time.Time
	data  []byte
}

// peer is a client.
type peer struct {
	mac  [6]byte
	addr [4]byte
	port uint16
}

// Loader is a loader on a tap device.
type Loader struct {
	c    Config
	tap  *os.File
	addr [4]byte
	mac  [6]byte

	t        *transfer
	nextPort uint16
	loaded   []byte
	seen     map[[3]uint16]int // for Faults.Lose
	dead     bool

	serial sync.Mutex // held while a frame is handled, or a line of the console
	mu     sync.Mutex // guards the rest
	count  map[string]int
	mended bool
}

// Open makes the tap device and a loader behind it, which Run runs. The device is
// down, and nobody's.
func Open(tap string, c Config) (*Loader, error) {
	if len(c.Flash) != 16<<20 {
		return nil, fmt.Errorf("a flash of %d bytes", len(c.Flash))
	}
	if !c.Addr.IsValid() {
		c.Addr = netip.AddrFrom4([4]byte{192, 168, 1, 6})
	}
	c.RAMBytes = cmp.Or(c.RAMBytes, 32<<20)
	c.Times.Block = cmp.Or(c.Times.Block, 239*time.Millisecond)
	idle := 20 * time.Second
	if c.V32 {
		idle = 15 * time.Second
	}
	c.Times.Idle = cmp.Or(c.Times.Idle, idle)
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w (the emulated loader needs root)", err)
	}
	r, err := unix.NewIfreq(tap)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("tap %s: %w", tap, err)
	}
	l := &Loader{c: c, tap: os.NewFile(uintptr(fd), tap), addr: c.Addr.As4(), nextPort: firstPort, loaded: c.Downs, seen: map[[3]uint16]int{}, count: map[string]int{}}
	l.mac = [6]byte{0x56, l.addr[0], l.addr[1], l.addr[2], l.addr[3], 0}
	return l, nil
}

// Close takes the device away; Run ends.
func (l *Loader) Close() error { return l.tap.Close() }

// Count tells how often something happened: wrq, rrq, data, ack, ping, arp,
// upload, refused.
func (l *Loader) Count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[what]
}

func (l *Loader) did(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[what]++
}

// Run answers until an image was written and the board resets, the power fails,
// ctx ends or the device is closed.
func (l *Loader) Run(ctx context.Context) (Result, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.tap.SetReadDeadline(time.Now()) })
	defer stop()
	buf := make([]byte, 2048)
	for {
		n, err := l.tap.Read(buf)
		if err != nil {
			return Result{}, errors.Join(ctx.Err(), err)
		}
		l.mu.Lock()
		if l.mended {
			l.c.Faults, l.dead = Faults{}, false
		}
		l.mu.Unlock()
		if l.dead {
			continue
		}
		l.serial.Lock()
		var r Result
		done, peer := l.frame(buf[:n])
		if done {
			r, err = l.burn(peer)
		}
		l.serial.Unlock()
		if !done {
			continue
		}
		if err = errors.Join(err, ctx.Err()); err != nil || r.Told == "OK" {
			return r, err
		}
	}
}

// mend takes the faults away.
func (l *Loader) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mended = true
}

// frame handles one; done tells that peer has completed an upload to be burnt.
func (l *Loader) frame(f []byte) (done bool, from peer) {
	if len(f) < 14 {
		return false, from
	}
	broadcast := [6]byte{255, 255, 255, 255, 255, 255}
	if dst := [6]byte(f[:6]); dst != l.mac && dst != broadcast {
		return false, from
	}
	from.mac = [6]byte(f[6:12])
	p := f[14:]
	switch binary.BigEndian.Uint16(f[12:]) {
	case 0x0806:
		l.arp(p)
	case 0x0800:
		return l.ip(p, from)
	}
	return false, from
}

func (l *Loader) arp(p []byte) {
	// Ethernet, IPv4, request, for us (RFC 826).
	if len(p) < 28 || [8]byte(p[:8]) != [8]byte{0, 1, 8, 0, 6, 4, 0, 1} || [4]byte(p[24:28]) != l.addr {
		return
	}
	l.did("arp")
	r := append([]byte{0, 1, 8, 0, 6, 4, 0, 2}, l.mac[:]...)
	r = append(r, l.addr[:]...)
	r = append(r, p[8:18]...) // who asked
	l.send([6]byte(p[8:14]), 0x0806, append(r, make([]byte, 18)...))
}

func (l *Loader) send(to [6]byte, kind uint16, p []byte) {
	f := append(append([]byte(nil), to[:]...), l.mac[:]...)
	f = binary.BigEndian.AppendUint16(f, kind)
	_, _ = l.tap.Write(append(f, p...)) // a device that is down loses it, as a cable does
}

func (l *Loader) ip(p []byte, from peer) (done bool, _ peer) {
	if len(p) < 20 || p[0] != 0x45 || [4]byte(p[16:20]) != l.addr || p[6]&0x3F != 0 || p[7] != 0 { // no options, no fragments
		return false, from
	}
	n := int(binary.BigEndian.Uint16(p[2:]))
	if n < 20 || n > len(p) {
		return false, from
	}
	from.addr = [4]byte(p[12:16])
	switch b := p[20:n]; {
	case p[9] == 1 && len(b) >= 8 && len(b) <= 1488 && b[0] == 8:
		l.did("ping")
		echo := append([]byte(nil), b...)
		echo[0] = 0
		echo[2], echo[3] = 0, 0
		binary.BigEndian.PutUint16(echo[2:], checksum(echo))
		l.sendIP(from, 1, echo)
	case p[9] == 17 && len(b) >= 8:
		from.port = binary.BigEndian.Uint16(b)
		length := int(binary.BigEndian.Uint16(b[4:]))
		if length < 8 || length > len(b) {
			return false, from
		}
		return l.tftp(from, binary.BigEndian.Uint16(b[2:]), b[8:length]), from
	}
	return false, from
}

func checksum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		v := uint32(b[i]) << 8
		if i+1 < len(b) {
			v |= uint32(b[i+1])
		}
		s += v
	}
	for s>>16 != 0 {
		s = s&0xFFFF + s>>16
	}
	return ^uint16(s)
}

func (l *Loader) sendIP(to peer, proto byte, b []byte) {
	h := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, proto, 0, 0}
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(b)))
	h = append(append(h, l.addr[:]...), to.addr[:]...)
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	l.send(to.mac, 0x0800, append(h, b...))
}

// sendUDP sends without a checksum, as the loader does.
func (l *Loader) sendUDP(to peer, port uint16, b []byte) {
	u := binary.BigEndian.AppendUint16(nil, port)
	u = binary.BigEndian.AppendUint16(u, to.port)
	u = binary.BigEndian.AppendUint16(u, uint16(8+len(b)))
	l.sendIP(to, 17, append(append(u, 0, 0), b...))
}

// Opcodes of RFC 1350.
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
)

// lost asks the faults.
func (l *Loader) lost(fromLoader bool, op, block uint16) bool {
	if l.c.Faults.Lose == nil {
		return false
	}
	key := [3]uint16{op, block, 0}
	if fromLoader {
		key[2] = 1
	}
	l.seen[key]++
	return l.c.Faults.Lose(fromLoader, op, block, l.seen[key])
}

// tftp handles one packet; done tells that an upload is complete.
func (l *Loader) tftp(from peer, port uint16, p []byte) (done bool) {
	if len(p) < 4 || l.c.Faults.Deaf {
		return false
	}
	op, block := binary.BigEndian.Uint16(p), uint16(0)
	if op == opData || op == opAck {
		block = binary.BigEndian.Uint16(p[2:])
	}
	if l.lost(false, op, block) {
		l.c.Log("lost: op %d block %d", op, block)
		return false
	}
	now := time.Now()
	switch {
	case port == 69 && op == opWrite:
		l.did("wrq")
		t := l.t
		if t != nil && t.put && t.next == 1 && t.peer == from {
			l.ack(0) // its answer was lost
			return false
		}
		if l.begin(from, now, true) {
			l.t.next = 1
			l.ack(0)
		}
	case port == 69 && op == opRead:
		l.did("rrq")
		if len(l.loaded) == 0 {
			l.c.Log("nothing loaded")
			return false
		}
		if t := l.t; t != nil && !t.put && t.next == 1 && t.peer == from || l.begin(from, now, false) {
			l.t.next, l.t.data = 1, l.loaded
			l.sendBlock()
		}
	case l.t == nil || port != l.t.port || from != l.t.peer:
	case op == opData && l.t.put:
		l.did("data")
		l.t.heard = now
		return l.data(block, p[4:])
	case op == opAck && !l.t.put:
		l.did("ack")
		l.t.heard = now
		if block == l.t.next {
			if len(l.t.data) < blockLen*int(block) {
				l.t = nil // that was the last one
				return false
			}
			l.t.next++
		}
		if block == l.t.next || block == l.t.next-1 {
			l.sendBlock()
		}
	}
	return false
}

// begin makes a transfer, if none is under way.
func (l *Loader) begin(from peer, now time.Time, put bool) bool {
	if l.t != nil && now.Sub(l.t.heard) < l.c.Times.Idle {
		l.did("refused")
		return false
	}
	l.t = &transfer{peer: from, port: l.nextPort, put: put, heard: now}
	l.nextPort++
	return true
}

func (l *Loader) reply(p []byte) { l.sendUDP(l.t.peer, l.t.port, p) }

func (l *Loader) ack(block uint16) {
	if !l.lost(true, opAck, block) {
		l.reply([]byte{0, opAck, byte(block >> 8), byte(block)})
	}
}

func (l *Loader) sendBlock() {
	at := blockLen * (int(l.t.next) - 1)
	b := l.t.data[at:min(len(l.t.data), at+blockLen)]
	if !l.lost(true, opData, l.t.next) {
		l.reply(append([]byte{0, opData, byte(l.t.next >> 8), byte(l.t.next)}, b...))
	}
}

func (l *Loader) data(block uint16, b []byte) (done bool) {
	t := l.t
	switch {
	case block == t.next-1: // the answer was lost
		l.ack(block)
		return false
	case block != t.next || len(b) > blockLen:
		return false
	case l.c.Faults.DiesAt != 0 && block >= l.c.Faults.DiesAt:
		l.dead = true
		return false
	case len(t.data)+len(b) > l.c.RAMBytes-(loadAddr-ramBase):
		l.reply(append([]byte{0, opError, 0, 3}, "no room in RAM\x00"...))
		l.t = nil
		return false
	}
	t.data = append(t.data, b...)
	t.next++
	l.ack(block)
	if len(b) == blockLen {
		return false
	}
	l.did("upload")
	l.loaded, l.t = t.data, nil
	return !l.c.NoBurn
}

// burn checks and writes what was uploaded.
func (l *Loader) burn(to peer) (r Result, err error) {
	to.port = 9999
	tell := func(text string) {
		r.Told = text
		l.c.Log("%s", text)
		if !l.c.Faults.NoNotice {
			l.sendUDP(to, 9999, append([]byte(text), 0))
		}
	}
	pieces, err := preflight(l.loaded)
	if err != nil {
		l.c.Log("refused: %v", err)
		tell("FAIL")
		return r, nil
	}
	written := 0
	for _, p := range pieces {
		for at := 0; at < len(p.bytes); at += flashUnit {
			chunk := p.bytes[at:min(len(p.bytes), at+flashUnit)]
			dst := l.c.Flash[p.at+at:]
			for i := range min(flashUnit, len(dst)) {
				dst[i] = 0xFF
			}
			if l.c.Faults.CutAt > 0 && written+len(chunk) > l.c.Faults.CutAt {
				copy(dst, chunk[:len(chunk)/2])
				return r, ErrCut
			}
			copy(dst, chunk)
			written += len(chunk)
			time.Sleep(l.c.Times.Block)
			if l.c.Faults.WriteFails > 0 && written >= l.c.Faults.WriteFails {
				dst[0] ^= 1
				l.unheard()
				tell("FAIL")
				return r, nil
			}
		}
		r.Burnt = append(r.Burnt, p.name)
	}
	tell("OK")
	return r, nil
}

// unheard drops what came while the flash was written: it hears nothing then.
func (l *Loader) unheard() {
	buf := make([]byte, 2048)
	_ = l.tap.SetReadDeadline(time.Now().Add(time.Millisecond))
	for {
		if _, err := l.tap.Read(buf); err != nil {
			break
		}
	}
	_ = l.tap.SetReadDeadline(time.Time{})
}
