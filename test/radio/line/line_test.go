package line

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/test/radio/line/linetest"
)

type rig struct {
	l    *Line
	port *linetest.Port
	stop func() error

	mu  sync.Mutex
	got []byte
}

func attach(cfg Config) *rig {
	r := &rig{l: New(cfg), port: linetest.New()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- r.l.Attach(ctx, r.port, func(p []byte) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.got = append(r.got, p...)
		})
	}()
	synctest.Wait()
	r.stop = func() error { cancel(); return <-done }
	return r
}

func (r *rig) received() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func TestPacing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		baud  int
		bytes int
		want  time.Duration
	}{
		{"115200", 115200, 1152, 100 * time.Millisecond},
		{"460800", 460800, 4608, 100 * time.Millisecond},
		{"892857", 892857, 8928, 100 * time.Millisecond},
		{"9600", 9600, 96, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Baud = tt.baud
				r := attach(cfg)
				start := time.Now()
				if d := r.l.Send(start, make([]byte, tt.bytes)).Sub(start); d < tt.want-tt.want/100 || d > tt.want+tt.want/100 {
					t.Errorf("Send says %v, want %v", d, tt.want)
				}
				r.port.Feed(make([]byte, tt.bytes))
				// Half the time, half the bytes: no burst at either end.
				time.Sleep(tt.want / 2)
				synctest.Wait()
				half := tt.bytes / 2
				for dir, n := range map[string]int{"to host": len(r.port.Take()), "to radio": r.received()} {
					if slack := max(2*chunk(tt.baud), half/50); n < half-slack || n > half+1 {
						t.Errorf("%s: %d of %d bytes after half the time", dir, n, tt.bytes)
					}
				}
				time.Sleep(tt.want/2 + 2*time.Millisecond)
				synctest.Wait()
				if r.received() != tt.bytes {
					t.Errorf("radio got %d bytes, want %d", r.received(), tt.bytes)
				}
				if c := r.l.Counters(); c.ToHost != uint64(tt.bytes) || c.LostToHost != 0 {
					t.Errorf("counters %+v", c)
				}
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestFarEndWithoutRoom(t *testing.T) {
	for _, tt := range []struct {
		name string
		flow Flow
		lost uint64
	}{
		{"no flow control loses all beyond the FIFO", None, 200 - 50 - 16},
		{"RTS/CTS waits", Hardware, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Flow = tt.flow
				r := attach(cfg)
				r.port.SetRoom(50)
				p := make([]byte, 200)
				for i := range p {
					p[i] = byte(i)
				}
				r.l.Send(time.Now(), p)
				time.Sleep(time.Second)
				r.port.SetRoom(-1)
				time.Sleep(time.Second)
				synctest.Wait()
				got := r.port.Take()
				if want := p[:200-int(tt.lost)]; !bytes.Equal(got, want) {
					t.Errorf("host got %d bytes, want the first %d", len(got), len(want))
				}
				if c := r.l.Counters(); c.LostToHost != tt.lost {
					t.Errorf("lost %d, want %d", c.LostToHost, tt.lost)
				}
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestHeldRadio(t *testing.T) {
	for _, tt := range []struct {
		name string
		flow Flow
		host string // what the host is told
		lost uint64
		left int // bytes that the radio gets in the end
	}{
		{"no flow control", None, "", 72, 128},
		{"XON/XOFF", Software, "\x13\x11", 72, 128}, // this host does not obey
		{"RTS/CTS", Hardware, "", 0, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Flow = tt.flow
				r := attach(cfg)
				r.l.Hold()
				r.port.Feed(bytes.Repeat([]byte{'x'}, 200))
				time.Sleep(time.Second)
				synctest.Wait()
				if r.received() != 0 {
					t.Errorf("a held radio took %d bytes", r.received())
				}
				released := len(r.l.Release())
				time.Sleep(time.Second)
				synctest.Wait()
				if n := released + r.received(); n != tt.left {
					t.Errorf("radio got %d bytes, want %d", n, tt.left)
				}
				if got := string(r.port.Take()); got != tt.host {
					t.Errorf("host was told %q, want %q", got, tt.host)
				}
				if c := r.l.Counters(); c.LostToRadio != tt.lost {
					t.Errorf("lost %d, want %d", c.LostToRadio, tt.lost)
				}
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestXOffPausesTheRadio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Flow = Software
		r := attach(cfg)
		r.port.Feed([]byte{'a', xoff, 'b'})
		time.Sleep(10 * time.Millisecond)
		r.l.Send(time.Now(), []byte("held"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.port.Take(); len(got) != 0 {
			t.Errorf("sent %q after XOFF", got)
		}
		r.port.Feed([]byte{xon})
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if got := string(r.port.Take()); got != "held" {
			t.Errorf("after XON got %q", got)
		}
		if string(r.got) != "ab" {
			t.Errorf("radio got %q, want ab: flow control is not data", r.got)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestBaudMismatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		peer int
		bad  bool
	}{
		{"unknown", 0, false},
		{"divisor's rounding", 116279, false}, // 12.5 MHz / 16-clock steps: 0.9 %
		{"half", 57600, true},
		{"3 % off", 118700, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := attach(DefaultConfig())
				r.l.SetPeerBaud(tt.peer)
				r.l.Send(time.Now(), []byte("abc"))
				r.port.Feed([]byte("abc"))
				time.Sleep(time.Second)
				synctest.Wait()
				if bad := string(r.port.Take()) != "abc"; bad != tt.bad {
					t.Errorf("garbled to host: %v, want %v", bad, tt.bad)
				}
				if bad := string(r.got) != "abc"; bad != tt.bad {
					t.Errorf("garbled to radio: %v, want %v", bad, tt.bad)
				}
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestUnheard(t *testing.T) {
	l := New(DefaultConfig())
	l.Send(time.Now(), []byte("nobody"))
	if c := l.Counters(); c.Unheard != 6 {
		t.Errorf("Unheard %d, want 6", c.Unheard)
	}
	now := time.Now()
	l.Silence(now.Add(time.Second))
	l.Send(now, []byte("cut"))
	if c := l.Counters(); c.Silenced != 3 {
		t.Errorf("Silenced %d, want 3", c.Silenced)
	}
}

func TestPTY(t *testing.T) {
	master, keep, path, err := OpenPTY()
	if err != nil {
		t.Fatalf("pseudo terminals are needed for this test: %v", err)
	}
	defer keep.Close()
	port, err := NewPort(master, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := New(DefaultConfig())
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan []byte, 16)
	done := make(chan error)
	go func() { done <- l.Attach(ctx, port, func(p []byte) { got <- bytes.Clone(p) }) }()
	if _, err := keep.Write([]byte("\x11\x13\r\n\x03\x7f")); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for len(all) < 6 {
		all = append(all, <-got...)
	}
	if want := "\x11\x13\r\n\x03\x7f"; string(all) != want {
		t.Errorf("%s is not raw: %q, want %q", path, all, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
