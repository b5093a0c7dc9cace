package netdev

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// userOption is an RTM_NEWNDUSEROPT message in this CPU's byte order
// (linux/rtnetlink.h), with the option that a router sent (RFC 8106 section
// 5.1), and what the kernel adds, NDUSEROPT_SRCADDR.
func userOption(t testing.TB, option string) []byte {
	t.Helper()
	o, err := hex.DecodeString(strings.ReplaceAll(option, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	n := binary.NativeEndian
	b := make([]byte, 32, 32+len(o)+20)
	n.PutUint32(b[0:], uint32(32+len(o)+20))
	n.PutUint16(b[4:], 68)
	b[16] = 10
	n.PutUint16(b[18:], uint16(len(o)))
	n.PutUint32(b[20:], 7)
	b[24] = 134
	b = append(b, o...)
	b = n.AppendUint16(b, 20)
	b = n.AppendUint16(b, 1)
	router := [16]byte{0: 0xfe, 1: 0x80, 15: 1}
	return append(b, router[:]...)
}

func TestParseRouterDNS(t *testing.T) {
	const one, two = "fd000000000000000000000000000001", "fe800000000000000000000000000053"
	tests := []struct {
		name    string
		option  string
		change  func([]byte) []byte
		want    []string
		forSecs int // -1: for ever
	}{
		{"one", "19 03 0000 00000e10" + one, nil, []string{"fd00::1"}, 3600},
		{"two, for ever", "19 05 0000 ffffffff" + one + two, nil, []string{"fd00::1", "fe80::53"}, -1},
		{"withdrawn", "19 03 0000 00000000" + one, nil, []string{"fd00::1"}, 0},
		{"what no server can have", "19 07 0000 00000e10" + strings.Repeat("00", 16) + "ff02" + strings.Repeat("00", 14) + one, nil, []string{"fd00::1"}, 3600},
		{"none", "19 01 0000 00000e10", nil, nil, 0},
		{"cut in an address", "19 02 0000 00000e10 fd00000000000000", nil, nil, 0},
		{"domains", "1f 04 0000 00000e10 036c616e00 076578616d706c65036c616e00 000000000000", nil, []string{"lan", "example.lan"}, 3600},
		{"a domain withdrawn", "1f 02 0000 00000000 036c616e00000000", nil, []string{"lan"}, 0},
		{"a domain that is a line of resolv.conf", "1f 02 0000 00000e10 03610a6100000000", nil, nil, 0},
		{"no domain", "1f 01 0000 00000e10", nil, nil, 0},
		{"a domain cut by the option's end", "1f 02 0000 00000e10 0f6c616e00000000", nil, nil, 0},
		{"a captive portal", "25 02 0000 00000e10 036c616e00000000", nil, nil, 0},
		{"longer than the message", "19 05 0000 00000e10" + one, nil, nil, 0},
		{"cut by the kernel", "19 03 0000 00000e10" + one, func(b []byte) []byte { return b[:50] }, nil, 0},
		{"short", "19 03 0000 00000e10" + one, func(b []byte) []byte { return b[:39] }, nil, 0},
		{"empty", "", func([]byte) []byte { return nil }, nil, 0},
		{"another message", "19 03 0000 00000e10" + one, func(b []byte) []byte { b[4], b[5] = 0, 0; return b }, nil, 0},
		{"IPv4", "19 03 0000 00000e10" + one, func(b []byte) []byte { b[16] = 2; return b }, nil, 0},
		{"of a neighbour", "19 03 0000 00000e10" + one, func(b []byte) []byte { b[24] = 136; return b }, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := userOption(t, tt.option)
			if tt.change != nil {
				b = tt.change(b)
			}
			got, ok := parseRouterDNS(b)
			if ok != (tt.want != nil) {
				t.Fatalf("%+v, %v", got, ok)
			}
			if !ok {
				return
			}
			said := got.Search
			for _, a := range got.Servers {
				said = append(said, a.String())
			}
			lifetime := time.Duration(tt.forSecs) * time.Second
			if tt.forSecs < 0 {
				lifetime = Forever
			}
			if !slices.Equal(said, tt.want) || got.Lifetime != lifetime || got.Index != 7 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func FuzzParseRouterDNS(f *testing.F) {
	f.Add(userOption(f, "19 03 0000 00000e10 fd000000000000000000000000000001"))
	f.Add(userOption(f, "19 ff 0000 00000e10 fd000000000000000000000000000001"))
	f.Add(userOption(f, "1f 02 0000 00000e10 036c616e00000000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, ok := parseRouterDNS(b)
		if ok && (len(d.Servers)+len(d.Search) == 0 || d.Lifetime < 0 || slices.ContainsFunc(d.Servers, netip.Addr.IsUnspecified)) {
			t.Errorf("%x: %+v", b, d)
		}
	})
}

// RFC 4861 section 4.1: type 133, code 0, the checksum is the kernel's, reserved.
func TestSolicitationBytes(t *testing.T) {
	if got := hex.EncodeToString(solicitation); got != "8500000000000000" {
		t.Error(got)
	}
	if unix.RTM_NEWNDUSEROPT != 68 || unix.RTNLGRP_ND_USEROPT != 20 {
		t.Error("constants of linux/rtnetlink.h")
	}
}

func TestRoutes6(t *testing.T) {
	for text, want := range map[string]int{
		"0009 0006 000e 0007 0000 0000 0000\n":   7,
		"0452 022b 12c3f 10443 0000 0000 0000\n": 0x10443,
		"0009 0006 000e\n":                       -1,
		"0009 0006 000e wxyz 0000 0000 0000\n":   -1,
		"0009 0006 000e ffffffff 0000\n":         -1,
		"":                                       -1,
	} {
		root := t.TempDir()
		if err := os.MkdirAll(root+"/proc/net", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+"/proc/net/rt6_stats", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if n, err := (System{Root: root}).Routes6(); err == nil && n != want || (err != nil) != (want < 0) {
			t.Errorf("%q: %d, %v, want %d", text, n, err, want)
		}
	}
	if _, err := (System{Root: t.TempDir()}).Routes6(); err == nil { // a kernel without IPv6
		t.Error("routes of no kernel")
	}
}
