package ddi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// Phases of an action, as far as they are written down.
const (
	phaseSent   = "sent"   // the gateway may have it, and tries it
	phaseClosed = "closed" // it is over; the server may not know yet
	phaseTold   = "told"   // the server knows
)

// state is what an agent must know of a gateway after a restart of its own.
type state struct {
	Action  string    `json:"action"`
	Phase   string    `json:"phase"`
	Version string    `json:"version,omitempty"` // of the update
	Last    *feedback `json:"last,omitempty"`    // with phaseClosed: what to tell
}

// maxState bounds a state's file, in bytes.
const maxState = 16 << 10

// parseState reads one. Anything else than one is an error.
func parseState(text []byte) (s state, err error) {
	if err := json.Unmarshal(text, &s); err != nil {
		return state{}, err
	}
	switch {
	case !plainID(s.Action), s.Phase != phaseSent && s.Phase != phaseClosed && s.Phase != phaseTold, s.Phase == phaseClosed && s.Last == nil:
		return state{}, errors.New("no state")
	}
	return s, nil
}

// store is the folder of the states.
type store struct{ dir string }

func (st store) path(id string) string { return filepath.Join(st.dir, url.PathEscape(id)+".json") }

// load returns a gateway's; none is the zero value.
func (st store) load(id string) (s state, err error) {
	f, err := os.Open(st.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxState))
	if err == nil {
		s, err = parseState(text)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w; without it the action may be begun once more: remove it if that is well", f.Name(), err)
	}
	return s, err
}

// save replaces a gateway's.
func (st store) save(id string, s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	path := st.path(id)
	f, err := os.CreateTemp(st.dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
