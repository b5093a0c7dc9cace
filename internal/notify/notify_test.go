package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// connect returns PID 1's descriptor and the service's Conn.
func connect(t *testing.T) (ours int, c *Conn) {
	t.Helper()
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvSocket, strconv.Itoa(theirs))
	t.Setenv(EnvStored, "")
	c, err = FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		unix.Close(ours)
	})
	return ours, c
}

// receive waits for one packet at PID 1's end.
func receive(t *testing.T, fd int) (Message, []int) {
	t.Helper()
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, 10_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 || err != nil {
			t.Fatalf("poll: %d, %v", n, err)
		}
		break
	}
	buf := make([]byte, MaxMessage)
	n, fds, err := Receive(fd, buf)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(buf[:n])
	if err != nil {
		t.Fatalf("%q: %v", buf[:n], err)
	}
	return m, fds
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		packet string
		want   Message
		err    error
	}{
		{"ready", "READY=1\n", Message{Ready: true}, nil},
		{"ready without newline", "READY=1", Message{Ready: true}, nil},
		{"ready with status", "READY=1\nSTATUS=on 8888\n", Message{Ready: true, HasStatus: true, Status: "on 8888"}, nil},
		{"not ready", "READY=0\n", Message{}, nil},
		{"empty status", "STATUS=\n", Message{HasStatus: true}, nil},
		{"status with equals sign", "STATUS=a=b\n", Message{HasStatus: true, Status: "a=b"}, nil},
		{"watchdog", "WATCHDOG=1\n", Message{Watchdog: true}, nil},
		{"stopping", "STOPPING=1\n", Message{Stopping: true}, nil},
		{"store", "FDSTORE=1\nFDNAME=tcp-8888\n", Message{Store: true, FDName: "tcp-8888"}, nil},
		{"remove", "FDSTOREREMOVE=1\nFDNAME=x\n", Message{Remove: true, FDName: "x"}, nil},
		{"store without name", "FDSTORE=1\n", Message{}, ErrName},
		{"name with comma", "FDSTORE=1\nFDNAME=a,b\n", Message{}, ErrName},
		{"name too long", "FDSTORE=1\nFDNAME=" + strings.Repeat("x", MaxName+1) + "\n", Message{}, ErrName},
		{"store and remove", "FDSTORE=1\nFDSTOREREMOVE=1\nFDNAME=x\n", Message{}, ErrMalformed},
		{"unknown key", "MAINPID=7\nREADY=1\n", Message{Ready: true}, nil},
		{"no equals sign", "READY\n", Message{}, ErrMalformed},
		{"reply", "REPLY=7\n{\"a\":1}\n", Message{Answer: true, ID: 7, Body: []byte("{\"a\":1}\n")}, nil},
		{"reply without body", "REPLY=4294967295", Message{Answer: true, ID: 4294967295}, nil},
		{"error", "ERROR=8\nno such method", Message{Answer: true, Failed: true, ID: 8, Body: []byte("no such method")}, nil},
		{"reply with a word", "REPLY=x\n", Message{}, ErrMalformed},
		{"reply number too large", "REPLY=4294967296\n", Message{}, ErrMalformed},
		{"too long", strings.Repeat("A", MaxMessage+1), Message{}, ErrTooLong},
		{"empty", "", Message{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.packet))
			if !errors.Is(err, tt.err) || fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %+v, %v; want %+v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestParseStored(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     map[string]int
		err      error
	}{
		{"none", "", map[string]int{}, nil},
		{"one", "tcp=4", map[string]int{"tcp": 4}, nil},
		{"two", "tcp-8888=4,ssh.22=5", map[string]int{"tcp-8888": 4, "ssh.22": 5}, nil},
		{"no number", "tcp", nil, ErrMalformed},
		{"negative", "tcp=-1", nil, ErrMalformed},
		{"no name", "=4", nil, ErrMalformed},
		{"trailing comma", "tcp=4,", nil, ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStored(tt.in)
			if !errors.Is(err, tt.err) || fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %v, %v; want %v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestEnviron(t *testing.T) {
	got := Environ(3, []Stored{{"tcp", 17}, {"ssh", 9}})
	want := []string{"GW_NOTIFY_FD=3", "GW_FDS=tcp=4,ssh=5"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Environ(3, nil); len(got) != 1 {
		t.Errorf("got %q for no stored descriptor", got)
	}
}

func TestNotifications(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(*Conn) error
		want Message
	}{
		{"ready", func(c *Conn) error { return c.Ready("") }, Message{Ready: true}},
		{"ready and status", func(c *Conn) error { return c.Ready("up\nREADY=0") }, Message{Ready: true, HasStatus: true, Status: "up READY=0"}},
		{"status", func(c *Conn) error { return c.Status("one client") }, Message{HasStatus: true, Status: "one client"}},
		{"long status", func(c *Conn) error { return c.Status(strings.Repeat("é", MaxStatus)) }, Message{HasStatus: true, Status: strings.Repeat("é", MaxStatus/2)}},
		{"watchdog", func(c *Conn) error { return c.Watchdog() }, Message{Watchdog: true}},
		{"stopping", func(c *Conn) error { return c.Stopping() }, Message{Stopping: true}},
		{"remove", func(c *Conn) error { return c.RemoveFD("tcp") }, Message{Remove: true, FDName: "tcp"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, c := connect(t)
			if err := tt.send(c); err != nil {
				t.Fatal(err)
			}
			if got, _ := receive(t, ours); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestFromEnvTakesOver(t *testing.T) {
	_, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	stored, err := unix.Dup(theirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvSocket, strconv.Itoa(theirs))
	t.Setenv(EnvStored, "tcp="+strconv.Itoa(stored))
	c, err := FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{EnvSocket, EnvStored} {
		if v, ok := os.LookupEnv(name); ok {
			t.Errorf("%s=%q is still there for the children", name, v)
		}
	}
	fd, ok := c.FD("tcp")
	if !ok || fd != stored {
		t.Fatalf("FD: %d, %v; want %d", fd, ok, stored)
	}
	if _, ok := c.FD("ssh"); ok {
		t.Error("a descriptor that was never stored")
	}
	for _, fd := range []int{theirs, stored} {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %#x, %v; want close-on-exec", fd, flags, err)
		}
	}
	c.Close()
	unix.Close(stored)
}

func TestFromEnvRefuses(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	for _, tt := range []struct {
		name, socket string
		err          error
	}{
		{"word", "three", ErrMalformed},
		{"negative", "-1", ErrMalformed},
		{"not open", "1000000", unix.EBADF},
		{"pipe", strconv.Itoa(p[0]), unix.ENOTSOCK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(EnvSocket, tt.socket)
			if _, err := FromEnv(); !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
		})
	}
}

func TestNilConnDoesNothing(t *testing.T) {
	t.Setenv(EnvSocket, "")
	os.Unsetenv(EnvSocket)
	c, err := FromEnv()
	if c != nil || err != nil {
		t.Fatalf("got %v, %v", c, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(c.Ready("x"), c.Status("x"), c.Watchdog(), c.Stopping(), c.StoreFD("x", 0), c.RemoveFD("x"), c.Serve(ctx, nil), c.Close()); err != nil {
		t.Error(err)
	}
	if _, ok := c.FD("x"); ok {
		t.Error("a descriptor from nowhere")
	}
}

func TestStoreFDPassesTheDescriptor(t *testing.T) {
	ours, c := connect(t)
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := c.StoreFD("pipe", p[1]); err != nil {
		t.Fatal(err)
	}
	unix.Close(p[1])
	m, fds := receive(t, ours)
	if !m.Store || m.FDName != "pipe" || len(fds) != 1 {
		t.Fatalf("got %+v with %d descriptors", m, len(fds))
	}
	if flags, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v; want close-on-exec", flags, err)
	}
	if _, err := unix.Write(fds[0], []byte("x")); err != nil {
		t.Error(err)
	}
	CloseAll(fds)
	b := make([]byte, 2)
	if n, err := unix.Read(p[0], b); n != 1 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	unix.Close(p[0])
	if err := c.StoreFD("a b", 0); !errors.Is(err, ErrName) {
		t.Errorf("name with a space: %v", err)
	}
}

func TestServe(t *testing.T) {
	ours, c := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- c.Serve(ctx, func(_ context.Context, method string, params []byte) ([]byte, error) {
			switch method {
			case "echo":
				return bytes.Clone(params), nil
			case "long":
				return make([]byte, MaxMessage), nil
			case "panic":
				panic("boom")
			}
			return nil, errors.New("no method " + method)
		})
	}()
	long := []byte(strings.Repeat("7", 50<<10))
	for _, tt := range []struct {
		name, method string
		params       []byte
		failed       bool
		body         string
	}{
		{"echo", "echo", []byte(`{"a":"b\nc"}`), false, `{"a":"b\nc"}`},
		{"no parameters", "echo", nil, false, ""},
		{"longer than the first buffer", "echo", long, false, string(long)},
		{"unknown", "nothing", nil, true, "no method nothing"},
		{"answer too long", "long", nil, true, "answer of 61440 bytes: message is too long"},
		{"panic", "panic", nil, true, "method panic panicked: boom"},
		{"after the panic", "echo", []byte("1"), false, "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packet, err := AppendCall(nil, 77, tt.method, tt.params)
			if err != nil {
				t.Fatal(err)
			}
			if err := SendCall(ours, packet); err != nil {
				t.Fatal(err)
			}
			m, _ := receive(t, ours)
			if !m.Answer || m.ID != 77 || m.Failed != tt.failed || string(m.Body) != tt.body {
				t.Errorf("got %v %v %d %.80q", m.Answer, m.Failed, m.ID, m.Body)
			}
		})
	}
	t.Run("a message that is no call is skipped", func(t *testing.T) {
		if err := SendCall(ours, []byte("HELLO=1\n")); err != nil {
			t.Fatal(err)
		}
		packet, _ := AppendCall(nil, 78, "echo", []byte("2"))
		if err := SendCall(ours, packet); err != nil {
			t.Fatal(err)
		}
		if m, _ := receive(t, ours); m.ID != 78 {
			t.Errorf("got %+v", m)
		}
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve after ctx ended: %v", err)
	}
	// The service may still say something on its way out.
	if err := c.Status("closing clients"); err != nil {
		t.Error(err)
	}
	if m, _ := receive(t, ours); m.Status != "closing clients" {
		t.Errorf("got %+v", m)
	}
	packet, _ := AppendCall(nil, 79, "echo", nil)
	if err := SendCall(ours, packet); !errors.Is(err, ErrClosed) {
		t.Errorf("call after Serve ended: %v", err)
	}
}

func TestServeEndsWithPID1(t *testing.T) {
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c := &Conn{fd: theirs}
	defer c.Close()
	unix.Close(ours)
	if err := c.Serve(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := c.Ready(""); !errors.Is(err, ErrClosed) {
		t.Errorf("Ready: %v", err)
	}
}

func TestReceiveAfterTheServiceDied(t *testing.T) {
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ours)
	c := &Conn{fd: theirs}
	if err := c.Status("last words"); err != nil {
		t.Fatal(err)
	}
	// An unread call makes the kernel report a reset before what is queued.
	if err := SendCall(ours, []byte("CALL=1 status\n")); err != nil {
		t.Fatal(err)
	}
	c.Close()
	buf := make([]byte, MaxMessage)
	n, _, err := Receive(ours, buf)
	if err != nil || string(buf[:n]) != "STATUS=last words\n" {
		t.Errorf("got %q, %v", buf[:n], err)
	}
	if _, _, err := Receive(ours, buf); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestReceiveNothing(t *testing.T) {
	ours, _ := connect(t)
	if _, _, err := Receive(ours, make([]byte, 16)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("got %v, want EAGAIN", err)
	}
}

func TestAppendCallRefuses(t *testing.T) {
	if _, err := AppendCall(nil, 1, "a b", nil); !errors.Is(err, ErrName) {
		t.Errorf("got %v", err)
	}
	if _, err := AppendCall(nil, 1, "a", make([]byte, MaxMessage)); !errors.Is(err, ErrTooLong) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("READY=1\nSTATUS=x\nFDSTORE=1\nFDNAME=a\n"))
	f.Add([]byte("REPLY=7\n{}"))
	f.Add([]byte("ERROR=7\nx"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		m, err := Parse(packet)
		if err != nil {
			return
		}
		if len(m.Status) > MaxStatus || strings.ContainsAny(m.Status, "\r\n") {
			t.Errorf("status %q", m.Status)
		}
		if (m.Store || m.Remove) && !ValidName(m.FDName) {
			t.Errorf("name %q", m.FDName)
		}
		if m.Answer && (m.Ready || m.Store || m.Remove || m.HasStatus) {
			t.Errorf("both an answer and a notification: %+v", m)
		}
	})
}

func FuzzParseCall(f *testing.F) {
	f.Add([]byte("CALL=7 status\n{}"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		id, method, params, err := ParseCall(packet)
		if err != nil {
			return
		}
		again, err := AppendCall(nil, id, method, params)
		if err != nil {
			return // longer than what is sent: the number had leading zeros
		}
		id2, method2, params2, err := ParseCall(again)
		if err != nil || id2 != id || method2 != method || !bytes.Equal(params2, params) {
			t.Errorf("%q does not survive: %q, %v", packet, again, err)
		}
	})
}
