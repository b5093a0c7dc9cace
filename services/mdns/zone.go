package mdns

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gwinit/internal/config"
	"gwinit/internal/dnssd"
	"gwinit/internal/netdev"
)

// Lifetimes in seconds, from RFC 6762 section 10: short where a host name or
// its address stands in the record.
const (
	ttlHost  = 120
	ttlOther = 4500
)

// Addresses that are announced at most; with them all records fit into a mask
// of 32 bits and into one packet.
const (
	maxAddrs4 = 4
	maxAddrs6 = 8
)

// facts are what the records say.
type facts struct {
	hostname string
	mac      netdev.MAC
	addrs    []netip.Prefix // usable ones, of the one interface
	radio    config.Radio
	board    string
	version  string
	safe     bool // only console, network and ssh run
	ssh      uint16
	bridge   uint16
}

// equal tells whether nothing differs.
func (f *facts) equal(o *facts) bool {
	return f.hostname == o.hostname && f.mac == o.mac && slices.Equal(f.addrs, o.addrs) &&
		sameRadio(&f.radio, &o.radio) && f.board == o.board && f.version == o.version && f.safe == o.safe &&
		f.ssh == o.ssh && f.bridge == o.bridge
}

// sameRadio compares what the records say of a radio.
func sameRadio(a, b *config.Radio) bool {
	return a.Mode == b.Mode && a.Baud == b.Baud && a.Bind == b.Bind && a.KernelEngine == b.KernelEngine &&
		a.Firmware == b.Firmware && a.FirmwareVersion == b.FirmwareVersion
}

// zigbee tells whether there is a Zigbee coordinator behind the bridge's port,
// at an address that a client can use: Zigbee2MQTT takes the first one, without
// a zone.
func (f *facts) zigbee() bool {
	if f.safe || f.radio.Mode != config.ModeZigbee {
		return false
	}
	// The other kinds of firmware do not talk EZSP.
	if f.radio.Firmware != "" && f.radio.Firmware != "ncp" {
		return false
	}
	bind, err := netip.ParseAddr(f.radio.Bind)
	return slices.ContainsFunc(f.addrs, func(p netip.Prefix) bool {
		switch a := p.Addr(); {
		case f.radio.KernelEngine && !a.Is4(): // that one has no IPv6
			return false
		case err != nil: // every address
			return !a.IsLinkLocalUnicast()
		default:
			return a == bind
		}
	})
}

// mode is the word for `gwctl discover`.
func (f *facts) mode() string {
	if f.safe {
		return "safe"
	}
	return f.radio.Mode
}

// onLink tells whether a host is a neighbour.
func (f *facts) onLink(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.Is6() && a.IsLinkLocalUnicast() ||
		slices.ContainsFunc(f.addrs, func(p netip.Prefix) bool { return p.Contains(a) })
}

// has tells whether there is an address of the family to send from.
func (f *facts) has(fam family) bool {
	return slices.ContainsFunc(f.addrs, func(p netip.Prefix) bool { return p.Addr().Is4() == (fam == v4) })
}

// own tells whether a is the box itself.
func (f *facts) own(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(f.addrs, func(p netip.Prefix) bool { return p.Addr() == a })
}

// mask is a set of a zone's records.
type mask uint32

func (m mask) has(i int) bool { return m>>i&1 != 0 }

// record is one of a zone.
type record struct {
	dnssd.Record
	name   int  // in zone.names
	unique bool // nobody else has records of this name and type
	adds   mask // what goes along as additional records
}

// zone is everything that is announced.
type zone struct {
	names []dnssd.Name
	// unique marks the names that belong to this box alone.
	unique  []bool
	records []record
	// missing is, by name, the NSEC record that says which types there are.
	missing []mask
	host    dnssd.Name
	all     mask // what an announcement holds
}

// hostLabel is the host name as one label, number n of those that were tried:
// kitchen, kitchen-2, ...
func (f *facts) hostLabel(n int) string {
	label, _, _ := strings.Cut(f.hostname, ".")
	return ending(label, number(n))
}

// instanceLabel names the box's services: with the end of its MAC, because
// people are shown it as it is, and two new gateways have one host name.
func (f *facts) instanceLabel(n int) string {
	mac := strings.ReplaceAll(f.mac.String(), ":", "")
	return ending(f.hostLabel(1), "-"+mac[6:]+number(n))
}

func number(n int) string {
	if n == 1 {
		return ""
	}
	return "-" + strconv.Itoa(n)
}

// ending appends to a label, within its 63 bytes.
func ending(label, end string) string { return label[:min(len(label), 63-len(end))] + end }

// build makes the zone with the host's and the services' names of these
// numbers.
func (f *facts) build(hostN, instanceN int) (*zone, error) {
	z := new(zone)
	var failed error
	name := func(instance, rest string, unique bool) int {
		n, err := dnssd.NewName(instance, rest)
		if err != nil {
			failed = err
		}
		for i := range z.names {
			if z.names[i].Equal(n) {
				return i
			}
		}
		z.names, z.unique, z.missing = append(z.names, n), append(z.unique, unique), append(z.missing, 0)
		return len(z.names) - 1
	}
	add := func(name int, typ uint16, ttl uint32, unique bool, data []byte) mask {
		r := record{name: name, unique: unique}
		r.Record = dnssd.Record{Name: z.names[name], Type: typ, Class: dnssd.ClassIN, TTL: ttl, Data: data}
		if unique {
			r.Class |= dnssd.Flush
		}
		z.records = append(z.records, r)
		return 1 << (len(z.records) - 1)
	}

	host := name(f.hostLabel(hostN), "local", true)
	z.host = z.names[host]
	var addrs mask
	var types []uint16
	four, six := 0, 0
	for _, p := range f.addrs {
		switch a := p.Addr(); {
		case a.Is4() && four < maxAddrs4:
			four++
			addrs |= add(host, dnssd.TypeA, ttlHost, true, dnssd.DataA(a))
		case a.Is6() && six < maxAddrs6:
			six++
			addrs |= add(host, dnssd.TypeAAAA, ttlHost, true, dnssd.DataA(a))
		}
	}
	if four > 0 {
		types = append(types, dnssd.TypeA)
	}
	if six > 0 {
		types = append(types, dnssd.TypeAAAA)
	}
	z.missing[host] = add(host, dnssd.TypeNSEC, ttlHost, true, dnssd.DataNSEC(z.host, types...))
	if four == 0 || six == 0 {
		addrs |= z.missing[host]
	}
	z.all = addrs
	for i := range z.records {
		z.records[i].adds = addrs
	}

	enumeration := name("", "_services._dns-sd._udp.local", false)
	service := func(typ string, port uint16, txt []string) {
		ptr := name("", typ+".local", false)
		inst := name(f.instanceLabel(instanceN), typ+".local", true)
		first := len(z.records)
		srv := add(inst, dnssd.TypeSRV, ttlHost, true, dnssd.DataSRV(port, z.host))
		text := add(inst, dnssd.TypeTXT, ttlOther, true, dnssd.DataTXT(txt...))
		z.records[first].adds = addrs
		pointer := add(ptr, dnssd.TypePTR, ttlOther, false, z.names[inst])
		z.records[first+2].adds = srv | text | addrs
		z.missing[inst] = add(inst, dnssd.TypeNSEC, ttlHost, true, dnssd.DataNSEC(z.names[inst], dnssd.TypeTXT, dnssd.TypeSRV))
		z.all |= srv | text | pointer | add(enumeration, dnssd.TypePTR, ttlOther, false, z.names[ptr])
	}
	mac := "serial_number=" + f.mac.String()
	board, version := "board="+f.board, "version="+f.version
	if f.zigbee() {
		txt := []string{
			"radio_type=ezsp", mac, "baud_rate=" + strconv.Itoa(f.radio.Baud),
			dnssd.Mark, board, version,
		}
		if f.radio.FirmwareVersion != "" {
			txt = append(txt, "firmware_version="+f.radio.FirmwareVersion)
		}
		service(dnssd.ServiceZigbee, f.bridge, txt)
	}
	txt := []string{dnssd.Mark, board, version, "mode=" + f.mode(), mac}
	if !f.safe && !f.radio.KernelEngine { // which takes no SSH
		txt = append(txt, "bridge_port="+strconv.Itoa(int(f.bridge)))
	}
	service(dnssd.ServiceSSH, f.ssh, txt)
	return z, failed
}

// find returns the record of z that is r: of one name, type and data.
func (z *zone) find(r *record) int {
	return slices.IndexFunc(z.records, func(o record) bool {
		return o.Type == r.Type && o.Name.Equal(r.Name) && string(o.Data) == string(r.Data)
	})
}
