//go:build linux

package benchmode

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of linux/genetlink.h and tcp_metrics.h.
const (
	genlVersion   = 1
	metricsFamily = "tcp_metrics"
	metricsDelete = 2 // TCP_METRICS_CMD_DEL; without an address it is all
)

// ForgetTCP has the kernel forget what it has learnt of other hosts from earlier
// TCP connections: round trip, threshold of slow start, reordering. Without it a
// run begins where the one before has ended. A kernel without that cache is fine.
func ForgetTCP() error {
	ask := func(family int, command uint8, attributes ...nl.NetlinkRequestData) ([][]byte, error) {
		r := nl.NewNetlinkRequest(family, unix.NLM_F_ACK)
		r.AddData(&nl.Genlmsg{Command: command, Version: genlVersion})
		for _, a := range attributes {
			r.AddData(a)
		}
		return r.Execute(unix.NETLINK_GENERIC, 0)
	}
	answers, err := ask(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, nl.NewRtAttr(unix.CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(metricsFamily)))
	for _, b := range answers {
		attributes, bad := nl.ParseRouteAttr(b[min(len(b), nl.SizeofGenlmsg):])
		err = bad
		for _, a := range attributes {
			if a.Attr.Type == unix.CTRL_ATTR_FAMILY_ID && len(a.Value) >= 2 {
				_, err = ask(int(nl.NativeEndian().Uint16(a.Value)), metricsDelete)
			}
		}
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("forget TCP's metrics: %w", err)
	}
	return nil
}
