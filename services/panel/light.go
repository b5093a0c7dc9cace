//go:build linux

package panel

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/config"
)

// light is one pattern of the status LED. The zero light is dark.
type light struct {
	name    string // for the status
	on, off time.Duration
	// trigger has the kernel do it, where it has that trigger; else on and off
	// say what is shown.
	trigger string
	always  bool // also where leds.conf says off: somebody stands there and waits for it
}

// steady in light.on is on without an end.
const steady = never

// The patterns, but for the button's. None changes more often than twice a
// second, as the gateways' kernel cannot blink by itself.
var (
	dark      = light{name: "off"}
	lit       = light{name: "client", on: steady}
	byKernel  = light{name: "client", trigger: triggerClient}
	blinkFast = light{name: "button", on: 500 * time.Millisecond, off: 500 * time.Millisecond, always: true}
	enrolOpen = light{name: "enrolment", on: 1500 * time.Millisecond, off: 500 * time.Millisecond, always: true}
	failed    = light{name: "failed service", on: 500 * time.Millisecond, off: 1500 * time.Millisecond, trigger: triggerHeart}
	// Even, and twice as fast as without an address.
	trialUpdate = light{name: "trial update", on: time.Second, off: time.Second}
	// One flash in four seconds and a half: it is what disturbs a measurement
	// least, and says that the gateway is not its usual self.
	benchMode = light{name: "bench mode", on: 500 * time.Millisecond, off: 4 * time.Second}
	noAddress = light{name: "no address", on: 2 * time.Second, off: 2 * time.Second}
)

// The kernel's triggers that are made use of.
const (
	triggerOff    = "none"
	triggerClient = "uart-bridge-client" // of the driver in the kernel, lit by its client
	triggerHeart  = "heartbeat"
	triggerTimer  = "timer"
)

// Brightness of the status LED by leds.conf's MODE, as the incumbent firmware
// has it. Its driver has four steps of 64.
const (
	brightFull = 255
	brightDim  = 60
)

func brightness(mode string) int {
	switch mode {
	case config.LEDsOff:
		return 0
	case config.LEDsDim:
		return brightDim
	}
	return brightFull
}

// lamp is an LED of the kernel's LED class. A change is one write, or a few
// where a trigger is changed; what the kernel blinks costs none.
type lamp struct {
	dir      string
	mode     string // of leds.conf
	triggers []string

	now     light
	known   bool          // now is what it shows
	trigger string        // that is set; "" is not known
	toggle  time.Duration // when to switch it over; never: the kernel does
	isOn    bool
	err     error // of the last write
}

// openLamp finds the LED whose class folder is dir.
func openLamp(dir string) (*lamp, error) {
	if _, err := os.Stat(filepath.Join(dir, "brightness")); err != nil {
		return nil, err
	}
	l := &lamp{dir: dir, toggle: never}
	b, err := os.ReadFile(filepath.Join(dir, "trigger"))
	if err == nil {
		l.triggers = parseTriggers(string(b))
	}
	return l, nil
}

// parseTriggers reads the words of trigger's file; the one in use is in
// brackets.
func parseTriggers(text string) []string {
	all := strings.Fields(text)
	for i, name := range all {
		if strings.HasPrefix(name, "[") {
			all[i] = strings.Trim(name, "[]")
		}
	}
	return all
}

func (l *lamp) has(trigger string) bool { return slices.Contains(l.triggers, trigger) }

// setMode is what leds.conf says.
func (l *lamp) setMode(mode string) {
	if l.mode != mode {
		l.mode, l.known = mode, false
	}
}

// level is the brightness of what is lit.
func (l *lamp) level() int {
	v := brightness(l.mode)
	if v == 0 && l.now.always {
		v = brightDim
	}
	return v
}

// show has the LED show w at a time, or goes on with it.
func (l *lamp) show(at time.Duration, w light) {
	if l.known && l.now == w {
		if at >= l.toggle {
			l.switchOver(at)
		}
		return
	}
	l.now, l.known, l.toggle, l.err = w, true, never, nil
	level := l.level()
	switch {
	case level == 0 || w.on == 0 && w.trigger == "":
		l.bright(0)
	case w.trigger != "" && l.has(w.trigger):
		if w.trigger != triggerClient { // which sets its own
			l.bright(level)
		}
		l.setTrigger(w.trigger)
	case w.on == 0:
		l.bright(0)
	case w.on == steady:
		l.bright(level)
	case l.has(triggerTimer):
		l.bright(level) // which the trigger takes for its own
		l.setTrigger(triggerTimer)
		l.write("delay_on", int(w.on.Milliseconds()))
		l.write("delay_off", int(w.off.Milliseconds()))
	default:
		l.isOn = false
		l.switchOver(at)
	}
}

// switchOver lights the LED, or ends that.
func (l *lamp) switchOver(at time.Duration) {
	l.isOn = !l.isOn
	if l.isOn {
		l.bright(l.level())
		l.toggle = at + l.now.on
	} else {
		l.bright(0)
		l.toggle = at + l.now.off
	}
}

// next is in how long show has something to do.
func (l *lamp) next(at time.Duration) time.Duration {
	if l.toggle == never {
		return never
	}
	return max(0, l.toggle-at)
}

// bright sets a brightness, which holds until the next: no trigger is on.
func (l *lamp) bright(v int) {
	l.setTrigger(triggerOff)
	l.write("brightness", v)
}

func (l *lamp) setTrigger(name string) {
	if l.trigger == name || len(l.triggers) == 0 {
		return
	}
	l.trigger = name
	l.put("trigger", name)
}

func (l *lamp) write(file string, v int) { l.put(file, strconv.Itoa(v)) }

func (l *lamp) put(file, text string) {
	if err := writeFile(filepath.Join(l.dir, file), text); err != nil && l.err == nil {
		l.err = err
	}
}

// writeFile writes an attribute of sysfs.
func writeFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
