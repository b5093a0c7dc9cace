package api

// UpdateStatus is what `gwctl update status -json` prints.
type UpdateStatus struct {
	Version  string `json:"version"` // of the userland that runs
	Running  string `json:"running"` // it: factory, or a slot
	Trial    bool   `json:"trial,omitempty"`
	Factory  string `json:"factory"`            // version of the one in the rootfs
	BootMode string `json:"bootMode,omitempty"` // as in Status
	Board    string `json:"board"`              // as in Board.ID
	Kernel   string `json:"kernel"`             // as uname -r has it

	Next     string       `json:"next"`               // what a restart runs
	Slots    []UpdateSlot `json:"slots"`              // that hold something
	Try      string       `json:"try,omitempty"`      // a slot that is tried, until it is committed or given up
	Attempts int          `json:"attempts,omitempty"` // of it that were begun
	Most     int          `json:"attemptsMost"`
	// Failed is the version whose trial was the last to end without a commit, and
	// Reason why; empty if none did since one was committed.
	Failed string `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Problem is why another userland runs than the one that should.
	Problem string `json:"problem,omitempty"`
}

// UpdateSlot is a userland beside the factory's.
type UpdateSlot struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// UpdateDone is what `gwctl update -json FILE` prints.
type UpdateDone struct {
	Version string `json:"version"`
	Slot    string `json:"slot,omitempty"` // where it is now; absent with DryRun
	Bytes   int64  `json:"bytes"`
	Comment string `json:"comment,omitempty"` // of its signature
	DryRun  bool   `json:"dryRun,omitempty"`
	Reboot  bool   `json:"reboot,omitempty"` // the gateway restarts now, and tries it
}

// UpdateBack is what `gwctl rollback -json` prints.
type UpdateBack struct {
	Next   string `json:"next"` // what the next boot runs
	Reboot bool   `json:"reboot,omitempty"`
}
