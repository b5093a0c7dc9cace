package bench

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// route asks the kernel.
func route(root string, ip netip.Addr) (Path, error) {
	routes, err := netlink.RouteGet(net.IP(ip.AsSlice()))
	if err != nil {
		return Path{}, err
	}
	if len(routes) == 0 {
		return Path{}, errors.New("there is no route")
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return Path{}, err
	}
	p := Path{Interface: link.Attrs().Name}
	if gw := routes[0].Gw; gw != nil {
		p.Routed, p.Via = true, gw.String()
	}
	p.Kind, p.SpeedMbit = look(filepath.Join(root, "sys/class/net"), p.Interface)
	return p, nil
}

// look tells of an interface what it is, and how fast; of a bridge, its worst port.
func look(sys, name string) (kind string, speed int) {
	dir := filepath.Join(sys, name)
	read := func(file string) string {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	exists := func(file string) bool {
		_, err := os.Stat(filepath.Join(dir, file))
		return err == nil
	}
	speed, _ = strconv.Atoi(read("speed"))
	speed = max(speed, 0) // -1: not known
	// The types are those of include/uapi/linux/if_arp.h.
	switch {
	case read("type") == "772":
		return loopback, speed
	case exists("wireless"), exists("phy80211"):
		return wireless, speed
	case read("type") != "1", exists("tun_flags") && !exists("bridge"):
		return tunnel, speed
	}
	if ports, err := os.ReadDir(filepath.Join(dir, "brif")); err == nil {
		for _, port := range ports {
			if kind, _ := look(sys, port.Name()); kind == wireless {
				return wireless, speed
			}
		}
	}
	if lower, err := filepath.Glob(filepath.Join(dir, "lower_*")); err == nil && !exists("brif") {
		for _, l := range lower { // VLAN, bond, macvlan
			if kind, _ := look(sys, strings.TrimPrefix(filepath.Base(l), "lower_")); kind != wired {
				return kind, speed
			}
		}
	}
	return wired, speed
}
