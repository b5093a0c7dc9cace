package flash

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"gwinit/internal/wait"
)

// TFTP as the gateway's loader speaks it (RFC 1350): blocks of 512 bytes, no
// options, one transfer at a time, bound to the client's port.
const (
	tftpPort   = 69
	noticePort = 9999
	// sourcePort is ours, always the same: the loader takes a write request
	// that comes again from there for the same transfer, not for another one.
	sourcePort = 50069
	blockLen   = 512
	maxBlocks  = 65535
)

// Times of a transfer. Zero is the default.
type Times struct {
	Again time.Duration // until a packet is sent again: 1 s
	Tries int           // of one packet: 8
	Idle  time.Duration // after which a loader forgets a transfer: 21 s (20 s; V3.2: 15 s)
}

func (t Times) or() Times {
	return Times{cmp.Or(t.Again, time.Second), cmp.Or(t.Tries, 8), cmp.Or(t.Idle, 21*time.Second)}
}

// Errors of a transfer.
var (
	// ErrNoAnswer: no loader answered a request; nothing was sent.
	ErrNoAnswer = errors.New("no answer from a loader")
	// ErrStalled: the loader stopped in the middle; the flash is as it was.
	ErrStalled = errors.New("the loader stopped answering")
	// ErrLength: a download has another length than what was asked for.
	ErrLength = errors.New("the loader sent another number of bytes")
	// ErrLastBlock: all was sent, and only the last answer is missing. The
	// loader may be writing the flash: what is sent now would be lost.
	ErrLastBlock = errors.New("the last block was not answered")
	// ErrToldNo is an error packet.
	ErrToldNo = errors.New("the loader refused the transfer")
)

// Client is a TFTP client for one loader.
type Client struct {
	conn   net.PacketConn
	loader netip.Addr
	times  Times
}

// NewClient makes one that sends by conn, a UDP socket of IPv4.
func NewClient(conn net.PacketConn, loader netip.Addr, times Times) *Client {
	return &Client{conn, loader, times.or()}
}

const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
)

// send sends to a port of the loader. A failure is as good as a lost packet: as
// long as a board restarts, its address leads nowhere.
func (c *Client) send(port uint16, p []byte) {
	_, _ = c.conn.WriteTo(p, net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.loader, port)))
}

// receive returns the next packet of the loader, or an error when until is over.
func (c *Client) receive(ctx context.Context, until time.Time) (port uint16, op, block uint16, data []byte, err error) {
	buf := make([]byte, 2048)
	for {
		if err := ctx.Err(); err != nil {
			return 0, 0, 0, nil, err
		}
		// Short, so that an end of ctx is seen.
		_ = c.conn.SetReadDeadline(earlier(until, time.Now().Add(250*time.Millisecond)))
		n, from, err := c.conn.ReadFrom(buf)
		if err != nil {
			var timeout net.Error
			switch {
			case errors.Is(err, net.ErrClosed):
				return 0, 0, 0, nil, err
			case !time.Now().Before(until):
				return 0, 0, 0, nil, ErrNoAnswer
			case !errors.As(err, &timeout) || !timeout.Timeout():
				time.Sleep(10 * time.Millisecond) // an earlier packet's "unreachable"
			}
			continue
		}
		a, ok := from.(*net.UDPAddr)
		if !ok || n < 4 || a.AddrPort().Addr().Unmap() != c.loader {
			continue
		}
		return uint16(a.Port), binary.BigEndian.Uint16(buf), binary.BigEndian.Uint16(buf[2:]), append([]byte(nil), buf[4:n]...), nil
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// toldNo is the text of an error packet.
func toldNo(code uint16, text []byte) error {
	s, _, _ := strings.Cut(string(text), "\x00")
	return fmt.Errorf("%w: %s (error %d)", ErrToldNo, plain(s), code)
}

// request asks until a loader answers, or the time is over. The first answer to a
// write request is that to block 0; nothing else shows that a loader is there and
// idle.
func (c *Client) request(ctx context.Context, op uint16, within time.Duration) (port uint16, data []byte, err error) {
	p := binary.BigEndian.AppendUint16(nil, op)
	p = append(p, "image\x00octet\x00"...)
	want, first := uint16(opAck), uint16(0)
	if op == opRead {
		want, first = opData, 1
	}
	end := time.Now().Add(within)
	for time.Now().Before(end) {
		c.send(tftpPort, p)
		until := earlier(end, time.Now().Add(c.times.Again))
		for {
			port, op, block, data, err := c.receive(ctx, until)
			switch {
			case errors.Is(err, ErrNoAnswer):
			case err != nil:
				return 0, nil, err
			case op == opError:
				return 0, nil, toldNo(block, data)
			case op == want && block == first:
				return port, data, nil
			default:
				continue // of an earlier transfer
			}
			break
		}
	}
	return 0, nil, fmt.Errorf("%s port %d: %w within %v", c.loader, tftpPort, ErrNoAnswer, within.Round(time.Second))
}

// Put uploads data when a loader answers within that time. progress is called with
// the bytes that it has.
//
// A transfer that stalls is begun again when the loader has forgotten it, twice,
// and only if it answers the new request then: one that does not may be writing.
func (c *Client) Put(ctx context.Context, data []byte, within time.Duration, progress func(done int)) error {
	if len(data)/blockLen+1 > maxBlocks {
		return fmt.Errorf("%d bytes are more than TFTP can send", len(data))
	}
	var stalled error
	for attempt := 1; ; attempt++ {
		port, _, err := c.request(ctx, opWrite, within)
		if err != nil && stalled != nil {
			return fmt.Errorf("%w; begun again: %w", stalled, err)
		}
		if err != nil {
			return err
		}
		err = c.blocks(ctx, port, data, progress)
		if !errors.Is(err, ErrStalled) || attempt == 3 {
			return err
		}
		stalled = err
		if !wait.For(ctx, c.times.Idle) {
			return errors.Join(err, ctx.Err())
		}
		within = time.Duration(c.times.Tries) * c.times.Again
	}
}

func (c *Client) blocks(ctx context.Context, port uint16, data []byte, progress func(int)) error {
	for block := 1; ; block++ {
		at := (block - 1) * blockLen
		part := data[at:min(len(data), at+blockLen)]
		p := append([]byte{0, opData, byte(block >> 8), byte(block)}, part...)
		last := len(part) < blockLen
		if err := c.block(ctx, port, p, uint16(block)); err != nil {
			if last && errors.Is(err, ErrStalled) {
				return fmt.Errorf("%w: %w", ErrLastBlock, err)
			}
			return fmt.Errorf("after %d of %d bytes: %w", at, len(data), err)
		}
		progress(at + len(part))
		if last {
			return nil
		}
	}
}

// block sends one until it is answered.
func (c *Client) block(ctx context.Context, port uint16, p []byte, block uint16) error {
	for range c.times.Tries {
		c.send(port, p)
		until := time.Now().Add(c.times.Again)
		for {
			from, op, n, text, err := c.receive(ctx, until)
			switch {
			case errors.Is(err, ErrNoAnswer):
			case err != nil:
				return err
			case from == port && op == opError:
				return toldNo(n, text)
			case from == port && op == opAck && n == block:
				return nil
			default:
				continue // an answer that came twice
			}
			break
		}
	}
	return ErrStalled
}

// Get downloads what the loader has in its memory: exactly want bytes.
func (c *Client) Get(ctx context.Context, want int, within time.Duration, progress func(done int)) ([]byte, error) {
	port, data, err := c.request(ctx, opRead, within)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, want)
	tries := 0
	for block := uint16(1); ; {
		if data != nil {
			out = append(out, data...)
			progress(len(out))
			if len(data) < blockLen {
				c.send(port, []byte{0, opAck, byte(block >> 8), byte(block)})
				break
			}
			if len(out) > want {
				return nil, fmt.Errorf("the loader sends more than %d bytes", want)
			}
			tries = 0
		}
		c.send(port, []byte{0, opAck, byte(block >> 8), byte(block)})
		next, until := block+1, time.Now().Add(c.times.Again)
		data = nil
		for data == nil {
			from, op, n, p, err := c.receive(ctx, until)
			if errors.Is(err, ErrNoAnswer) {
				break
			}
			switch {
			case err != nil:
				return nil, err
			case from == port && op == opError:
				return nil, toldNo(n, p)
			case from == port && op == opData && n == next && len(p) <= blockLen:
				block = n
				if data = p; data == nil {
					data = []byte{}
				}
			}
		}
		if tries++; tries > c.times.Tries {
			return nil, fmt.Errorf("after %d of %d bytes: %w", len(out), want, ErrStalled)
		}
	}
	if len(out) != want {
		return nil, fmt.Errorf("%w: %d bytes and not %d", ErrLength, len(out), want)
	}
	return out, nil
}

// Verdict is what a loader says when it has written an image, or has not.
type Verdict int

// Verdicts.
const (
	VerdictNone Verdict = iota // none came
	VerdictOK
	VerdictFail
)

// waitVerdict waits for the loader's datagram on conn, which listens on port 9999.
func waitVerdict(ctx context.Context, conn net.PacketConn, loader netip.Addr, within time.Duration, tick func(left time.Duration)) (Verdict, error) {
	end := time.Now().Add(within)
	buf := make([]byte, 100)
	for time.Now().Before(end) {
		if err := ctx.Err(); err != nil {
			return VerdictNone, err
		}
		tick(time.Until(end))
		_ = conn.SetReadDeadline(earlier(end, time.Now().Add(500*time.Millisecond)))
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return VerdictNone, err
		}
		if err != nil {
			continue
		}
		if a, ok := from.(*net.UDPAddr); !ok || a.AddrPort().Addr().Unmap() != loader {
			continue
		}
		switch strings.TrimRight(string(buf[:n]), "\x00") {
		case "OK":
			return VerdictOK, nil
		case "FAIL":
			return VerdictFail, nil
		}
	}
	return VerdictNone, nil
}

// plain leaves out of a stranger's text what could steer a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}
