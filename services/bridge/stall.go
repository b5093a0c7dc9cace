//go:build linux

package bridge

import (
	"context"
	"strconv"
	"time"

	"gwinit/internal/tty"
)

// A radio that holds off (CTS, XOFF) stops the client by TCP. That is looked at
// while bytes wait for it: not in the data path, which reads no clock, but by a
// goroutine with a timer that is set at most once for each look.

// stall is what was last found.
type stall struct {
	asked    bool          // a look is on its way
	sent     uint64        // bytes that had left the driver then
	since    time.Duration // when that was last found to have grown; never: nothing waited
	reported bool          // that nothing moves
	openedAt time.Duration // when an XOFF was last undone
}

// watchRadio has a look at the radio's progress taken soon.
func (l *loop) watchRadio() {
	if l.stall.asked || l.port == nil {
		return
	}
	every := l.b.o.Limits.Stall / 6
	if l.port.Flow() == tty.FlowSoft {
		every = min(every, l.b.o.Limits.XOFF/2)
	}
	select {
	case l.b.pace <- every:
		l.stall.asked = true
	default:
	}
}

// pacemaker has the loop look, some time after it asked for that.
func (b *Bridge) pacemaker(ctx context.Context) {
	for {
		var t *time.Timer
		select {
		case d := <-b.pace:
			t = time.NewTimer(d)
		case <-ctx.Done():
			return
		}
		select {
		case <-t.C:
			b.post((*loop).lookAtRadio)
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// lookAtRadio finds out whether the radio takes what is for it.
func (l *loop) lookAtRadio() {
	s := &l.stall
	s.asked = false
	held := l.unsent()
	if l.port == nil || l.client.fd < 0 || held == 0 && l.tx.empty() {
		l.radioMoves(l.now())
		s.since = never
		return
	}
	now, sent := l.now(), l.n.tx-held
	switch lim := &l.b.o.Limits; {
	case s.since == never || sent != s.sent:
		l.radioMoves(now)
		s.sent, s.since = sent, now
	default:
		if l.port.Flow() == tty.FlowSoft && now-max(s.since, s.openedAt) >= lim.XOFF {
			// A noise byte that looks like an XOFF must not hold a network for
			// ever: fail open.
			_ = l.port.ResumeOutput()
			s.openedAt = now
			l.n.xoffs++
		}
		if !s.reported && now-s.since >= lim.Stall {
			s.reported = true
			l.n.stalls++
			l.b.o.Log("warning: " + l.stalledText(now))
		}
	}
	l.watchRadio()
}

// radioMoves ends a stall, if there was one.
func (l *loop) radioMoves(now time.Duration) {
	if l.stall.reported {
		l.stall.reported = false
		l.b.o.Log("the radio takes bytes again, after " + span(now-l.stall.since))
	}
}

// stalledText says what is wrong and what to do.
func (l *loop) stalledText(now time.Duration) string {
	flow := tty.FlowNone
	if l.port != nil {
		flow = l.port.Flow()
	}
	how := map[tty.Flow]string{
		tty.FlowNone: "the UART does not send", tty.FlowSoft: "it goes on sending XOFF, or the UART does not send", tty.FlowHard: "it holds CTS off",
	}[flow]
	return "the radio has taken nothing for " + span(now-l.stall.since) + ", " + strconv.FormatUint(l.unsent()+uint64(l.tx.len()), 10) +
		" bytes wait for it, and their client with them: " + how +
		". It is busy or hangs, or its firmware has another flow control than FIRMWARE_FLOW_CTRL says"
}
