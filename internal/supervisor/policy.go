package supervisor

import (
	"syscall"
	"time"
)

// history is what the restart of a service depends on.
type history struct {
	delay time.Duration // of the next restart, 0 for the first
	fast  int           // fast ends in a row
}

// end is one end of a process.
type end struct {
	ran   time.Duration // since its start
	ready time.Duration // since it was ready, 0 if it never was
	code  int           // exit status; -1 for a signal or a start that failed
}

// verdict is what follows from an end.
type verdict struct {
	done   bool
	idle   bool   // on demand, and over for now
	failed string // why, if it is failed
	delay  time.Duration
}

// next decides about the end e of a service.
func (h *history) next(s *Spec, e end) verdict {
	if s.Oneshot && e.code == 0 {
		*h = history{}
		return verdict{done: true}
	}
	if s.Socket != "" && e.code == 0 && e.ran >= fastExit {
		*h = history{}
		return verdict{idle: true}
	}
	if e.ready >= healthyAfter || s.TTY != "" && e.ran >= sessionTime {
		*h = history{}
	}
	if e.ran < fastExit && (s.TTY == "" || e.ran < sessionTime) {
		h.fast++
	} else {
		h.fast = 0
	}
	h.delay = min(max(2*h.delay, firstDelay), maxDelay)
	failed := ""
	switch {
	case e.code == ExitPointless:
		failed = "it says that another start is pointless"
	case h.fast >= maxFast:
		failed = "it ended within " + fastExit.String() + " five times in a row"
	}
	switch {
	case failed == "":
		return verdict{delay: h.delay}
	case s.Essential:
		return verdict{delay: essentialDelay}
	default:
		return verdict{failed: failed}
	}
}

// code returns the exit status, or -1 for a signal.
func code(w syscall.WaitStatus) int {
	if w.Exited() {
		return w.ExitStatus()
	}
	return -1
}
