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
