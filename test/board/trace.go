package board

import (
	"regexp"
	"strconv"
)

// Baud is one setting of a UART's divisor.
type Baud struct {
	Divisor int
	// Rate is what the gateway's UART would run at: its clock by the divisor.
	Rate int
}

const (
	// uartClock is the gateway's UART clock by 16. The guest gives the same
	// figure to its 8250 driver as base_baud.
	uartClock = 12_500_000
	// qemuClock is what QEMU's 8250 counts from when it names a rate.
	qemuClock = 115_200
	// consoleDivisors are what the console's UART is set to (115200, 38400).
	// QEMU does not say which UART it means; no radio is that fast.
	consoleDivisors = 3
)

var traceLine = regexp.MustCompile(`serial_update_parameters baudrate=(\d+)`)

// parseTrace reads a line that QEMU traces when the guest sets a UART's
// divisor or frame. QEMU gives qemuClock by the divisor, rounded down, which
// leaves one divisor up to about 330 (38400 baud); above, the middle of those
// that it can be.
func parseTrace(line string) (Baud, bool) {
	match := traceLine.FindStringSubmatch(line)
	if match == nil {
		return Baud{}, false
	}
	speed, err := strconv.Atoi(match[1])
	if err != nil || speed <= 0 {
		return Baud{}, false
	}
	low, high := qemuClock/(speed+1)+1, qemuClock/speed
	divisor := (low + high) / 2
	if divisor == 0 {
		return Baud{}, false
	}
	return Baud{Divisor: divisor, Rate: uartClock / divisor}, true
}

// Bauds tells of each setting of the radio UART's divisor. The kernel sets some
// while it looks for the UART. When nobody reads, the oldest are dropped.
func (m *Machine) Bauds() <-chan Baud { return m.bauds }

func (m *Machine) tellBaud(b Baud) {
	for {
		select {
		case m.bauds <- b:
			return
		default:
		}
		select {
		case <-m.bauds:
		default:
		}
	}
}
