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

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/flash"
	"gwinit/internal/gwctl/install"
)

const (
	flashName   = "flash"
	installName = "install"
)

// dialBox is how one gateway is logged in to; nil without one.
func (r *runner) dialBox(targets []target) (name string, dial func(context.Context) (flash.Box, error), err error) {
	switch len(targets) {
	case 0:
		return "", nil, nil
	case 1:
		t := targets[0]
		return t.name, func(ctx context.Context) (flash.Box, error) {
			// What is bounded is the login; the connection is closed by its owner.
			c, err := r.dial(ctx, t)
			if err != nil {
				return nil, err
			}
			return flashBox{c}, nil
		}, nil
	}
	return "", nil, applet.Usagef("one gateway at a time is flashed: with several in their loaders nobody could tell which one waits where")
}

// without is args without the command's name.
func without(args []string, name string) []string {
	i := slices.Index(args, name)
	return slices.Delete(slices.Clone(args), i, i+1)
}

// flash brings an image to a gateway's flash. Without one it is a loader that waits.
func (r *runner) flash(ctx context.Context, targets []target, args []string) error {
	name, dial, err := r.dialBox(targets)
	if err != nil {
		return err
	}
	e := flash.Env{Name: name, Dial: dial, Yes: r.ask.yes, Keys: func() []string { return r.publicKeys(ctx) }, Out: r.std.Out, Err: r.std.Err}
	return flash.Run(ctx, e, without(args, flashName))
}

// install guides the first flash.
func (r *runner) install(ctx context.Context, targets []target, args []string) error {
	name, dial, err := r.dialBox(targets)
	if err != nil {
		return err
	}
	return install.Run(ctx, install.Env{Name: name, Dial: dial, Yes: r.ask.yes, Out: r.std.Out}, without(args, installName))
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
	return flash.RunCommand(ctx, b.c.Client, command, in, out)
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
