package symbols

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// pack makes a symbol file of contents.
func pack(tb testing.TB, contents []byte) []byte {
	tb.Helper()
	sum := sha256.Sum256(contents)
	var b bytes.Buffer
	b.WriteString(magic + hex.EncodeToString(sum[:])[:idLength] + "\n")
	z := zlib.NewWriter(&b)
	if _, err := z.Write(contents); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// contents encodes numbers as the linker does: an int as a difference, a uint
// as a number, a string with its length.
func contents(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case uint:
			b = binary.AppendUvarint(b, uint64(p))
		case int:
			b = binary.AppendVarint(b, int64(p))
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
		}
	}
	return b
}

// small has main.main (at 0x1000, 64 bytes) with main.third inlined in
// main.second inlined in it, runtime.gopanic, a generic function, and one of
// another language.
var small = contents(
	uint(8), "main.main", "main.second", "main.third", "/src/main.go", "runtime.gopanic", "/go/panic.go", "main.largest[go.shape.int]", "memcpy",
	uint(4), uint(4),
	uint(0x1000), uint(64), uint(0), uint(7), // main.main, func at line 7
	uint(2), uint(1), uint(8), uint(2), uint(16), // second called at 8, third called at 16 (within second)
	uint(4),
	uint(0), 4, 10, 0, // 0: main.go:10
	uint(4), 0, 10, 1, // 16: main.go:20 in second
	uint(2), 0, 10, 1, // 24: main.go:30 in third
	uint(4), 0, -19, -2, // 40: main.go:11
	uint(0), uint(16), uint(4), uint(3), uint(0), uint(1), uint(0), 6, 860, 0,
	uint(16), uint(32), uint(6), uint(50), uint(0), uint(1), uint(0), 4, 55, 0,
	uint(0), uint(16), uint(7), uint(0), uint(0), uint(0),
)

func table(tb testing.TB) *Table {
	tb.Helper()
	t, err := Read(bytes.NewReader(pack(tb, small)))
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestFrames(t *testing.T) {
	t.Parallel()
	f := table(t)
	for _, tt := range []struct {
		pc   uint64
		want []Frame
	}{
		{0xfff, nil},
		{0x1000, []Frame{{Func: "main.main", File: "/src/main.go", Line: 10}}},
		{0x100f, []Frame{{Func: "main.main", File: "/src/main.go", Line: 10, Offset: 15}}},
		{0x1010, []Frame{
			{Func: "main.second", File: "/src/main.go", Line: 20, Inlined: true, Offset: 16},
			{Func: "main.main", File: "/src/main.go", Line: 10, Offset: 16},
		}},
		{0x101c, []Frame{
			{Func: "main.third", File: "/src/main.go", Line: 30, Inlined: true, Offset: 28},
			{Func: "main.second", File: "/src/main.go", Line: 20, Inlined: true, Offset: 28},
			{Func: "main.main", File: "/src/main.go", Line: 10, Offset: 28},
		}},
		{0x103f, []Frame{{Func: "main.main", File: "/src/main.go", Line: 11, Offset: 63}}},
		{0x1040, []Frame{{Func: "runtime.gopanic", File: "/go/panic.go", Line: 860}}},
		{0x1050, nil}, // between two
		{0x1060, []Frame{{Func: "main.largest[go.shape.int]", File: "/src/main.go", Line: 55}}},
		{0x1080, []Frame{{Func: "memcpy"}}},
		{0x1090, nil},
		{1<<64 - 1, nil},
	} {
		if got := f.Frames(tt.pc); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Frames(%#x) = %+v, want %+v", tt.pc, got, tt.want)
		}
	}
	if f.Frames(0x1080)[0].Position() != "?" || f.Frames(0x1040)[0].Position() != "/go/panic.go:860" {
		t.Error("Position is not FILE:LINE or ?")
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	good := pack(t, small)
	other := bytes.Clone(good)
	other[len(magic)] ^= 1 // another hexadecimal digit, or none
	if !isID(string(other[len(magic) : len(magic)+idLength])) {
		other[len(magic)] = '0'
	}
	cut := func(n int) []byte { return pack(t, small[:n]) }
	for name, b := range map[string][]byte{
		"nothing":              nil,
		"other text":           []byte("gateway, what is your name? It is long enough for a head\n"),
		"upper-case ID":        bytes.ToUpper(good),
		"head alone":           good[:len(magic)+idLength+1],
		"cut":                  good[:len(good)-5],
		"other ID":             other,
		"cut contents":         cut(len(small) - 1),
		"contents of a head":   cut(3),
		"something behind":     pack(t, append(bytes.Clone(small), 0)),
		"no quantum":           pack(t, contents(uint(0), uint(0), uint(0))),
		"a count too large":    pack(t, contents(uint(1<<40))),
		"a name too long":      pack(t, contents(uint(1), uint(1<<62))),
		"a name that is none":  pack(t, contents(uint(1), "a", uint(4), uint(1), uint(0), uint(4), uint(1), uint(0), uint(0), uint(0))),
		"an impossible entry":  pack(t, contents(uint(1), "a", uint(4), uint(1), uint(1<<63), uint(4), uint(0), uint(0), uint(0), uint(0))),
		"a line below 0":       pack(t, contents(uint(1), "a", uint(4), uint(1), uint(4), uint(4), uint(0), uint(0), uint(0), uint(1), uint(0), 0, -1, 0)),
		"a call that is none":  pack(t, contents(uint(1), "a", uint(4), uint(1), uint(4), uint(4), uint(0), uint(0), uint(0), uint(1), uint(0), 0, 0, 1)),
		"a file that is none":  pack(t, contents(uint(1), "a", uint(4), uint(1), uint(4), uint(4), uint(0), uint(0), uint(0), uint(1), uint(0), 2, 0, 0)),
		"an impossible offset": pack(t, contents(uint(1), "a", uint(4), uint(1), uint(4), uint(4), uint(0), uint(0), uint(0), uint(1), uint(1<<63), 0, 0, 0)),
	} {
		if _, err := Read(bytes.NewReader(b)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", name, err)
		}
	}
}

// An inlined call that is its own caller ends all the same.
func TestFramesOfALoop(t *testing.T) {
	t.Parallel()
	b := contents(uint(1), "a", uint(4), uint(1), uint(4), uint(4), uint(0), uint(0),
		uint(1), uint(0), uint(0), uint(1), uint(0), 0, 1, 1)
	f, err := Read(bytes.NewReader(pack(t, b)))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.Frames(4)); n == 0 || n > 3 {
		t.Errorf("%d frames", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(small)
	f.Add(contents(uint(1), "a", uint(4), uint(1), uint(4), uint(4), uint(0), uint(0), uint(1), uint(0), uint(0), uint(1), uint(0), 0, 1, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := Read(bytes.NewReader(pack(t, b)))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v is not ErrFormat", err)
			}
			return
		}
		for _, fn := range tab.funcs {
			for _, pc := range []uint64{fn.entry, fn.entry + fn.size/2, fn.entry + fn.size - 1} {
				if frames := tab.Frames(pc); len(frames) == 0 && fn.size > 0 && pc >= fn.entry && pc-fn.entry < fn.size && !covered(tab, pc) {
					t.Errorf("no frame at %#x", pc)
				}
			}
		}
	})
}

// covered tells whether a later function without bytes begins at or before pc:
// nothing says then whose it is.
func covered(t *Table, pc uint64) bool {
	return slices.ContainsFunc(t.funcs, func(f function) bool { return f.size == 0 && f.entry <= pc })
}

const (
	unknown = "00000000000000000000"
	crash   = `panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x8 pc=0x101c]
build id: ID

goroutine 1 [running]:
main.third(...)
	pc=0x101c
main.second(...)
	pc=0x1010
main.main(...)
	pc=0x1008 +0x1c
panic(...)
	pc=0x1043 +0x8
main.largest[...](...)
	pc=0x1067 +0x8 fp=0x7fff0010 sp=0x7fff0000 pc=0x1068
created by main.main in goroutine 3
	pc=0x1003 +0x8
runtime.lost(...)
	pc=0x9999 +0x8
exit status 2
`
	lines = `panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x8 pc=0x101c]  <- main.third /src/main.go:30, called by main.second /src/main.go:20, called by main.main /src/main.go:10
build id: ID

goroutine 1 [running]:
main.third(...)
	/src/main.go:30
main.second(...)
	/src/main.go:20
main.main(...)
	/src/main.go:10 +0x1c
panic(...)
	/go/panic.go:860 +0x8
main.largest[...](...)
	/src/main.go:55 +0x8 fp=0x7fff0010 sp=0x7fff0000 pc=0x1068
created by main.main in goroutine 3
	/src/main.go:10 +0x8
runtime.lost(...)
	? +0x8
exit status 2
`
)

func TestTranslate(t *testing.T) {
	t.Parallel()
	tab := table(t)
	withID := func(s string) string { return strings.ReplaceAll(s, "ID", tab.ID()) }
	noID := strings.NewReplacer("build id: ID\n", "", "runtime.lost(...)\n\tpc=0x9999 +0x8\n", "", "runtime.lost(...)\n\t? +0x8\n", "")
	prefixed := func(s, prefix, end string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			b.WriteString(prefix + strings.TrimSuffix(line, "\n") + end)
		}
		return b.String()
	}
	for _, tt := range []struct{ name, in, want string }{
		{"a crash", crash, lines},
		{"from a serial line", prefixed(crash, "", "\r\n"), prefixed(lines, "", "\r\n")},
		{"from a log", prefixed(crash, "2026-11-30T19:00:00Z bridge: ", "\n"), prefixed(lines, "2026-11-30T19:00:00Z bridge: ", "\n")},
		{"from the kernel's log", prefixed(crash, "[   12.345678] ", "\n"), prefixed(lines, "[   12.345678] ", "\n")},
		{"without build ID", noID.Replace(crash), noID.Replace(lines)},
		{"no end of the last line", strings.TrimSuffix(crash, "\n"), strings.TrimSuffix(lines, "\n")},
		{"nothing", "", ""},
		{"no trace", "# cat /etc/passwd\r\nroot\r\n", "# cat /etc/passwd\r\nroot\r\n"},
		{
			"a dump on SIGQUIT",
			"SIGQUIT: quit\nPC=0x1040 m=0 sigcode=0\nbuild id: ID\n\ngoroutine 0 gp=0x1 m=0 mp=0x2 [idle]:\nr29  0x1040\tr30  0x1040\npc   0x1040\tlink 0x1010\n",
			"SIGQUIT: quit\nPC=0x1040 m=0 sigcode=0  <- runtime.gopanic /go/panic.go:860\nbuild id: ID\n\ngoroutine 0 gp=0x1 m=0 mp=0x2 [idle]:\nr29  0x1040\tr30  0x1040\npc   0x1040\tlink 0x1010  <- runtime.gopanic /go/panic.go:860\n",
		},
		{
			"the kernel on a fault",
			"build id: ID\n[ 1.0] do_page_fault(): sending SIGSEGV to gw for invalid read access from 00001010\n[ 1.0] epc = 00001040 in gw[1000+3c4000]\n[ 1.0] ra  = 00001010 in gw[1000+3c4000]\nepc   : 00001062 0x1\nRLX: Unhandled reserved instruction at EPC=00001000, opcode=0, pid 5 (gw)\n",
			"build id: ID\n[ 1.0] do_page_fault(): sending SIGSEGV to gw for invalid read access from 00001010\n[ 1.0] epc = 00001040 in gw[1000+3c4000]  <- runtime.gopanic /go/panic.go:860\n[ 1.0] ra  = 00001010 in gw[1000+3c4000]  <- main.main /src/main.go:10\nepc   : 00001062 0x1  <- main.largest[go.shape.int] /src/main.go:55\nRLX: Unhandled reserved instruction at EPC=00001000, opcode=0, pid 5 (gw)  <- main.main /src/main.go:10\n",
		},
		{
			"what looks like a pc",
			"build id: ID\nspc=0x1000\npc=1000\npc=0x\npc=0x1000g\npc=0x10000000000000000\nra 00001010\n",
			"build id: ID\nspc=0x1000\npc=1000\npc=0x\npc=0x1000g\npc=0x10000000000000000\nra 00001010\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Translate([]byte(withID(tt.in)), map[string]*Table{tab.ID(): tab})
			if err != nil || string(got) != withID(tt.want) {
				t.Errorf("%v\n%s\nwant\n%s", err, got, withID(tt.want))
			}
		})
	}
}

func TestTranslateWrongBuild(t *testing.T) {
	t.Parallel()
	tab := table(t)
	for name, in := range map[string]string{
		"another build's trace":                strings.ReplaceAll(crash, "ID", unknown),
		"of two builds, one is known":          strings.ReplaceAll(crash, "ID", tab.ID()) + strings.ReplaceAll(crash, "ID", unknown),
		"no build ID, another function":        "main.other(...)\n\tpc=0x1000 +0x8\n",
		"no build ID, no function":             "main.main(...)\n\tpc=0x9000 +0x8\n",
		"no build ID, started by another one":  "created by main.other in goroutine 1\n\tpc=0x1000 +0x8\n",
		"no build ID, another one was inlined": "main.main(...)\r\n\tpc=0x1010 +0x8\r\n",
	} {
		if out, err := Translate([]byte(in), map[string]*Table{tab.ID(): tab}); !errors.Is(err, ErrBuild) {
			t.Errorf("%s: %v, %s; want ErrBuild", name, err, out)
		}
	}
}

// Two firmwares in one log: each trace is of the build that it names.
func TestTranslateTwoBuilds(t *testing.T) {
	t.Parallel()
	a := table(t)
	moved := bytes.Replace(small, contents(uint(0x1000), uint(64)), contents(uint(0x2000), uint(64)), 1)
	b, err := Read(bytes.NewReader(pack(t, moved)))
	if err != nil {
		t.Fatal(err)
	}
	in := strings.ReplaceAll(crash, "ID", a.ID()) + strings.ReplaceAll(strings.ReplaceAll(crash, "ID", b.ID()), "pc=0x10", "pc=0x20")
	want := strings.ReplaceAll(lines, "ID", a.ID()) + strings.ReplaceAll(strings.ReplaceAll(lines, "ID", b.ID()), "pc=0x10", "pc=0x20")
	got, err := Translate([]byte(in), map[string]*Table{a.ID(): a, b.ID(): b})
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if ids := BuildIDs([]byte(in + in)); !slices.Equal(ids, []string{a.ID(), b.ID()}) {
		t.Errorf("BuildIDs = %q", ids)
	}
}

func FuzzTranslate(f *testing.F) {
	tab := table(f)
	f.Add([]byte(strings.ReplaceAll(crash, "ID", tab.ID())))
	f.Add([]byte("epc   : 00001062 0x1\r\npc=0x1000\r\nra 0x"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := Translate(in, map[string]*Table{tab.ID(): tab})
		if err != nil {
			if !errors.Is(err, ErrBuild) {
				t.Errorf("%v is not ErrBuild", err)
			}
			return
		}
		if a, b := bytes.Count(in, []byte("\n")), bytes.Count(out, []byte("\n")); a != b {
			t.Errorf("%d lines became %d", a, b)
		}
		if !bytes.Contains(bytes.ToLower(in), []byte("0x")) && !bytes.Contains(in, []byte("=")) && !bytes.Contains(in, []byte(":")) && !bytes.Equal(in, out) {
			t.Errorf("%q became %q", in, out)
		}
	})
}

func TestReadID(t *testing.T) {
	t.Parallel()
	if _, err := ReadID(io.LimitReader(strings.NewReader(magic+unknown), 5)); !errors.Is(err, ErrFormat) {
		t.Errorf("a short one: %v", err)
	}
	if id, err := ReadID(strings.NewReader(magic + unknown + "\n")); err != nil || id != unknown {
		t.Errorf("ReadID = %q, %v", id, err)
	}
}
