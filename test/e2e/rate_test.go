//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	type end struct {
		n   uint64
		err error
	}
	toClient, toRadio := make(chan end, 1), make(chan end, 1)
	pass := func(from, to net.Conn, seed byte, done chan<- end) {
		sent := make(chan end, 1)
		go func() {
			var e end
			source, chunk := rand.NewChaCha8([32]byte{seed}), make([]byte, 512)
			for until := time.Now().Add(d); e.err == nil && time.Now().Before(until); e.n += uint64(len(chunk)) {
				_, _ = source.Read(chunk) // never fails
				_, e.err = from.Write(chunk)
			}
			sent <- e
		}()
		source, got, want := rand.NewChaCha8([32]byte{seed}), make([]byte, 512), make([]byte, 512)
		var n uint64
		var all *end
		for all == nil || n < all.n {
			if all == nil {
				select {
				case e := <-sent:
					all = &e
					continue
				default:
				}
			}
			if _, err := io.ReadFull(to, got); err != nil {
				done <- end{n, err}
				return
			}
			_, _ = source.Read(want)
			if !bytes.Equal(got, want) {
				done <- end{n, errors.New("the bytes differ from what was sent")}
				return
			}
			n += uint64(len(got))
		}
		done <- end{n, all.err}
	}
	go pass(radio, client, 1, toClient)
	go pass(client, radio, 2, toRadio)
	down, up := <-toClient, <-toRadio
	for name, e := range map[string]end{"to the client": down, "to the radio": up} {
		if e.err != nil || e.n == 0 {
			t.Errorf("%s: %v after %d bytes", name, e.err, e.n)
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
