package remote

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/term"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/flash"
)

const flashName = "flash"

// flash brings an image to a gateway's flash. Without one it is a loader that waits.
func (r *runner) flash(ctx context.Context, targets []target, args []string) error {
	args = slices.Clone(args)
	i := slices.Index(args, flashName)
	args = slices.Delete(args, i, i+1)
	e := flash.Env{Yes: r.ask.yes, Keys: func() []string { return r.publicKeys(ctx) }, Out: r.std.Out, Err: r.std.Err}
	if f, ok := r.std.Err.(*os.File); ok {
		e.Bar = term.IsTerminal(int(f.Fd()))
	}
	switch len(targets) {
	case 0:
	case 1:
		t := targets[0]
		e.Name = t.name
		e.Dial = func(ctx context.Context) (flash.Box, error) {
			// What is bounded is the login; the connection is closed by its owner.
			c, err := r.dial(ctx, t)
			if err != nil {
				return nil, err
			}
			return flashBox{c}, nil
		}
	default:
		return applet.Usagef("one gateway at a time is flashed: with several in their loaders nobody could tell which one waits where")
	}
	return flash.Run(ctx, e, args)
}

// flashBox is a login as package flash uses it.
type flashBox struct{ c *conn }

func (b flashBox) Close() error { return b.c.Close() }

func (b flashBox) Addr() netip.Addr {
	a, err := netip.ParseAddrPort(b.c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}

func (b flashBox) Run(ctx context.Context, command string, in io.Reader, out io.Writer) error {
	s, err := b.c.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	s.Stdin, s.Stdout = in, out
	if err := s.Run(command); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}

// publicKeys are this computer's, as lines of authorized_keys: the agent's, and
// those beside the key files that a login tries.
func (r *runner) publicKeys(ctx context.Context) (lines []string) {
	files := identities()
	if r.identity != "" {
		files = []string{r.identity}
	} else if a := openAgent(ctx); a != nil {
		defer a.Close()
		keys, err := agent.NewClient(a).List()
		if err != nil {
			r.ask.say(fmt.Sprintf("the agent does not answer: %v\n", err))
		}
		for _, k := range keys {
			lines = append(lines, k.String())
		}
	}
	for _, path := range files {
		b, err := os.ReadFile(path + ".pub")
		if err != nil {
			continue
		}
		if _, _, _, _, err := ssh.ParseAuthorizedKey(b); err == nil {
			lines = append(lines, strings.TrimSpace(string(b)))
		}
	}
	return lines
}
