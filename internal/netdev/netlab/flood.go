package netlab

import (
	"sync"

	"gwinit/test/hostile"
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
func (p *Peer) Flood(iface string, perSecond int, frame hostile.Frame) (stop func() int) {
	p.t.Helper()
	f, err := p.frames(iface)
	if err != nil {
		p.t.Fatal(err)
	}
	send := hostile.Flood(perSecond, frame, func(b []byte) error {
		_, _ = f.Write(append(make([]byte, vnetHeader), b...)) // what does not fit is lost
		return nil
	})
	stop = sync.OnceValue(func() int {
		defer f.Close()
		return send()
	})
	p.t.Cleanup(func() { stop() })
	return stop
}
