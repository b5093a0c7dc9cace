package network

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/netdev/netlab"
)

const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// The same sockets as a little-endian and a big-endian kernel print them.
func TestParseSock(t *testing.T) {
	little, big := binary.ByteOrder(binary.LittleEndian), binary.ByteOrder(binary.BigEndian)
	tests := []struct {
		name          string
		order         binary.ByteOrder
		line          string
		local, remote string
		state         uint8
		inode         uint64
	}{
		{
			"little-endian", little, "   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0",
			"127.0.0.1:22", "0.0.0.0:0", stateListen, 12345,
		},
		{
			"big-endian", big, "   0: 7F000001:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 80e0a000 100 0 0 10 0",
			"127.0.0.1:22", "0.0.0.0:0", stateListen, 12345,
		},
		{
			"little-endian established", little, "   1: 3200000A:22B8 0100A8C0:D431 01 00000010:00000020 02:000A0000 00000000     0        0 777 2 0",
			"10.0.0.50:8888", "192.168.0.1:54321", stateEstablished, 777,
		},
		{
			"big-endian established", big, "   1: 0A000032:22B8 C0A80001:D431 01 00000010:00000020 02:000A0000 00000000     0        0 777 2 0",
			"10.0.0.50:8888", "192.168.0.1:54321", stateEstablished, 777,
		},
		{
			"little-endian IPv6", little, "   2: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 9 1 0",
			"[2001:db8::1]:80", "[::]:0", stateListen, 9,
		},
		{
			"big-endian IPv6", big, "   2: 20010DB8000000000000000000000001:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 9 1 0",
			"[2001:db8::1]:80", "[::]:0", stateListen, 9,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, ok := parseSock(tt.line, tt.order)
			if !ok || s.local.String() != tt.local || s.remote.String() != tt.remote || s.state != tt.state || s.inode != tt.inode {
				t.Errorf("%v %+v", ok, s)
			}
		})
	}
	for _, bad := range []string{
		"", heading, "0: x", strings.Replace(tests[0].line, "0016", "10016", 1), strings.Replace(tests[0].line, "0100007F", "0100007", 1),
		strings.Replace(tests[0].line, "0100007F", "0100007G", 1), strings.Replace(tests[0].line, "12345", "-1", 1),
	} {
		if s, ok := parseSock(bad, little); ok {
			t.Errorf("%q is %+v", bad, s)
		}
	}
}

func FuzzParseSock(f *testing.F) {
	f.Add("0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1", true)
	f.Add("2: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 0 0 1000 0 9 1 0", false)
	f.Fuzz(func(t *testing.T, line string, isBig bool) {
		order := binary.ByteOrder(binary.LittleEndian)
		if isBig {
			order = binary.BigEndian
		}
		if s, ok := parseSock(line, order); ok && (!s.local.IsValid() || !s.remote.IsValid()) {
			t.Errorf("%+v", s)
		}
	})
}

// This kernel's own files, in this CPU's order, with this process as owner.
func TestNetstatReal(t *testing.T) {
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	udp, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	// A thread's own /proc/net is its namespace's; the process's leader
	// may be in another one. Here all are in one.
	owner := regexp.QuoteMeta(filepath.Base(os.Args[0]))
	listening := `(?m)^tcp +\d+ +\d+ +` + regexp.QuoteMeta(listener.Addr().String()) + ` +0\.0\.0\.0:\* +LISTEN +\d+/` + owner + `$`
	established := `(?m)^tcp +0 +0 +` + regexp.QuoteMeta(conn.LocalAddr().String()) + ` +` + regexp.QuoteMeta(conn.RemoteAddr().String()) + ` +ESTABLISHED`
	datagram := `(?m)^udp6 +0 +0 +::1:\d+ +:::\* +\d+/` + owner + `$`
	for _, c := range []struct {
		args   string
		has    []string
		hasNot []string
	}{
		{"-ltnp", []string{listening}, []string{established, datagram}},
		{"-n", []string{established}, []string{"LISTEN", datagram}},
		{"-tuanp", []string{listening, established, datagram}, nil},
		{"-lup", []string{datagram}, []string{"tcp"}},
		{"-w", nil, []string{"tcp", "udp"}},
	} {
		out := must(t, "netstat", c.args)
		for _, want := range c.has {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("netstat %s: no %s in\n%s", c.args, want, out)
			}
		}
		for _, not := range c.hasNot {
			if regexp.MustCompile(not).MatchString(out) {
				t.Errorf("netstat %s: %s in\n%s", c.args, not, out)
			}
		}
	}
}

// A kernel without IPv6, and the owner's name for the multi-call binary.
func TestNetstatFiles(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	local := "0100007F"
	if nativeOrder() == binary.ByteOrder(binary.BigEndian) {
		local = "7F000001"
	}
	put("proc/net/tcp", heading+"   0: "+local+":0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1\n")
	put("proc/77/cmdline", "gw\x00sshd\x00")
	if err := os.MkdirAll(filepath.Join(root, "proc/77/fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("socket:[12345]", filepath.Join(root, "proc/77/fd/3")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := netstat(root, applet.IO{Out: &out}, []string{"-lp"}); err != nil {
		t.Fatal(err)
	}
	want := "Proto Recv-Q Send-Q Local Address                Foreign Address              State        PID/Program\n" +
		"tcp        0      0 127.0.0.1:22                 0.0.0.0:*                    LISTEN       77/sshd\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
