package check

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gwinit/toolchain/rlx/isa"
)

// stockGo builds a program for MIPS with the Go that runs the test.
func stockGo(t *testing.T, source string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": source, "go.mod": "module hello\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "program")
	cmd := exec.Command("go", append(append([]string{"build", "-p", "1", "-o", out}, flags...), ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOFLAGS=", "GOWORK=off")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	return out
}

const hello = "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"

// TestStockGo: what stock Go makes breaks nearly every rule, at about the counts
// that others measured on a program like this, with or without symbols.
func TestStockGo(t *testing.T) {
	start := time.Now()
	path := stockGo(t, hello)
	t.Logf("built in %v", time.Since(start))
	start = time.Now()
	r, err := File(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d words judged in %v", r.Stats.Words, time.Since(start))
	for rule, least := range map[Rule]int{
		LoadUse: 18000, LoadRace: 20, Forbidden: 500, HILO: 50, LLWithoutSC: 200, Emulated: 1800,
	} {
		if r.Counts[rule] < least {
			t.Errorf("%s: %d, want %d at least", rule, r.Counts[rule], least)
		}
	}
	for name, least := range map[string]int{"mul": 400, "clz": 100, "teq": 8} {
		if r.Mnemonics[name] < least {
			t.Errorf("%s: %d, want %d at least", name, r.Mnemonics[name], least)
		}
	}
	for _, rule := range []Rule{BranchInSlot, BadTarget, RunOff, LoadInSlot} {
		if n := r.Counts[rule]; n != 0 {
			t.Errorf("%s: %d, and a stock program is right there", rule, n)
		}
	}
	s := r.Stats
	if used := 100 * s.LoadsUsed / s.Loads; used < 45 || used > 60 {
		t.Errorf("%d %% of the loads are used at once", used)
	}
	if s.Data != 0 || s.Swept > s.Words/100 || s.LL != s.SC || s.RDHWR != 2 {
		t.Errorf("%d words of data, %d swept of %d, %d LL, %d SC, %d rdhwr", s.Data, s.Swept, s.Words, s.LL, s.SC, s.RDHWR)
	}
	for _, v := range r.Violations {
		if v.Where.Func == "" || v.Where.Line == 0 && v.Rule != RunOff {
			t.Fatalf("a violation without a place: %v", v)
		}
	}

	// The same code, stripped: the functions come from Go's own table.
	stripped, err := File(stockGo(t, hello, "-ldflags=-s -w"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if stripped.Functions != "Go's pclntab" || r.Functions != "symbol table" {
		t.Errorf("functions from %q and %q", r.Functions, stripped.Functions)
	}
	for rule, n := range r.Counts {
		if stripped.Counts[rule] != n {
			t.Errorf("%s: %d, and %d in the stripped program", rule, n, stripped.Counts[rule])
		}
	}
	if v := stripped.Violations[0]; v.Where.Func == "" || v.Where.Line == 0 {
		t.Errorf("a violation without a place in the stripped program: %v", v)
	}
}

// TestGCC: GNU C's code for MIPS I keeps the rules, however it is optimized, with
// and without symbols; its code for MIPS32 does not.
func TestGCC(t *testing.T) {
	gcc, err := exec.LookPath("mips-linux-gnu-gcc")
	if err != nil {
		t.Fatal("no mips-linux-gnu-gcc: install gcc-mips-linux-gnu, as make test does")
	}
	build := func(t *testing.T, flags ...string) *Report {
		t.Helper()
		out := filepath.Join(t.TempDir(), "program")
		args := append([]string{"-mabi=32", "-msoft-float", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector", "-o", out, "testdata/plain.c"}, flags...)
		if b, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, b)
		}
		r, err := File(out, Options{Foreign: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	absolute := []string{"-mno-abicalls", "-fno-pic"}
	for name, flags := range map[string][]string{
		"O2":       append([]string{"-O2"}, absolute...),
		"O0":       append([]string{"-O0"}, absolute...),
		"Os":       append([]string{"-Os"}, absolute...),
		"stripped": append([]string{"-O2", "-s"}, absolute...),
		"pic":      {"-O2", "-mabicalls", "-fPIC"},
		"pic, s":   {"-O2", "-mabicalls", "-fPIC", "-s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := build(t, append([]string{"-march=mips1"}, flags...)...)
			for _, v := range r.Violations {
				t.Error(v)
			}
			if s := r.Stats; s.Words < 200 || s.Loads < 20 || s.Data != 0 || s.MulDiv < 4 {
				t.Errorf("%d words, %d loads, %d words of data, %d products", s.Words, s.Loads, s.Data, s.MulDiv)
			}
		})
	}
	t.Run("mutated", func(t *testing.T) { mutate(t, build(t, append([]string{"-march=mips1", "-O2"}, absolute...)...).Path) })
	t.Run("mips32", func(t *testing.T) {
		r := build(t, "-march=mips32r2", "-O2", "-mno-abicalls", "-fno-pic")
		if r.Counts[LoadUse] < 3 || r.Counts[Forbidden] < 2 {
			t.Errorf("%v", r.Counts)
		}
	})
}

// mutate breaks a program that keeps the rules in one word at a time: each such
// program must be found out, at that word.
func mutate(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".text")
	word := func(i int) []byte { return b[int(s.Offset)+4*i:][:4] }
	read := func(i int) isa.Inst { return isa.Decode(binary.BigEndian.Uint32(word(i))) }
	expect := func(i int, what string, rules ...Rule) {
		t.Helper()
		r, err := Bytes(b, Options{Foreign: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Violations, func(v Violation) bool {
			return v.Addr == uint32(s.Addr)+4*uint32(i) && slices.Contains(rules, v.Rule)
		}) {
			t.Errorf("%s at word %d: %v is not found, only %v", what, i, rules, r.Violations)
		}
	}
	n := map[string]int{}
	for i := range int(s.Size/4) - 3 {
		keep := slices.Clone(b)
		in := read(i)
		// A word that nothing reaches is padding, at a function's end.
		if in.Word != isa.NOP {
			for name, w := range map[string]uint32{"mul": 0x70641002, "teq": 0x00640034, "rotr": 0x00231102, "lwc1": 0xc4620008} {
				binary.BigEndian.PutUint32(word(i), w)
				expect(i, name, Forbidden)
				n["word"]++
			}
			copy(b, keep)
		}
		u := read(i + 2)
		switch {
		case in.Is(isa.Load) && u.Reads()&in.Writes() != 0 && !u.HasSlot() && !read(i+1).HasSlot() && !merges(in, read(i+1)) && !merges(in, u):
			// The use before what stands between.
			copy(word(i+1), keep[int(s.Offset)+4*(i+2):][:4])
			copy(word(i+2), keep[int(s.Offset)+4*(i+1):][:4])
			expect(i, "use moved up", LoadUse)
			n["use"]++
		case in.Is(isa.Jump|isa.Indirect) && read(i+1).Word != isa.NOP:
			// A load in the slot of a return or an unknown call.
			binary.BigEndian.PutUint32(word(i+1), 0x8c620000)
			expect(i+1, "load in slot", LoadInSlot)
			n["slot"]++
		case in.Is(isa.FromHILO) && !read(i+1).HasSlot():
			binary.BigEndian.PutUint32(word(i+1), 0x00640018)
			expect(i, "mult moved up", HILO)
			n["hilo"]++
		}
		copy(b, keep)
	}
	t.Logf("mutants: %v", n)
	if n["word"] < 600 || n["use"] < 5 || n["slot"] < 5 || n["hilo"] < 4 {
		t.Errorf("too few mutants: %v", n)
	}
}
