//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"gwinit/test/board"
)

// As fast as the emulated UART goes, both ways at once: no byte is lost or
// changed. The soak does it for ten minutes.
func TestBoardFullRate(t *testing.T) {
	t.Parallel()
	d := 5 * time.Second
	if soak {
		d = 10 * time.Minute
	}
	m := start(t, nil)
	radio, err := net.Dial("unix", m.RadioPath())
	if err != nil {
		t.Fatal(err)
	}
	defer radio.Close()
	shell(t, m)
	await(t, m, "everything running", settled)
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	if err := m.WaitPort(ctx, board.BridgePort); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", m.Addr(board.BridgePort))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// The radio speaks only once the bridge has a client.
	patience := time.Now().Add(2*d + bootTime)
	if err := errors.Join(client.SetDeadline(patience), radio.SetDeadline(patience)); err != nil {
		t.Fatal(err)
	}
	hello := []byte{0x1a}
	if _, err := client.Write(hello); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(radio, hello); err != nil {
		t.Fatal(err)
	}
	before := status(t, m).Bridge
	until, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	toClient, toRadio := make(chan passed, 1), make(chan passed, 1)
	go func() { toClient <- pass(until, radio, client, 1, 0) }()
	go func() { toRadio <- pass(until, client, radio, 2, 0) }()
	down, up := <-toClient, <-toRadio
	for name, e := range map[string]passed{"to the client": down, "to the radio": up} {
		if e.err != nil || e.n == 0 {
			t.Errorf("%s: %v after %d bytes; the bridge says:\n%s", name, e.err, e.n, run(t, m, "gwctl logs -n 5 bridge"))
		}
	}
	b := status(t, m).Bridge
	if b == nil || before == nil {
		t.Fatal("the status has no bridge")
	}
	if b.RxBytes-before.RxBytes != down.n || b.TxBytes-before.TxBytes != up.n || b.QueueDropped+b.Overruns+b.BufOverruns != 0 {
		t.Errorf("the bridge counts %d and %d bytes, want %d and %d, and losses: %+v", b.RxBytes-before.RxBytes, b.TxBytes-before.TxBytes, down.n, up.n, b)
	}
	t.Logf("%d bytes to the client and %d to the radio in %v", down.n, up.n, d)
}

// passed is what came of a pass: bytes that arrived as they were sent.
type passed struct {
	n   uint64
	err error
}

// pass sends random bytes from one connection to the other, at most perSecond of
// them (0: as fast as they go), and compares what arrives, until ctx ends and
// everything that was sent is there.
func pass(ctx context.Context, from, to net.Conn, seed byte, perSecond int) passed {
	const size = 512
	total, failed := make(chan uint64, 1), make(chan error, 1)
	go func() {
		source, chunk := rand.NewChaCha8([32]byte{seed}), make([]byte, size)
		begin := time.Now()
		for n := uint64(size); ; n += size {
			last := ctx.Err() != nil
			if last {
				total <- n // before its last byte, so that its reader knows
			}
			_, _ = source.Read(chunk) // never fails
			if _, err := from.Write(chunk); err != nil {
				failed <- err
				_ = to.SetReadDeadline(time.Now())
				return
			}
			if last {
				return
			}
			if perSecond > 0 {
				time.Sleep(time.Until(begin.Add(time.Duration(n) * time.Second / time.Duration(perSecond))))
			}
		}
	}()
	source, got, want := rand.NewChaCha8([32]byte{seed}), make([]byte, size), make([]byte, size)
	for n, all := uint64(0), uint64(math.MaxUint64); ; {
		if _, err := io.ReadFull(to, got); err != nil {
			select {
			case err = <-failed:
			default:
			}
			return passed{n, err}
		}
		_, _ = source.Read(want)
		if !bytes.Equal(got, want) {
			return passed{n, errors.New("the bytes differ from what was sent")}
		}
		n += size
		select {
		case all = <-total:
		default:
		}
		if n >= all {
			return passed{n, nil}
		}
	}
}
