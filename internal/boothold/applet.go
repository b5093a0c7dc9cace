package boothold

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"gwinit/internal/applet"
)

// Applet is `boothold [A.B.C.D]`, with the words and the exit status of the
// incumbent's tool: workstation scripts read its line.
func Applet() applet.Applet {
	return applet.Applet{
		Name:    "boothold",
		Group:   applet.Manage,
		Summary: "make the next reboot stop in the bootloader",
		Usage: `boothold [A.B.C.D]
  A.B.C.D  address for the bootloader's TFTP server; without it, its default

The next reboot, and only that one, waits in the bootloader for an image. This
command does not reboot: run reboot after it.`,
		Run: func(_ context.Context, std applet.IO, args []string) error {
			return command("", std, args)
		},
	}
}

func command(root string, std applet.IO, args []string) error {
	if len(args) > 1 {
		return applet.Usagef("one address at most")
	}
	var ip [4]byte
	withIP := false
	if len(args) == 1 {
		if ip, withIP = parseIPv4(args[0]); !withIP {
			fmt.Fprintf(std.Err, "boothold: ignoring invalid IP '%s' (usage: boothold [A.B.C.D])\n", args[0])
		}
	}
	addr, err := Hold(root, ip, withIP)
	if err != nil {
		return err
	}
	if withIP {
		fmt.Fprintf(std.Out, "Boot hold set at 0x%08X (TFTP server IP %d.%d.%d.%d).\n", addr, ip[0], ip[1], ip[2], ip[3])
	} else {
		fmt.Fprintf(std.Out, "Boot hold set at 0x%08X.\n", addr)
	}
	return nil
}

// parseIPv4 reads a dotted quad in decimal.
func parseIPv4(s string) (ip [4]byte, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != len(ip) {
		return ip, false
	}
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 8)
		if err != nil || len(p) > 3 {
			return [4]byte{}, false
		}
		ip[i] = byte(v)
	}
	return ip, true
}
