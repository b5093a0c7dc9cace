package board

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gwinit/internal/mtdimage"
)

func TestParseTrace(t *testing.T) {
	tests := []struct {
		name, line    string
		divisor, rate int
		ok            bool
	}{
		{"115200 of 12.5 MHz", "4711@1764509300.1:serial_update_parameters baudrate=1066 parity=N data=8 stop=1", 108, 115740, true},
		{"460800", "serial_update_parameters baudrate=4266 parity=N data=8 stop=1", 27, 462962, true},
		{"691200", "serial_update_parameters baudrate=6400 parity=N data=8 stop=1", 18, 694444, true},
		{"892857", "serial_update_parameters baudrate=8228 parity=N data=8 stop=1", 14, 892857, true},
		{"38400, the last that is exact", "serial_update_parameters baudrate=353 parity=N data=8 stop=1", 326, 38343, true},
		{"9600 is near", "serial_update_parameters baudrate=88 parity=N data=8 stop=1", 1302, 9600, true},
		{"console", "serial_update_parameters baudrate=115200 parity=N data=8 stop=1", 1, 12500000, true},
		{"none", "serial_update_parameters baudrate=0 parity=N", 0, 0, false},
		{"something else", "qemu-system-mips: warning: speed=4", 0, 0, false},
		{"too large", "serial_update_parameters baudrate=99999999999999999999 ", 0, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseTrace(tt.line)
			if want := (Baud{tt.divisor, tt.rate}); ok != tt.ok || got != want {
				t.Errorf("got %+v %v, want %+v %v", got, ok, want, tt.ok)
			}
		})
	}
}

// Every divisor that a radio's rate gives comes back.
func TestParseTraceExact(t *testing.T) {
	for divisor := 1; divisor <= 330; divisor++ {
		line := "serial_update_parameters baudrate=" + itoa(qemuClock/divisor) + " parity=N"
		if got, ok := parseTrace(line); !ok || got.Divisor != divisor {
			t.Errorf("divisor %d: got %+v %v", divisor, got, ok)
		}
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestBaudsDropOldest(t *testing.T) {
	m := &Machine{bauds: make(chan Baud, 2)}
	for _, d := range []int{4, 5, 6} {
		m.tellBaud(Baud{Divisor: d})
	}
	if a, b := <-m.Bauds(), <-m.Bauds(); a.Divisor != 5 || b.Divisor != 6 {
		t.Errorf("got %d and %d, want 5 and 6", a.Divisor, b.Divisor)
	}
}

func TestParseUsernet(t *testing.T) {
	const text = `Hub -1 (n0):
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ
  TCP[SYN_SENT]       9       127.0.0.1 41969       10.0.2.15  8888     0     0
  TCP[HOST_FORWARD]  12       127.0.0.1 46207       10.0.2.15    22     0     0
  TCP[HOST_FORWARD]  11       127.0.0.1 41969       10.0.2.15  8888     0     0
  UDP[236 sec]       13       10.0.2.15 51000       10.0.2.3     53     0     0
`
	want := []forward{{"SYN_SENT", 41969, 8888}, {"HOST_FORWARD", 46207, 22}, {"HOST_FORWARD", 41969, 8888}}
	if got := parseUsernet(text); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseCount(t *testing.T) {
	tests := []struct {
		line string
		want Instructions
		ok   bool
	}{
		{"gwcount: listen 289305765 24907788 1931101", Instructions{289305765, 24907788, 1931101}, true},
		{"gwcount: start 0 0 0", Instructions{}, false},
		{"gwcount: listen 1 2", Instructions{}, false},
	}
	for _, tt := range tests {
		got, ok := parseCount(tt.line)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: got %v %v, want %v %v", tt.line, got, ok, tt.want, tt.ok)
		}
	}
	if got := (Instructions{1, 2, 3}).Total(); got != 6 {
		t.Errorf("total %d", got)
	}
}

func TestWriteFlash(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string, b []byte) string {
		t.Helper()
		if err := os.WriteFile(path(name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	read := func(name string, at, n int) []byte {
		t.Helper()
		b, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		return b[at : at+n]
	}
	rootfs := []byte("hsqs and more")
	wrapped := put("rootfs.bin", mtdimage.Wrap(mtdimage.RootfsHeader, rootfs))
	cfg := Config{Dir: dir, RAMMiB: 32, Rootfs: wrapped, Userdata: put("userdata", []byte{0x19, 0x85, 1})}
	if err := writeFlash(cfg); err != nil {
		t.Fatal(err)
	}
	if got := read(norFile, 0, 5); !bytes.Equal(got, []byte{0x0b, 0xf0, 0, 4, 0xff}) {
		t.Errorf("boot+cfg begins % x", got)
	}
	if got := read(norFile, rootfsOffset, len(rootfs)); !bytes.Equal(got, rootfs) {
		t.Errorf("rootfs partition begins %q", got)
	}
	if got := read(ramFile, 32<<20, 4); !bytes.Equal(got, []byte{0x19, 0x85, 1, 0xff}) {
		t.Errorf("jffs2-fs begins % x", got)
	}
	if st, err := os.Stat(path(ramFile)); err != nil || st.Size() != 48<<20 {
		t.Errorf("ram file: %v %v", st, err)
	}

	// A later machine keeps jffs2-fs, takes the new rootfs, and finds RAM lost.
	f, err := os.OpenFile(path(ramFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0x1ffeffc, 32 << 20} {
		if _, err := f.WriteAt([]byte("HOLD"), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Keep, cfg.Rootfs = true, put("bare", []byte("hsqs new"))
	if err := writeFlash(cfg); err != nil {
		t.Fatal(err)
	}
	if err := loseRAM(dir, 32); err != nil {
		t.Fatal(err)
	}
	if got := read(norFile, rootfsOffset, 8); string(got) != "hsqs new" {
		t.Errorf("rootfs partition begins %q", got)
	}
	if got := read(ramFile, 0x1ffeffc, 4); !bytes.Equal(got, make([]byte, 4)) {
		t.Errorf("RAM has % x after a power cut", got)
	}
	var flash bytes.Buffer
	if err := readFlash(dir, 32, &flash); err != nil || flash.Len() != userdataSize || !bytes.HasPrefix(flash.Bytes(), []byte("HOLD")) {
		t.Errorf("jffs2-fs: %v, %d bytes", err, flash.Len())
	}

	cfg.Keep = false
	if err := writeFlash(cfg); err != nil {
		t.Fatal(err)
	}
	if got := read(ramFile, 32<<20, 2); !bytes.Equal(got, []byte{0x19, 0x85}) {
		t.Errorf("jffs2-fs begins % x after a fresh start", got)
	}
	cfg.Rootfs = put("large", make([]byte, mtdimage.RootfsSize+1))
	if err := writeFlash(cfg); err == nil || !strings.Contains(err.Error(), "1 more than") {
		t.Errorf("a rootfs that does not fit: %v", err)
	}
}

func TestMoveBoothold(t *testing.T) {
	one := append([]byte("..boothold@1ffe000\x00..\x01\xff\xe0\x00\x00\x00\x10\x00.."), "rest"...)
	got, err := moveBoothold(one)
	if err != nil || string(got) != "..boothold@3ffe000\x00..\x03\xff\xe0\x00\x00\x00\x10\x00..rest" {
		t.Errorf("got %q %v", got, err)
	}
	for name, kernel := range map[string][]byte{"foreign": []byte("vmlinux"), "twice": append(one, one...)} {
		if _, err := moveBoothold(kernel); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestQMP(t *testing.T) {
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() {
		defer theirs.Close()
		d := json.NewDecoder(theirs)
		for _, line := range []string{
			`{"QMP": {"version": {}}}`,
			`{"return": {}}`,
			`{"event": "STOP"}` + "\n" + `{"return": "text\r\n"}`,
			`{"error": {"class": "GenericError", "desc": "no such thing"}}`,
		} {
			if !strings.Contains(line, "QMP") {
				var q map[string]any
				if err := d.Decode(&q); err != nil {
					done <- err
					return
				}
			}
			if _, err := io.WriteString(theirs, line+"\n"); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	q, err := newQMP(ours)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := q.monitor("info"); err != nil || text != "text\r\n" {
		t.Errorf("monitor: %q %v", text, err)
	}
	if _, err := q.do("x", nil); err == nil || err.Error() != "qmp: x: no such thing" {
		t.Errorf("error: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := q.do("x", nil); err == nil {
		t.Error("a QEMU that is gone gives no error")
	}
	ours.Close()
}

func TestEscape(t *testing.T) {
	if got := escape("/a,b"); got != "/a,,b" {
		t.Errorf("got %s", got)
	}
}

// What QEMU prints is read by line; whatever it is, reading it ends in a
// sensible value or none.
func FuzzLines(f *testing.F) {
	f.Add("serial_update_parameters baudrate=1066 parity=N")
	f.Add("  TCP[SYN_SENT]       9       127.0.0.1 41969       10.0.2.15  8888     0     0")
	f.Add("gwcount: listen 1 2 3")
	f.Fuzz(func(t *testing.T, line string) {
		if b, ok := parseTrace(line); ok != (b.Divisor > 0) {
			t.Errorf("%q: %+v %v", line, b, ok)
		}
		for _, p := range parseUsernet(line) {
			if p.state == "" || p.host < 0 || p.guest < 0 {
				t.Errorf("%q: %+v", line, p)
			}
		}
		parseCount(line)
	})
}
