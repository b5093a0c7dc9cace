package ezsp

import (
	"bytes"
	"testing"

	"gwinit/internal/radioproto/radioprototest"
)

// The three forms of a header (UG100 section 3.1).
func TestCommands(t *testing.T) {
	for _, tt := range []struct {
		name    string
		version uint8
		id      uint16
		params  []byte
		want    string
	}{
		{"the first version command", 0, Version, []byte{4}, "07 00 00 04"},
		{"version 4", 4, LaunchStandaloneBootloader, []byte{BootloaderNormalMode}, "07 00 8F 01"},
		{"version 7", 7, LaunchStandaloneBootloader, []byte{BootloaderNormalMode}, "07 00 FF 00 8F 01"},
		{"version 13", 13, LaunchStandaloneBootloader, []byte{BootloaderNormalMode}, "07 00 01 8F 00 01"},
	} {
		if got := AppendCommand(nil, tt.version, 7, tt.id, tt.params...); !bytes.Equal(got, radioprototest.Unhex(t, tt.want)) {
			t.Errorf("%s: % x, want %s", tt.name, got, tt.want)
		}
	}
}

func TestResponses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		in     string
		seq    uint8
		id     uint16
		params string
		ok     bool
	}{
		{"version of EmberZNet 7.5.1", "00 80 00 0D 02 10 75", 0, Version, "0D 02 10 75", true},
		{"version 8 and later", "01 80 01 00 00 0D 02 10 75", 1, Version, "0D 02 10 75", true},
		{"version 5 to 7", "02 80 FF 00 8F 00", 2, LaunchStandaloneBootloader, "00", true},
		{"version 13", "03 80 01 8F 00 00", 3, LaunchStandaloneBootloader, "00", true},
		{"invalid command", "03 80 01 58 00 31", 3, 0x58, "31", false},
		{"a command", "03 00 01 8F 00 01", 0, 0, "", false},
		{"short", "03 80", 0, 0, "", false},
		{"nothing", "", 0, 0, "", false},
	} {
		seq, id, params, ok := ParseResponse(radioprototest.Unhex(t, tt.in))
		if seq != tt.seq || id != tt.id || ok != tt.ok || !bytes.Equal(params, radioprototest.Unhex(t, tt.params)) {
			t.Errorf("%s: sequence %d, ID %#x, % x, %v", tt.name, seq, id, params, ok)
		}
	}
}

func TestStackVersion(t *testing.T) {
	for v, want := range map[uint16]string{0x7510: "7.5.1.0", 0x6AB0: "6.10.11.0", 0: "0.0.0.0"} {
		if got := StackVersion(v); got != want {
			t.Errorf("%#x: %s, want %s", v, got, want)
		}
	}
}

func FuzzParseResponse(f *testing.F) {
	f.Add([]byte{0, 0x80, 0, 13, 2, 0x10, 0x75})
	f.Add([]byte{3, 0x80, 1, 0x8F, 0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		_, id, params, ok := ParseResponse(p)
		if ok && (len(params) > len(p)-3 || id == invalidCommand) || len(p) < 3 && ok {
			t.Errorf("% x: ID %#x, % x", p, id, params)
		}
	})
}
