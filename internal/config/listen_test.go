package config

import (
	"net"
	"strconv"
	"strings"
	"testing"
)

func TestParseListen(t *testing.T) {
	for in, want := range map[string]string{
		"off": "", "0": "", "": "", "on": ":9100", "1": ":9100", ":9200": ":9200", "192.0.2.1": "192.0.2.1:9100", "192.0.2.1:80": "192.0.2.1:80",
		"2001:db8::1": "[2001:db8::1]:9100", "[2001:db8::1]": "[2001:db8::1]:9100", "[2001:db8::1]:80": "[2001:db8::1]:80", "::ffff:192.0.2.1": "192.0.2.1:9100",
		"0.0.0.0": "0.0.0.0:9100", "[::]:9100": "[::]:9100",
	} {
		if got, ok := parseListen(in); got != want || !ok {
			t.Errorf("%q: %q, %v; want %q", in, got, ok, want)
		}
	}
	for _, in := range []string{"here", ":0", ":65536", ":http", "192.0.2.1:0", "192.0.2.1:", "host:9100", "[192.0.2.1", "9100", "2001:db8::1:"} {
		if got, ok := parseListen(in); ok {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestParseSyslog(t *testing.T) {
	for in, want := range map[string]string{
		"off": "off", "": "off", "udp://192.0.2.1": "udp://192.0.2.1:514", "tcp://192.0.2.1": "tcp://192.0.2.1:601", "udp://logs.lan:5514": "udp://logs.lan:5514",
		"tcp://[2001:db8::1]": "tcp://[2001:db8::1]:601", "tcp://[2001:db8::1]:6514": "tcp://[2001:db8::1]:6514", "udp://2001:db8::1": "udp://[2001:db8::1]:514", "udp://[fe80::1%eth0]": "udp://[fe80::1%eth0]:514",
	} {
		if got, ok := parseSyslog(in); got.String() != want || !ok {
			t.Errorf("%q: %q, %v; want %q", in, got, ok, want)
		}
	}
	for _, in := range []string{"logs.lan", "udp://", "udp://:514", "tcp://logs.lan:", "tcp://logs.lan:0", "tcp://logs.lan:x", "tls://logs.lan", "udp://a/b", "udp://a b", "udp://[logs.lan]", "udp://[2001:db8::1", "udp://[", "udp://[:", "udp://[::1]x:1", "udp://[2001:db8::1]514", "UDP://a", "udp://root@a"} {
		if got, ok := parseSyslog(in); ok {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// What is taken can be used, and is taken again as it is shown.
func FuzzAddresses(f *testing.F) {
	for _, s := range []string{"on", ":80", "[::1]:80", "udp://[::1]:80", "tcp://a.b"} {
		f.Add(s)
	}
	usable := func(t *testing.T, address string) {
		_, port, err := net.SplitHostPort(address)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 || strings.ContainsAny(address, " \n") {
			t.Errorf("%q: %v", address, err)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		if listen, ok := parseListen(s); ok && listen != "" {
			usable(t, listen)
			if again, ok := parseListen(listen); !ok || again != listen {
				t.Errorf("%q is %q, which is %q", s, listen, again)
			}
		}
		if to, ok := parseSyslog(s); ok && to.Network != "" {
			usable(t, to.Address)
			if again, ok := parseSyslog(to.String()); !ok || again != to {
				t.Errorf("%q is %q, which is %q", s, to, again)
			}
		}
	})
}
