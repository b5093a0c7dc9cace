package doctor

import (
	"flag"
	"os"
	"strings"
	"testing"
)

const fragment = "../../board/rtl8196e/kernel.fragment"

var update = flag.Bool("update", false, "make features.go from the kernel fragment")

// compact makes the text of features from a kernel fragment.
func compact(t *testing.T, fragment string) string {
	t.Helper()
	var out strings.Builder
	var head, options []string
	flush := func() {
		if head == nil {
			return
		}
		if len(options) == 0 {
			t.Errorf("%s has no option", head[0])
		}
		out.WriteString(head[0] + "|" + strings.Join(options, " ") + "|" + head[1] + "|" + head[2] + "\n")
		head, options = nil, nil
	}
	for line := range strings.Lines(fragment) {
		line = strings.TrimSuffix(line, "\n")
		option, isOption := strings.CutPrefix(line, "CONFIG_")
		if text, ok := strings.CutPrefix(line, "#: "); ok {
			flush()
			for f := range strings.SplitSeq(text, "|") {
				head = append(head, strings.TrimSpace(f))
			}
			if len(head) != 3 || head[0] == "" || head[2] == "" {
				t.Fatalf("%q: want NAME | PROBE | WITHOUT", line)
			}
			continue
		}
		switch {
		case isOption && head == nil:
			t.Errorf("%s belongs to no feature", line)
		case isOption:
			options = append(options, option)
		case line != "" && !strings.HasPrefix(line, "#"):
			t.Errorf("%q is not understood", line)
		}
	}
	flush()
	return out.String()
}

// What the binary knows of the fragment is the fragment.
func TestFeaturesAreTheFragment(t *testing.T) {
	text, err := os.ReadFile(fragment)
	if err != nil {
		t.Fatal(err)
	}
	want := compact(t, string(text))
	if strings.Contains(want, "`") {
		t.Fatal("no backquotes in the fragment's feature lines")
	}
	if *update {
		source := "package doctor\n\n// features is made from board/rtl8196e/kernel.fragment, by\n// go test ./internal/doctor -run Fragment -update\nconst features = `" + want + "`\n"
		if err := os.WriteFile("features.go", []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if features != want {
		t.Errorf("features.go is not of this fragment: go test ./internal/doctor -run Fragment -update\ngot\n%s\nwant\n%s", features, want)
	}
	list := parseFeatures(features)
	if len(list) != strings.Count(want, "\n") || len(list) < 10 {
		t.Errorf("%d features in\n%s", len(list), want)
	}
	for _, f := range list {
		switch f.probe {
		case "", "tmpfs", "madvise", "nftables":
		default:
			if !strings.HasPrefix(f.probe, "/proc/") && !strings.HasPrefix(f.probe, "/sys/") {
				t.Errorf("%s: nobody knows the probe %q", f.name, f.probe)
			}
		}
	}
}
