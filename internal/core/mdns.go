//go:build !no_mdns

package core

import (
	"gwinit/internal/api"
	"gwinit/services/bridge"
	"gwinit/services/mdns"
)

// newMDNS returns what announces the gateway.
func newMDNS(version, bootMode string) announcer {
	return mdns.New(mdns.Options{Version: version, Safe: bootMode == api.BootSafe, Bridge: bridge.DefaultPort})
}
