package config

import (
	"net/netip"

	"gwinit/board/rtl8196e"
)

// loader collects the warnings of one load.
type loader struct {
	root     string
	warnings []Warning
}

func (l *loader) radio(b rtl8196e.Board) Radio { return Radio{Mode: ModeZigbee, Baud: b.Radio.Baud} }

func (l *loader) network() Network {
	return Network{Fallback: lastResort(), Hostname: "rtl8196e-gw"}
}

func lastResort() Static {
	return Static{
		Addr:    netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 1, 254}), 24),
		Gateway: netip.AddrFrom4([4]byte{192, 168, 1, 1}),
		DNS:     []netip.Addr{netip.AddrFrom4([4]byte{8, 8, 8, 8}), netip.AddrFrom4([4]byte{1, 1, 1, 1})},
	}
}

func (l *loader) leds() LEDs { return LEDs{Mode: "bright"} }

func (l *loader) netwatch() Netwatch {
	return Netwatch{FailMinutes: 15, PollSeconds: 30, MaxReboots: 3, WindowHours: 24}
}
func (l *loader) ntp() NTP         { return NTP{Servers: []string{"pool.ntp.org"}} }
func (l *loader) gateway() Gateway { return Gateway{LogKiB: 64} }
func (l *loader) tz() string       { return "UTC0" }
func (l *loader) passwd() []User   { return nil }
func (l *loader) thread() bool     { return false }
