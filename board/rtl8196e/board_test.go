package rtl8196e

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// The numbers as the boards' device trees and loaders have them, written out:
// a change of one is a change of hardware.
func TestBoards(t *testing.T) {
	nor := []Partition{
		{"boot+cfg", 0, 131072, true},
		{"linux", 131072, 1966080, false},
		{"rootfs", 2097152, 2097152, false},
		{"jffs2-fs", 4194304, 12582912, false},
	}
	lamps := []LED{
		{Name: "status", Class: "sys/class/leds/status"},
		{Name: "lan", Switch: "sys/class/net/eth0/led_mode"},
	}
	lidlLines := []Line{
		{"reset-button", 9, true, false},
		{"status-led", 11, true, false},
		{"efr32-nrst", 12, true, true},
	}
	efr32mg1b := RadioChip{"EFR32MG1B232F256GM48", 262144, 0x4000}
	want := []Board{
		{
			ID: "lidl", Model: "Lidl Silvercrest Gateway", modelPart: "Lidl", Vendor: "Lidl", Product: "Silvercrest",
			RAMBytes: 33554432, Flash: nor, GPIO: GPIO{"/dev/gpiochip0", lidlLines}, LEDs: lamps,
			Radio:    RadioPort{Device: "/dev/ttyS1", Baud: 460800, Flow: "hw", HardwareFlow: true, ClockHz: 12500000, Chip: efr32mg1b},
			Console:  Console{"/dev/ttyS0", 38400},
			Boothold: Page{0x01FFE000, 4096}, Crash: Page{0x01FFD000, 4096},
			Watchdog: Watchdog{Device: "/dev/watchdog", ReportedSeconds: 60, HardwareSeconds: 671},
		},
		{
			ID: "sengled-e39-g8c", Model: "Sengled Smart Hub G4 E39-G8C", modelPart: "Sengled", Vendor: "Sengled", Product: "E39-G8C",
			RAMBytes: 67108864, Flash: nor,
			GPIO: GPIO{"/dev/gpiochip0", []Line{
				{"reset-button", 14, true, false},
				{"status-led", 12, true, false},
				{"efr32-nrst", 11, true, true},
				{"blmode", 13, true, true},
			}},
			LEDs:     lamps,
			Radio:    RadioPort{Device: "/dev/ttyS1", Baud: 460800, Flow: "sw", ClockHz: 12500000},
			Console:  Console{"/dev/ttyS0", 38400},
			Boothold: Page{0x03FFE000, 4096}, Crash: Page{0x01FFD000, 4096},
			Watchdog: Watchdog{Device: "/dev/watchdog", ReportedSeconds: 60, HardwareSeconds: 671},
		},
		{
			ID: "emulated", Model: "QEMU malta gateway", Vendor: "QEMU", Product: "malta", Emulated: true,
			RAMBytes: 33554432, Flash: nor, GPIO: GPIO{"/dev/gpiochip0", lidlLines}, LEDs: lamps,
			Radio:    RadioPort{Device: "/dev/ttyS1", Baud: 460800, Flow: "hw", HardwareFlow: true, ClockHz: 12500000, BaseBaud: 12500000, Chip: efr32mg1b},
			Console:  Console{"/dev/ttyS0", 38400},
			Boothold: Page{0x01FFE000, 4096}, Crash: Page{0x01FFD000, 4096},
			Watchdog: Watchdog{Device: "/dev/watchdog", ReportedSeconds: 60, HardwareSeconds: 60, Settable: true},
		},
	}
	for _, w := range want {
		t.Run(w.ID, func(t *testing.T) {
			got, ok := ByID(w.ID)
			if !ok {
				t.Fatal("unknown")
			}
			if !reflect.DeepEqual(got, w) {
				t.Errorf("got  %+v\nwant %+v", got, w)
			}
		})
	}
	if _, ok := ByID(Unknown); ok {
		t.Error("there is a board of the ID unknown")
	}
}

// What holds for every board, whatever its numbers.
func TestConsistent(t *testing.T) {
	for _, id := range []string{Lidl, Sengled, Emulated} {
		b, _ := ByID(id)
		end := uint32(0)
		for _, p := range b.Flash {
			if p.Offset != end || p.Size == 0 || p.Size%EraseBlockBytes != 0 {
				t.Errorf("%s: partition %s at %#x, %#x long, behind %#x", id, p.Label, p.Offset, p.Size, end)
			}
			end = p.Offset + p.Size
		}
		if end != 16<<20 {
			t.Errorf("%s: the flash ends at %#x", id, end)
		}
		// The loader looks for its words at the top of the RAM that it found.
		if b.Boothold.Base != b.RAMBytes-0x2000 {
			t.Errorf("%s: boothold page at %#x of %#x", id, b.Boothold.Base, b.RAMBytes)
		}
		if b.Crash.Top() > b.Boothold.Base {
			t.Errorf("%s: the pages overlap", id)
		}
		used := map[uint8]string{}
		for _, l := range b.GPIO.Lines {
			if other, ok := used[l.Number]; ok || l.Number > 31 {
				t.Errorf("%s: %s on line %d with %q", id, l.Name, l.Number, other)
			}
			used[l.Number] = l.Name
		}
		if (b.Radio.Flow == "hw") != b.Radio.HardwareFlow {
			t.Errorf("%s: flow %s with hardware flow %v", id, b.Radio.Flow, b.Radio.HardwareFlow)
		}
	}
}

func TestLookups(t *testing.T) {
	b, _ := ByID(Sengled)
	if l, ok := b.GPIO.Line(LineButton); !ok || l.Number != 14 {
		t.Errorf("button = %+v, %v", l, ok)
	}
	lidl, _ := ByID(Lidl)
	if l, ok := lidl.GPIO.Line(LineRadioBoot); ok {
		t.Errorf("the Lidl has a bootloader line: %+v", l)
	}
	if p, ok := b.Partition(PartUserdata); !ok || p.Size != 12<<20 {
		t.Errorf("userdata = %+v, %v", p, ok)
	}
	if _, ok := b.Partition("none"); ok {
		t.Error("there is a partition none")
	}
	if l, ok := b.LED(LEDLAN); !ok || l.Class != "" || l.Switch == "" {
		t.Errorf("LAN LED = %+v, %v", l, ok)
	}
	if _, ok := b.LED("power"); ok {
		t.Error("there is a power LED")
	}
	// One board's data is not another's.
	b.GPIO.Lines[0].Number = 99
	b.Flash[0].Size = 1
	if again, _ := ByID(Sengled); again.GPIO.Lines[0].Number == 99 || again.Flash[0].Size == 1 {
		t.Error("a change of one Board shows in the next")
	}
}

func TestDetect(t *testing.T) {
	tests := []struct {
		name       string
		model      string
		compatible string
		cmdline    string
		id         string
		want       string // Model
		emulated   bool
		flow       string
		ram        uint32
	}{
		{"Lidl", "Lidl Silvercrest Gateway\x00", "realtek,rtl8196e\x00realtek,rtl819x-soc\x00", "console=ttyS0,38400", Lidl, "Lidl Silvercrest Gateway", false, "hw", 32 << 20},
		{"Sengled", "Sengled Smart Hub G4 E39-G8C\x00", "realtek,rtl8196e\x00realtek,rtl819x-soc\x00", "", Sengled, "Sengled Smart Hub G4 E39-G8C", false, "sw", 64 << 20},
		{"a board of a later device tree", "Lidl Silvercrest Gateway v2\x00", "realtek,rtl8196e\x00", "", Lidl, "Lidl Silvercrest Gateway v2", false, "hw", 32 << 20},
		{"the parameter is for the emulated board", "Lidl Silvercrest Gateway\x00", "realtek,rtl8196e\x00", "gw.board=sengled-e39-g8c", Lidl, "Lidl Silvercrest Gateway", false, "hw", 32 << 20},
		{"emulated", "", "mti,malta\x00", "console=ttyS0", Emulated, "QEMU malta gateway", true, "hw", 32 << 20},
		{"emulated with a model", "gateway on malta\x00", "mti,malta\x00", "", Emulated, "gateway on malta", true, "hw", 32 << 20},
		{"emulated Lidl", "", "x\x00mti,malta\x00", "gw.board=lidl\n", Lidl, "Lidl Silvercrest Gateway", true, "hw", 32 << 20},
		{"emulated Sengled", "", "mti,malta\x00", "gw.board=lidl a=b gw.board=sengled-e39-g8c\n", Sengled, "Sengled Smart Hub G4 E39-G8C", true, "sw", 64 << 20},
		{"emulated, nobody's", "", "mti,malta\x00", "gw.board=other", Emulated, "QEMU malta gateway", true, "hw", 32 << 20},
		{"unknown", "Some Router\x00", "realtek,rtl8196e\x00", "", Unknown, "Some Router", false, "hw", 32 << 20},
		{"no device tree", "", "", "", Unknown, "", false, "hw", 32 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range map[string]string{modelPath: tt.model, compatiblePath: tt.compatible, cmdlinePath: tt.cmdline} {
				if text == "" {
					continue
				}
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			b := Detect(root)
			if b.ID != tt.id || b.Model != tt.want || b.Emulated != tt.emulated || b.Radio.Flow != tt.flow || b.RAMBytes != tt.ram {
				t.Errorf("Detect = %s, %q, emulated %v, flow %s, RAM %d", b.ID, b.Model, b.Emulated, b.Radio.Flow, b.RAMBytes)
			}
			if (b.Radio.BaseBaud != 0) != tt.emulated {
				t.Errorf("base baud %d", b.Radio.BaseBaud)
			}
		})
	}
}
