package supervisor

import (
	"context"
	"slices"
)

// refuses says why a service may not be started now; s.mu is held.
func (s *Supervisor) refuses(sv *service) error {
	switch {
	case s.closing:
		return ErrShuttingDown
	case s.hold != nil && !slices.Contains(s.hold, sv.Name):
		return ErrHeld
	}
	return nil
}

// Hold stops every service but keep and oneshots, and has none but keep started
// until Release. It returns what it has stopped, and which of them, or of those
// that were about to end by themselves, are still there when ctx ends. A second
// Hold without a Release adds to the first.
func (s *Supervisor) Hold(ctx context.Context, keep ...string) (held, left []string) {
	var ending []string
	s.locked(func() {
		s.hold = append([]string{}, keep...) // not nil: nobody may be kept
		for _, sv := range s.services {
			if sv.Oneshot || slices.Contains(keep, sv.Name) {
				continue
			}
			if sv.process != nil {
				ending = append(ending, sv.Name)
			}
			if !sv.want || sv.state == Failed {
				continue
			}
			held = append(held, sv.Name)
			_ = s.stop(sv) // it has no error
			if sv.state == Stopped {
				sv.forget()
			}
			sv.held = true
		}
	})
	for _, name := range ending {
		if s.AwaitEnd(ctx, name) != nil {
			left = append(left, name)
		}
	}
	return held, left
}

// Release ends Hold: what that has stopped is started again, unless somebody has
// stopped it meanwhile. It returns without waiting for it.
func (s *Supervisor) Release() {
	s.locked(func() {
		s.hold = nil
		for _, sv := range s.services {
			if sv.held {
				sv.held = false
				_ = s.start(sv) // but for a shutdown
			}
		}
	})
}

// AwaitEnd waits until a service has no process, for whatever reason, or ctx
// ends, which is an error.
func (s *Supervisor) AwaitEnd(ctx context.Context, name string) error {
	if s.find(name) == nil {
		return ErrUnknown
	}
	return s.await(ctx, name, func(sv *service) (bool, error) { return sv.process == nil, nil })
}

// AwaitUp waits until a service is running, idle or done (nil), has ended (an
// error with its last words) or ctx ends.
func (s *Supervisor) AwaitUp(ctx context.Context, name string) error {
	if s.find(name) == nil {
		return ErrUnknown
	}
	return s.awaitUp(ctx, name)
}
