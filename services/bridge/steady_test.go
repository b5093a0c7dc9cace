//go:build linux

package bridge

import (
	"bytes"
	"runtime"
	"sync"
	"testing"
)

// Collections while the goroutine of the loop counts as being in a system call
// and works all the same: no byte differs, none is counted wrong.
func TestSteadyBesideCollections(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	done := make(chan struct{})
	var collector sync.WaitGroup
	collector.Go(func() {
		var garbage [][]byte
		for {
			select {
			case <-done:
				return
			default:
				garbage = append(garbage[:len(garbage)%64], make([]byte, 4096))
				runtime.GC()
			}
		}
	})
	const frames = 500
	rx, tx := g.status().RxBytes, g.status().TxBytes
	sent := 0
	for i := range frames {
		frame := noise(1 + i%200)
		frame[0] = 0x1a
		sent += len(frame)
		write(t, c, frame)
		if got := g.radioHears(len(frame)); !bytes.Equal(got, frame) {
			t.Fatalf("frame %d: the radio heard %x, want %x", i, got, frame)
		}
		g.radioSays(frame)
		if got := readN(t, c, len(frame)); !bytes.Equal(got, frame) {
			t.Fatalf("frame %d: the client got %x, want %x", i, got, frame)
		}
	}
	close(done)
	collector.Wait()
	if s := g.status(); s.RxBytes != rx+uint64(sent) || s.TxBytes != tx+uint64(sent) {
		t.Errorf("%d bytes from the radio and %d to it are counted, want %d", s.RxBytes-rx, s.TxBytes-tx, sent)
	}
}

// What the steady state leaves behind is acted on as if each event had been
// taken one by one.
func TestSteadyStops(t *testing.T) {
	p := pipe{buf: make([]byte, rxQueueBytes)}
	for _, tt := range []struct {
		name   string
		at     int
		budget int
		want   bool
	}{
		{"fresh", 0, 16, true},
		{"the next read is a sample", 0, 0, false},
		{"room for one more", rxQueueBytes - leastRoom, 1, true},
		{"hardly any room", rxQueueBytes - leastRoom + 1, 1, false},
	} {
		p.at, p.budget = tt.at, tt.budget
		if got := p.ready(); got != tt.want {
			t.Errorf("%s: ready %v, want %v", tt.name, got, tt.want)
		}
	}
	var q queue
	q.buf = make([]byte, 8)
	q.passed(&pipe{at: 6, left: 0})
	if !q.empty() || q.helds != 0 {
		t.Errorf("all went out: %d bytes wait, held %d times", q.len(), q.helds)
	}
	copy(q.buf, "abcdef")
	q.passed(&pipe{at: 6, left: 2})
	if string(q.waiting()) != "ef" || q.helds != 1 || q.most != 2 {
		t.Errorf("%q waits, held %d times, %d at most; want ef, 1, 2", q.waiting(), q.helds, q.most)
	}
}
