package supervisor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/handoff"
	"gwinit/internal/notify"
	"gwinit/internal/reaper"
)

// Everything in this file is called with Supervisor.mu held.

// set puts a service into a state, and says why in the log unless why is empty.
func (s *Supervisor) set(sv *service, state, why string) {
	if sv.timer != nil {
		sv.timer.Stop()
		sv.timer = nil
	}
	if sv.state == Waiting {
		sv.status = "" // what it waited for
	}
	sv.state, sv.since = state, time.Now()
	switch state {
	case Running, Done, Failed, Stopped, Backoff, Idle:
		sv.settled = true
	}
	if why != "" {
		s.o.Ring.Append(LogName, sv.Name+": "+state+": "+why)
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// after runs f after d, unless the service has left its present state by then.
func (s *Supervisor) after(sv *service, d time.Duration, f func()) {
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		s.locked(func() {
			if sv.timer == timer {
				sv.timer = nil
				f()
			}
		})
	})
	if sv.timer != nil {
		sv.timer.Stop()
	}
	sv.timer = timer
}

// start is what Start asks for.
func (s *Supervisor) start(sv *service) error {
	if err := s.refuses(sv); err != nil {
		return fmt.Errorf("start %s: %w", sv.Name, err)
	}
	sv.want, sv.history = true, history{}
	switch sv.state {
	case Idle:
		if sv.Socket != "" {
			break // until something waits there
		}
		fallthrough
	case Stopped, Failed, Backoff, Done:
		s.set(sv, Waiting, "asked to start")
		s.settle()
	case Stopping:
		sv.again = true
	}
	return nil
}

// stop is what Stop asks for.
func (s *Supervisor) stop(sv *service) error {
	sv.want, sv.again, sv.held, sv.history = false, false, false, history{}
	switch sv.state {
	case Waiting, Backoff, Failed, Idle:
		s.set(sv, Stopped, "asked to stop")
		s.settle()
	case Starting, Running:
		s.terminate(sv, "asked to stop")
	}
	return nil
}

// settle starts every waiting service that has what it depends on.
func (s *Supervisor) settle() {
	for progress := true; progress; {
		progress = false
		for _, sv := range s.services {
			if sv.state != Waiting || s.closing {
				continue
			}
			missing, held := "", false // held: by one that has had its chance
			for _, name := range sv.After {
				if !s.find(name).settled {
					missing = name
				}
			}
			for _, name := range sv.Needs {
				if d := s.find(name); d.state != Running && d.state != Done && (d.state != Idle || d.Socket == "") {
					missing, held = name, held || d.settled
				}
			}
			if missing == "" {
				if sv.Socket != "" && !sv.called {
					s.idle(sv)
				} else {
					s.launch(sv)
				}
				progress = true
				continue
			}
			sv.status = "waits for " + missing
			if held && !sv.settled {
				sv.settled, progress = true, true
			}
		}
	}
}

// idle has the socket of an on-demand service, and watches it.
func (s *Supervisor) idle(sv *service) {
	if err := s.watch(sv); err != nil {
		sv.lastExit = "cannot start: " + err.Error()
		s.ended(sv, end{code: -1})
		return
	}
	s.set(sv, Idle, "until something waits at "+sv.Socket)
}

// watch makes the socket if it is not there, and watches it if it is not
// watched already.
func (s *Supervisor) watch(sv *service) error {
	i := slices.IndexFunc(sv.stored, func(f notify.Stored) bool { return f.Name == handoff.StoredName })
	if i < 0 {
		fd, err := s.o.Launcher.Listen(sv.Socket)
		if err != nil {
			return err
		}
		i = len(sv.stored)
		sv.stored = append(sv.stored, notify.Stored{Name: handoff.StoredName, FD: fd})
	}
	if sv.watch != 0 {
		return nil
	}
	s.watchID++
	this := s.watchID
	err := s.o.Launcher.Watch(sv.stored[i].FD, func() {
		s.locked(func() {
			if sv.watch != this {
				return // of a socket that was closed
			}
			sv.watch = 0
			if sv.state == Idle {
				sv.called = true
				s.set(sv, Waiting, "")
				s.settle()
			}
		})
	})
	if err == nil {
		sv.watch = this
	}
	return err
}

// launch starts the process.
func (s *Supervisor) launch(sv *service) {
	sv.called = false
	if sv.unasked {
		sv.restarts++
		sv.unasked = false
	}
	sv.gen++
	gen := sv.gen
	sv.reason, sv.status = "", ""
	sv.firstLine, sv.startedAt, sv.readyAt = s.o.Ring.Seq(), time.Now(), time.Time{}
	sv.calls = make(map[uint32]chan answer)
	p, err := s.try(sv, Events{
		Message: func(m notify.Message, fds []int) {
			taken := false
			s.locked(func() {
				if sv.gen == gen && sv.process != nil {
					taken = s.message(sv, m, fds)
				}
			})
			if !taken {
				notify.CloseAll(fds)
			}
		},
		Exit: func(e reaper.Exit) {
			s.locked(func() {
				if sv.gen == gen {
					s.exited(sv, e)
				}
			})
		},
	})
	if err != nil {
		sv.lastExit = "cannot start: " + err.Error()
		s.ended(sv, end{code: -1})
		return
	}
	sv.process = p
	why := fmt.Sprintf("process %d", p.PID())
	if sv.NoNotify && !sv.Oneshot {
		sv.readyAt = sv.startedAt
		s.set(sv, Running, why)
		return
	}
	s.set(sv, Starting, why)
	if sv.ReadyTimeout > 0 {
		s.after(sv, sv.ReadyTimeout, func() { s.abort(sv, "not ready within "+sv.ReadyTimeout.String()) })
	}
}

// try starts the process. A panic on the way is a start that failed, so that
// the services behind this one have their turn (INV 1).
func (s *Supervisor) try(sv *service, ev Events) (p Process, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.logPanic(r)
			err = errPanic
		}
	}()
	return s.o.Launcher.Start(&sv.Spec, sv.stored, ev)
}

// message deals with what the service sent, and reports whether it took the
// descriptors over.
func (s *Supervisor) message(sv *service, m notify.Message, fds []int) (taken bool) {
	if m.Answer {
		if reply, ok := sv.calls[m.ID]; ok {
			delete(sv.calls, m.ID)
			if m.Failed {
				reply <- answer{err: &CallError{Text: string(m.Body)}}
			} else {
				reply <- answer{body: bytes.Clone(m.Body)}
			}
		}
		return false
	}
	if m.HasStatus {
		sv.status = m.Status
	}
	if m.Store {
		taken = s.store(sv, m.FDName, fds)
	}
	if m.Remove {
		s.remove(sv, m.FDName)
	}
	if m.Ready && sv.state == Starting && !sv.Oneshot {
		sv.readyAt = time.Now()
		why := "ready after " + round(sv.readyAt.Sub(sv.startedAt)).String()
		if sv.status != "" {
			why += ": " + sv.status
		}
		s.set(sv, Running, why)
		if sv.Watchdog > 0 {
			gen := sv.gen
			sv.watchdog = time.AfterFunc(sv.Watchdog, func() {
				s.locked(func() {
					if sv.gen == gen && sv.state == Running {
						s.abort(sv, "no sign of life for "+sv.Watchdog.String())
					}
				})
			})
		}
		s.settle()
	}
	if m.Watchdog && sv.watchdog != nil {
		sv.watchdog.Reset(sv.Watchdog)
	}
	if m.Stopping && (sv.state == Starting || sv.state == Running) {
		s.set(sv, Stopping, "it ends by itself")
		s.after(sv, sv.StopTimeout, func() { s.kill(sv, "still there after "+sv.StopTimeout.String()) })
	}
	return taken
}

// store keeps a descriptor for the next process.
func (s *Supervisor) store(sv *service, name string, fds []int) bool {
	i := slices.IndexFunc(sv.stored, func(f notify.Stored) bool { return f.Name == name })
	switch {
	case len(fds) != 1:
		s.o.Ring.Append(LogName, fmt.Sprintf("%s: stores %s with %d descriptors instead of one", sv.Name, name, len(fds)))
		return false
	case i >= 0:
		unix.Close(sv.stored[i].FD)
		sv.stored[i].FD = fds[0]
	case len(sv.stored) >= notify.MaxStored:
		s.o.Ring.Append(LogName, fmt.Sprintf("%s: cannot store %s, it has %d descriptors here", sv.Name, name, len(sv.stored)))
		return false
	default:
		sv.stored = append(sv.stored, notify.Stored{Name: name, FD: fds[0]})
	}
	return true
}

func (s *Supervisor) remove(sv *service, name string) {
	sv.stored = slices.DeleteFunc(sv.stored, func(f notify.Stored) bool {
		if f.Name == name {
			unix.Close(f.FD)
		}
		return f.Name == name
	})
}

// forget closes what the service stored. Nobody will take it over: a listening
// socket that stayed open would let clients connect and then leave them waiting.
func (sv *service) forget() {
	for _, f := range sv.stored {
		if sv.Socket != "" && f.Name == handoff.StoredName {
			// Nobody listens then, whoever has a duplicate; the watch ends.
			_ = unix.Shutdown(f.FD, unix.SHUT_RDWR)
		}
		unix.Close(f.FD)
	}
	sv.stored, sv.watch = nil, 0
}

// terminate asks the process to end, and sees to it.
func (s *Supervisor) terminate(sv *service, why string) {
	s.set(sv, Stopping, why)
	s.signal(sv, syscall.SIGTERM)
	if sv.TTY != "" {
		s.signal(sv, syscall.SIGHUP) // interactive shells ignore SIGTERM
	}
	s.after(sv, sv.StopTimeout, func() { s.kill(sv, "still there after "+sv.StopTimeout.String()) })
}

// abort ends a process that does not do its job, with the chance to say where
// it hangs: a Go program writes its stacks on SIGQUIT.
func (s *Supervisor) abort(sv *service, why string) {
	sv.reason = why
	s.set(sv, Stopping, why)
	s.signal(sv, syscall.SIGQUIT)
	s.after(sv, quitGrace, func() { s.kill(sv, why) })
}

// kill ends the process at once.
func (s *Supervisor) kill(sv *service, why string) {
	sv.reason = why
	s.set(sv, Stopping, "killed: "+why)
	s.signal(sv, syscall.SIGKILL)
}

// signal sends to the group. An error is that it has ended already, which the
// reaper is about to tell.
func (s *Supervisor) signal(sv *service, sig syscall.Signal) { _ = sv.process.Signal(sig) }

// exited deals with the end of the process.
func (s *Supervisor) exited(sv *service, e reaper.Exit) {
	now := time.Now()
	this := end{ran: now.Sub(sv.startedAt), code: code(e.Status)}
	if !sv.readyAt.IsZero() {
		this.ready = now.Sub(sv.readyAt)
	}
	sv.lastExit = describe(e.Status) + " after " + round(this.ran).String()
	if sv.reason != "" {
		sv.lastExit += " (" + sv.reason + ")"
	}
	if words := s.lastWords(sv); words != "" {
		sv.lastExit += ": " + words
	}
	sv.process = nil
	if sv.watchdog != nil {
		sv.watchdog.Stop()
		sv.watchdog = nil
	}
	for id, reply := range sv.calls {
		delete(sv.calls, id)
		reply <- answer{err: fmt.Errorf("%s %w: it ended before it answered", sv.Name, ErrNotRunning)}
	}
	s.ended(sv, this)
}

// ended decides what comes after an end, or a start that failed.
func (s *Supervisor) ended(sv *service, e end) {
	again := sv.again
	sv.again = false
	switch {
	case sv.Once && !s.closing:
		sv.want = false
		sv.forget()
		s.set(sv, Idle, sv.lastExit)
	case s.closing || !sv.want:
		sv.forget()
		s.set(sv, Stopped, sv.lastExit)
	case again:
		s.set(sv, Waiting, sv.lastExit)
	default:
		v := sv.history.next(&sv.Spec, e)
		sv.unasked = !v.idle
		switch {
		case v.idle:
			s.set(sv, Waiting, sv.lastExit)
		case v.done:
			s.set(sv, Done, sv.lastExit)
		case v.failed != "":
			s.set(sv, Failed, v.failed+"; "+sv.lastExit)
		default:
			s.set(sv, Backoff, sv.lastExit+"; next start in "+v.delay.String())
			s.after(sv, v.delay, func() {
				s.set(sv, Waiting, "")
				s.settle()
			})
		}
	}
	if s.closing {
		s.sweep()
		return
	}
	s.settle()
}

// sweep ends the services on which none that runs depends.
func (s *Supervisor) sweep() {
	for _, sv := range s.services {
		if sv.process == nil || sv.state == Stopping {
			continue
		}
		if !slices.ContainsFunc(s.services, func(other *service) bool {
			return other.process != nil && (slices.Contains(other.Needs, sv.Name) || slices.Contains(other.After, sv.Name))
		}) {
			s.terminate(sv, "shutdown")
		}
	}
}

// crashLines is how far back the beginning of a crash is looked for: one with
// every goroutine and the registers has some 250 lines.
const crashLines = 500

// lastWords returns the line that tells most of the end of the process.
func (s *Supervisor) lastWords(sv *service) string {
	last := ""
	for _, l := range slices.Backward(s.o.Ring.Last(sv.Name, crashLines)) {
		if l.Seq <= sv.firstLine {
			break
		}
		if last == "" {
			last = l.Text
		}
		if beginsCrash(l.Text) {
			last = l.Text // not the last line of the stacks behind it
			break
		}
	}
	if len(last) > notify.MaxStatus {
		last = strings.ToValidUTF8(last[:notify.MaxStatus], "")
	}
	return last
}

// beginsCrash tells whether a line is the first that Go's runtime prints of a
// crash; "SIGQUIT: quit" is such a line, too.
func beginsCrash(line string) bool {
	name, _, ok := strings.Cut(line, ": ")
	return ok && (name == "panic" || name == "fatal error" || strings.HasPrefix(name, "SIG") && !strings.Contains(name, " "))
}

// describe names the way in which a process ended.
func describe(w syscall.WaitStatus) string {
	if w.Signaled() {
		return fmt.Sprintf("signal %d (%v)", int(w.Signal()), w.Signal())
	}
	return fmt.Sprintf("exit status %d", w.ExitStatus())
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
