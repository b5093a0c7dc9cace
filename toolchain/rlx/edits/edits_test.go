package edits

import (
	"os"
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	t.Parallel()
	s := []Subject{{Edits: []Edit{
		{Name: "n", File: "a/b.go", Old: "one", New: "two"},
		{Name: "other file", File: "c.go", Old: "x", New: "y"},
		{Name: "a stretch", File: "d.go", Old: "from", Upto: "to", New: "new "},
	}}}
	got, err := Apply(s, "a/b.go", []byte("zero one three"))
	if err != nil || string(got) != "zero two three" {
		t.Errorf("Apply = %q, %v", got, err)
	}
	got, err = Apply(s, "d.go", []byte("to from here to there to"))
	if err != nil || string(got) != "to new to there to" {
		t.Errorf("Apply = %q, %v", got, err)
	}
	if _, err := Apply(s, "d.go", []byte("to from here")); err == nil || !strings.Contains(err.Error(), "d.go") || !strings.Contains(err.Error(), `"a stretch"`) {
		t.Errorf("no end: %v, want an error that names file and edit", err)
	}
	for name, in := range map[string]string{"no anchor": "zero", "two anchors": "one one"} {
		if _, err := Apply(s, "a/b.go", []byte(in)); err == nil || !strings.Contains(err.Error(), "a/b.go") || !strings.Contains(err.Error(), `"n"`) {
			t.Errorf("%s: %v, want an error that names file and edit", name, err)
		}
	}
}

// Names are how an edit is left out: each is there once, and each says why.
func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	all := Subjects()
	for _, m := range Modules() {
		all = append(all, m.Subjects...)
	}
	for _, s := range all {
		for _, name := range append([]string{s.Name}, names(s.Edits)...) {
			if name == "" || seen[name] {
				t.Errorf("the name %q is empty or there twice", name)
			}
			seen[name] = true
		}
		for _, e := range s.Edits {
			if e.Why == "" || e.Old == "" || e.Old == e.New {
				t.Errorf("%s: an edit needs a reason and a change", e.Name)
			}
		}
	}
	if _, err := AddedFiles(Subjects()); err != nil {
		t.Error(err)
	}
}

func names(list []Edit) (names []string) {
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
}

func TestSelect(t *testing.T) {
	t.Parallel()
	all := Subjects()
	list, err := Select(nil)
	if err != nil || len(list) != len(all) {
		t.Fatalf("Select(nil) = %d subjects, %v, want %d", len(list), err, len(all))
	}
	if _, err := Select([]string{all[0].Name}); err == nil {
		t.Error("what the tools are told apart by could be left out")
	}
	for _, s := range all[1:] {
		list, err := Select([]string{s.Name})
		if err != nil || len(list) != len(all)-1 {
			t.Errorf("without %s: %d subjects, %v", s.Name, len(list), err)
		}
		for _, e := range s.Edits {
			list, err := Select([]string{e.Name})
			if err != nil || len(list) != len(all) {
				t.Errorf("without %s: %d subjects, %v", e.Name, len(list), err)
			}
		}
	}
}

// The page that lists the edits is the one that they make.
func TestPageIsCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/toolchain-edits.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != Markdown() {
		t.Error("docs/toolchain-edits.md is old: `go run ./toolchain/rlx edits > docs/toolchain-edits.md`")
	}
}
