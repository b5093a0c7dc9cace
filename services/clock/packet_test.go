package clock

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

const nonce = 0x0123456789abcdef

// answer is a server's packet, from the fields of RFC 5905 figure 8.
func answer(t testing.TB, edit func(b []byte)) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(
		"240206e7 00000800 00000400 c0a80101"+ // v4 server, stratum 2; delay 1/32 s, dispersion 1/64 s
			"ed000000 00000000"+ // reference
			"01234567 89abcdef"+ // the question's
			"ed000010 80000000"+ // received: 2026-01-04 08:54:24.5
			"ed000010 c0000000", // sent: .75
		" ", ""))
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(b)
	}
	return b
}

func TestParse(t *testing.T) {
	good, err := parse(answer(t, nil), nonce)
	if err != nil {
		t.Fatal(err)
	}
	sec := int64(0xed000010) - 2208988800
	want := reply{received: time.Unix(sec, 500e6), sent: time.Unix(sec, 750e6), stratum: 2, distance: 31250 * time.Microsecond}
	if good != want {
		t.Errorf("%+v, want %+v", good, want)
	}
	kiss := func(code string) func(b []byte) {
		return func(b []byte) { b[0], b[1] = 0xe4, 0; copy(b[12:], code) }
	}
	for _, tt := range []struct {
		name string
		edit func(b []byte)
		want error
	}{
		{"another question", func(b []byte) { b[24]++ }, errForeign},
		{"a client", func(b []byte) { b[0] = 0x23 }, errForeign},
		{"a broadcast", func(b []byte) { b[0] = 0x25 }, errForeign},
		{"kiss to another question", func(b []byte) { kiss("DENY")(b); b[24]++ }, errForeign},
		{"kiss RATE", kiss("RATE"), errTooOften},
		{"kiss DENY", kiss("DENY"), errDenied},
		{"kiss RSTR", kiss("RSTR"), errDenied},
		{"kiss INIT", kiss("INIT"), errKissOther},
		{"does not know", func(b []byte) { b[0] = 0xe4 }, errUnsynced},
		{"it is 1970", func(b []byte) {
			copy(b[32:], "\x83\xaa\x7e\x80\x00\x00\x00\x01")
			copy(b[40:], "\x83\xaa\x7e\x80\x00\x00\x00\x02")
		}, errUnsynced},
		{"it is 2023", func(b []byte) {
			copy(b[32:], "\xe9\x3c\x7e\xfe\x00\x00\x00\x01")
			copy(b[40:], "\xe9\x3c\x7e\xff\x00\x00\x00\x02")
		}, errUnsynced},
		{"it is 2024", func(b []byte) {
			copy(b[32:], "\xe9\x3c\x7f\x00\x00\x00\x00\x01")
			copy(b[40:], "\xe9\x3c\x7f\x00\x00\x00\x00\x02")
		}, nil},
		{"it is 2037", func(b []byte) {
			copy(b[32:], "\x01\x00\x00\x00\x00\x00\x00\x01")
			copy(b[40:], "\x01\x00\x00\x00\x00\x00\x00\x02")
		}, nil},
		{"it is 2106", func(b []byte) {
			copy(b[32:], "\x83\xaa\x7e\x7f\x00\x00\x00\x01")
			copy(b[40:], "\x83\xaa\x7e\x7f\x00\x00\x00\x02")
		}, nil},
		{"stratum 16", func(b []byte) { b[1] = 16 }, errUnsynced},
		{"version 2", func(b []byte) { b[0] = 0x14 }, errNonsense},
		{"version 3", func(b []byte) { b[0] = 0x1c }, nil},
		{"leap second announced", func(b []byte) { b[0] = 0x64 }, nil},
		{"not received", func(b []byte) { clear(b[32:40]) }, errNonsense},
		{"not sent", func(b []byte) { clear(b[40:48]) }, errNonsense},
		{"sent before received", func(b []byte) { b[40] = 0xec }, errNonsense},
		{"far from true time", func(b []byte) { b[9] = 2 }, errTooFar},
		{"with more behind", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := append(answer(t, tt.edit), 1, 2, 3)
			if _, err := parse(b, nonce); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
	if _, err := parse(answer(t, nil)[:47], nonce); !errors.Is(err, errShort) {
		t.Errorf("47 bytes: %v", err)
	}
}

// Times of both eras: the first one ends on 2036-02-07 at 06:28:16 UTC.
func TestTimestamp(t *testing.T) {
	for _, tt := range []struct {
		b    string
		want string
	}{
		{"e93c7f00" + "00000000", "2024-01-01T00:00:00Z"}, // the earliest
		{"ffffffff" + "80000000", "2036-02-07T06:28:15.5Z"},
		{"00000000" + "80000000", "2036-02-07T06:28:16.5Z"},
		{"03dc6a00" + "ffffffff", "2038-02-26T00:00:00.999999999Z"},
		{"e93c7eff" + "00000000", "2160-02-07T06:28:15Z"}, // and the latest
	} {
		b, err := hex.DecodeString(tt.b)
		if err != nil {
			t.Fatal(err)
		}
		if got := timestamp(b).UTC().Format(time.RFC3339Nano); got != tt.want {
			t.Errorf("%s is %s, want %s", tt.b, got, tt.want)
		}
	}
}

func TestRequest(t *testing.T) {
	b := request(nonce)
	if got, want := hex.EncodeToString(b[:]), "23"+strings.Repeat("00", 39)+"0123456789abcdef"; got != want {
		t.Errorf("%s, want %s: nothing else is told of this box", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(answer(f, nil), uint64(nonce))
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, nonce uint64) {
		r, err := parse(b, nonce)
		if err != nil {
			return
		}
		if binary.BigEndian.Uint64(b[24:]) != nonce || r.stratum < 1 || r.stratum > 15 ||
			r.distance < 0 || r.distance > maxDistance || r.sent.Before(r.received) ||
			r.received.Year() < 2023 || r.sent.Year() > 2106 {
			t.Errorf("taken: %+v", r)
		}
		if s, err := measure(peer{}, r, time.Unix(0, 0), time.Unix(math.MaxInt32, 0)); err == nil && s.distance > maxDistance {
			t.Errorf("taken: %+v", s)
		}
	})
}
