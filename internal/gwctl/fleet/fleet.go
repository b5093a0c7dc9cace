// Package fleet says what a gateway is to who updates many of them: a rollout
// (package rollout) and the agent of an update server (package ddi). How it is
// logged in to is somebody else's (package remote).
package fleet

import (
	"context"
	"encoding/hex"
	"io"

	"gwinit/internal/bundle"
)

// Updater is one gateway. Its methods work across restarts of it.
type Updater interface {
	// State asks what it runs.
	State(ctx context.Context) (State, error)
	// Send hands the update over and has it tried. Its error is a Refused if the
	// gateway does not want it.
	Send(ctx context.Context, update io.Reader, size int64) error
	// Wait returns when the trial of a version has ended, over restarts of the
	// gateway. Its error means that nothing is known of that.
	Wait(ctx context.Context, version string) (Outcome, error)
}

// State is what a gateway runs.
type State struct {
	Version string // that runs
	SHA256  string // of its binary in hexadecimal, "" if it is not known
	// Trying is the version that is tried and not kept yet, or will be tried from
	// the next restart on; "" is none.
	Trying string
	// Failed is the version whose trial was the last that ended without a commit,
	// and Reason why; "" if none did since one was kept.
	Failed, Reason string
	Board          string // its ID, "" if it is not known
	Kernel         string // as uname has it, "" if it is not known
}

// Keeps tells whether a gateway runs that update and does not only try it.
func (s State) Keeps(m *bundle.Manifest) bool {
	return s.Version == m.Version && s.Trying != m.Version && (s.SHA256 == "" || s.SHA256 == hex.EncodeToString(m.SHA256[:]))
}

// Outcome is how a trial ended.
type Outcome struct {
	Committed bool
	Reason    string // why it was not
}

// Refused is the word of a gateway that does not take an update.
type Refused struct{ Err error }

// Error implements error.
func (r Refused) Error() string { return r.Err.Error() }

// Unwrap implements errors.Unwrap's interface.
func (r Refused) Unwrap() error { return r.Err }

// Gateway is one of the fleet.
type Gateway struct {
	Name string
	Updater
}
