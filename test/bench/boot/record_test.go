package main

import (
	"strings"
	"testing"

	"gwinit/rootfs/layout"
	"gwinit/test/board"
)

const mapOf = `1000 40 TEXT main.main
1040 20 TEXT main.later
1060 20 TEXT main.never
2000 0 STYPE type:*
2000 2 SRODATA "a\nb"
2002 2 SRODATA go:string." "
2010 8 SRODATA type:struct { a int; b int }
3000 100 PCLN runtime.functab
3020 0 FUNC main.main
3050 0 FUNC main.later
4000 10 SDATA main.variable
5000 10 SBSS main.empty
`

func TestProfile(t *testing.T) {
	t.Parallel()
	symbols, err := layout.ReadMap(strings.NewReader(mapOf))
	if err != nil {
		t.Fatal(err)
	}
	p := newProfile(symbols)
	p.add([]board.Touch{
		{Addr: 0x1010, Order: 1, Run: true},
		{Addr: 0x1014, Order: 2, Run: true},
		{Addr: 0x1060, Order: 3, Data: true}, // an instruction that was read
		{Addr: 0x2000, Order: 4, Data: true}, // two symbols in a word
		{Addr: 0x3024, Order: 5, Data: true},
		{Addr: 0x3004, Order: 6, Data: true}, // the table of entries is nobody's
		{Addr: 0x5000, Order: 7, Data: true},
		{Addr: 0x1040, Order: 8, Run: true, Late: true},
		{Addr: 0x3050, Order: 9, Data: true, Late: true},
		{Addr: 0x4008, Order: 10, Data: true, Late: true},
		{Addr: 0x1010, Order: 11, Run: true, Late: true},
	})
	// Another boot touches before the listen what the first did after it.
	p.add([]board.Touch{{Addr: 0x4000, Order: 1, Data: true}, {Addr: 0x2010, Order: 2, Data: true, Late: true}})
	_, got, _ := strings.Cut(p.String(), "[text]\n")
	const want = `main.main
[later]
main.later
[unwound]
main.main
[later]
main.later
[data]
go:string." "
"a\nb"
main.variable
[later]
type:struct { a int; b int }
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReadMapErrors(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"three fields": "1000 40 TEXT", "address": "x 40 TEXT a", "size": "1000 y TEXT a", "beyond 32 bits": "100000000 1 TEXT a",
	} {
		if _, err := layout.ReadMap(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), in) {
			t.Errorf("%s: %v, want an error that has the line", name, err)
		}
	}
}
