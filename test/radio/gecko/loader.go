package gecko

import (
	"fmt"
	"time"
)

// Bytes of XMODEM.
const (
	soh   = 0x01
	ctrlC = 0x03
	eot   = 0x04
	ack   = 0x06
	nak   = 0x15
	can   = 0x18
)

const blockBytes = 128

// Faults are what is still to go wrong.
type Faults struct {
	Nak    int  // good blocks that are asked for again
	NoAck  int  // acknowledgements that get lost
	Power  int  // the power fails when block number n is complete, counted from 1
	Cancel int  // the upload is cancelled at block number n
	Refuse int  // uploads that end with a wrong checksum
	Mute   bool // it says nothing
}

type state uint8

const (
	off state = iota
	idle
	wait    // sends C until something comes
	receive // blocks
)

// Loader is the bootloader. All calls come from one goroutine.
type Loader struct {
	Flash *Flash
	// Out sends to the line.
	Out func(p []byte)
	// Leave resets the chip; it comes back if there is no application.
	Leave func()
	// PowerFails resets the chip, too, for the fault.
	PowerFails func()
	Faults     Faults

	// Counters for tests.
	Uploads, Blocks int

	hookAt int
	hook   func(*Loader)

	state    state
	at       time.Time // of the next thing by the clock
	tries    int
	packet   []byte
	number   byte
	started  bool
	total    int // good blocks of this upload
	parser   *parser
	complete bool
}

// AtBlock has f called once, when block n of an upload is complete and before it is
// looked at.
func (l *Loader) AtBlock(n int, f func(*Loader)) { l.hookAt, l.hook = n, f }

// Boot shows the menu. Nothing is known of an upload before.
func (l *Loader) Boot(uint8) {
	l.state, l.parser, l.complete = idle, nil, false
	l.menu()
}

// Shutdown ends it.
func (l *Loader) Shutdown() { l.state = off }

// say sends text as the bootloader does, with the zero byte at its end.
func (l *Loader) say(text string) { l.send([]byte(text + "\x00")...) }

func (l *Loader) send(p ...byte) {
	if !l.Faults.Mute {
		l.Out(p)
	}
}

func (l *Loader) menu() {
	v := l.Flash.Bootloader
	l.say(fmt.Sprintf("\r\nGecko Bootloader v%X.%02d.%02d\r\n1. upload gbl\r\n2. run\r\n3. ebl info\r\nBL > ", v>>24&15, v>>16&15, v&15))
}

// The times that the SDK has.
const (
	cEvery   = time.Second
	cTries   = 60
	stepWait = 3 * time.Second // for a block to begin, and for its rest
)

// Write takes bytes from the line.
func (l *Loader) Write(now time.Time, p []byte) {
	for _, b := range p {
		l.write(now, b)
	}
}

func (l *Loader) write(now time.Time, b byte) {
	switch l.state {
	case off:
	case idle:
		switch b {
		case '1':
			l.say("\r\nbegin upload\r\n")
			l.state, l.tries, l.started, l.total = wait, cTries, false, 0
			l.packet, l.complete = l.packet[:0], false
			l.parser = newParser(l.Flash)
			l.Uploads++
			l.send('C')
			l.at = now.Add(cEvery)
		case '2':
			l.run()
		default:
			l.menu()
		}
	case wait, receive:
		l.state = receive
		l.packet = append(l.packet, b)
		switch {
		case l.packet[0] != soh:
			l.packet = l.packet[:0]
			l.single(b)
		case len(l.packet) == 3+blockBytes+2:
			l.block(l.packet)
			l.packet = l.packet[:0]
		}
		l.at = now.Add(stepWait)
	}
}

// single takes a byte that begins no block.
func (l *Loader) single(b byte) {
	switch b {
	case eot:
		if !l.parser.done || l.Faults.Refuse > 0 {
			if l.Faults.Refuse > 0 {
				l.Faults.Refuse--
				l.Flash.App = nil
			}
			l.abort("file", codeCRC)
			return
		}
		l.complete, l.state = true, idle
		l.send(ack)
		l.say("\r\nSerial upload complete\r\n")
		l.menu()
	case can, 'C', ctrlC:
		l.abort("block", can)
	default:
		l.abort("block", 0x21)
	}
}

// block takes a whole one.
func (l *Loader) block(p []byte) {
	number, data := p[1], p[3:3+blockBytes]
	switch {
	case l.started && number == l.number:
		l.send(ack) // sent again, for its acknowledgement was lost
		return
	case !l.started && number != 1, l.started && number != l.number+1, number+p[2] != 0xFF,
		crc(data) != uint16(p[131])<<8|uint16(p[132]):
		l.send(nak)
		return
	}
	if f := l.hook; f != nil && l.total+1 == l.hookAt {
		l.hook = nil
		f(l)
	}
	if l.Faults.Nak > 0 {
		l.Faults.Nak--
		l.send(nak)
		return
	}
	l.total++
	l.Blocks++
	l.number, l.started = number, true
	code := l.parser.write(data)
	switch {
	case l.total == l.Faults.Power:
		l.Faults.Power = 0
		l.PowerFails()
	case code != 0:
		l.abort("file", code)
	case l.total == l.Faults.Cancel:
		l.Faults.Cancel = 0
		l.abort("block", 0x23)
	case l.Faults.NoAck > 0:
		l.Faults.NoAck--
	default:
		l.send(ack)
	}
}

func (l *Loader) abort(what string, code uint8) {
	l.state, l.parser = idle, nil
	l.send(can, can, can)
	l.say("\r\nSerial upload aborted\r\n")
	l.say("\r\n" + what + " error 0x")
	l.send([]byte(fmt.Sprintf("%02X\r\n", code))...)
	l.menu()
}

// run starts what is there.
func (l *Loader) run() {
	if l.complete && l.parser.bootloader > l.Flash.Bootloader {
		l.Flash.Bootloader = l.parser.bootloader
	}
	l.state = off
	l.Leave()
}

// Tick acts on times that are over.
func (l *Loader) Tick(now time.Time) {
	if l.state < wait || now.Before(l.at) {
		return
	}
	if l.state == receive {
		l.packet = l.packet[:0]
		l.send(nak)
		l.at = now.Add(stepWait)
		return
	}
	if l.tries--; l.tries == 0 {
		l.send(can, can, can)
		l.state = idle
		l.menu()
		return
	}
	l.send('C')
	l.at = now.Add(cEvery)
}

// Deadline is when Tick wants to be called.
func (l *Loader) Deadline() (time.Time, bool) { return l.at, l.state >= wait }

// crc is CRC-16 of XMODEM, bit by bit.
func crc(p []byte) (v uint16) {
	for _, b := range p {
		for i := 7; i >= 0; i-- {
			bit := v>>15 ^ uint16(b>>i&1)
			v <<= 1
			if bit != 0 {
				v ^= 0x1021
			}
		}
	}
	return v
}
