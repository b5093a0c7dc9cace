package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gwinit/internal/logring"
)

// packetBytes is an NTP header (RFC 5905 section 7.3); extensions and
// authentication may follow and are ignored.
const packetBytes = 48

// What is wrong with a packet.
var (
	errShort     = errors.New("the answer is too short")
	errForeign   = errors.New("the answer is to another question") // or forged
	errUnsynced  = errors.New("the server does not know the time itself")
	errNonsense  = errors.New("the answer makes no sense")
	errTooFar    = errors.New("the server is too far from true time, or from here")
	errDenied    = errors.New("the server refuses to answer")
	errTooOften  = errors.New("the server is asked too often")
	errKissOther = errors.New("the server gives no time")
)

// Fields of the header.
const (
	modeClient   = 3
	modeServer   = 4
	versionOurs  = 4
	leapUnsynced = 3
	maxStratum   = 15
)

// ntpEpoch is 1900-01-01 in Unix seconds, and era how long its 32 bits last.
const (
	ntpEpoch = -2_208_988_800
	era      = 1 << 32
)

// timestamp reads 32 bits of seconds since 1900 and 32 of fraction (RFC 5905
// section 6). Which era they are of is not in the packet, nor is it known here
// what the time is: it is the first one from 2024 on.
func timestamp(b []byte) time.Time {
	sec := int64(binary.BigEndian.Uint32(b)) + ntpEpoch
	if sec < logring.WallKnown/int64(time.Second) {
		sec += era
	}
	return time.Unix(sec, int64(uint64(binary.BigEndian.Uint32(b[4:]))*uint64(time.Second)>>32))
}

// short reads NTP's short format: seconds in 16 bits and 16 of fraction.
func short(b []byte) time.Duration {
	return time.Duration(uint64(binary.BigEndian.Uint32(b)) * uint64(time.Second) >> 16)
}

// request makes a question. It tells the server nothing about this box: where
// the time of sending would stand is a random number, which the answer repeats
// (draft-ietf-ntp-data-minimization).
func request(nonce uint64) (b [packetBytes]byte) {
	b[0] = versionOurs<<3 | modeClient
	binary.BigEndian.PutUint64(b[40:], nonce)
	return b
}

// reply is an answer that can be used.
type reply struct {
	received, sent time.Time // by the server's clock
	stratum        int
	// distance is how far the server's clock can be from true time (RFC 5905
	// section 10): half its way to the reference, and what it lost since.
	distance time.Duration
}

// parse reads the answer to the question with that nonce.
func parse(b []byte, nonce uint64) (reply, error) {
	if len(b) < packetBytes {
		return reply{}, errShort
	}
	// First who it is from: what is not an answer to us says nothing at all.
	if b[0]&7 != modeServer || binary.BigEndian.Uint64(b[24:]) != nonce {
		return reply{}, errForeign
	}
	r := reply{
		received: timestamp(b[32:]), sent: timestamp(b[40:]),
		stratum:  int(b[1]),
		distance: short(b[4:])/2 + short(b[8:]),
	}
	switch {
	case r.stratum == 0: // RFC 5905 section 7.4
		switch code := string(b[12:16]); code {
		case "RATE":
			return reply{}, errTooOften
		case "DENY", "RSTR":
			return reply{}, fmt.Errorf("%w: %s", errDenied, code)
		default:
			return reply{}, fmt.Errorf("%w: %q", errKissOther, code)
		}
	case b[0]>>6 == leapUnsynced, r.stratum > maxStratum,
		// From 1970 on an era later: it has no clock, and counts from there.
		r.sent.Unix() >= era:
		return reply{}, errUnsynced
	case b[0]>>3&7 < 3 || b[0]>>3&7 > versionOurs,
		binary.BigEndian.Uint64(b[32:]) == 0, binary.BigEndian.Uint64(b[40:]) == 0,
		r.sent.Before(r.received):
		return reply{}, errNonsense
	case r.distance > maxDistance:
		return reply{}, errTooFar
	}
	return r, nil
}
