package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// walker looks at what the linker's order could break: function tables (stack
// growth, panics, Callers, frames of inlined functions), types, strings,
// method tables, maps, the collector's masks.
const walker = `package main

import (
	"errors"
	"fmt"
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

func main() {
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

// linked is a program linked by the installed linker or ours.
type linked struct {
	path string
	elf  *elf.File
	pcln *gosym.Table
}

func TestLinker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"walker.go": walker, "order": walkerOrder} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rlx := filepath.Join(dir, "rlx")
	if said, err := exec.Command("go", "build", "-o", rlx, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	for _, flags := range []string{"", "-gcflags=all=-l"} {
		name := cmp.Or(flags, "inlined")
		t.Run(name, func(t *testing.T) {
			stock := link(t, dir, "stock"+name, flags)
			ours := link(t, dir, "ours"+name, flags, "-toolexec", rlx+" toolexec -order "+filepath.Join(dir, "order"))
			again := link(t, dir, "again"+name, flags, "-toolexec", rlx+" toolexec -order "+filepath.Join(dir, "order"))
			plain := link(t, dir, "plain"+name, flags, "-toolexec", rlx+" toolexec")

			said := run1(t, stock)
			if !strings.Contains(said, "main.inlined walker.go") || !strings.Contains(said, "panic: the last word") {
				t.Fatalf("the installed linker's program said:\n%s", said)
			}
			for what, p := range map[string]linked{"laid out by a list": ours, "without a list": plain} {
				if got := run1(t, p); got != said {
					t.Errorf("%s the program says:\n%s\nlinked by the installed linker:\n%s", what, got, said)
				}
				compareTables(t, what, p.pcln, stock.pcln)
			}
			a, b := read(t, ours.path), read(t, again.path)
			if !bytes.Equal(a, b) {
				t.Error("two links of one program differ")
			}
			checkOrder(t, ours)
		})
	}
}

// link builds walker.go for the gateway.
func link(t *testing.T, dir, name string, flags ...string) linked {
	t.Helper()
	out := filepath.Join(dir, strings.ReplaceAll(name, "=", ""))
	args := append([]string{"build", "-o", out, "-ldflags=-buildid=", "-trimpath"}, slices.DeleteFunc(flags, func(f string) bool { return f == "" })...)
	build := exec.Command("go", append(args, "walker.go")...)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", name, err, said)
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
	pcln, err := gosym.NewTable(nil, gosym.NewLineTable(tables, f.Section(".text").Addr))
	if err != nil {
		t.Fatal(err)
	}
	return linked{out, f, pcln}
}

// run1 runs a program that ends in a panic and returns what it said, without
// the addresses.
func run1(t *testing.T, p linked) string {
	t.Helper()
	said, err := exec.Command("qemu-mips", p.path).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Fatalf("qemu-mips (package qemu-user) %s: %v, want exit status 2\n%s", p.path, err, said)
	}
	var out strings.Builder
	for line := range strings.Lines(string(said)) {
		for _, end := range []string{" +0x", "(0x", "({0x", "[signal", " addr=0x"} {
			line, _, _ = strings.Cut(line, end)
		}
		out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
	}
	return out.String()
}

// compareTables checks that each function has the same name, file and lines.
func compareTables(t *testing.T, what string, got, want *gosym.Table) {
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
		t.Errorf("%s: %d functions, want %d", what, len(g), len(w))
	}
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("%s: function %s, want %s", what, g[i], w[i])
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
	for _, prog := range p.elf.Progs {
		if prog.Type == elf.PT_LOAD && prog.Align != 4096 {
			t.Errorf("a segment is aligned to %#x", prog.Align)
		}
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

// The go command tells linkers apart by what they say: another list is another
// linker, and no list another one again.
func TestIdentify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rlx := filepath.Join(dir, "rlx")
	if said, err := exec.Command("go", "build", "-o", rlx, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	goroot, err := exec.Command("go", "env", "GOTOOLDIR").Output()
	if err != nil {
		t.Fatal(err)
	}
	tool := func(name string) string { return filepath.Join(strings.TrimSpace(string(goroot)), name) }
	say := func(args ...string) string {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return string(out)
	}
	list := filepath.Join(dir, "list")
	seen := map[string]string{say(tool("link"), "-V=full"): "the installed linker"}
	for _, text := range []string{"", "[text]\na\n", "[text]\nb\n"} {
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{rlx, "toolexec", "-order", list, tool("link"), "-V=full"}
		line := say(args...)
		if other, ok := seen[line]; ok {
			t.Errorf("with the list %q the linker says %q as with %s", text, line, other)
		}
		seen[line] = text
		if line != say(args...) {
			t.Error("the same linker says two things")
		}
		if short := say("env", "RLX_ORDER="+list, rlx, tool("link"), "-V=full"); short != line {
			t.Errorf("asked the short way, the linker says %q, want %q", short, line)
		}
	}
	if got, want := say(rlx, "toolexec", tool("compile"), "-V=full"), say(tool("compile"), "-V=full"); got != want {
		t.Errorf("the compiler says %q, want %q", got, want)
	}
}

// A list that is none is an error with its place.
func TestBadOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rlx := filepath.Join(dir, "rlx")
	if said, err := exec.Command("go", "build", "-o", rlx, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	for name, text := range map[string]string{"no section": "# comment\nmain.main\n", "quotes": "[text]\n\"open\n"} {
		list := filepath.Join(dir, "list")
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		src := filepath.Join(dir, "main.go")
		if err := os.WriteFile(src, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-o", os.DevNull, "-toolexec", rlx+" toolexec -order "+list, src)
		build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err == nil || !bytes.Contains(said, []byte(list+":2: ")) {
			t.Errorf("%s: %v, %s; want an error that names line 2", name, err, said)
		}
	}
}
