//go:build linux

package kernelbridgetest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"gwinit/internal/kernelbridge"
)

// Driver is the driver in memory: it checks, clamps, rolls back, resets its
// counters at every arm and blocks while a radio pin is pulsed. It works in a
// synctest bubble. Its methods may be called by several goroutines.
type Driver struct {
	lock chan struct{} // the driver's one lock: held by an access, or by a pulse

	mu      sync.Mutex // guards the following
	values  map[string]string
	noHW    bool // the device tree has no realtek,hw-flow-control
	armed   bool
	stats   kernelbridge.Stats
	fail    map[string]error // of a write, by parameter
	fatal   map[string]bool  // of fail: it disarms, too
	failArm error
	stuck   bool // it does not disarm
	deaf    bool // arming succeeds and armed reads 0
	writes  []string
}

// NewDriver returns a disarmed driver with its defaults; hardwareFlow says what
// the device tree has.
func NewDriver(hardwareFlow bool) *Driver {
	d := &Driver{
		lock: make(chan struct{}, 1), noHW: !hardwareFlow, fail: make(map[string]error), fatal: make(map[string]bool),
		values: map[string]string{
			"tty": "/dev/ttyS1", "baud": "115200", "port": "8888", "bind_addr": "0.0.0.0", "flow_control": "1",
		},
	}
	if d.noHW {
		d.values["flow_control"] = "2"
	}
	return d
}

// Pulse holds the driver's lock until the returned function is called.
func (d *Driver) Pulse() (end func()) {
	d.lock <- struct{}{}
	return func() { <-d.lock }
}

// Read implements kernelbridge.Params.
func (d *Driver) Read(name string) (string, error) {
	defer d.Pulse()()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch name {
	case "armed":
		if d.armed {
			return "1", nil
		}
		return "0", nil
	case "stats":
		s := d.stats
		return fmt.Sprintf("rx=%d tx=%d drops_nocli=%d drops_err=%d drops_tx=%d xoff=%d xon=%d tx_pause_timeouts=%d",
			s.Rx, s.Tx, s.DropsNoClient, s.DropsErr, s.DropsTx, s.XOFF, s.XON, s.TxPauseTimeouts), nil
	}
	v, ok := d.values[name]
	if !ok {
		return "", unix.ENOENT
	}
	return v, nil
}

// Write implements kernelbridge.Params.
func (d *Driver) Write(name, value string) error {
	defer d.Pulse()()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes = append(d.writes, name+"="+value)
	if err := d.fail[name]; err != nil {
		d.armed = d.armed && !d.fatal[name]
		return err // rolled back: the value stays
	}
	switch name {
	case "enable":
		return d.enableLocked(value)
	case "baud":
		return d.numberLocked(name, value, kernelbridge.MinBaud, kernelbridge.MaxBaud)
	case "port":
		return d.numberLocked(name, value, 1, 65535)
	case "bind_addr":
		a, err := netip.ParseAddr(value)
		if err != nil || !a.Is4() {
			return unix.EINVAL
		}
	case "flow_control":
		n, ok := map[string]string{
			"0": "0", "none": "0", "n": "0", "off": "0", "1": "1", "hw": "1", "y": "1", "on": "1", "2": "2", "sw": "2",
		}[value]
		if !ok {
			return unix.EINVAL
		}
		if n == "1" && d.noHW {
			n = "2"
		}
		value = n
	case "tty":
		if value == "" || len(value) > 63 {
			return unix.EINVAL
		}
	default:
		return unix.EACCES
	}
	d.values[name] = value
	return nil
}

func (d *Driver) enableLocked(value string) error {
	switch value {
	case "1":
		if d.failArm != nil {
			return d.failArm
		}
		if !d.armed {
			d.stats = kernelbridge.Stats{}
		}
		d.armed = !d.deaf
	case "0":
		d.armed = d.armed && d.stuck
	default:
		return unix.EINVAL
	}
	return nil
}

func (d *Driver) numberLocked(name, value string, low, high int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		return unix.EINVAL
	}
	d.values[name] = strconv.Itoa(n)
	return nil
}

// change makes a change that the driver's own lock does not guard.
func (d *Driver) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// SetArmed arms or disarms it, as somebody else would.
func (d *Driver) SetArmed(armed bool) { d.change(func() { d.armed = armed }) }

// Count adds to the counters.
func (d *Driver) Count(s kernelbridge.Stats) { d.change(func() { d.stats = d.stats.Plus(s) }) }

// FailWrite makes writes of a parameter fail, nil: not any more.
func (d *Driver) FailWrite(name string, err error) { d.change(func() { d.fail[name] = err }) }

// FailRollback is FailWrite where the driver cannot go back, and disarms.
func (d *Driver) FailRollback(name string, err error) {
	d.change(func() { d.fail[name], d.fatal[name] = err, true })
}

// FailArm makes arming fail, nil: not any more.
func (d *Driver) FailArm(err error) { d.change(func() { d.failArm = err }) }

// SetDeaf makes arming succeed without effect.
func (d *Driver) SetDeaf(deaf bool) { d.change(func() { d.deaf = deaf }) }

// SetStuck makes it stay armed whatever is written.
func (d *Driver) SetStuck(stuck bool) { d.change(func() { d.stuck = stuck }) }

// Armed tells whether it is armed.
func (d *Driver) Armed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.armed
}

// Value returns what a parameter reads.
func (d *Driver) Value(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values[name]
}

// Writes returns all writes so far, NAME=VALUE, oldest first.
func (d *Driver) Writes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.writes)
}
