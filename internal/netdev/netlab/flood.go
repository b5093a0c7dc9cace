package netlab

import (
	"sync"
	"time"
)

// Send sends frames from an interface of p, once each.
func (p *Peer) Send(iface string, frames ...[]byte) {
	p.t.Helper()
	f, err := p.frames(iface)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	for _, frame := range frames {
		if _, err := f.Write(append(make([]byte, vnetHeader), frame...)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// Flood sends frames from an interface of p, so many a second, until stop, which
// returns how many there were. frame makes them by their number, from 0.
func (p *Peer) Flood(iface string, perSecond int, frame func(n uint32) []byte) (stop func() int) {
	p.t.Helper()
	f, err := p.frames(iface)
	if err != nil {
		p.t.Fatal(err)
	}
	end, done := make(chan struct{}), make(chan int)
	go func() {
		sent := 0
		defer func() { f.Close(); done <- sent }()
		began := time.Now()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			for due := int(time.Since(began).Seconds() * float64(perSecond)); sent < due; sent++ {
				_, _ = f.Write(append(make([]byte, vnetHeader), frame(uint32(sent))...)) // what does not fit is lost
			}
		}
	}()
	stop = sync.OnceValue(func() int { close(end); return <-done })
	p.t.Cleanup(func() { stop() })
	return stop
}
