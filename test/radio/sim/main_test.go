package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseSpeed(t *testing.T) {
	tests := []struct {
		name string
		line string
		want int
		ok   bool
	}{
		{"892857", "serial_update_parameters speed=8228 parity=N data=8 stop=1", 892795, true},
		{"460800 with a process and a time", "1234@1700000000.5:serial_update_parameters speed=4266 parity=N data=8 stop=1", 462890, true},
		{"115200", "serial_update_parameters speed=1064 parity=N data=8 stop=1", 115451, true},
		{"the console's 38400", "serial_update_parameters speed=38400 parity=N data=8 stop=1", 0, false},
		{"another event", "serial_write write addr 0x00 val 0x41", 0, false},
		{"no number", "serial_update_parameters speed=x", 0, false},
		{"absurd", "serial_update_parameters speed=99999999999", 0, false},
		{"empty", "", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseSpeed(tt.line, 12_500_000)
			if ok != tt.ok || ok && got != tt.want {
				t.Errorf("got %d, %v; want %d, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func FuzzParseSpeed(f *testing.F) {
	f.Add("serial_update_parameters speed=8228 parity=N data=8 stop=1")
	f.Fuzz(func(t *testing.T, s string) {
		if baud, ok := parseSpeed(s, 12_500_000); ok && (baud < minBaud || baud > maxBaud) {
			t.Fatalf("%q gave %d", s, baud)
		}
	})
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"-pty", "-listen", "tcp:127.0.0.1:0"},
		{"-connect", "nowhere"},
		{"-listen", "udp:127.0.0.1:0"},
		{"-pty", "-flow", "maybe"},
		{"-pty", "extra"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// start runs the program and returns what it prints when it is ready.
func start(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan error, 1)
	var log bytes.Buffer
	go func() {
		err := run(ctx, args, w, &log)
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("sim: %v\n%s", err, log.String())
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %v", args, <-done)
	}
	return strings.TrimSpace(line)
}

func control(t *testing.T, path, command string) string {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

var (
	rst    = []byte{0x1A, 0xC0, 0x38, 0xBC, 0x7E}
	rstack = []byte{0x1A, 0xC1, 0x02, 0x0B, 0x0A, 0x52, 0x7E}
)

// ask sends RST and expects RSTACK.
func ask(t *testing.T, c link) {
	t.Helper()
	var got []byte
	buf := make([]byte, 64)
	// A chip that is booting is deaf: a client asks again, as clients do.
	for range 10 {
		if _, err := c.Write(rst); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := c.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatalf("after % X: %v", got, err)
			}
			if got = append(got, buf[:n]...); bytes.HasSuffix(got, rstack) {
				return
			}
		}
	}
	t.Fatalf("no answer to ten RST; got % X", got)
}

// link is a connection, or a terminal.
type link interface {
	io.ReadWriter
	SetReadDeadline(time.Time) error
}

func TestListen(t *testing.T) {
	ctl := filepath.Join(t.TempDir(), "ctl")
	addr := strings.TrimPrefix(start(t, "-listen", "tcp:127.0.0.1:0", "-control", "unix:"+ctl, "-boot", "1ms"), "ready ")
	for range 2 { // a client that is gone makes room for the next
		c, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		ask(t, c)
		_ = c.Close()
	}
	if got, want := control(t, ctl, "dance"), `{"ok":false,"error":"unknown command or wrong arguments; try help"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var answer struct {
		OK   bool
		Data struct {
			Link string
			ASH  struct{ RxRst int }
		}
	}
	if err := json.Unmarshal([]byte(control(t, ctl, "stats")), &answer); err != nil {
		t.Fatal(err)
	}
	if !answer.OK || answer.Data.ASH.RxRst != 2 {
		t.Errorf("stats %+v", answer)
	}
}

// QEMU listens, and is started and ended while the simulator runs.
func TestConnectAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "uart")
	if got := start(t, "-connect", "unix:"+path, "-boot", "1ms"); got != "ready" {
		t.Fatalf("printed %q", got)
	}
	for range 2 {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		ask(t, c)
		_ = c.Close()
		_ = l.Close()
	}
}

func TestPTY(t *testing.T) {
	path := strings.TrimPrefix(start(t, "-pty", "-boot", "1ms"), "ready ")
	for range 2 { // closing a serial port resets nothing
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		ask(t, f)
		_ = f.Close()
	}
}

func TestBaudFromTrace(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		baud  int  // that the radio has in the end
		wrong bool // what it says is garbled
	}{
		{"followed", nil, 892795, false},
		{"of a radio that has another", []string{"-baud", "115200"}, 115200, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			trace, ctl := filepath.Join(dir, "trace"), filepath.Join(dir, "ctl")
			addr := strings.TrimPrefix(start(t, append(tt.args, "-listen", "tcp:127.0.0.1:0", "-control", "unix:"+ctl,
				"-boot", "1ms", "-baud-from", trace)...), "ready ")
			if err := os.WriteFile(trace, []byte("serial_update_parameters speed=38400 parity=N\nserial_update_parameters speed=8228 parity=N\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var s struct {
				Data struct {
					Baud int
					Line struct{ Garbled int }
				}
			}
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			go func() { _, _ = io.Copy(io.Discard, c) }() // the radio answers nothing more while nobody reads
			for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				if _, err := c.Write(rst); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(control(t, ctl, "stats")), &s); err != nil {
					t.Fatal(err)
				}
				if s.Data.Baud == tt.baud && (s.Data.Line.Garbled > 0) == tt.wrong {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("baud %d, garbled %d; want %d, garbled %v", s.Data.Baud, s.Data.Line.Garbled, tt.baud, tt.wrong)
				}
			}
		})
	}
}
