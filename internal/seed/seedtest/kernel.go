// Package seedtest is a fake of the kernel's random number generator.
package seedtest

import (
	"errors"
	"sync"

	"gwinit/internal/seed"
)

// Kernel may be used by several goroutines but for its fields, which are to be
// read and set while nobody else does. It counts entropy and hands out bytes that show what it was given: each
// byte is the number of Random's call.
type Kernel struct {
	Bits     int // counted; 256 are enough
	Mixed    [][]byte
	Credited [][]byte
	Draws    byte
	// OnCredit is called before anything is counted, if set.
	OnCredit func()
	// Fail makes Credit fail.
	Fail bool

	mu sync.Mutex // guards Bits and Draws between goroutines
}

// Count adds entropy that comes from elsewhere.
func (k *Kernel) Count(bits int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Bits += bits
}

var _ seed.Kernel = (*Kernel)(nil)

// Random implements seed.Kernel.
func (k *Kernel) Random(b []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Bits < 256 {
		return seed.ErrNotReady
	}
	k.Draws++
	for i := range b {
		b[i] = k.Draws
	}
	return nil
}

// Mix implements seed.Kernel.
func (k *Kernel) Mix(b []byte) error {
	k.Mixed = append(k.Mixed, append([]byte(nil), b...))
	return nil
}

// Credit implements seed.Kernel.
func (k *Kernel) Credit(b []byte) error {
	if k.OnCredit != nil {
		k.OnCredit()
	}
	if k.Fail {
		return errors.New("operation not permitted")
	}
	k.Credited = append(k.Credited, append([]byte(nil), b...))
	k.Count(8 * len(b))
	return nil
}
