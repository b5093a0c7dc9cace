package gwctl

import (
	"context"

	"gwinit/internal/applet"
)

// Ends returns the commands that end a boot under the names that they have
// everywhere: reboot, poweroff and halt are gwctl reboot and so on.
func Ends(version string, dial Dialer) []applet.Applet {
	ends := []applet.Applet{
		{Name: "reboot", Summary: "stop everything in order and start again", Usage: "reboot [-safe|-factory]\nThe options choose the next boot only. The same as gwctl reboot."},
		{Name: "poweroff", Summary: "stop everything in order and power off", Usage: "poweroff\nThe same as gwctl poweroff."},
		{Name: "halt", Summary: "stop everything in order and halt the CPU", Usage: "halt\nThe same as gwctl halt."},
	}
	for i := range ends {
		name := ends[i].Name
		ends[i].Group = applet.Manage
		ends[i].Run = func(ctx context.Context, std applet.IO, args []string) error {
			gwctl := Command(version, dial)
			return gwctl.Run(ctx, std, append([]string{name}, args...))
		}
	}
	return ends
}
