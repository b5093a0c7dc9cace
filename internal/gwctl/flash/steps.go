package flash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"gwinit/internal/gwctl/image"
	"gwinit/internal/gwctl/progress"
	"gwinit/internal/wait"
)

// enterLoader has the gateway restart into its loader.
func (r *run) enterLoader(ctx context.Context, box Box) error {
	if err := hold(ctx, box, r.f, r.loader); err != nil {
		return fmt.Errorf("%w.\nThe gateway runs on as before, and nothing was flashed. With a serial console it can be done by hand (docs/install.md)", err)
	}
	r.say("the loader will wait at %s", r.loader)
	var out bytes.Buffer
	rctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	// A login that ends without an exit status is what a restart looks like.
	if err := box.Run(rctx, "sync; reboot", nil, &out); err != nil && strings.Contains(out.String(), "not found") {
		return fmt.Errorf("reboot on the gateway: %w.\nIt runs on, and nothing was flashed; at its next restart it waits in its loader at %s, once", err, r.loader)
	}
	box.Close()
	r.say("restarting")
	return nil
}

// upload waits for the loader and sends the image.
func (r *run) upload(ctx context.Context) error {
	c := NewClient(r.tftp, r.loader, r.Times)
	w := r.Waits.or(len(r.send))
	bar := progress.New(r.Err, "sent", progress.Bytes, int64(len(r.send)))
	defer bar.End()
	within := w.Loader
	if r.Dial == nil {
		within = w.Firewall
	}
	// Who is there and silent is found out beside the waiting.
	put, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var begun, there atomic.Bool
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for !begun.Load() && put.Err() == nil {
			if !r.InUse(put, r.loader) {
				wait.For(put, time.Second)
				continue
			}
			there.Store(put.Err() == nil)
			if wait.For(put, w.Firewall) && !begun.Load() {
				giveUp(ErrNoAnswer)
			}
			return
		}
	}()
	err := c.Put(put, r.send, within, func(done int) {
		begun.Store(true)
		bar.Begin()
		bar.At(int64(done))
	})
	if cause := context.Cause(put); err != nil && errors.Is(cause, ErrNoAnswer) {
		err = fmt.Errorf("%s: %w", r.loader, cause)
	}
	giveUp(nil)
	<-watched
	bar.End()
	switch {
	case err == nil:
		r.say("sent: %d bytes. Now it is written: DO NOT SWITCH THE GATEWAY OFF", len(r.send))
		return nil
	case errors.Is(err, ErrLastBlock):
		r.say("sent, but for the last answer: it is probably being written. DO NOT SWITCH THE GATEWAY OFF")
		return nil
	case errors.Is(err, ErrToldNo):
		return fmt.Errorf("%w.\nNothing was flashed: the gateway waits in its loader at %s. Switched off and on it starts as before", err, r.loader)
	case begun.Load():
		return fmt.Errorf("%w.\nNothing was flashed: a loader writes when it has everything. If it still waits, go on with: %s\nSwitched off and on it starts as before", err, r.again())
	case ctx.Err() != nil:
		return fmt.Errorf("%w.\nNothing was flashed. The gateway may wait in its loader at %s; switched off and on it starts as before. To go on: %s", err, r.loader, r.again())
	case there.Load():
		return fmt.Errorf("%w, but somebody is at %s: %s.\nNothing was flashed. The gateway waits in its loader; to go on: %s\nSwitched off and on it starts as before", err, r.loader, firewallAdvice, r.again())
	case r.Dial != nil && r.returned(ctx):
		return fmt.Errorf("%w: %s came back without waiting in its loader (one older than V2.7 knows no address and waits at 192.168.1.6, or there is a cable or a switch between that keeps this computer out).\nNothing was flashed, and it runs as before", err, r.Name)
	case r.Dial == nil:
		return fmt.Errorf("%w: does the gateway wait there? Its serial console shows <RealTek> then.\nNothing was flashed", err)
	}
	return fmt.Errorf("%w.\nNothing was flashed. Switched off and on the gateway starts as before; if it then waits in its loader, go on with: %s", err, r.again())
}

// returned tells whether the gateway lets log in.
func (r *run) returned(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	box, err := r.Dial(ctx)
	if err != nil {
		return false
	}
	box.Close()
	return true
}

// verdict waits for what the loader says, and for the gateway.
func (r *run) verdict(ctx context.Context) error {
	w := r.Waits.or(len(r.send))
	begin := time.Now()
	bar := progress.New(r.Err, "writing", progress.Seconds, int64(w.Verdict/time.Second))
	bar.Begin()
	v, err := waitVerdict(ctx, r.notice, r.loader, w.Verdict, func(left time.Duration) { bar.At(int64((w.Verdict - left) / time.Second)) })
	bar.End()
	if err != nil {
		return fmt.Errorf("%w.\nThe image is with the gateway, which writes it: do not switch it off for %v, then look whether it comes back", err, w.Verdict.Round(time.Minute))
	}
	switch v {
	case VerdictFail:
		return fmt.Errorf("the loader could not write the image, or what it wrote reads back differently.\nDo not switch the gateway off: it waits in its loader at %s. Send it again: %s\nIf that fails, too, see docs/recover.md", r.loader, r.again())
	case VerdictOK:
		r.say("written and compared, after %.0f s", time.Since(begin).Seconds())
	case VerdictNone:
		r.say("the loader said nothing (port %d): %s", noticePort, "that may be the firewall, so the gateway itself is asked")
		if r.Dial == nil {
			return fmt.Errorf("whether it was written is not known.\nThe gateway's console tells, or gwctl discover if it comes back; if it still waits in its loader, go on with: %s", r.again())
		}
	}
	if r.Dial == nil {
		r.say("the gateway restarts; gwctl discover finds it")
		return nil
	}
	return r.back(ctx, v == VerdictOK, w)
}

// back waits for the gateway and looks at what it runs.
func (r *run) back(ctx context.Context, written bool, w Waits) error {
	r.say("waiting for the gateway to start")
	begin := time.Now()
	end := begin.Add(w.Back)
	var last error
	for time.Now().Before(end) {
		if !wait.For(ctx, w.Every) {
			return fmt.Errorf("%w.\nThe image was written; the gateway is starting", ctx.Err())
		}
		f, err := r.look(ctx)
		if err != nil {
			last = err
			continue
		}
		if err := r.isFlashed(f); err != nil {
			return err
		}
		r.say("%s is back after %.0f s and runs %s", r.Name, time.Since(begin).Seconds(), f.says())
		return nil
	}
	state := "The image was written and compared"
	if !written {
		state = "Whether the image was written is not known"
	}
	return fmt.Errorf("%s lets nobody log in after %v: %w.\n%s. Has it another address now (gwctl discover)? If not, its serial console tells (docs/recover.md)", r.Name, w.Back, last, state)
}

func (f facts) says() string {
	if f.firmware == image.Ours {
		return "gwinit " + f.version + ", kernel " + f.kernel
	}
	return "today's firmware, kernel " + f.kernel
}

func (r *run) look(ctx context.Context) (facts, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	box, err := r.Dial(ctx)
	if err != nil {
		return facts{}, err
	}
	defer box.Close()
	return ask(ctx, box)
}

// isFlashed tells whether a gateway runs what was sent.
func (r *run) isFlashed(f facts) error {
	for _, p := range r.file.Parts {
		switch {
		case p.Area.Name == "rootfs" && p.Firmware != image.Foreign && (p.Firmware != f.firmware || p.Firmware == image.Ours && p.Version != f.version):
			return fmt.Errorf("%s is back, but runs %s instead of %s: nothing was written, or it runs another copy (gwctl status tells which)", r.Name, f.says(), p.Title())
		case p.Area.Name == "kernel" && p.Version != "" && p.Version != f.kernel:
			return fmt.Errorf("%s is back, but runs the kernel %s instead of %s: nothing was written", r.Name, f.kernel, p.Version)
		}
	}
	return nil
}
