// Package proto is what an iperf3 server says and hears: states, parameters,
// results, and the header of a UDP datagram. It knows no socket.
//
// Source: iperf 3 (esnet/iperf, iperf_api.h, iperf_api.c, iperf_udp.c), versions
// 3.1 to 3.20; there is no other description of it.
//
// A control connection begins with a cookie of the client. The server then sends
// states, a byte each, and the client answers some of them; parameters and
// results are JSON behind their length in 4 bytes, big-endian. Each TCP stream
// begins with the cookie, and each UDP stream with a datagram of 4 bytes, which is
// answered by another such.
package proto

import (
	"encoding/binary"
	"encoding/json"
	"errors"
)

// State is a byte on the control connection.
type State int8

// States that a server sends or gets.
const (
	TestStart       State = 1
	TestRunning     State = 2
	TestEnd         State = 4
	ParamExchange   State = 9
	CreateStreams   State = 10
	ServerTerminate State = 11
	ClientTerminate State = 12
	ExchangeResults State = 13
	DisplayResults  State = 14
	Done            State = 16
	AccessDenied    State = -1
	ServerError     State = -2
)

// Numbers of errors, as a client prints them.
const (
	errTime      = 5
	errStreams   = 6
	errBlock     = 7
	errBuffer    = 8
	errMSS       = 10
	errOmit      = 12
	errUDPBlock  = 20
	errTOS       = 22
	ErrParams    = 115
	ErrResults   = 118
	ErrMessage   = 110
	ErrStream    = 204 // accepting a stream failed
	ErrListen    = 202 // listening for streams did
	ErrSetBuffer = 124
	ErrBufferCut = 141 // the kernel gave less
	ErrSetMSS    = 123
	ErrProtocol  = 132
	ErrDuration  = 160 // the test went on for too long
)

// CookieBytes is the length of a cookie: 36 characters and a NUL.
const CookieBytes = 37

// MaxStreams is how many a client may have in each direction.
const MaxStreams = 128

// Limits of parameters, as iperf3's.
const (
	maxJSON       = 8 << 10
	maxSeconds    = 86400
	maxOmit       = 600
	maxBlockBytes = 1 << 20
	maxUDPBytes   = 65507
	minUDPBytes   = 16
	maxMSS        = 32<<10 - 1
	maxWindow     = 512 << 20
	udpBytes      = 1460 // where the client does not say
	maxBurst      = 1000
	maxTOS        = 255
	maxRate       = 1 << 50 // bit/s
	maxCongestion = 15      // TCP_CA_NAME_MAX less its NUL
)

// A Fault is what a client is told of a request that cannot be had.
type Fault struct {
	Number int // as iperf3 has it
	Text   string
}

// Error implements error.
func (f *Fault) Error() string { return f.Text }

// Params are what a client wants.
type Params struct {
	UDP           bool   // else TCP
	Reverse       bool   // the server sends
	Bidirectional bool   // both do
	Streams       int    // in each direction
	Seconds, Omit int    // Seconds 0: until the client ends it
	Block         int    // bytes of a write, or of a datagram
	Window        int    // of socket buffers; 0: the kernel's
	MSS           int    // 0: the kernel's
	NoDelay       bool   //
	Rate          uint64 // bit/s of each stream that is sent; 0: any
	PacingRate    uint64 // bit/s, by the kernel's pacing; 0: none
	Burst         int    // writes at a time with Rate; 0: one
	TOS           int
	Congestion    string // control, by name; "": the kernel's
	ServerOutput  bool   // the results have the server's text
	Counters64    bool   // of UDP datagrams
	DontFragment  bool
	SkipCopy      bool // what is received is not copied out of the kernel
}

// ParseParams reads the parameters. An error is a *Fault, which the client is to
// be told.
func ParseParams(text []byte) (*Params, error) {
	var all map[string]any
	err := json.Unmarshal(text, &all)
	if err != nil {
		return nil, &Fault{ErrParams, "parameters: " + err.Error()}
	}
	wrong := func(number int, name string) { err = &Fault{number, "a wrong parameter: " + name} }
	// number is one within its limits; what is absent is 0.
	number := func(name string, most int, number int) int {
		v, _ := all[name].(float64)
		if !(v >= 0 && v <= float64(most)) {
			wrong(number, name)
			return 0
		}
		return int(v)
	}
	rate := func(name string) uint64 {
		v, _ := all[name].(float64)
		if !(v >= 0 && v < maxRate) {
			wrong(ErrParams, name)
			return 0
		}
		return uint64(v)
	}
	// Flags are true in some versions and 1 in others.
	flag := func(name string) bool { return all[name] == true || all[name] == 1.0 }
	p := &Params{
		UDP: flag("udp"), Reverse: flag("reverse"), Bidirectional: flag("bidirectional"),
		Streams: max(1, number("parallel", MaxStreams, errStreams)),
		Seconds: number("time", maxSeconds, errTime),
		Omit:    number("omit", maxOmit, errOmit),
		Block:   number("len", maxBlockBytes, errBlock),
		Window:  number("window", maxWindow, errBuffer),
		MSS:     number("MSS", maxMSS, errMSS),
		Burst:   number("burst", maxBurst, ErrParams),
		TOS:     number("TOS", maxTOS, errTOS),
		NoDelay: flag("nodelay"), Rate: rate("bandwidth"), PacingRate: rate("fqrate"),
		ServerOutput: flag("get_server_output"), Counters64: flag("udp_counters_64bit"),
		DontFragment: flag("dont_fragment"), SkipCopy: flag("skip_rx_copy"),
	}
	p.Congestion, _ = all["congestion"].(string)
	switch {
	case flag("sctp"):
		wrong(ErrProtocol, "sctp")
	case p.Reverse && p.Bidirectional:
		wrong(ErrParams, "reverse")
	case len(p.Congestion) > maxCongestion:
		wrong(ErrParams, "congestion")
	case p.UDP && p.Block == 0:
		p.Block = udpBytes
	case p.UDP && (p.Block < minUDPBytes || p.Block > maxUDPBytes):
		wrong(errUDPBlock, "len")
	case p.Block == 0:
		wrong(errBlock, "len")
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Sends and Receives are how many streams the server sends and receives.
func (p *Params) Sends() int {
	if p.Reverse || p.Bidirectional {
		return p.Streams
	}
	return 0
}

// Receives is the other way round.
func (p *Params) Receives() int {
	if p.Reverse {
		return 0
	}
	return p.Streams
}

// ErrLong is JSON that is longer than any client's.
var ErrLong = errors.New("longer than an iperf3 client's JSON")

// Length reads the length in front of JSON. Results have one entry for each
// stream and may be longer than parameters.
func Length(b [4]byte, streams int) (int, error) {
	n := binary.BigEndian.Uint32(b[:])
	if n == 0 || n > uint32(maxJSON+streams*512) {
		return 0, ErrLong
	}
	return int(n), nil
}

// Results are what the server has counted.
type Results struct {
	CPUTotal       float64  `json:"cpu_util_total"` // percent
	CPUUser        float64  `json:"cpu_util_user"`
	CPUSystem      float64  `json:"cpu_util_system"`
	HasRetransmits int      `json:"sender_has_retransmits"` // 1, 0, or -1 where the server only receives
	Congestion     string   `json:"congestion_used,omitempty"`
	Output         string   `json:"server_output_text,omitempty"`
	Streams        []Stream `json:"streams"`
}

// Stream is one of them.
type Stream struct {
	ID             int     `json:"id"`
	Bytes          uint64  `json:"bytes"`
	Retransmits    int64   `json:"retransmits"` // -1: not known
	Jitter         float64 `json:"jitter"`      // s
	Errors         int64   `json:"errors"`      // datagrams that were lost
	OmittedErrors  int64   `json:"omitted_errors"`
	Packets        uint64  `json:"packets"`
	OmittedPackets uint64  `json:"omitted_packets"`
	Start          float64 `json:"start_time"` // s
	End            float64 `json:"end_time"`
}

// StreamID is the number of the nth stream, from 0: iperf3 leaves 2 out.
func StreamID(n int) int {
	if n == 0 {
		return 1
	}
	return n + 2
}

// Append appends JSON behind its length.
func (r *Results) Append(b []byte) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return b, err
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...), nil
}

// CheckResults checks what a client has counted, which is of no further use here.
func CheckResults(text []byte) error {
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return &Fault{ErrResults, "results: " + err.Error()}
	}
	if _, ok := all["streams"].([]any); !ok {
		return &Fault{ErrResults, "results without streams"}
	}
	return nil
}

// Hello returns the answer to the first datagram of a UDP stream, and false if
// that is none. Since 3.11 it is text, in the byte order of little-endian
// machines; big-endian ones of then have it the other way round, and older ones
// use the numbers 123456789 and 987654321.
func Hello(b []byte) (reply []byte, ok bool) {
	const pairs = "98766789" + "67899876" + "\x15\xcd\x5b\x07\xb1\x68\xde\x3a" + "\x07\x5b\xcd\x15\x3a\xde\x68\xb1"
	for i := 0; i < len(pairs); i += 8 {
		if string(b) == pairs[i:i+4] {
			return []byte(pairs[i+4 : i+8]), true
		}
	}
	return nil, false
}

// HeaderBytes is the length of a datagram's header with 64-bit counters; with
// 32-bit ones it is 12.
const HeaderBytes = 16

// PutHeader writes a datagram's: the time of sending, and which it is, from 1.
//
//go:nosplit
func PutHeader(b *[HeaderBytes]byte, sec, usec uint32, count uint64, wide bool) {
	put32(b, 0, sec)
	put32(b, 4, usec)
	if wide {
		put32(b, 8, uint32(count>>32))
		put32(b, 12, uint32(count))
	} else {
		put32(b, 8, uint32(count))
	}
}

//go:nosplit
func put32(b *[HeaderBytes]byte, at int, v uint32) {
	b[at], b[at+1], b[at+2], b[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
}

//go:nosplit
func get32(b *[HeaderBytes]byte, at int) uint32 {
	return uint32(b[at])<<24 | uint32(b[at+1])<<16 | uint32(b[at+2])<<8 | uint32(b[at+3])
}

// Receiver counts the datagrams of a stream that are received.
type Receiver struct {
	Packets uint64 // the highest number that came
	Lost    int64  // of those up to it; late ones are taken off again
	Late    uint64 // came out of order

	started bool
	transit int64 // us: of the last one, arrival less sending; the clocks differ
	jitter  int64 // us, times 16
}

// Got counts a datagram that has the header b and came at sec, usec, of any clock
// that goes on evenly.
//
// The jitter is that of RFC 3550, section 6.4.1 and A.8, with integers: iperf3
// does the same with floating point.
//
//go:nosplit
func (r *Receiver) Got(b *[HeaderBytes]byte, sec, usec uint32, wide bool) {
	count := uint64(get32(b, 8))
	if wide {
		count = count<<32 | uint64(get32(b, 12))
	}
	if count > r.Packets {
		r.Lost += int64(count - r.Packets - 1)
		r.Packets = count
	} else {
		r.Late++
		if r.Lost > 0 {
			r.Lost--
		}
	}
	transit := int64(int32(sec-get32(b, 0)))*1000000 + int64(usec) - int64(get32(b, 4))
	if r.started {
		d := transit - r.transit
		if d < 0 {
			d = -d
		}
		r.jitter += d - (r.jitter+8)>>4
	}
	r.transit, r.started = transit, true
}

// Jitter is the jitter in s.
func (r *Receiver) Jitter() float64 { return float64(r.jitter) / 16 / 1e6 }

// ForgetJitter begins its measurement anew.
func (r *Receiver) ForgetJitter() { r.started, r.jitter = false, 0 }
