package rtl8196e

// Labels of the MTD partitions, the same on every board.
const (
	PartBoot     = "boot+cfg"
	PartLinux    = "linux"
	PartRootfs   = "rootfs"
	PartUserdata = "jffs2-fs"
)

// norFlash is the 16 MiB NOR's partition table (device tree; the same on both
// boards). The rootfs image must stay inside its partition with its two bytes
// of checksum.
func norFlash() []Partition {
	return []Partition{
		{Label: PartBoot, Offset: 0x000000, Size: 0x020000, ReadOnly: true},
		{Label: PartLinux, Offset: 0x020000, Size: 0x1E0000},
		{Label: PartRootfs, Offset: 0x200000, Size: 0x200000},
		{Label: PartUserdata, Offset: 0x400000, Size: 0xC00000},
	}
}

// gpiochip is the only bank on the SoC: ports A to D, 8 lines each, so that A0
// is line 0 and B1 is line 9.
const gpiochip = "/dev/gpiochip0"

// leds is the same on every board; which pin a lamp is on is the kernel's
// business (status: a GPIO line; LAN: a pad of the switch).
func leds() []LED {
	return []LED{
		{Name: LEDStatus, Class: "sys/class/leds/status"},
		{Name: LEDLAN, Switch: "sys/class/net/eth0/led_mode"},
	}
}

// uartClockHz is the UARTs' baud base: the 200 MHz bus divided by 16. 892857
// is its 14th part.
const uartClockHz = 200_000_000 / 16

// console is the J1 header's UART on every board: 8N1, no flow control.
func console() Console { return Console{Device: "/dev/ttyS0", Baud: 38400} }

// crashPage is at the same address on both boards, also on the one with 64 MiB
// (device trees).
func crashPage() Page { return Page{Base: 0x01FFD000, Bytes: 0x1000} }

// socWatchdog is the SoC's, with the incumbent's driver: it reports 60 s and
// always arms the longest period, 2^24 ticks of 25 kHz, which is 671 s (681 s
// measured to the reset).
func socWatchdog() Watchdog {
	return Watchdog{Device: "/dev/watchdog", ReportedSeconds: 60, HardwareSeconds: 671}
}

// lidl is the Lidl Silvercrest (Tuya) gateway. Model string, lines, pages and
// wired RTS/CTS: its device tree. 460800 baud: the incumbent's default on
// every board when radio.conf has no FIRMWARE_BAUD. No bootloader line: its
// radio enters the bootloader in band. The radio's flash: its data sheet, and UG266
// for a bootloader of 16 KiB at its front.
func lidl() Board {
	return Board{
		ID: Lidl, Model: "Lidl Silvercrest Gateway", modelPart: "Lidl",
		Vendor: "Lidl", Product: "Silvercrest",
		RAMBytes: 32 << 20,
		Flash:    norFlash(),
		GPIO: GPIO{Chip: gpiochip, Lines: []Line{
			{Name: LineButton, Number: 9, ActiveLow: true},                      // B1
			{Name: LineStatusLED, Number: 11, ActiveLow: true},                  // B3
			{Name: LineRadioNRST, Number: 12, ActiveLow: true, OpenDrain: true}, // B4
		}},
		LEDs: leds(),
		Radio: RadioPort{
			Device: "/dev/ttyS1", Baud: 460800, Flow: "hw", HardwareFlow: true, ClockHz: uartClockHz,
			Chip: RadioChip{Name: "EFR32MG1B232F256GM48", FlashBytes: 256 << 10, AppStart: 0x4000},
		},
		Console:  console(),
		Boothold: Page{Base: 0x01FFE000, Bytes: 0x1000}, // loader and device tree: RAM top - 0x2000
		Crash:    crashPage(),
		Watchdog: socWatchdog(),
	}
}

// sengled is the Sengled Smart Hub G4. Everything from its device tree, which
// deletes the Lidl's hardware flow control: RTS and CTS are not wired.
func sengled() Board {
	b := lidl()
	b.ID, b.Model, b.modelPart = Sengled, "Sengled Smart Hub G4 E39-G8C", "Sengled"
	b.Vendor, b.Product = "Sengled", "E39-G8C"
	b.RAMBytes = 64 << 20
	b.GPIO.Lines = []Line{
		{Name: LineButton, Number: 14, ActiveLow: true},                     // B6
		{Name: LineStatusLED, Number: 12, ActiveLow: true},                  // B4
		{Name: LineRadioNRST, Number: 11, ActiveLow: true, OpenDrain: true}, // B3
		{Name: LineRadioBoot, Number: 13, ActiveLow: true, OpenDrain: true}, // B5
	}
	b.Radio.Flow, b.Radio.HardwareFlow = "sw", false
	b.Radio.Chip = RadioChip{}                         // which one it is depends on the batch
	b.Boothold = Page{Base: 0x03FFE000, Bytes: 0x1000} // loader and device tree: RAM top - 0x2000
	return b
}

// emulated is the Lidl on malta. Its second UART is an 8250 whose clock stops
// at 115200 until base_baud is raised. Its watchdog is the kernel's softdog,
// which fires when it was told to. Its flash map is in /proc/mtd: the machine
// has 4 MiB of NOR; the table here is the gateway's.
func emulated() Board {
	b := lidl()
	b.ID, b.Model, b.modelPart = Emulated, "QEMU malta gateway", ""
	b.Vendor, b.Product = "QEMU", "malta"
	return onMalta(b)
}

// onMalta turns a gateway's data into that of its emulation.
func onMalta(b Board) Board {
	b.Emulated = true
	b.Radio.BaseBaud = b.Radio.ClockHz
	b.Watchdog = Watchdog{Device: "/dev/watchdog", ReportedSeconds: 60, HardwareSeconds: 60, Settable: true}
	return b
}

// ByID returns the data of the board with that ID: Lidl, Sengled or Emulated.
func ByID(id string) (Board, bool) {
	switch id {
	case Lidl:
		return lidl(), true
	case Sengled:
		return sengled(), true
	case Emulated:
		return emulated(), true
	}
	return Board{}, false
}
