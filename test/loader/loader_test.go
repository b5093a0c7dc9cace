//go:build linux

package loader

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/netdev/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// start runs a loader on a cable of its own to this host, 192.168.1.10.
func start(t *testing.T, c Config) (l *Loader, wait func() (Result, error)) {
	t.Helper()
	if c.Flash == nil {
		c.Flash = make([]byte, 16<<20)
	}
	c.Times.Block = time.Millisecond
	c.Log = t.Logf
	l, err := Open("gwtap", c)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"addr add 192.168.1.10/24 dev gwtap", "link set gwtap up"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", args, err, out)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		r   Result
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := l.Run(ctx)
		ended <- end{r, err}
	}()
	var got *end
	wait = func() (Result, error) {
		if got == nil {
			select {
			case e := <-ended:
				got = &e
			case <-time.After(time.Minute):
				t.Fatal("the loader goes on")
			}
		}
		return got.r, got.err
	}
	t.Cleanup(func() {
		cancel()
		_, _ = wait()
		l.Close()
	})
	return l, wait
}

// header makes an image as cvimg does.
func header(sig string, burn uint32, payload []byte) []byte {
	b := append([]byte(sig), 0x80, 0xC0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, burn)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)+2))
	b = append(b, payload...)
	return binary.BigEndian.AppendUint16(b, -sum16(payload))
}

func rootfs(n int) []byte {
	p := bytes.Repeat([]byte("hsqs"), n/4)
	for i := range p[4:] {
		p[4+i] += byte(i * 7)
	}
	return header("r6cr", 0x200000, p)
}

func save(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.bin")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// notices listens for the loader's datagrams.
func notices(t *testing.T) func() (text string, from net.Addr) {
	t.Helper()
	c, err := net.ListenPacket("udp4", ":9999")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func() (string, net.Addr) {
		buf := make([]byte, 100)
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n]), from
	}
}

// The TFTP clients that people have flash an image, and the loader tells them so.
func TestClientsPut(t *testing.T) {
	clients := map[string]func(file string) *exec.Cmd{
		"tftp-hpa": func(f string) *exec.Cmd {
			return exec.Command("tftp", "-m", "binary", "192.168.1.6", "-c", "put", f, "x")
		},
		"atftp": func(f string) *exec.Cmd { return exec.Command("atftp", "--put", "-l", f, "-r", "x", "192.168.1.6") },
		"busybox": func(f string) *exec.Cmd {
			return exec.Command("busybox", "tftp", "-p", "-l", f, "-r", "x", "192.168.1.6")
		},
	}
	for name, client := range clients {
		for _, size := range []int{40000, 512*10 - 18, 600 << 10} { // the second is a whole number of blocks
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				flash := bytes.Repeat([]byte{0xFF}, 16<<20)
				l, wait := start(t, Config{Flash: flash})
				notice := notices(t)
				image := rootfs(size)
				out, err := client(save(t, image)).CombinedOutput()
				t.Logf("%s", out)
				if err != nil {
					t.Fatal(err)
				}
				if text, from := notice(); text != "OK\x00" || from.String() != "192.168.1.6:9999" {
					t.Errorf("%q from %v", text, from)
				}
				r, err := wait()
				if err != nil || len(r.Burnt) != 1 || r.Burnt[0] != "rootfs" {
					t.Errorf("%+v, %v", r, err)
				}
				if !bytes.Equal(flash[0x200000:0x200000+len(image)-16], image[16:]) {
					t.Error("the flash holds something else")
				}
				if l.Count("arp") == 0 {
					t.Error("nobody asked for its MAC")
				}
			})
		}
	}
}

// What an FLR has read can be fetched.
func TestClientsGet(t *testing.T) {
	want := rootfs(100 << 10)
	clients := map[string]func(file string) *exec.Cmd{
		"tftp-hpa": func(f string) *exec.Cmd {
			return exec.Command("tftp", "-m", "binary", "192.168.1.6", "-c", "get", "x", f)
		},
		"atftp": func(f string) *exec.Cmd { return exec.Command("atftp", "--get", "-l", f, "-r", "x", "192.168.1.6") },
		"busybox": func(f string) *exec.Cmd {
			return exec.Command("busybox", "tftp", "-g", "-l", f, "-r", "x", "192.168.1.6")
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			start(t, Config{Downs: want})
			file := filepath.Join(t.TempDir(), "got")
			out, err := client(file).CombinedOutput()
			got, readErr := os.ReadFile(file)
			if err != nil || readErr != nil || !bytes.Equal(got, want) {
				t.Errorf("%v, %v, %d bytes\n%s", err, readErr, len(got), out)
			}
		})
	}
}

func TestPing(t *testing.T) {
	l, _ := start(t, Config{})
	for _, size := range []string{"56", "1472"} {
		if out, err := exec.Command("busybox", "ping", "-c", "1", "-W", "5", "-s", size, "192.168.1.6").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if l.Count("ping") != 2 {
		t.Errorf("%d pings", l.Count("ping"))
	}
	out, err := exec.Command("ip", "neigh", "show", "192.168.1.6").Output()
	if err != nil || !strings.Contains(string(out), "56:c0:a8:01:06:00") {
		t.Errorf("its MAC does not mirror its address: %s", out)
	}
}

// raw is a client that does what it is told.
type raw struct {
	t *testing.T
	c *net.UDPConn
}

func client(t *testing.T) raw {
	t.Helper()
	c, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return raw{t, c}
}

func (r raw) send(port int, p ...byte) {
	r.t.Helper()
	if _, err := r.c.WriteTo(p, &net.UDPAddr{IP: net.IPv4(192, 168, 1, 6), Port: port}); err != nil {
		r.t.Fatal(err)
	}
}

// expect returns the port that an answer came from.
func (r raw) expect(want ...byte) int {
	r.t.Helper()
	buf := make([]byte, 1000)
	_ = r.c.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, from, err := r.c.ReadFromUDP(buf)
	if err != nil || !bytes.Equal(buf[:n], want) {
		r.t.Fatalf("got % x, %v, want % x", buf[:n], err, want)
	}
	return from.Port
}

func (r raw) silence() {
	r.t.Helper()
	buf := make([]byte, 1000)
	_ = r.c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, _, err := r.c.ReadFrom(buf); err == nil {
		r.t.Fatalf("got % x", buf[:n])
	}
}

func wrq(more string) []byte { return []byte("\x00\x02name\x00octet\x00" + more) }

func TestRules(t *testing.T) {
	l, _ := start(t, Config{NoBurn: true, Times: Times{Idle: time.Second}})
	a, b := client(t), client(t)
	a.send(69, wrq("blksize\x001400\x00tsize\x00100\x00")...)
	if port := a.expect(0, 4, 0, 0); port != 2098 { // no OACK
		t.Errorf("the first transfer is at port %d", port)
	}
	a.send(69, wrq("")...) // the answer might have been lost
	if port := a.expect(0, 4, 0, 0); port != 2098 {
		t.Errorf("the same request is answered from %d", port)
	}
	b.send(69, wrq("")...)
	b.silence() // one at a time
	block := append([]byte{0, 3, 0, 1}, make([]byte, 512)...)
	b.send(2098, block...)
	b.silence() // it is bound to its client
	a.send(2098, block...)
	a.expect(0, 4, 0, 1)
	a.send(2098, block...)
	a.expect(0, 4, 0, 1) // again
	a.send(69, wrq("")...)
	a.silence()                              // block 1 is not awaited any more
	a.send(2098, 0, 3, 0, 9, 1)              // out of order
	a.send(2098, 0, 5, 0, 0, 'b', 'y', 0, 0) // an error packet ends nothing
	a.silence()
	if l.Count("upload") != 0 {
		t.Error("it has an upload")
	}
	time.Sleep(1100 * time.Millisecond) // the loader's time, which must pass
	b.send(69, wrq("")...)
	if port := b.expect(0, 4, 0, 0); port != 2099 {
		t.Errorf("the second transfer is at port %d", port)
	}
	b.send(2099, 0, 3, 0, 1, 'x')
	b.expect(0, 4, 0, 1)
	if l.Count("upload") != 1 {
		t.Error("it has no upload")
	}
}

func TestNoRoom(t *testing.T) {
	start(t, Config{NoBurn: true, RAMBytes: 5<<20 + 1024})
	a := client(t)
	a.send(69, wrq("")...)
	port := a.expect(0, 4, 0, 0)
	for n := byte(1); n <= 2; n++ {
		a.send(port, append([]byte{0, 3, 0, n}, make([]byte, 512)...)...)
		a.expect(0, 4, 0, n)
	}
	a.send(port, 0, 3, 0, 3, 1)
	a.expect([]byte("\x00\x05\x00\x03no room in RAM\x00")...)
}

// A probe of one byte is an upload, too, and is answered; the loader stays.
func TestFail(t *testing.T) {
	l, _ := start(t, Config{})
	notice := notices(t)
	a := client(t)
	for range 2 {
		a.send(69, wrq("")...)
		port := a.expect(0, 4, 0, 0)
		a.send(port, 0, 3, 0, 1, 'x')
		a.expect(0, 4, 0, 1)
		if text, _ := notice(); text != "FAIL\x00" {
			t.Errorf("%q", text)
		}
	}
	a.send(69, []byte("\x00\x01name\x00octet\x00")...)
	a.expect(0, 3, 0, 1, 'x') // what was uploaded last
	if l.Count("upload") != 2 {
		t.Error("uploads")
	}
}

func TestFaults(t *testing.T) {
	image := rootfs(200 << 10)
	for _, tt := range []struct {
		name   string
		faults Faults
		told   string
		err    error
	}{
		{"packets are lost", Faults{Lose: func(_ bool, op, block uint16, nth int) bool { return block%200 == 7 && nth == 1 && op > 2 }}, "OK", nil},
		{"the comparison fails", Faults{WriteFails: 100 << 10}, "FAIL", nil},
		{"power is cut", Faults{CutAt: 100 << 10}, "", ErrCut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flash := make([]byte, 16<<20)
			_, wait := start(t, Config{Flash: flash, Faults: tt.faults})
			notice := func() (string, net.Addr) { return "", nil }
			if tt.told != "" {
				notice = notices(t)
			}
			// Of the clients this is the one that sends a lost block again.
			cmd := exec.Command("tftp", "-m", "binary", "192.168.1.6")
			cmd.Stdin = strings.NewReader("rexmt 1\nput " + save(t, image) + " x\nquit\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Logf("%v: %s", err, out)
			}
			if text, _ := notice(); strings.TrimSuffix(text, "\x00") != tt.told {
				t.Errorf("told %q", text)
			}
			if tt.told == "FAIL" {
				return // it stays
			}
			if _, err := wait(); !errors.Is(err, tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if whole := bytes.Equal(flash[0x200000:0x200000+len(image)-16], image[16:]); whole != (tt.err == nil) {
				t.Errorf("the flash is right: %v", whole)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	good := rootfs(1000)
	big := make([]byte, 16<<20)
	copy(big, "\x0b\xf0\x00\x04")
	copy(big[0x20000:], header("cs6c", 0x20000, []byte("kern")))
	copy(big[0x200000:], "hsqs")
	for _, tt := range []struct {
		name string
		in   []byte
		ok   bool
	}{
		{"good", good, true},
		{"zeros behind", append(bytes.Clone(good), 0, 0), true},
		{"mixed behind", append(bytes.Clone(good), 0, 255), false},
		{"cut", good[:999], false},
		{"another place", header("r6cr", 0x300000, []byte("ab")), false},
		{"another name", header("abcd", 0x200000, []byte("ab")), false},
		{"twice", append(bytes.Clone(good), good...), false},
		{"container", header("ALL1", 0, good), true},
		{"full without trailer", big, false},
		{"one byte", []byte{1}, false},
	} {
		if all, err := preflight(tt.in); (err == nil) != tt.ok {
			t.Errorf("%s: %d pieces, %v", tt.name, len(all), err)
		}
	}
}
