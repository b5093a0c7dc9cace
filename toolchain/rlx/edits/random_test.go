package edits_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// randomGo writes functions of random statements over integers of all widths,
// arrays, structures behind pointers and spilled variables.
type randomGo struct {
	*rand.Rand
	strings.Builder
	depth int
}

// writeRandom makes a module of one program in dir.
func writeRandom(t *testing.T, dir string, seed uint64) {
	t.Helper()
	g := &randomGo{Rand: rand.New(rand.NewPCG(seed, 8196))}
	g.program()
	for name, text := range map[string]string{"go.mod": "module random\n\ngo 1.26\n", "main.go": g.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (g *randomGo) line(format string, a ...any) { fmt.Fprintf(g, format+"\n", a...) }

const randomFunctions = 40

func (g *randomGo) program() {
	g.line(`package main

import "os"

type s struct {
	a, b, c, d uint32
	e, f       uint8
	g          int16
	h          uint64
	next       *s
	t          [16]uint32
}

var (
	global uint32
	wide   uint64
	bytes  [64]uint8
)

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

//go:noinline
func call(x, y uint32) (uint32, uint32) { return y + 3, x ^ global }
`)
	for i := range randomFunctions {
		g.function(i)
	}
	g.line(`func main() {
	p, q := &s{a: 1, h: 1 << 40, g: -7}, &s{b: 5, e: 200, t: [16]uint32{3: 9}}
	p.next, q.next = q, p
	sum := uint32(17)
	for round := range uint32(3) {`)
	for i := range randomFunctions {
		g.line("\t\tsum = sum*31 + f%d(sum, round+%d, p, q)", i, i)
	}
	g.line(`	}
	for _, p := range [...]*s{p, q} {
		sum = sum*31 + p.a + p.b*3 + p.c*5 + p.d*7 + uint32(p.e) + uint32(p.f)*9 + uint32(p.g)*11 + uint32(p.h) + uint32(p.h>>32)*13
		for _, x := range p.t {
			sum = sum*31 + x
		}
	}
	for _, x := range bytes {
		sum = sum*31 + uint32(x)
	}
	sum += global + uint32(wide) + uint32(wide>>32)
	var digits [8]byte
	for i := range digits {
		digits[i] = "0123456789abcdef"[sum>>28]
		sum <<= 4
	}
	os.Stdout.Write(digits[:])
}`)
}

func (g *randomGo) function(i int) {
	g.line("//go:noinline")
	g.line("func f%d(x, y uint32, p, q *s) uint32 {", i)
	g.line("\tu, v, w := x, y*3, uint64(x)<<7|uint64(y)")
	g.line("\tvar local [8]uint32")
	if g.IntN(3) == 0 {
		g.line("\tz := &local[%d]", g.IntN(8))
		g.line("\t*z = x")
		g.line("\tdefer func() { global += *z }()")
	}
	for range 6 + g.IntN(14) {
		g.statement()
	}
	g.line("\treturn x + y*3 ^ u - v + uint32(w) ^ uint32(w>>32) + local[x&7]")
	g.line("}\n")
}

func (g *randomGo) variable() string {
	return []string{"x", "y", "u", "v"}[g.IntN(4)]
}

// place is something of type uint32 that can be assigned to.
func (g *randomGo) place() string {
	switch g.IntN(8) {
	case 0:
		return []string{"p", "q", "p.next", "q.next"}[g.IntN(4)] + "." + string("abcd"[g.IntN(4)])
	case 1:
		return fmt.Sprintf("%s.t[%s&15]", []string{"p", "q"}[g.IntN(2)], g.variable())
	case 2:
		return fmt.Sprintf("local[%d]", g.IntN(8))
	case 3:
		return fmt.Sprintf("local[%s&7]", g.variable())
	case 4:
		return "global"
	}
	return g.variable()
}

func (g *randomGo) value() string {
	if g.depth > 3 {
		return g.variable()
	}
	g.depth++
	defer func() { g.depth-- }()
	switch g.IntN(20) {
	case 0:
		return fmt.Sprintf("(y&0 + %d)", g.Uint32()>>g.IntN(32)) // no constant expression, which might overflow
	case 1, 2:
		return fmt.Sprintf("(%s %s %s)", g.value(), []string{"+", "-", "&", "|", "^", "&^"}[g.IntN(6)], g.value())
	case 3:
		return fmt.Sprintf("(%s * %d)", g.value(), []uint32{3, 5, 6, 7, 10, 11, 12, 13, 15, 20, 24, 25, 28, 36, 37, 40, 45, 100, 127, 255, 257, 1000, 1 << 31, 0xFFFFFFF8, 0x7FFFFFFF, 0xFFFFFFFD}[g.IntN(26)])
	case 4:
		return fmt.Sprintf("(%s * %s)", g.value(), g.value())
	case 5:
		return fmt.Sprintf("(%s / (%s | 1))", g.value(), g.value())
	case 6:
		return fmt.Sprintf("(%s %% (%s | 3))", g.value(), g.value())
	case 7:
		return fmt.Sprintf("(%s << (%s & 31))", g.value(), g.value())
	case 8:
		return fmt.Sprintf("(%s >> %d)", g.value(), g.IntN(32))
	case 9:
		return fmt.Sprintf("b2u(%s)", g.condition())
	case 10:
		return "uint32(int32(int8(" + g.value() + ")))"
	case 11:
		return "uint32(uint16(" + g.value() + "))"
	case 12:
		return []string{"uint32(p.e)", "uint32(q.f)", "uint32(p.g)", "uint32(p.h)", "uint32(q.h>>32)", "uint32(bytes[x&63])", "uint32(bytes[17])"}[g.IntN(7)]
	case 13:
		return fmt.Sprintf("uint32(w>>%d)", g.IntN(64))
	}
	return g.place()
}

func (g *randomGo) condition() string {
	c := fmt.Sprintf("%s %s %s", g.value(), []string{"<", "<=", "==", "!=", ">", ">="}[g.IntN(6)], g.value())
	switch g.IntN(5) {
	case 0:
		return c + " && " + g.condition()
	case 1:
		return fmt.Sprintf("int32(%s) < %d", g.value(), g.IntN(100)-50)
	}
	return c
}

func (g *randomGo) statement() {
	switch g.IntN(13) {
	case 0, 1, 2, 3:
		g.line("\t%s = %s", g.place(), g.value())
	case 4:
		g.line("\t%s += %s", g.place(), g.value())
	case 5:
		g.line("\tw = w*%d + uint64(%s)", 1+g.IntN(1000), g.value())
	case 6:
		g.line("\t%s, %s = call(%s, %s)", "x", g.place(), g.value(), g.value())
	case 7:
		g.line("\tif %s {\n\t\t%s = %s\n\t}", g.condition(), g.place(), g.value())
	case 8:
		g.line("\tif %s {\n\t\t%s = %s\n\t} else {\n\t\t%s = %s\n\t}", g.condition(), g.place(), g.value(), g.place(), g.value())
	case 9:
		g.line("\tfor i := range uint32(%d) {\n\t\t%s += i ^ %s\n\t\t%s = %s\n\t}", 1+g.IntN(6), g.variable(), g.value(), g.place(), g.value())
	case 10:
		g.line("\tp.e, q.f, p.g = uint8(%s), uint8(%s), int16(%s)", g.value(), g.value(), g.value())
	case 11:
		g.line("\tbytes[%s&63], bytes[%d] = uint8(%s), bytes[%s&63]", g.variable(), g.IntN(64), g.value(), g.variable())
	case 12:
		g.line("\tp.h, wide = wide+uint64(%s), p.h<<%d|w>>(%s&63)", g.value(), g.IntN(64), g.value())
	}
}
