package proto

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// What iperf3 3.12 sends for: -c HOST -t 7 -P 2 -R -w 64K -M 1000 -C reno -b 5M
// -N -S 32 -O 1 --get-server-output, and for -u -b 10M -l 1400.
const (
	tcpParams = `{"tcp":true,"omit":1,"time":7,"num":0,"blockcount":0,"MSS":1000,"nodelay":true,"parallel":2,"reverse":true,"window":65536,"len":131072,"bandwidth":5000000,"pacing_timer":1000,"TOS":32,"congestion":"reno","get_server_output":1,"client_version":"3.12"}`
	udpParams = `{"udp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":1,"len":1400,"bandwidth":10000000,"pacing_timer":1000,"udp_counters_64bit":1,"client_version":"3.12"}`
)

func TestParseParams(t *testing.T) {
	p, err := ParseParams([]byte(tcpParams))
	want := Params{Reverse: true, Streams: 2, Seconds: 7, Omit: 1, Block: 131072, Window: 65536, MSS: 1000, NoDelay: true, Rate: 5e6, TOS: 32, Congestion: "reno", ServerOutput: true}
	if err != nil || *p != want {
		t.Errorf("TCP: %+v, %v", p, err)
	}
	if p.Sends() != 2 || p.Receives() != 0 {
		t.Errorf("sends %d, receives %d", p.Sends(), p.Receives())
	}
	p, err = ParseParams([]byte(udpParams))
	want = Params{UDP: true, Streams: 1, Seconds: 10, Block: 1400, Rate: 1e7, Counters64: true}
	if err != nil || *p != want {
		t.Errorf("UDP: %+v, %v", p, err)
	}
	// As newer versions have flags, and with what is absent.
	p, err = ParseParams([]byte(`{"udp":true,"bidirectional":true,"udp_counters_64bit":true,"dont_fragment":1,"skip_rx_copy":1,"fqrate":8000}`))
	want = Params{UDP: true, Bidirectional: true, Streams: 1, Block: 1460, Counters64: true, DontFragment: true, SkipCopy: true, PacingRate: 8000}
	if err != nil || *p != want {
		t.Errorf("flags: %+v, %v", p, err)
	}
	if p.Sends() != 1 || p.Receives() != 1 {
		t.Errorf("sends %d, receives %d", p.Sends(), p.Receives())
	}
	for text, number := range map[string]int{
		`{"tcp":true,"len":1,"time":86401}`:                     5,
		`{"tcp":true,"len":1,"time":-1}`:                        5,
		`{"tcp":true,"len":1,"parallel":129}`:                   6,
		`{"tcp":true,"len":1048577}`:                            7,
		`{"tcp":true}`:                                          7,
		`{"tcp":true,"len":1,"window":1e12}`:                    8,
		`{"tcp":true,"len":1,"MSS":40000}`:                      10,
		`{"tcp":true,"len":1,"omit":601}`:                       12,
		`{"udp":true,"len":15}`:                                 20,
		`{"udp":true,"len":65508}`:                              20,
		`{"tcp":true,"len":1,"TOS":256}`:                        22,
		`{"tcp":true,"len":1,"bandwidth":1e300}`:                115,
		`{"tcp":true,"len":1,"bandwidth":-1}`:                   115,
		`{"tcp":true,"len":1,"reverse":true,"bidirectional":1}`: 115,
		`{"tcp":true,"len":1,"congestion":"0123456789abcdef"}`:  115,
		`{"sctp":true,"len":1}`:                                 132,
		`[]`:                                                    115,
		``:                                                      115,
		`{"tcp":true,"len":1,"burst":1001}`:                     115,
	} {
		p, err := ParseParams([]byte(text))
		var f *Fault
		if !errors.As(err, &f) || f.Number != number || p != nil {
			t.Errorf("%s: %+v, %v; want number %d", text, p, err, number)
		}
	}
}

func TestLength(t *testing.T) {
	b := func(n uint32) (b [4]byte) { binary.BigEndian.PutUint32(b[:], n); return b }
	if n, err := Length(b(300), 1); n != 300 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, n := range []uint32{0, 8<<10 + 512 + 1, 1 << 31, math.MaxUint32} {
		if got, err := Length(b(n), 1); !errors.Is(err, ErrLong) {
			t.Errorf("%d: %d, %v", n, got, err)
		}
	}
	if n, err := Length(b(40<<10), 128); n != 40<<10 || err != nil {
		t.Errorf("of 128 streams: %d, %v", n, err)
	}
}

func TestResults(t *testing.T) {
	r := Results{CPUTotal: 12.5, HasRetransmits: -1, Congestion: "cubic", Streams: []Stream{{ID: 1, Bytes: 5e9, Retransmits: -1, Jitter: 1e-5, Errors: 3, Packets: 9, End: 10}}}
	b, err := r.Append([]byte("x"))
	if err != nil || b[0] != 'x' || int(binary.BigEndian.Uint32(b[1:])) != len(b)-5 {
		t.Fatalf("%q, %v", b, err)
	}
	const want = `{"cpu_util_total":12.5,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,"congestion_used":"cubic","streams":[{"id":1,"bytes":5000000000,"retransmits":-1,"jitter":0.00001,"errors":3,"omitted_errors":0,"packets":9,"omitted_packets":0,"start_time":0,"end_time":10}]}`
	if string(b[5:]) != want {
		t.Errorf("%s", b[5:])
	}
	if err := CheckResults(b[5:]); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "[]", `{"cpu_util_total":1}`, `{"streams":7}`} {
		var f *Fault
		if err := CheckResults([]byte(text)); !errors.As(err, &f) || f.Number != ErrResults {
			t.Errorf("%s: %v", text, err)
		}
	}
	for n, id := range []int{1, 3, 4, 5} {
		if got := StreamID(n); got != id {
			t.Errorf("stream %d is %d, want %d", n, got, id)
		}
	}
}

func TestHello(t *testing.T) {
	le, be := binary.LittleEndian, binary.BigEndian
	for _, tt := range []struct{ hello, reply []byte }{
		{le.AppendUint32(nil, 0x36373839), le.AppendUint32(nil, 0x39383736)},
		{be.AppendUint32(nil, 0x36373839), be.AppendUint32(nil, 0x39383736)},
		{le.AppendUint32(nil, 123456789), le.AppendUint32(nil, 987654321)},
		{be.AppendUint32(nil, 123456789), be.AppendUint32(nil, 987654321)},
	} {
		if reply, ok := Hello(tt.hello); !ok || string(reply) != string(tt.reply) {
			t.Errorf("%x: %x, %v; want %x", tt.hello, reply, ok, tt.reply)
		}
	}
	for _, b := range []string{"", "9876\x00", "1234", "876", "6667"} {
		if reply, ok := Hello([]byte(b)); ok {
			t.Errorf("%q: %x", b, reply)
		}
	}
}

func TestHeader(t *testing.T) {
	var b [HeaderBytes]byte
	PutHeader(&b, 0x01020304, 0x05060708, 0x1112131415161718, true)
	if string(b[:]) != "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18" {
		t.Errorf("64 bits: %x", b)
	}
	PutHeader(&b, 1, 2, 3, false)
	if string(b[:12]) != "\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03" {
		t.Errorf("32 bits: %x", b)
	}
}

// sent is a datagram: which, and when it was sent and came, in us.
type sent struct {
	n        uint64
	at, came int64
}

func receive(r *Receiver, wide bool, all ...sent) {
	for _, s := range all {
		var b [HeaderBytes]byte
		PutHeader(&b, uint32(s.at/1e6), uint32(s.at%1e6), s.n, wide)
		r.Got(&b, uint32(s.came/1e6), uint32(s.came%1e6), wide)
	}
}

func TestLoss(t *testing.T) {
	tests := []struct {
		name string
		came []uint64
		want Receiver
	}{
		{"all", []uint64{1, 2, 3}, Receiver{Packets: 3}},
		{"gap", []uint64{1, 2, 6, 7}, Receiver{Packets: 7, Lost: 3}},
		{"first ones", []uint64{4}, Receiver{Packets: 4, Lost: 3}},
		{"late", []uint64{1, 3, 2, 4}, Receiver{Packets: 4, Late: 1}},
		{"late, and a gap", []uint64{1, 5, 3}, Receiver{Packets: 5, Lost: 2, Late: 1}},
		{"twice", []uint64{1, 1, 2}, Receiver{Packets: 2, Late: 1}},
		{"beyond 32 bits", []uint64{1<<32 - 1, 1<<32 + 1}, Receiver{Packets: 1<<32 + 1, Lost: 1<<32 - 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Receiver
			for _, n := range tt.came {
				receive(&r, true, sent{n: n})
			}
			if r.Packets != tt.want.Packets || r.Lost != tt.want.Lost || r.Late != tt.want.Late {
				t.Errorf("%+v, want %+v", r, tt.want)
			}
		})
	}
}

// What RFC 3550's A.8 computes with its integers, which round to the nearest: a
// transit that goes up and down by 1 us gives half a us, and by 100 us 99.5.
func TestJitterOfIntegers(t *testing.T) {
	for us, want := range map[int64]float64{1: 0.5e-6, 100: 99.5e-6} {
		var r Receiver
		for i := range int64(1000) {
			at := 5_000_000 + i*1000
			receive(&r, false, sent{uint64(i + 1), at, at + 300 + i%2*us})
		}
		if got := r.Jitter(); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d us: %.9f s, want %.9f", us, got, want)
		}
	}
}

// The jitter beside RFC 3550's with floating point, over clocks that differ by more
// than a sign.
func TestJitter(t *testing.T) {
	for _, offset := range []int64{0, 1700000000e6, 4000000000e6} {
		var r Receiver
		want, before := 0.0, math.NaN()
		seed := uint32(1)
		for i := range int64(1000) {
			seed = seed*1664525 + 1013904223
			at := 5_000_000 + i*1000
			came := at + 300 + int64(seed>>24)*4 + offset
			transit := float64(came-at) / 1e6
			if i > 0 {
				want += (math.Abs(transit-before) - want) / 16
			}
			before = transit
			receive(&r, false, sent{uint64(i + 1), at, came})
		}
		if got := r.Jitter(); math.Abs(got-want) > 2e-6 {
			t.Errorf("offset %d: %.6f s, want %.6f", offset, got, want)
		}
		r.ForgetJitter()
		if r.Jitter() != 0 || r.Packets != 1000 {
			t.Errorf("after it was forgotten: %+v", r)
		}
	}
}

func FuzzParams(f *testing.F) {
	f.Add([]byte(tcpParams))
	f.Add([]byte(udpParams))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseParams(text)
		var fault *Fault
		switch {
		case err != nil && !errors.As(err, &fault):
			t.Errorf("no fault: %v", err)
		case err != nil && p != nil:
			t.Error("both")
		case err == nil && (p.Streams < 1 || p.Streams > MaxStreams || p.Block < 1 || p.Block > 1<<20 || p.UDP && p.Block < 16 ||
			p.Seconds < 0 || p.Omit < 0 || p.Window < 0 || p.MSS < 0 || p.Burst < 0 || p.TOS < 0 || p.TOS > 255 || len(p.Congestion) > 15):
			t.Errorf("%+v", p)
		}
	})
}

func FuzzResults(f *testing.F) {
	f.Add([]byte(`{"cpu_util_total":1,"streams":[{"id":1}]}`), uint32(40))
	f.Fuzz(func(t *testing.T, text []byte, length uint32) {
		if err := CheckResults(text); err == nil && !json.Valid(text) {
			t.Errorf("%q is no JSON", text)
		}
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], length)
		if n, err := Length(b, 2); err == nil && (n < 1 || n > 9<<10) {
			t.Errorf("length %d", n)
		}
	})
}

func FuzzReceiver(f *testing.F) {
	f.Add([]byte(strings.Repeat("\x00", 32)), uint32(1), uint32(2))
	f.Fuzz(func(t *testing.T, all []byte, sec, usec uint32) {
		var r Receiver
		highest := uint64(0)
		for ; len(all) >= HeaderBytes; all = all[HeaderBytes:] {
			b := [HeaderBytes]byte(all)
			r.Got(&b, sec, usec%1e6, true)
			highest = max(highest, binary.BigEndian.Uint64(b[8:]))
			sec++
		}
		if r.Packets != highest || r.Lost < 0 && highest < 1<<62 || math.IsNaN(r.Jitter()) {
			t.Errorf("%+v, highest %d", r, highest)
		}
	})
}
