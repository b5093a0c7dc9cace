//go:build linux

package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// What begins as SSH and is none, or ends in the middle: the connection is closed,
// and the next one logs in. Each is what follows the server's identification.
func TestMalformedOpenings(t *testing.T) {
	b := newBox(t)
	mine := user(t)
	b.put("userdata/ssh/authorized_keys", line(mine))
	packet := func(length uint32, rest ...byte) string {
		return string(append(binary.BigEndian.AppendUint32(nil, length), rest...))
	}
	const hello = "SSH-2.0-x\r\n"
	for name, said := range map[string]string{
		"SSH-1":                        "SSH-1.5-x\r\n",
		"no version":                   "SSH-\r\n",
		"a line without an end":        "SSH-2.0-" + strings.Repeat("x", 64<<10),
		"many lines before it":         strings.Repeat("x\r\n", 64<<10),
		"zeros":                        "SSH-2.0-\x00\x00\r\n" + strings.Repeat("\x00", 4096),
		"LF only, and HTTP":            "SSH-2.0-x\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a packet of 4 GiB":            hello + packet(0xffffffff, 4, 20),
		"an empty packet":              hello + packet(0),
		"more padding than packet":     hello + packet(12, 255, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"a KEXINIT that is cut off":    hello + packet(12, 4, 20, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0),
		"name-lists beyond the packet": hello + packet(28, 4, 20, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1, 1, 1),
		"a login before the keys":      hello + packet(28, 8, 50, 0, 0, 0, 4, 'r', 'o', 'o', 't', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
		"an unknown message":           hello + packet(12, 10, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"a disconnect":                 hello + packet(28, 10, 1, 0, 0, 0, 11, 0, 0, 0, 1, 'x', 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
		"noise":                        hello + strings.Repeat("\x93\x1e\xd2\x07", 4096),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", b.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, said) // it may be closed in the middle
			_ = c.(*net.TCPConn).CloseWrite()
			got, err := io.ReadAll(c)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("still open, after %d bytes", len(got))
			}
			if bytes.Contains(got, []byte("panic")) {
				t.Errorf("it says %q", got)
			}
		})
	}
	if out, status := run(t, b.mustDial("root", ssh.PublicKeys(mine)), "echo well"); out != "well\n" || status != 0 {
		t.Errorf("afterwards: %q, %d", out, status)
	}
	if strings.Contains(b.lines(), "panic") {
		t.Errorf("logged:\n%s", b.lines())
	}
}

// A thousand connections that stay open as long as they may, and drip: who is logged
// in notices nothing, and who comes from elsewhere gets in meanwhile.
func TestThousandConnections(t *testing.T) {
	b := newBox(t)
	mine := user(t)
	b.put("userdata/ssh/authorized_keys", line(mine))
	before := b.mustDial("root", ssh.PublicKeys(mine))
	const all = 1000
	var dripping sync.WaitGroup
	stop := make(chan struct{})
	drip := func(c net.Conn) {
		defer c.Close()
		for _, one := range []byte("SSH-2.0-" + strings.Repeat("slow", 1<<20)) {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if _, err := c.Write([]byte{one}); err != nil {
				return
			}
		}
	}
	for i := range all {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		c, err := d.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			dripping.Go(func() { drip(c) })
		case 1:
			dripping.Go(func() { defer c.Close(); <-stop })
		default:
			c.Close()
		}
	}
	if out, status := run(t, before, "echo before"); out != "before\n" || status != 0 {
		t.Errorf("who was logged in: %q, %d", out, status)
	}
	after, banner, err := b.dialFrom("127.0.0.3", "root", ssh.PublicKeys(mine))
	if err != nil {
		t.Fatalf("from another address: %v, %q", err, banner)
	}
	if out, status := run(t, after, "echo after"); out != "after\n" || status != 0 {
		t.Errorf("from another address: %q, %d", out, status)
	}
	close(stop)
	dripping.Wait()
	b.s.gate.mu.Lock()
	defer b.s.gate.mu.Unlock()
	if n := len(b.s.gate.pending); n > maxPending {
		t.Errorf("%d are logging in", n)
	}
}
