//go:build linux

package otbr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/radioproto/hdlc"
	"gwinit/internal/radioproto/spinel"
	"gwinit/internal/tty"
)

// How the radio is asked for its version.
const (
	probeTID   = 1
	probeTries = 4
	probeWait  = 500 * time.Millisecond // for each answer; it takes some ms
)

// errSilent: nothing that came was an answer.
var errSilent = errors.New("no answer")

// probeRadio asks the radio for its version by Spinel. baseBaud is the board's.
func probeRadio(ctx context.Context, device string, baud int, flow string, baseBaud int) (version string, err error) {
	f, err := tty.ParseFlow(flow)
	if err != nil {
		return "", err
	}
	p, err := tty.Open(device, tty.Config{Baud: baud, Flow: f, BaseBaud: baseBaud})
	if err != nil {
		return "", err
	}
	defer p.Close()
	request := hdlc.Append(nil, spinel.Frame{TID: probeTID, Command: spinel.PropGet, Property: spinel.NCPVersion}.Append(nil))
	var in hdlc.Receiver
	other := 0
	for range probeTries {
		if _, err := unix.Write(p.FD(), request); err != nil && !errors.Is(err, unix.EAGAIN) {
			return "", fmt.Errorf("write %s: %w", device, err)
		}
		for end := time.Now().Add(probeWait); ; {
			left := time.Until(end)
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			if left <= 0 {
				break
			}
			poll := []unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}
			if n, _ := unix.Poll(poll, int(left.Milliseconds())+1); n == 0 {
				continue
			}
			var buf [256]byte
			n, err := unix.Read(p.FD(), buf[:])
			if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				return "", fmt.Errorf("read %s: %w", device, err)
			}
			if n == 0 && err == nil {
				return "", fmt.Errorf("read %s: it hung up", device)
			}
			other += max(n, 0)
			for b := buf[:max(n, 0)]; len(b) > 0; {
				took, frame := in.Next(b)
				b = b[took:]
				if s, ok := spinel.Parse(frame); ok && s.Answer(probeTID, spinel.NCPVersion) {
					return clean(s.Text()), nil
				}
			}
		}
	}
	if other > 0 {
		return "", fmt.Errorf("%w, but %d bytes of something else", errSilent, other)
	}
	return "", errSilent
}
