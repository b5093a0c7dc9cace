//go:build linux

package server

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"gwinit/internal/api"
)

// tally counts connections where the next process of this service, and who
// asks while there is none, finds it: in a file in memory.
type tally struct {
	path string

	mu sync.Mutex // guards n and the file
	n  api.SSH
}

// newTally goes on with what processes before have counted in this boot.
func newTally(root string) tally {
	path := filepath.Join(root, api.SSHPath)
	var n api.SSH
	if b, err := readSmall(path, 1<<10); err == nil && json.Unmarshal(b, &n) != nil {
		n = api.SSH{} // torn
	}
	n.Open = 0
	return tally{path: path, n: n}
}

// add changes the figures. That they cannot be kept harms nobody.
func (t *tally) add(change func(n *api.SSH)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.n)
	if b, err := json.Marshal(t.n); err == nil && os.WriteFile(t.path+".new", b, 0o600) == nil {
		_ = os.Rename(t.path+".new", t.path) // as above
	}
}
