package otbr

import (
	"net/netip"
	"strconv"

	"gwinit/board/rtl8196e"
	"gwinit/internal/config"
	"gwinit/services/otbr-supervisor/rest"
)

// What the agent is told to use.
const (
	threadInterface = "wpan0"
	infraInterface  = "eth0"
	// syslogLevel is warnings and worse, by syslog's count.
	syslogLevel = "4"
)

// radioURL names the radio to the agent. uart-flow-control is there or not: with
// any value, "false" too, it turns RTS and CTS on. uart-sw-flow-control is of the
// agents that the firmware of before ships.
func radioURL(device string, baud int, flow string) string {
	u := "spinel+hdlc+uart://" + device + "?uart-baudrate=" + strconv.Itoa(baud)
	switch flow {
	case config.FlowHardware:
		return u + "&uart-flow-control=true"
	case config.FlowSoftware:
		return u + "&uart-sw-flow-control=true"
	}
	return u
}

// flow is the flow control of the radio: radio.conf's, else the board's.
func flow(r config.Radio, b rtl8196e.Board) string {
	if r.FlowSet {
		return r.Flow
	}
	return b.Radio.Flow
}

// arguments are the agent's, as the firmware of before gives them.
func arguments(r config.Radio, b rtl8196e.Board, memory string) []string {
	bind := r.OTBR.RESTBind
	if bind == "" {
		bind = "::"
	}
	return []string{
		"-d", syslogLevel, "-I", threadInterface, "-B", infraInterface,
		"--rest-listen-address", bind, "--rest-listen-port", strconv.Itoa(rest.Port),
		"--vendor-name", b.Vendor, "--model-name", b.Product, "--data-path", memory,
		radioURL(b.Radio.Device, r.Baud, flow(r, b)),
	}
}

// restAddr is where this box reaches the agent's REST.
func restAddr(r config.Radio) netip.AddrPort {
	a, err := netip.ParseAddr(r.OTBR.RESTBind)
	if err != nil {
		a = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // of every address
	}
	return netip.AddrPortFrom(a, rest.Port)
}
