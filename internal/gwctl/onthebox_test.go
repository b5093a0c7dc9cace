package gwctl

import (
	"strings"
	"testing"
)

func TestOnlyBoxed(t *testing.T) {
	for args, want := range map[string]bool{
		"": false, "-json": false, "status": false, "radio": false, "radio mode otbr": false, "radio release -for 1m": false, "-json radio": false,
		"doctor": true, "config list": true, "radio flash f": true, "-json radio probe": true, "-socket radio radio reset": true,
	} {
		if got := OnlyBoxed(strings.Fields(args)); got != want {
			t.Errorf("%q: %v", args, got)
		}
	}
}
