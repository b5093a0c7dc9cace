package edits_test

import (
	"bytes"
	"os"
	"testing"
)

// What the edits for size leave out is refused, and what they make otherwise
// does the same.
func TestSizes(t *testing.T) {
	t.Parallel()
	bin := program(t, "sizes")
	const want = `[NaN -Inf -1 3 7]
^\pL+$ error parsing regexp: invalid character class range: ` + "`\\pL`" + ` false
\p{Greek} error parsing regexp: invalid character class range: ` + "`\\p{Greek}`" + ` false
\P{^Lu} error parsing regexp: invalid character class range: ` + "`\\P{^Lu}`" + ` false
[\p{Any}] <nil> true
\p{ASCII} <nil> true
(?i)stra\x{df}e [[:alpha:]]\d <nil> true
runtime error: tracing is not supported by a Go for the RLX4181 false
`
	// A setting with a pattern of bisection holds everywhere.
	for _, env := range [][]string{nil, {"GODEBUG=randautoseed=0#1"}} {
		if said, err := qemu(t, env, bin); err != nil || said != want {
			t.Errorf("with %q the program says (%v)\n%s, want\n%s", env, err, said, want)
		}
	}
	b, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"Nyiakeng_Puachue_Hmong", "/gc/heap/allocs-by-size:bytes"} {
		if bytes.Contains(b, []byte(gone)) {
			t.Errorf("the program has %q, of what is left out", gone)
		}
	}
}
