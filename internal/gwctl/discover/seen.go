package discover

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gwinit/internal/dnssd"
)

// Gateway is what one gateway says about itself.
type Gateway struct {
	Name      string   `json:"name"` // of its services
	Host      string   `json:"host"` // for ssh and tcp://
	Addresses []string `json:"addresses"`
	// Port is the bridge's: the radio's in the mode zigbee, and SSH's in every
	// mode but safe, where it is 0.
	Port    uint16 `json:"port,omitempty"`
	SSHPort uint16 `json:"sshPort,omitempty"`
	Mode    string `json:"mode"` // zigbee, otbr, safe
	Version string `json:"version"`
	Board   string `json:"board"`
	Serial  string `json:"serialNumber"` // its MAC
}

// Limits of what is kept: a network has some dozens of such services.
const (
	maxInstances = 512
	maxHosts     = 512
	maxAddrs     = 16 // of a host
)

// seen is what was heard so far. The zero value is ready.
type seen struct {
	instances []*instance
	hosts     []*host
}

type instance struct {
	name dnssd.Name
	host dnssd.Name // nil: not known yet
	port uint16
	txt  []string
	text bool // txt is known
	gone bool // it said goodbye
}

// gateway tells whether it is one of ours.
func (i *instance) gateway() bool { return !i.gone && slices.Contains(i.txt, dnssd.Mark) }

type host struct {
	name  dnssd.Name
	addrs []netip.Addr
}

// services are the types that are asked for. They are constants and their names
// are good.
func services() []dnssd.Name {
	ssh, _ := dnssd.NewName("", dnssd.ServiceSSH+".local")
	zigbee, _ := dnssd.NewName("", dnssd.ServiceZigbee+".local")
	return []dnssd.Name{ssh, zigbee}
}

// query asks for gateways, and for what is missing about those that were heard
// of.
func (s *seen) query() []byte {
	var b dnssd.Builder
	b.Begin(0, 0, false)
	for _, n := range services() {
		b.Question(n, dnssd.TypePTR, dnssd.ClassIN)
	}
	for _, i := range s.instances {
		if i.gone {
			continue
		}
		if !i.text || i.host == nil {
			b.Question(i.name, dnssd.TypeANY, dnssd.ClassIN)
		}
		if i.gateway() && i.host != nil && len(s.host(i.host).addrs) == 0 {
			b.Question(i.host, dnssd.TypeANY, dnssd.ClassIN)
		}
	}
	return b.Bytes()
}

// add takes in a message; zone is the interface that it came from. What is no
// answer is passed over.
func (s *seen) add(msg []byte, zone string) {
	m, ok := dnssd.Read(msg)
	if !ok || !m.Response() {
		return
	}
	var it dnssd.Item
	for m.Next(&it) {
		if it.Section != dnssd.Answers && it.Section != dnssd.Additionals || it.Class&^dnssd.Flush != dnssd.ClassIN {
			continue
		}
		name, okName := m.AppendName(nil, &it)
		data, okData := m.AppendData(nil, &it)
		if !okName || !okData {
			continue
		}
		s.record(name, &it, data, zone)
	}
}

func (s *seen) record(name dnssd.Name, it *dnssd.Item, data []byte, zone string) {
	switch it.Type {
	case dnssd.TypePTR:
		if slices.ContainsFunc(services(), name.Equal) {
			if i := s.instance(data); i != nil {
				i.gone = it.TTL == 0
			}
		}
	case dnssd.TypeSRV:
		if i := s.instance(name); i != nil && len(data) > 6 {
			i.port, i.host = binary.BigEndian.Uint16(data[4:]), data[6:]
		}
	case dnssd.TypeTXT:
		if i := s.instance(name); i != nil {
			i.text, i.txt = true, nil
			for len(data) > 0 && int(data[0]) < len(data) {
				i.txt = append(i.txt, string(data[1:1+data[0]]))
				data = data[1+data[0]:]
			}
		}
	case dnssd.TypeA, dnssd.TypeAAAA:
		a, ok := netip.AddrFromSlice(data)
		if !ok || it.TTL == 0 {
			return
		}
		if a.Is6() && a.IsLinkLocalUnicast() {
			if zone == "" {
				return // of no use
			}
			a = a.WithZone(zone)
		}
		if h := s.host(name); h != nil && len(h.addrs) < maxAddrs && !slices.Contains(h.addrs, a) {
			h.addrs = append(h.addrs, a)
		}
	}
}

// instance returns the instance of that name if it is of one of the services;
// nil if it is not, or if there are too many.
func (s *seen) instance(n dnssd.Name) *instance {
	if _, service := n.Label(); !slices.ContainsFunc(services(), service.Equal) {
		return nil
	}
	for _, i := range s.instances {
		if i.name.Equal(n) {
			return i
		}
	}
	if len(s.instances) == maxInstances {
		return nil
	}
	i := &instance{name: n}
	s.instances = append(s.instances, i)
	return i
}

// host returns what is known of a host, which is nothing where there are too
// many.
func (s *seen) host(n dnssd.Name) *host {
	for _, h := range s.hosts {
		if h.name.Equal(n) {
			return h
		}
	}
	h := &host{name: n}
	if len(s.hosts) < maxHosts {
		s.hosts = append(s.hosts, h)
	}
	return h
}

// gateways returns what is known to be one, by name.
func (s *seen) gateways() []Gateway {
	found := []Gateway{}
	for _, i := range s.instances {
		if !i.gateway() || i.host == nil {
			continue
		}
		label, service := i.name.Label()
		at := slices.IndexFunc(found, func(g Gateway) bool { return g.Name == label && g.Host == i.host.String() })
		if at < 0 {
			at = len(found)
			found = append(found, Gateway{Name: label, Host: i.host.String(), Addresses: s.host(i.host).sorted()})
		}
		g := &found[at]
		if service.Equal(services()[0]) {
			g.SSHPort = i.port
		} else {
			g.Port, g.Mode = i.port, cmp.Or(g.Mode, "zigbee")
		}
		for _, s := range i.txt {
			key, value, _ := strings.Cut(s, "=")
			switch key {
			case "mode":
				g.Mode = value
			case "version":
				g.Version = value
			case "board":
				g.Board = value
			case "serial_number":
				g.Serial = value
			case "bridge_port":
				if port, err := strconv.ParseUint(value, 10, 16); err == nil {
					g.Port = uint16(port)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Gateway) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Name, b.Name)) })
	return found
}

// sorted returns the addresses, the most useful ones first.
func (h *host) sorted() []string {
	rank := func(a netip.Addr) int {
		switch {
		case a.Is4():
			return 0
		case !a.IsLinkLocalUnicast():
			return 1
		}
		return 2
	}
	slices.SortFunc(h.addrs, func(a, b netip.Addr) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Compare(b)) })
	out := make([]string, len(h.addrs))
	for i, a := range h.addrs {
		out[i] = a.String()
	}
	return out
}
