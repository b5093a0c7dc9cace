package flash

import (
	"cmp"
	"context"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// closeWithin is how long a gateway may take to agree that a command is over.
const closeWithin = 2 * time.Second

// RunCommand carries a command line of a login's shell out, as Box.Run. It returns
// soon after ctx has ended, whatever the gateway does by then: one that was reset says
// nothing any more, and the login is closed.
func RunCommand(ctx context.Context, c *ssh.Client, command string, in io.Reader, out io.Writer) error {
	var session atomic.Pointer[ssh.Session]
	over := make(chan struct{})
	defer close(over)
	defer context.AfterFunc(ctx, func() {
		if s := session.Load(); s != nil {
			go s.Close() // which may wait for room, too
		}
		select {
		case <-over:
		case <-time.After(closeWithin):
			c.Close()
		}
	})()
	s, err := c.NewSession()
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	defer s.Close()
	session.Store(s)
	s.Stdin, s.Stdout = in, out
	if err := s.Run(command); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	return nil
}
