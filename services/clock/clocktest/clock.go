// Package clocktest has fakes for those who keep time: a wall clock that can be
// set, and a time server.
package clocktest

import (
	"sync"
	"time"
)

// Clock is a clock.Clock beside the machine's: it runs at its pace.
type Clock struct {
	mu     sync.Mutex
	ahead  time.Duration // of the machine's
	synced bool
	steps  []time.Time
	slews  []time.Duration
	fail   error
}

// New returns a clock that shows at now.
func New(now time.Time) *Clock { return &Clock{ahead: time.Until(now)} }

// Fail has every change fail from now on; nil ends that.
func (c *Clock) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// Now implements clock.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Round(0).Add(c.ahead)
}

// Step implements clock.Clock.
func (c *Clock) Step(to time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.ahead, c.synced = time.Until(to), false
	c.steps = append(c.steps, to)
	return nil
}

// Slew implements clock.Clock; the whole offset is gone at once.
func (c *Clock) Slew(offset, _, _ time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.ahead += offset
	c.synced = true
	c.slews = append(c.slews, offset)
	return nil
}

// Synchronised implements clock.Clock.
func (c *Clock) Synchronised() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced, nil
}

// Drift moves the clock by d, and nobody is told.
func (c *Clock) Drift(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// Changes returns the times that were set and the offsets that were slewed.
func (c *Clock) Changes() (steps []time.Time, slews []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(steps, c.steps...), append(slews, c.slews...)
}
