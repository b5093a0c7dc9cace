package edits_test

import (
	"bytes"
	"context"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/goroot"
	"gwinit/toolchain/rlx/symbols"
)

// walker looks at what the linker's order could break: function tables (stack
// growth, panics, Callers, frames of inlined functions), types, strings,
// method tables, maps, the collector's masks.
const walker = `package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"reflect"
	"runtime"
	"sort"
	"strings"
)

type shape interface{ area() int }
type square struct{ side int }
type oblong struct {
	a, b int
	name *string
}

func (s square) area() int  { return s.side * s.side }
func (o *oblong) area() int { return o.a * o.b }

var table = map[string]shape{"square": square{3}, "oblong": &oblong{a: 2, b: 5}}
var kept = &[]*string{new(string)}
var words = []string{"b", "a"}
var numbers = [...]uint16{5, 4, 3, 2, 1}

//go:noinline
func deep(n int) (sum int) {
	var room [64]int
	for i := range room {
		room[i] = n
	}
	if n > 0 {
		sum = deep(n - 1)
	}
	return sum + room[n%64]
}

func largest[T int | string](list ...T) (m T) {
	for _, v := range list {
		m = max(m, v)
	}
	return m
}

//go:noinline
func first() { second() }

//go:noinline
func second() { inlined() }

func inlined() { third("three") }

//go:noinline
func third(s string) {
	defer func() {
		err, ok := recover().(error)
		fmt.Println("recovered", ok, err)
		frames()
		var any any = s
		_, ok = any.(shape)
		fmt.Println(ok)
		panic(errors.New("the last word"))
	}()
	var nothing *oblong
	fmt.Println(*nothing.name)
}

func frames() {
	pcs := make([]uintptr, 50)
	list := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = list.Next()
		fmt.Println(f.Function, f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
	}
}

func waits(c chan int) { <-c }

// stopper's method stops a panic, also where a wrapper calls it; that of outer
// does not, as it is one call further away.
type stopper struct{ name string }

func (s stopper) stop() {
	if err := recover(); err != nil {
		fmt.Println(s.name, "stopped", err)
	}
}

type far struct{ stopper }

func (f far) stop() { f.stopper.stop() }

type stops interface{ stop() }

//go:noinline
func falls(s stops) {
	defer s.stop()
	panic("a fall")
}

func recovers() {
	falls(stopper{"value"})
	falls(&stopper{"pointer"})
	falls(struct{ *stopper }{&stopper{"embedded"}})
	falls(&struct{ stopper }{stopper{"promoted"}})
	for _, s := range []stops{far{stopper{"far"}}, &far{stopper{"far pointer"}}} {
		func() {
			defer func() { fmt.Println("not stopped:", recover()) }()
			falls(s)
		}()
	}
}

// wrapped calls a method of a value by a pointer to none: what the compiler made
// for it panics.
func wrapped() {
	defer func() { fmt.Println("nothing's method:", strings.Contains(fmt.Sprint(recover()), "called using nil")) }()
	var nothing *square
	fmt.Println(shape(nothing).area())
}

func main() {
	go waits(nil)
	wrapped()
	log.New(os.Stdout, "", log.Lshortfile).Print("logged")
	pc, file, line, ok := runtime.Caller(0)
	fmt.Println(runtime.FuncForPC(pc).Name(), file[strings.LastIndexByte(file, '/')+1:], line, ok)
	for _, f := range []any{deep, third, os.ReadFile} {
		at := reflect.ValueOf(f).Pointer()
		fmt.Println("starts where it starts:", runtime.FuncForPC(at+4).Entry() == at)
	}
	recovers()
	names := make([]string, 0, len(table))
	for n := range table {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Printf("%s %T %v\n", n, table[n], table[n].area())
	}
	sums := make(chan int)
	for i := range 4 {
		go func() { sums <- deep(500 + i) }()
	}
	total := 0
	for range 4 {
		total += <-sums
	}
	for range 3 {
		*kept = append(*kept, new(string))
		runtime.GC()
	}
	fmt.Println(total, largest(1, 7, 3), largest(words...), numbers, len(*kept))
	first()
}
`

// walkerOrder names functions against their order in the source, types, strings
// and variables, and what no program has.
const walkerOrder = `# a comment
[text]
main.third
runtime.newstack
main.no such function
main.deep
fmt.Fprintln
main.first
[later]
main.second
"no\nsuch"
[near]
main
[unwound]
main.deep
runtime.main
[later]
main.third
[data]
main.numbers
type:main.square
go:string."oblong"
go:itab.main.square,main.shape
type:*main.oblong
main.words
runtime.gcdata
[later]
main.kept
`

// linked is a program and its tables; pcln is nil if they have no lines.
type linked struct {
	path string
	elf  *elf.File
	pcln *gosym.Table
}

// workshop is a folder with walker.go, and the Go that it is built with.
type workshop struct{ dir, root string }

// open makes a workshop with our Go, whose first build takes a minute or more.
func open(t *testing.T) workshop {
	t.Helper()
	w := workshop{dir: t.TempDir()}
	for name, text := range map[string]string{"walker.go": walker, "order": walkerOrder} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.root, err = goroot.Ready(t.Context(), goroot.Options{Say: t.Logf}); err != nil {
		t.Fatal(err)
	}
	return w
}

// build links walker.go with our Go.
func (w workshop) build(t *testing.T, name, ldflags string, flags ...string) linked {
	t.Helper()
	return w.run(t, goroot.Command(context.Background(), w.root), name, ldflags, flags...)
}

// stock links it with the installed Go.
func (w workshop) stock(t *testing.T, name string, flags ...string) linked {
	t.Helper()
	cmd := exec.Command("go")
	cmd.Env = append(os.Environ(), goroot.Env()...)
	return w.run(t, cmd, name, "", flags...)
}

func (w workshop) run(t *testing.T, cmd *exec.Cmd, name, ldflags string, flags ...string) linked {
	t.Helper()
	out := filepath.Join(w.dir, name)
	cmd.Args = slices.Concat([]string{"go", "build", "-o", out, "-trimpath", "-ldflags=-buildid= " + ldflags}, flags, []string{"walker.go"})
	cmd.Dir = w.dir
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, said)
	}
	f, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	tables, err := f.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	l := linked{path: out, elf: f}
	if tables[4] != 0 {
		return l // without lines, as those who look for them can see
	}
	if l.pcln, err = gosym.NewTable(nil, gosym.NewLineTable(tables, f.Section(".text").Addr)); err != nil {
		t.Fatal(err)
	}
	return l
}

// say runs walker, which ends in a panic, and returns what it said on standard
// output and on standard error.
func (l linked) say(t *testing.T) (out, trace string) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := exec.Command("qemu-mips", l.path)
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all")
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Fatalf("qemu-mips (package qemu-user) %s: %v, want exit status 2\n%s%s", l.path, err, o.Bytes(), e.Bytes())
	}
	return o.String(), e.String()
}

// notTheSame are the parts of a trace that two right ones may differ in:
// addresses, numbers of goroutines, arguments, and the build ID's line.
var notTheSame = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?m)^build id: .*\n`), ""},
	{regexp.MustCompile(`(?m)^\[signal .*\n`), ""},
	{regexp.MustCompile(`(?m) \+0x[0-9a-f]+$`), ""},
	{regexp.MustCompile(`goroutine \d+`), "goroutine N"},
	{regexp.MustCompile(`(?m)\([^()\n]*\)\n\t`), "()\n\t"},
}

func same(trace string) string {
	for _, n := range notTheSame {
		trace = n.what.ReplaceAllString(trace, n.with)
	}
	return trace
}

// ownLines leaves out the lines in files of the runtime, which are edited.
func ownLines(s string) string {
	return regexp.MustCompile(`\S+\.(?:go|s)[: ]\d+`).ReplaceAllStringFunc(s, func(at string) string {
		if strings.Contains(at, "walker.go") {
			return at
		}
		return "runtime"
	})
}

// variants are what each test goes through: with inlined calls and without.
var variants = map[string]string{"inlined": "-gcflags=", "notInlined": "-gcflags=all=-l"}

// Laid out by a list or not, a program does the same and its tables say the
// same of each function.
func TestLayout(t *testing.T) {
	t.Parallel()
	w := open(t)
	for name, flags := range variants {
		t.Run(name, func(t *testing.T) {
			order := "-order=" + filepath.Join(w.dir, "order")
			stock := w.stock(t, "stock."+name, flags)
			plain := w.build(t, "plain."+name, "", flags)
			ours := w.build(t, "ours."+name, order, flags)
			again := w.build(t, "again."+name, order, flags)
			said, trace := stock.say(t)
			if !strings.Contains(said, "main.inlined walker.go") || !strings.Contains(trace, "panic: the last word") || !strings.Contains(trace, "created by main.main") {
				t.Fatalf("the installed Go's program said:\n%s%s", said, trace)
			}
			for what, p := range map[string]linked{"laid out by a list": ours, "without a list": plain} {
				if got, gotTrace := p.say(t); ownLines(got) != ownLines(said) || ownLines(same(gotTrace)) != ownLines(same(trace)) {
					t.Errorf("%s the program says:\n%s%s\nbuilt by the installed Go:\n%s%s", what, got, gotTrace, said, trace)
				}
			}
			compareTables(t, ours.pcln, plain.pcln)
			if a, b := read(t, ours.path), read(t, again.path); !bytes.Equal(a, b) {
				t.Error("two links of one program differ")
			}
			checkOrder(t, ours)
			checkHeader(t, ours)
		})
	}
}

// Without lines a program does the same but for lines, and without inlined
// calls but for their frames. The symbol file gives each pc the file, the line
// and the calls that the tables would.
func TestSymbolFile(t *testing.T) {
	t.Parallel()
	w := open(t)
	for name, flags := range variants {
		plain := w.build(t, "lines."+name, "-s -w", flags)
		wantOut, wantTrace := plain.say(t)
		noLines := regexp.MustCompile(`(?m)^(\S+) \S+\.(?:go|s) \d+`).ReplaceAllString(wantOut, "$1 ? 0")
		noLines = regexp.MustCompile(`(?m)^walker\.go:\d+: `).ReplaceAllString(noLines, "?:0: ")
		for _, option := range []string{"", " -noinltree", " -noinltree -nonames"} {
			want := noLines
			if option != "" && name != "notInlined" {
				want = regexp.MustCompile(`(?m)^(main\.inlined|runtime\.panicmem|runtime\.Callers) .*\n`).ReplaceAllString(want, "")
			}
			if strings.Contains(option, "-nonames") {
				want = regexp.MustCompile(`(?m)^\S+ \? 0`).ReplaceAllStringFunc(want, func(line string) string {
					if strings.HasPrefix(line, "runtime.") {
						return line
					}
					return " ? 0"
				})
			}
			name := name + strings.ReplaceAll(option, " ", "")
			t.Run(name, func(t *testing.T) {
				file := filepath.Join(w.dir, name+".sym")
				bare := w.build(t, "bare."+name, "-s -w -symfile="+file+option, flags)
				if bare.pcln != nil {
					t.Fatal("the tables are not marked as without lines")
				}
				// Each package's start is told of, by name where there is one.
				if traced, _ := qemu(t, []string{"GODEBUG=inittrace=1"}, bare.path); strings.Contains(traced, "fatal error") || strings.Count(traced, "\ninit ") < 5 {
					t.Errorf("inittrace says\n%s", traced)
				}
				tab := load(t, file)
				out, trace := bare.say(t)
				if out != want {
					t.Errorf("without lines the program says:\n%s\nwant:\n%s", out, want)
				}
				if !strings.Contains(trace, "\nbuild id: "+tab.ID()+"\n\ngoroutine ") {
					t.Errorf("no line with the build ID %s in front of the goroutines:\n%s", tab.ID(), trace)
				}
				if regexp.MustCompile(`\.go:\d`).MatchString(trace) {
					t.Errorf("the trace has lines:\n%s", trace)
				}
				if got := translate(t, tab, trace); same(got) != same(wantTrace) {
					t.Errorf("the trace with lines from the symbol file:\n%s\nwant:\n%s", got, wantTrace)
				}
				compareSymbols(t, tab, plain.pcln)
				a, b := fileSize(t, plain.path), fileSize(t, bare.path)
				t.Logf("%d bytes with lines, %d without, %d of symbols", a, b, fileSize(t, file))
				if b > a*93/100 {
					t.Errorf("%d bytes without lines, %d with them", b, a)
				}

				listed := w.build(t, "listed."+name, "-s -w -symfile="+file+" -order="+filepath.Join(w.dir, "order")+option, flags)
				moved := load(t, file)
				if moved.ID() == tab.ID() {
					t.Error("a program whose functions lie elsewhere has the same build ID")
				}
				out, trace = listed.say(t)
				if got := translate(t, moved, trace); out != want || same(got) != same(wantTrace) {
					t.Errorf("laid out by a list it says:\n%s%s", out, got)
				}
				again := w.build(t, "again."+name, "-s -w -symfile="+file+option, flags)
				if !bytes.Equal(read(t, bare.path), read(t, again.path)) {
					t.Error("two links of one program differ")
				}
			})
		}
	}
}

func load(t *testing.T, file string) *symbols.Table {
	t.Helper()
	tab, err := symbols.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func translate(t *testing.T, tab *symbols.Table, trace string) string {
	t.Helper()
	out, err := symbols.Translate([]byte(trace), map[string]*symbols.Table{tab.ID(): tab})
	if err != nil {
		t.Error(err)
	}
	return string(out)
}

// compareSymbols checks what a symbol file says of each instruction.
func compareSymbols(t *testing.T, got *symbols.Table, want *gosym.Table) {
	t.Helper()
	n := 0
	for _, f := range want.Funcs {
		if strings.HasPrefix(f.Name, "go:text") { // a mark without instructions
			continue
		}
		for pc := f.Entry; pc < f.End; pc += 4 {
			file, line, _ := want.PCToLine(pc)
			if line <= 0 { // padding
				continue
			}
			frames := got.Frames(pc)
			if len(frames) == 0 || frames[0].File != file || frames[0].Line != line || frames[len(frames)-1].Func != f.Name {
				t.Errorf("%#x in %s: %+v, want %s:%d", pc, f.Name, frames, file, line)
				break
			}
			n++
		}
	}
	if n < 100_000 {
		t.Errorf("only %d instructions were compared", n)
	}
}

func fileSize(t *testing.T, name string) int64 {
	t.Helper()
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

// compareTables checks that each function has the same name, file and lines.
func compareTables(t *testing.T, got, want *gosym.Table) {
	t.Helper()
	describe := func(table *gosym.Table) (list []string) {
		for _, f := range table.Funcs {
			if strings.HasPrefix(f.Name, "go:text") { // a mark without instructions
				continue
			}
			var lines []int
			for pc := f.Entry; pc < f.End; pc += 4 {
				_, line, _ := table.PCToLine(pc)
				if line == 0 { // between functions
					break
				}
				lines = append(lines, line)
			}
			file, _, _ := table.PCToLine(f.Entry)
			list = append(list, fmt.Sprint(f.Name, " ", file, slices.Compact(lines)))
		}
		slices.Sort(list)
		return list
	}
	g, w := describe(got), describe(want)
	if len(g) != len(w) {
		t.Errorf("%d functions, want %d", len(g), len(w))
	}
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("function %s, want %s", g[i], w[i])
			break
		}
	}
}

// checkOrder looks at where the symbol table says that things are.
func checkOrder(t *testing.T, p linked) {
	t.Helper()
	symbols, err := p.elf.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]uint64{}
	for _, s := range symbols {
		at[s.Name] = s.Value
	}
	want := []string{"main.third", "runtime.newstack", "main.deep", "fmt.Fprintln", "main.first", "main.main", "main.second"}
	for i, name := range want {
		if at[name] == 0 || i > 0 && at[name] <= at[want[i-1]] {
			t.Errorf("%s is at %#x, behind %s at %#x is right", name, at[name], want[max(i-1, 0)], at[want[max(i-1, 0)]])
		}
	}
	if at["main.third"] != at["runtime.text"] {
		t.Errorf("the first function is at %#x, runtime.text at %#x", at["main.third"], at["runtime.text"])
	}
	for name, end := range map[string]string{"main.numbers": "runtime.enoptrdata", "main.words": "runtime.edata"} {
		start := strings.Replace(end, ".e", ".", 1)
		if a := at[name]; a < at[start] || a >= at[end] {
			t.Errorf("%s is at %#x, outside of %s", name, a, start)
		}
	}
}

// checkHeader looks at what the kernel does: MIPS I, O32, no FPU, pages of 4 KiB.
func checkHeader(t *testing.T, p linked) {
	t.Helper()
	for _, prog := range p.elf.Progs {
		if prog.Type == elf.PT_LOAD && prog.Align != 4096 {
			t.Errorf("a segment is aligned to %#x", prog.Align)
		}
	}
	// e_flags is at 36 of an ELF32 header: EF_MIPS_CPIC, E_MIPS_ABI_O32, no
	// bits of EF_MIPS_ARCH.
	if got := binary.BigEndian.Uint32(read(t, p.path)[36:]); got != 0x1004 {
		t.Errorf("e_flags are %#x", got)
	}
	flags, err := p.elf.Section(".MIPS.abiflags").Data()
	// version, level 1, revision 0, 32-bit registers, no FPU's, soft float
	if want := []byte{0, 0, 1, 0, 1, 0, 0, 3}; err != nil || !bytes.Equal(flags[:8], want) || !bytes.Equal(flags[8:], make([]byte, 16)) {
		t.Errorf("ABI flags %v, %v; want %v and zeros", flags, err, want)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A list that is none is an error with its place.
func TestBadOrder(t *testing.T) {
	t.Parallel()
	w := open(t)
	lists := map[string]string{"no section": "# comment\nmain.main\n", "quotes": "[text]\n\"open\n"}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		list := filepath.Join(w.dir, "list")
		if err := os.WriteFile(list, []byte(lists[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := goroot.Command(context.Background(), w.root, "build", "-o", os.DevNull, "-ldflags=-order="+list, "walker.go")
		cmd.Dir = w.dir
		if said, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(said, []byte(list+":2: ")) {
			t.Errorf("%s: %v, %s; want an error that names line 2", name, err, said)
		}
	}
}
