package pid1

import (
	"context"
	"os"
	"time"
)

// feedEvery is the watchdog's feeding period. The gateway's driver says 60 s
// and resets after 671 s; the emulated board's resets after 60 s: a sixth of
// the shorter one leaves room for a box that is starved for a while.
const feedEvery = 10 * time.Second

// watchdog keeps /dev/watchdog fed from the first second.
type watchdog struct {
	f *os.File
}

// openWatchdog opens the device, which arms it, and feeds it once.
func openWatchdog(path string) (*watchdog, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	w := &watchdog{f: f}
	return w, w.feed()
}

func (w *watchdog) feed() error {
	_, err := w.f.Write([]byte{0})
	return err
}

// runWatchdog has well asked every feedEvery, and feeds w, if there is one, if
// it says so, until ctx ends. It leaves the device armed: a shutdown that hangs
// ends in a reset.
func runWatchdog(ctx context.Context, w *watchdog, well func() bool) {
	t := time.NewTicker(feedEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if well() && w != nil {
				_ = w.feed() // the driver's error cannot be helped from here and the reset says it
			}
		}
	}
}

// disarm stops the watchdog by the magic close: only before a power-off or a
// halt, which it would otherwise turn into a reset.
func (w *watchdog) disarm() {
	_, _ = w.f.Write([]byte{'V'})
	w.f.Close()
}
