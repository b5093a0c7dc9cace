// Package rtl8196e says what the boards are: flash map, RAM, GPIO lines, LEDs,
// the radio's UART, the boothold page, the watchdog. It is data and the one
// function that finds out which board this is; it touches no device.
//
// Where the numbers come from: "device tree" is the device tree that the
// incumbent firmware's kernel carries for that board, "loader" its bootloader's
// per-board constants, "measured" a figure its authors give from a bench.
package rtl8196e

// IDs of the boards.
const (
	Lidl     = "lidl"            // Lidl Silvercrest / Tuya gateway, 32 MiB
	Sengled  = "sengled-e39-g8c" // Sengled Smart Hub G4, 64 MiB
	Emulated = "emulated"        // qemu-system-mips malta with a gateway's parts
	Unknown  = "unknown"         // none of these: the Lidl's data, as its firmware does
)

// Board is one board. The zero value is no board; see Detect.
type Board struct {
	ID       string // one of the constants above
	Model    string // as the device tree gives it; Detect fills in what it read
	Vendor   string // for what announces itself on the network
	Product  string
	Emulated bool // QEMU, whoever's data is used

	RAMBytes uint32 // fitted; the kernel sees less
	Flash    []Partition
	GPIO     GPIO
	LEDs     []LED
	Radio    RadioPort
	Console  Console
	Boothold Page // where the loader looks for its hold word
	Crash    Page // where the watchdog driver leaves its record of a panic
	Watchdog Watchdog

	// modelPart is what a model string of this board contains.
	modelPart string
}

// Partition is one MTD partition. Offsets count from the start of the flash.
type Partition struct {
	Label    string
	Offset   uint32
	Size     uint32
	ReadOnly bool // the device tree forbids writing it
}

// EraseBlockBytes is the erase block of every board's flash: the incumbent's
// kernel leaves 4 KiB sectors off.
const EraseBlockBytes = 64 << 10

// GPIO is the bank that all lines are on.
type GPIO struct {
	Chip  string // character device
	Lines []Line
}

// Line names of the boards' device trees, and of ours.
const (
	LineButton    = "reset-button" // pressed is low; no interrupt, it is polled
	LineStatusLED = "status-led"   // lit is low
	LineRadioNRST = "efr32-nrst"   // open drain, reset is low
	LineRadioBoot = "blmode"       // open drain, bootloader entry is low
)

// Line is one wired GPIO line. People look lines up by Name first: the number
// is for a kernel whose device tree names none.
type Line struct {
	Name      string
	Number    uint8
	ActiveLow bool
	OpenDrain bool
}

// Line returns the wired line of that name.
func (g GPIO) Line(name string) (Line, bool) {
	for _, l := range g.Lines {
		if l.Name == name {
			return l, true
		}
	}
	return Line{}, false
}

// LED is one lamp that software has a hand on. Exactly one of Class and Switch
// is not empty.
type LED struct {
	Name   string // status, lan
	Class  string // folder of the LED class below /sys, without the leading slash
	Switch string // file below /sys that takes bright, dim or off: the switch drives this lamp itself
}

// LED names.
const (
	LEDStatus = "status"
	LEDLAN    = "lan"
)

// LED returns the LED of that name.
func (b Board) LED(name string) (LED, bool) {
	for _, l := range b.LEDs {
		if l.Name == name {
			return l, true
		}
	}
	return LED{}, false
}

// RadioPort is the UART that the radio is on.
type RadioPort struct {
	Device string // absolute path
	Baud   int    // when radio.conf gives none
	Flow   string // "hw" or "sw", when neither radio.conf nor the kernel says
	// HardwareFlow tells whether RTS and CTS are wired. Where they are not,
	// "hw" would wait for a CTS that never comes: use "sw" instead, as the
	// incumbent's driver does.
	HardwareFlow bool
	// ClockHz is the UART's baud base: a divisor of one gives this rate.
	ClockHz int
	// Chip is the radio itself, as far as it is known.
	Chip RadioChip
	// BaseBaud is what to set with TIOCSSERIAL before any other rate than
	// 115200 works; 0 leaves the driver alone.
	BaseBaud int
}

// RadioChip is what is known of the radio's chip. Zero: nothing.
type RadioChip struct {
	Name       string
	FlashBytes uint32 // from address 0
	AppStart   uint32 // where applications begin, behind the bootloader
}

// Console is the serial console.
type Console struct {
	Device string // absolute path
	Baud   int
}

// Page is a page of RAM that the kernel leaves alone and a reset does not
// clear. Base 0 means that there is none.
type Page struct {
	Base  uint32 // physical
	Bytes uint32
}

// Top is the first address behind the page.
func (p Page) Top() uint32 { return p.Base + p.Bytes }

// Watchdog is the hardware watchdog.
type Watchdog struct {
	Device string // absolute path
	// ReportedSeconds is the timeout that the driver names, HardwareSeconds
	// the one it takes: the SoC's longest, whatever is set.
	ReportedSeconds int
	HardwareSeconds int
	// Settable tells whether WDIOC_SETTIMEOUT changes when the reset comes.
	Settable bool
}

// Partition returns the partition of that label.
func (b Board) Partition(label string) (Partition, bool) {
	for _, p := range b.Flash {
		if p.Label == label {
			return p, true
		}
	}
	return Partition{}, false
}
