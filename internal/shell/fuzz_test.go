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
	if _, err := syntax.NewParser().Parse(strings.NewReader(printed(file)), ""); err != nil {
		return // the printer's own affair
	}
	changed, err := s.check(file)
	if err != nil {
		return
	}
	out := printed(file)
	again, err := syntax.NewParser().Parse(strings.NewReader(out), "")
	if err != nil {
		t.Fatalf("%q: rewritten as %q: %v", src, out, err)
	}
	syntax.Walk(again, func(n syntax.Node) bool {
		if st, ok := n.(*syntax.Stmt); ok && st.Background {
			t.Errorf("%q: background statement left in %q", src, out)
		}
		return true
	})
	if !changed && strings.Contains(out, startCommand) && !strings.Contains(src, startCommand) {
		t.Errorf("%q: rewritten in secret: %q", src, out)
	}
}
