package words_test

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/gwctl/words"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":            "false 0 ",
		"-y a -n 3 b": "true 3 a b",
		"a b -n=3 -y": "true 3 a b",
		"a -- -y":     "false 0 a -y",
		"- -n 3":      "false 3 -",
		"a -n":        "flag needs an argument: -n",
		"a -x":        "flag provided but not defined: -x",
		"a -n three":  `invalid value "three"`,
	} {
		f := flag.NewFlagSet("", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		y, n := f.Bool("y", false, ""), f.Int("n", 0, "")
		got, err := words.Parse(f, strings.Fields(line))
		said := strings.Join(slices.Concat([]string{map[bool]string{true: "true", false: "false"}[*y], string(rune('0' + *n))}, []string{strings.Join(got, " ")}), " ")
		if err != nil {
			said = err.Error()
		}
		if said != want && !(err != nil && strings.Contains(said, want)) {
			t.Errorf("%q: %q, want %q", line, said, want)
		}
	}
}
