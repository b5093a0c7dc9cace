//go:build !no_panel

package core

import (
	"context"
	"net/netip"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/services/bridge"
	"gwinit/services/panel"
)

// newPanel returns what minds the button and the LEDs.
func newPanel(network func() (bool, []netip.Addr), bootMode string) panelist {
	return panelService{panel.New(panel.Options{
		Board: rtl8196e.Detect(""), BootMode: bootMode, Port: bridge.DefaultPort,
		Online: func() bool { up, _ := network(); return up },
	})}
}

// newBenchPanel returns what minds the button while bench mode lasts.
func newBenchPanel(end func()) func(context.Context) error {
	return panel.New(panel.Options{Board: rtl8196e.Detect(""), Bench: end}).Run
}

type panelService struct{ *panel.Service }

// Status implements panelist.
func (p panelService) Status() *api.Panel {
	st := p.Service.Status()
	return &st
}
