package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"gwinit/internal/wait"
)

// A gateway that was reset in the middle of a command says nothing any more, not
// even that its connection ended. A command that is bounded ends all the same.
func TestCommandOnADeadGateway(t *testing.T) {
	w := newWorkstation(t)
	b := newBox(t, w.key)
	w.r.known.accept = true

	// A cable that can be cut.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var cut atomic.Bool
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		far, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port())))
		if err != nil {
			return
		}
		defer far.Close()
		pass := func(to io.Writer, from io.Reader) {
			buf := make([]byte, 4096)
			for {
				n, err := from.Read(buf)
				if err != nil {
					return
				}
				if !cut.Load() {
					_, _ = to.Write(buf[:n])
				}
			}
		}
		go pass(c, far)
		pass(far, c)
	}()

	c, err := w.r.dial(t.Context(), target{name: "attic", user: "root", host: "127.0.0.1", port: l.Addr().(*net.TCPAddr).Port})
	if err != nil {
		t.Fatal(err)
	}
	box := flashBox{c}
	t.Cleanup(func() { _ = box.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	go func() {
		for !slices.Contains(b.get().ran, "hang") && wait.For(ctx, 5*time.Millisecond) {
		}
		cut.Store(true)
	}()
	ended := make(chan error, 1)
	go func() { ended <- box.Run(ctx, "hang", nil, io.Discard) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command goes on")
	}
	// So does the next one, which gets no channel.
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := box.Run(ctx, "next", nil, io.Discard); err == nil {
		t.Error("a command on it succeeded")
	}
}
