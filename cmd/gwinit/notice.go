//go:build !no_shell && !no_sshd

package main

import (
	"net"
	"net/netip"
	"os"
	"strconv"

	"gwinit/internal/enrol"
)

// notice is how a gateway that nobody may log in to is set up, for who is at
// its serial console.
func notice() string {
	if os.Getenv("SSH_CONNECTION") != "" {
		return ""
	}
	w := enrol.Look("/")
	if !w.Open() {
		return ""
	}
	return "Nobody may log in by SSH yet. Within " + strconv.Itoa(int(w.Left().Minutes())+1) + " min, on your computer: ssh setup@" + ownAddress() + "\n" +
		"It asks for this code, and lets your key in for good: " + w.Code()
}

// ownAddress is an address of this gateway, or what stands for it.
func ownAddress() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "GATEWAY"
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	return "GATEWAY"
}
