package shell

import (
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

func fuzzCheck(t *testing.T, src string) {
	file, err := syntax.NewParser().Parse(strings.NewReader(src), "")
	if err != nil {
		return
	}
	var s shell
	if s.check(file) != nil {
		return
	}
	var out strings.Builder
	if err := syntax.NewPrinter().Print(&out, file); err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	if (s.simpleJobs || s.compoundJobs) != strings.Contains(out.String(), backgroundMark) {
		t.Errorf("%q: background statement without its mark: %q", src, out.String())
	}
}
