//go:build linux

package onbox

import (
	"context"
	"fmt"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/wire"
	"gwinit/internal/factoryreset"
	"gwinit/internal/gwctl"
)

// removed says for people what a factory reset takes away.
const removed = "Settings, keys, passwords, the host's key and the Thread network are removed"

// FactoryResetUsage is the help of FactoryReset.
const FactoryResetUsage = `usage: gwctl factory-reset [-y]
make the gateway as a new one, and restart it

` + removed + `;
` + factoryreset.Kept + `.
Nobody can log in afterwards until a key is brought in anew (gwctl -H HOST setup).

  -y  do not ask
`

// FactoryReset takes the settings of the gateway below root ("" on the box) away
// at the next boot, and begins it. It does what the button does.
func FactoryReset(ctx context.Context, root string, std applet.IO, args []string, asJSON bool, ask gwctl.Asker) error {
	sure := false
	for _, a := range args {
		if a != "-y" {
			return applet.Usagef("factory-reset takes -y or nothing, not %q", a)
		}
		sure = true
	}
	if !sure {
		if err := confirmed(std, removed+"; "+factoryreset.Kept+". Nobody can log in until a key is brought in anew. Do it?"); err != nil {
			return err
		}
	}
	if err := factoryreset.Request(root); err != nil {
		return fmt.Errorf("%w; what became of /userdata is in gwctl status", err)
	}
	data, err := ask(ctx, api.OpShutdown, api.ShutdownArgs{Action: "reboot"})
	if err != nil {
		return fmt.Errorf("the next boot makes the factory reset, but it does not begin: %w", err)
	}
	if !asJSON {
		_, err = fmt.Fprintln(std.Out, "The gateway restarts, and is as a new one then.")
		return err
	}
	line, err := wire.Marshal(data)
	if err == nil {
		_, err = std.Out.Write(append(line, '\n'))
	}
	return err
}
