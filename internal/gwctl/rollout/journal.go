package rollout

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gwinit/internal/gwctl/filelock"
	"gwinit/internal/gwctl/update"
)

// look reads a bundle through, without a key: whether it is whole, and what is in
// it. Whose it is the gateways know.
func look(path string) (a about, err error) {
	f, err := os.Open(path)
	if err != nil {
		return a, err
	}
	defer f.Close()
	all := sha256.New()
	m, err := update.Inspect(io.TeeReader(f, all))
	if err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	st, err := f.Stat()
	if err != nil {
		return a, err
	}
	return about{m, st.Size(), hex.EncodeToString(all.Sum(nil))}, nil
}

// States of a gateway in the journal.
const (
	stateSent      = "sent" // it may have got it
	stateCommitted = "committed"
	stateFailed    = "failed"
)

// entry is a line of the journal, the last of a gateway counts.
type entry struct {
	At      int64  `json:"at"` // Unix s
	Gateway string `json:"gateway"`
	State   string `json:"state"`
	Why     string `json:"why,omitempty"`
}

// maxJournal bounds a journal, in bytes: 3,000 gateways with three lines each.
const maxJournal = 4 << 20

// journal is what is known of a rollout. It is a file of lines, named by the
// bundle's hash; a line that a power cut tore is none.
type journal struct {
	f    *os.File // nil: nothing is written
	last map[string]entry
}

// openJournal opens the one of a bundle, which nobody else may have open. With dry
// it is only read.
func openJournal(dir string, a about, dry bool) (*journal, error) {
	path := filepath.Join(dir, a.sum[:16]+".jsonl")
	j := &journal{last: map[string]entry{}}
	if dry {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		j.read(b)
		return j, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	j.f = f
	if err := filelock.Lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("this update is being rolled out by another gwctl (%s is in use): %w", path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxJournal+1))
	if err == nil && len(b) > maxJournal {
		err = fmt.Errorf("%s has more than %d bytes: remove it", path, maxJournal)
	}
	if err == nil && j.read(b) < len(b) {
		_, err = f.WriteString("\n") // behind what was torn
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// read takes the lines of a journal and returns how long the whole ones are. What
// makes no sense is skipped: a gateway that is asked says what it runs.
func (j *journal) read(b []byte) int {
	n := 0
	for line := range bytes.Lines(b) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		n += len(line)
		var e entry
		if json.Unmarshal(line, &e) != nil || e.Gateway == "" {
			continue
		}
		switch e.State {
		case stateSent, stateCommitted, stateFailed:
			j.last[e.Gateway] = e
		}
	}
	return n
}

// of is the last that is known of a gateway.
func (j *journal) of(gateway string) entry { return j.last[gateway] }

// add writes a line, which is on the disk when it returns. Several may call it.
func (j *journal) add(e entry) error {
	e.At = time.Now().Unix()
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := j.f.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("the journal: %w", err)
	}
	if err := j.f.Sync(); err != nil {
		return fmt.Errorf("the journal: %w", err)
	}
	return nil
}

// done takes the journal of a rollout away that has ended well.
func (j *journal) done() error {
	return errors.Join(j.f.Close(), os.Remove(j.f.Name())) // in this order for Windows
}

// close may come behind done.
func (j *journal) close() {
	if j.f != nil {
		j.f.Close()
	}
}
