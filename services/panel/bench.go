//go:build linux

package panel

import (
	"context"
	"time"

	"gwinit/internal/wait"
)

const (
	// benchSample is between looks at a line without an interrupt: bench mode
	// has two wakeups a second for everything.
	benchSample = time.Second
	// benchHold is for how long a press has to last.
	benchHold = 300 * time.Millisecond
)

// runBench is Run in bench mode: it has one meaning of the button, and at most
// one wakeup a second.
func (s *Service) runBench(ctx context.Context) {
	if s.lamp != nil {
		now := light{name: benchMode.name}
		if s.lamp.has(triggerTimer) {
			now = benchMode // which the kernel blinks
		}
		s.lamp.show(0, now)
		s.report(s.lamp.err)
	}
	if s.line == nil {
		<-ctx.Done()
		return
	}
	for armed := false; ; {
		pressed, err := s.line.Active()
		if err != nil {
			s.opt.Log("panel: the button does nothing any more: " + err.Error())
			<-ctx.Done()
			return
		}
		if armed && pressed {
			if !wait.For(ctx, benchHold) {
				return
			}
			if pressed, err = s.line.Active(); err == nil && pressed {
				s.opt.Log("panel: button: pressed, which ends bench mode")
				s.opt.Bench()
				<-ctx.Done()
				return
			}
		}
		armed = armed || !pressed // seen released once
		if s.changes == nil {
			if !wait.For(ctx, benchSample) {
				return
			}
			continue
		}
		select {
		case <-s.changes:
		case <-ctx.Done():
			return
		}
	}
}
