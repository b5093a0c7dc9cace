// Package incident keeps texts about what happened to the box, for people who
// come later: the last few, in flash, each in a file of its own. gwctl incidents
// shows them.
package incident

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gwinit/internal/atomicfile"
)

// Dir holds them: N.txt, the newest with the highest N.
const Dir = "/userdata/netwatch/incidents"

// The quota.
const (
	Most     = 4
	MaxBytes = 16 << 10 // of one
)

// Keep stores a text, whose first line is its summary, under the next number, and
// removes the oldest ones first: at no time are there more than Most. It blocks
// on flash.
func Keep(root string, text []byte) error {
	if err := os.MkdirAll(filepath.Join("/", root, Dir), 0o755); err != nil {
		return err
	}
	all := Numbers(root)
	next := 1
	if n := len(all); n > 0 {
		next = all[n-1] + 1
	}
	for len(all) >= Most {
		if err := atomicfile.Remove(Path(root, all[0])); err != nil {
			return err
		}
		all = all[1:]
	}
	return atomicfile.Write(Path(root, next), text[:min(len(text), MaxBytes)], 0o644)
}

// Path is that of one.
func Path(root string, number int) string {
	return filepath.Join("/", root, Dir, strconv.Itoa(number)+".txt")
}

// Numbers are those that there are, in their order.
func Numbers(root string) (all []int) {
	files, _ := os.ReadDir(filepath.Join("/", root, Dir)) // none is what a box begins with
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".txt")
		n, err := strconv.Atoi(name)
		if ok && err == nil && n > 0 && n < 1<<30 && strconv.Itoa(n) == name {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}
