//go:build linux

package server

import (
	"errors"
	"strconv"
	"sync"
	"time"
)

const (
	// programKiB is what a shell takes that waits for its first line: its own
	// memory, threads, tables and pipes.
	programKiB = 2 << 10
	// spareKiB has to be left beside it. With seven shells and 4.4 MiB left, a
	// board of 32 MiB read its programs' pages anew all the time, until its watchdog
	// ended that after a minute.
	spareKiB = 4608
	// settleTime is how long a program may take until what it needs is gone from
	// what is available; half of it is taken to be still to come.
	settleTime = 5 * time.Second
)

// programs counts those that run in sessions.
type programs struct {
	mu      sync.Mutex // guards the rest
	running int
	begun   []time.Time // within settleTime
}

// begin counts one more, or says why not. The first one is always let in: who
// finds the gateway short of memory needs it.
func (p *programs) begin(available func() (int, error), now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.begun) > 0 && now.Sub(p.begun[0]) > settleTime {
		p.begun = p.begun[1:]
	}
	if p.running > 0 {
		kib, err := available()
		if err != nil {
			return err
		}
		if left := kib - programKiB - programKiB/2*len(p.begun); left < spareKiB {
			return errors.New("with " + strconv.Itoa(p.running) + " sessions and " + strconv.Itoa(kib) + " KiB available the gateway is short of memory: end one")
		}
	}
	p.running++
	p.begun = append(p.begun, now)
	return nil
}

// end takes one away.
func (p *programs) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
}
