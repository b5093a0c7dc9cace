package remote

import (
	"strings"
	"testing"
)

// Every topic fits a screen, is told by help, and hides no command; usage names
// them.
func TestTopics(t *testing.T) {
	for name, text := range topics {
		if !strings.Contains(usage, " "+name) {
			t.Errorf("the usage does not name %s", name)
		}
		if got := topic([]string{"help", name}); got != text {
			t.Errorf("help %s: %q", name, got)
		}
		lines := strings.Split(text, "\n")
		if len(lines) > 30 || lines[len(lines)-1] != "" {
			t.Errorf("%s has %d lines", name, len(lines))
		}
		for _, l := range lines {
			if len(l) > 80 {
				t.Errorf("%s: too wide: %q", name, l)
			}
		}
	}
	for _, args := range [][]string{{"help"}, {"help", "status"}, {"status"}, nil, {"help", "nothing"}} {
		if got := topic(args); got != "" {
			t.Errorf("%q: %q", args, got)
		}
	}
	if topic([]string{"exporter", "-h"}) != exporterUsage {
		t.Error("exporter -h")
	}
}
