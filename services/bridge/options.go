//go:build linux

package bridge

import (
	"net/netip"
	"time"

	"gwinit/internal/radiolock"
)

// DefaultPort is the TCP port that Zigbee clients of such gateways use.
const DefaultPort = 8888

// Limits are the bridge's times. Tests shorten them.
type Limits struct {
	// Claim: a newcomer that says nothing for this long while nobody is on
	// the line counts as a raw client; it may only want to listen. OpenSSH
	// speaks at once, and 250 ms covers its first segment being lost once.
	Claim time.Duration
	// Pending: a newcomer that has not shown what it is by then is closed.
	Pending time.Duration
	// Stall: a client that takes nothing for this long while bytes wait for
	// it is closed; it is TCP_USER_TIMEOUT, too. A radio that takes nothing for
	// this long is reported.
	Stall time.Duration
	// XOFF: one that was received and holds bytes for this long is undone.
	XOFF time.Duration
	// HalfClosed: a client that has sent its FIN keeps its place while what it
	// said before is on its way to the radio, until nothing of that moved for
	// this long.
	HalfClosed time.Duration
	// Linger bounds an orderly end: FIN sent, the peer's awaited.
	Linger time.Duration
	// ReopenMin and ReopenMax bound the back-off between attempts to open
	// the UART.
	ReopenMin, ReopenMax time.Duration
}

// DefaultLimits returns the limits of the product.
func DefaultLimits() Limits {
	return Limits{
		Claim:      250 * time.Millisecond,
		Pending:    60 * time.Second,
		Stall:      30 * time.Second,
		XOFF:       time.Second,
		HalfClosed: 2 * time.Second,
		Linger:     2 * time.Second,
		ReopenMin:  100 * time.Millisecond,
		ReopenMax:  5 * time.Second,
	}
}

// Options say what a Bridge does. Open and Log must be set.
type Options struct {
	// Bind is the address to listen on; the zero Addr and the unspecified
	// ones mean every address, IPv6 and IPv4.
	Bind netip.Addr
	// Port 0 takes any free port.
	Port uint16
	// Listener is a listening socket from an earlier process, or -1. It is
	// used when it is bound as Bind and Port say; otherwise it is shut down,
	// so that its duplicates do not listen either, and closed.
	Listener int
	// Open opens the UART; see DeviceOpener. It runs on a goroutine of its
	// own, never twice at a time, and may block until its context ends.
	Open OpenFunc
	// UART, Baud and Flow are what Status names while the UART is not open.
	UART string
	Baud int
	Flow string
	// Log takes one event, one line without a line end. It must not block:
	// the data path waits for it.
	Log func(string)
	// UARTChanged, when set, hears in a line for people that the UART was
	// opened, or why it is not open. Its calls come one after the other, and
	// the opening of the UART waits for them.
	UARTChanged func(open bool, detail string)
	// Unavailable, when set, is why the radio is not this bridge's to have:
	// Open is not called, and raw clients are refused with these words.
	Unavailable string
	// AnyWins has a newcomer take the radio from a client by any bytes, and not only
	// by those that a radio's client begins with: for a flasher, which has one
	// connection for each thing that it asks, and leaves the one before open.
	AnyWins bool
	// Takeover is who takes the radio from a client: config.TakeoverNewest,
	// which "" is, TakeoverSameHost or TakeoverNever.
	Takeover string
	// Allow is who may have the radio beside the gateway itself. nil: hosts with
	// private and link-local addresses, and those on a network of OnLink.
	Allow []netip.Prefix
	// OnLink returns the networks of the gateway's interfaces. It runs on a
	// goroutine of its own and may block. nil: there are none.
	OnLink func() ([]netip.Prefix, error)
	// SSH gives a connection that speaks SSH away, with what it said unread;
	// fd stays the bridge's, which closes it. It must not block. nil: such
	// connections are closed.
	SSH func(fd int) error
	// Loan, when set, is where Release and Take note that the radio is lent.
	Loan *radiolock.Loan
	// Warnings are what Status says of the settings.
	Warnings []string
	Limits   Limits
}

// Sizes of the data path, made once. Line time is that of 460800 baud, 8N1:
// 46 bytes a millisecond.
const (
	// rxQueueBytes holds what the radio said and the client's socket did not
	// take: 1.4 s. With flow control the radio is stopped then; without, the
	// client is closed (INV 2). Pages of it that were never needed cost
	// nothing: the queue starts at its front whenever it is empty.
	rxQueueBytes = 64 << 10
	// txQueueBytes is what is read from the client at once: 89 ms. It is the
	// size of the kernel's serial transmit buffer, and the client is not
	// read again before all of it is in there.
	txQueueBytes = 4 << 10
	// scratchBytes takes what nobody wants: the kernel hands out a tty's
	// input in pieces of at most 4 KiB.
	scratchBytes = 4 << 10
	// sendBufferBytes is SO_SNDBUF of a client (the kernel doubles it for its
	// own bookkeeping): 0.7 s more for a client on a bad Wi-Fi link, fixed so
	// that a client that does not read cannot take more of 25 MiB.
	sendBufferBytes = 32 << 10
	// receiveBufferBytes is SO_RCVBUF: what a client may have sent ahead of
	// the radio, 0.35 s; and what each of a few pending connections can cost.
	receiveBufferBytes = 16 << 10
	// backlog is how many connections the kernel completes while a new
	// bridge process is on its way: half a second of 200 a second, and some.
	backlog = 128
	// drainReads bounds how many pieces are thrown away at a connect: more
	// than tty layer and driver can hold (64 KiB).
	drainReads = 32
)
