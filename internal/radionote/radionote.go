//go:build linux

// Package radionote keeps what the radio's chip said when it was asked last, in /run,
// for whoever shows the gateway's state: asking it again would disturb its client.
package radionote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/radiolock"
)

// Path is the note, below the file-system root.
const Path = "run/radio.answer"

// note is the file. At is monotonic, in ns: the boot's clock may be set later.
type note struct {
	At     int64           `json:"at"`
	Answer api.RadioAnswer `json:"answer"`
}

// Write notes an answer of now.
func Write(root string, a api.RadioAnswer) error {
	now, err := radiolock.Monotonic()
	if err != nil {
		return err
	}
	b, err := json.Marshal(note{now.Nanoseconds(), a})
	if err != nil {
		return err
	}
	path := filepath.Join("/", root, Path)
	// Replaced, so that a reader sees a whole one.
	if err := os.WriteFile(path+".new", b, 0o644); err != nil {
		return fmt.Errorf("note what the radio is: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("note what the radio is: %w", err)
	}
	return nil
}

// Read returns the note with its age, nil when there is none.
func Read(root string) (*api.RadioAnswer, error) {
	b, err := os.ReadFile(filepath.Join("/", root, Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now, err := radiolock.Monotonic()
	if err != nil {
		return nil, err
	}
	return parse(b, now)
}

// parse reads the note as it is at now.
func parse(b []byte, now time.Duration) (*api.RadioAnswer, error) {
	var n note
	if err := json.Unmarshal(b, &n); err != nil || n.Answer.Kind == "" || n.At < 0 || n.At > now.Nanoseconds() {
		return nil, fmt.Errorf("%s: not what the radio said", Path)
	}
	n.Answer.Age = (now - time.Duration(n.At)).Seconds()
	return &n.Answer, nil
}
