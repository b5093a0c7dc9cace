package mdns

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/config"
	"gwinit/internal/dnssd"
	"gwinit/internal/netdev"
)

// sim is a responder with a clock of its own; chance is always half.
type sim struct {
	*responder
	t    testing.TB
	now  instant
	sent []sent
	log  []string
}

// sent is one packet that went out.
type sent struct {
	at     time.Duration // since the start
	family family
	to     netip.AddrPort
	msg    []byte
}

var (
	epoch     = clockBegin
	neighbour = netip.MustParseAddrPort("192.0.2.9:5353")
	resolver  = netip.MustParseAddrPort("192.0.2.9:40000")
	stranger  = netip.MustParseAddrPort("203.0.113.9:5353")
)

// here is a gateway at 192.0.2.1 and fe80::1.
func here() facts {
	return facts{
		hostname: "box", mac: netdev.MAC{0x02, 0x11, 0x22, 0x44, 0x55, 0x66},
		addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("fe80::1/64")},
		radio: config.Radio{Mode: config.ModeZigbee, Baud: 460800},
		board: "lidl", version: "1.0", ssh: 22, bridge: 8888,
	}
}

func newSim(t testing.TB) *sim {
	s := &sim{t: t, now: epoch}
	s.responder = newResponder(
		func(line string) { s.log = append(s.log, line) },
		func(below time.Duration) time.Duration { return below / 2 },
		func(f family, to netip.AddrPort, msg []byte) {
			s.sent = append(s.sent, sent{s.now - epoch, f, to, slices.Clone(msg)})
		})
	return s
}

// runs is a sim that has announced f and been quiet since, for longer than a
// quarter of any lifetime.
func runs(t testing.TB, f facts) *sim {
	s := newSim(t)
	s.set(s.now, f, true, true)
	s.until(2 * time.Hour)
	s.take()
	return s
}

// until lets the time pass up to d since the start, and does what is due.
func (s *sim) until(d time.Duration) {
	for {
		next := s.tick(s.now)
		if next == 0 || next-epoch > d {
			s.now = epoch + d
			return
		}
		s.now = next
	}
}

// pass is until from now.
func (s *sim) pass(d time.Duration) { s.until(s.now - epoch + d) }

// take returns what was sent since the last take.
func (s *sim) take() []sent {
	out := s.sent
	s.sent = nil
	return out
}

func (s *sim) hear(from netip.AddrPort, multicast bool, msg []byte) {
	f := v4
	if from.Addr().Is6() {
		f = v6
	}
	s.receive(s.now, &packet{family: f, from: from, multicast: multicast, msg: msg})
	s.tick(s.now)
}

// message makes a message of items in words, as show writes them; the name of
// the instance may have any form.
func message(t testing.TB, id, flags uint16, items ...string) []byte {
	t.Helper()
	var b dnssd.Builder
	b.Begin(id, flags, false)
	for _, line := range items {
		f := strings.Fields(line)
		label, rest, dotted := strings.Cut(f[1], ".")
		if !dotted {
			rest, label = label, ""
		}
		n, err := dnssd.NewName(label, rest)
		if err != nil {
			t.Fatal(err)
		}
		typ, class := types[f[2]], uint16(dnssd.ClassIN)
		section := slices.Index(sectionWords, f[0])
		if section == int(dnssd.Questions) {
			if len(f) > 3 && f[3] == "QU" {
				class |= dnssd.Unicast
			}
			if !b.Question(n, typ, class) {
				t.Fatalf("%q: not written", line)
			}
			continue
		}
		var ttl uint32
		fmt.Sscan(f[3], &ttl)
		var data []byte
		switch f[2] {
		case "A", "AAAA":
			data = netip.MustParseAddr(f[4]).AsSlice()
		case "PTR", "SRV":
			label, rest, _ := strings.Cut(f[len(f)-1], ".")
			if data, err = dnssd.NewName(label, rest); err != nil {
				t.Fatal(err)
			}
			if f[2] == "SRV" {
				var port uint16
				fmt.Sscan(f[4], &port)
				data = dnssd.DataSRV(port, data)
			}
		case "TXT":
			data = dnssd.DataTXT(f[4:]...)
		}
		if !b.Record(dnssd.Section(section), &dnssd.Record{Name: n, Type: typ, Class: class, TTL: ttl, Data: data}) {
			t.Fatalf("%q: not written", line)
		}
	}
	return slices.Clone(b.Bytes())
}

var (
	types        = map[string]uint16{"A": 1, "PTR": 12, "TXT": 16, "AAAA": 28, "SRV": 33, "NSEC": 47, "ANY": 255, "HINFO": 13}
	sectionWords = []string{"q", "an", "ns", "ar"}
)

// show writes a message's items in words.
func show(t testing.TB, msg []byte) []string {
	t.Helper()
	m, ok := dnssd.Read(msg)
	if !ok {
		t.Fatalf("not a message: %x", msg)
	}
	var out []string
	var it dnssd.Item
	for m.Next(&it) {
		n, _ := m.AppendName(nil, &it)
		typ := ""
		for w, v := range types {
			if v == it.Type {
				typ = w
			}
		}
		line := sectionWords[it.Section] + " " + dnssd.Name(n).String() + " " + typ
		if it.Section == dnssd.Questions {
			if it.Class&dnssd.Unicast != 0 {
				line += " QU"
			}
			out = append(out, line)
			continue
		}
		line += fmt.Sprint(" ", it.TTL)
		if it.Class&dnssd.Flush != 0 {
			line += " flush"
		}
		d, _ := m.AppendData(nil, &it)
		switch it.Type {
		case dnssd.TypeA, dnssd.TypeAAAA:
			a, _ := netip.AddrFromSlice(d)
			line += " " + a.String()
		case dnssd.TypePTR:
			line += " " + dnssd.Name(d).String()
		case dnssd.TypeSRV:
			line += fmt.Sprintf(" %d %s", int(d[4])<<8|int(d[5]), dnssd.Name(d[6:]))
		case dnssd.TypeTXT:
			for len(d) > 0 {
				line += " " + string(d[1:1+d[0]])
				d = d[1+d[0]:]
			}
		case dnssd.TypeNSEC:
			line += " " + hex.EncodeToString(d[len(n):])
		}
		out = append(out, line)
	}
	return out
}

func (s *sim) wantItems(what string, msg []byte, want ...string) {
	s.t.Helper()
	if got := show(s.t, msg); !slices.Equal(got, want) {
		s.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// one expects exactly one packet.
func (s *sim) one(what string) sent {
	s.t.Helper()
	all := s.take()
	if len(all) != 1 {
		s.t.Fatalf("%s: %d packets, want 1", what, len(all))
	}
	return all[0]
}

func (s *sim) silent(what string) {
	s.t.Helper()
	for _, p := range s.take() {
		s.t.Errorf("%s: sent to %v\n%s", what, p.to, strings.Join(show(s.t, p.msg), "\n"))
	}
}

const (
	zigbeeTXT = "radio_type=ezsp serial_number=02:11:22:44:55:66 baud_rate=460800 os=gwinit board=lidl version=1.0"
	sshTXT    = "os=gwinit board=lidl version=1.0 mode=zigbee serial_number=02:11:22:44:55:66 bridge_port=8888"
)

// everything is what a Zigbee gateway announces.
func everything(section string) []string {
	return []string{
		section + " box.local A 120 flush 192.0.2.1",
		section + " box.local AAAA 120 flush fe80::1",
		section + " box-445566._zigbee-coordinator._tcp.local SRV 120 flush 8888 box.local",
		section + " box-445566._zigbee-coordinator._tcp.local TXT 4500 flush " + zigbeeTXT,
		section + " _zigbee-coordinator._tcp.local PTR 4500 box-445566._zigbee-coordinator._tcp.local",
		section + " _services._dns-sd._udp.local PTR 4500 _zigbee-coordinator._tcp.local",
		section + " box-445566._ssh._tcp.local SRV 120 flush 22 box.local",
		section + " box-445566._ssh._tcp.local TXT 4500 flush " + sshTXT,
		section + " _ssh._tcp.local PTR 4500 box-445566._ssh._tcp.local",
		section + " _services._dns-sd._udp.local PTR 4500 _ssh._tcp.local",
	}
}

func TestProbeAndAnnounce(t *testing.T) {
	s := newSim(t)
	s.set(s.now, here(), true, true)
	s.until(time.Hour)
	all := s.take()
	var times []string
	for _, p := range all {
		times = append(times, fmt.Sprint(p.family, " ", p.at))
		if p.to.IsValid() {
			t.Errorf("unicast to %v", p.to)
		}
	}
	want := []string{
		"0 125ms", "1 125ms", "0 375ms", "1 375ms", "0 625ms", "1 625ms", // probes
		"0 875ms", "1 875ms", "0 1.875s", "1 1.875s", // announcements
	}
	if !slices.Equal(times, want) {
		t.Fatalf("sent at %v, want %v", times, want)
	}
	probe := []string{
		"q box.local ANY QU",
		"q box-445566._zigbee-coordinator._tcp.local ANY QU",
		"q box-445566._ssh._tcp.local ANY QU",
		"ns box.local A 120 192.0.2.1",
		"ns box.local AAAA 120 fe80::1",
		"ns box-445566._zigbee-coordinator._tcp.local SRV 120 8888 box.local",
		"ns box-445566._zigbee-coordinator._tcp.local TXT 4500 " + zigbeeTXT,
		"ns box-445566._ssh._tcp.local SRV 120 22 box.local",
		"ns box-445566._ssh._tcp.local TXT 4500 " + sshTXT,
	}
	for _, p := range all[:6] {
		s.wantItems("probe", p.msg, probe...)
	}
	for _, p := range all[6:] {
		s.wantItems("announcement", p.msg, everything("an")...)
		if hex.EncodeToString(p.msg[:4]) != "00008400" {
			t.Errorf("header %x", p.msg[:12])
		}
	}
	if want := []string{"mdns: this is box.local"}; !slices.Equal(s.log, want) {
		t.Errorf("log %q", s.log)
	}
	// While it asks it answers nobody.
	s.set(s.now, here(), true, true)
	s.hear(neighbour, true, message(t, 0, 0, "q box.local A"))
	s.silent("asked while probing")
}

func TestLongestNamesAndMostAddressesFitOnePacket(t *testing.T) {
	f := here()
	f.hostname = strings.Repeat("h", 63)
	f.version, f.radio.FirmwareVersion = "1.2.3-0123456789ab+", "7.5.1"
	f.addrs = nil
	for i := range 10 {
		f.addrs = append(f.addrs, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24))
	}
	for i := range 20 {
		f.addrs = append(f.addrs, netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 15: byte(i)}), 64))
	}
	z, err := f.build(99, 99)
	if err != nil {
		t.Fatal(err)
	}
	if len(z.records) > 32 {
		t.Fatalf("%d records", len(z.records))
	}
	s := runs(t, f)
	s.set(s.now, f, true, true)
	s.pass(3 * time.Second)
	for _, p := range s.take() {
		m, _ := dnssd.Read(p.msg)
		if items := show(t, p.msg); m.Response() && len(items) != 12+8 || !m.Response() && len(items) != 3+12+4 {
			t.Errorf("%d items in %d bytes:\n%s", len(items), len(p.msg), strings.Join(items, "\n"))
		}
	}
}

func TestAnswers(t *testing.T) {
	noV6 := here()
	noV6.addrs = noV6.addrs[:1]
	hostNSEC := "box.local NSEC 120 flush 000140" // A
	tests := []struct {
		name  string
		facts facts
		query []string
		after time.Duration
		want  []string
	}{
		{"host, v4", here(), []string{"q box.local A"}, 0, []string{
			"an box.local A 120 flush 192.0.2.1", "ar box.local AAAA 120 flush fe80::1",
		}},
		{"host in capitals", here(), []string{"q BOX.LOCAL AAAA"}, 0, []string{
			"an box.local AAAA 120 flush fe80::1", "ar box.local A 120 flush 192.0.2.1",
		}},
		{"host, v6 that there is not", noV6, []string{"q box.local AAAA"}, 0, []string{
			"an " + hostNSEC, "ar box.local A 120 flush 192.0.2.1",
		}},
		{"host, v4 without v6", noV6, []string{"q box.local A"}, 0, []string{
			"an box.local A 120 flush 192.0.2.1", "ar " + hostNSEC,
		}},
		{"host, something else", here(), []string{"q box.local HINFO"}, 0, []string{
			"an box.local NSEC 120 flush 000440000008", "ar box.local A 120 flush 192.0.2.1", "ar box.local AAAA 120 flush fe80::1",
		}},
		{"host, anything", here(), []string{"q box.local ANY"}, 0, []string{
			"an box.local A 120 flush 192.0.2.1", "an box.local AAAA 120 flush fe80::1",
		}},
		{"service", here(), []string{"q _zigbee-coordinator._tcp.local PTR"}, 50 * time.Millisecond, []string{
			"an _zigbee-coordinator._tcp.local PTR 4500 box-445566._zigbee-coordinator._tcp.local",
			"ar box.local A 120 flush 192.0.2.1", "ar box.local AAAA 120 flush fe80::1",
			"ar box-445566._zigbee-coordinator._tcp.local SRV 120 flush 8888 box.local",
			"ar box-445566._zigbee-coordinator._tcp.local TXT 4500 flush " + zigbeeTXT,
		}},
		{"instance", here(), []string{"q box-445566._ssh._tcp.local SRV"}, 0, []string{
			"an box-445566._ssh._tcp.local SRV 120 flush 22 box.local",
			"ar box.local A 120 flush 192.0.2.1", "ar box.local AAAA 120 flush fe80::1",
		}},
		{"instance's address", here(), []string{"q box-445566._ssh._tcp.local A"}, 0, []string{
			"an box-445566._ssh._tcp.local NSEC 120 flush 00050000800040",
		}},
		{"all services", here(), []string{"q _services._dns-sd._udp.local PTR"}, 50 * time.Millisecond, []string{
			"an _services._dns-sd._udp.local PTR 4500 _zigbee-coordinator._tcp.local",
			"an _services._dns-sd._udp.local PTR 4500 _ssh._tcp.local",
		}},
		{"among others'", here(), []string{"q printer.local A", "q Hall_2._http._tcp.local SRV", "q box.local A"}, 0, []string{
			"an box.local A 120 flush 192.0.2.1", "ar box.local AAAA 120 flush fe80::1",
		}},
		{"known", here(), []string{"q box.local ANY", "an box.local A 60 192.0.2.1"}, 0, []string{
			"an box.local AAAA 120 flush fe80::1", "ar box.local A 120 flush 192.0.2.1",
		}},
		{"hardly known any more", here(), []string{"q box.local A", "an box.local A 59 192.0.2.1"}, 0, []string{
			"an box.local A 120 flush 192.0.2.1", "ar box.local AAAA 120 flush fe80::1",
		}},
		{"known wrongly", here(), []string{"q box.local A", "an box.local A 120 192.0.2.7"}, 0, []string{
			"an box.local A 120 flush 192.0.2.1", "ar box.local AAAA 120 flush fe80::1",
		}},
		{"service known", here(), []string{"q _ssh._tcp.local PTR", "an _ssh._tcp.local PTR 4500 box-445566._ssh._tcp.local"}, 0, nil},
		{"somebody else", here(), []string{"q other.local A"}, 0, nil},
		{"a service of others", here(), []string{"q _http._tcp.local PTR"}, 0, nil},
		{"SRV of the service's name", here(), []string{"q _ssh._tcp.local SRV"}, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := runs(t, tt.facts)
			began := s.now - epoch
			s.hear(neighbour, true, message(t, 0, 0, tt.query...))
			s.pass(10 * time.Second)
			if tt.want == nil {
				s.silent("answer")
				return
			}
			p := s.one("answer")
			s.wantItems("answer", p.msg, tt.want...)
			if p.at-began != tt.after || p.to.IsValid() || p.family != v4 {
				t.Errorf("after %v to %v, family %d; want %v to the group", p.at-began, p.to, p.family, tt.after)
			}
		})
	}
}

// A dot inside somebody's label, which dnsmessage stumbles over, hides nothing
// that comes behind it.
func TestDotInALabel(t *testing.T) {
	s := runs(t, here())
	var b dnssd.Builder
	b.Begin(0, 0, false)
	odd, err := dnssd.NewName("Hall 2.1", "_http._tcp.local")
	if err != nil {
		t.Fatal(err)
	}
	box, err := dnssd.NewName("", "box.local")
	if err != nil {
		t.Fatal(err)
	}
	b.Question(odd, dnssd.TypeSRV, dnssd.ClassIN)
	b.Question(box, dnssd.TypeA, dnssd.ClassIN)
	s.hear(neighbour, true, b.Bytes())
	if got := show(t, s.one("answer").msg)[0]; got != "an box.local A 120 flush 192.0.2.1" {
		t.Errorf("answer %s", got)
	}
}

// A record goes to the group once a second at most: the second question waits.
func TestRateLimit(t *testing.T) {
	s := runs(t, here())
	q := message(t, 0, 0, "q box.local A")
	began := s.now - epoch
	for range 20 {
		s.hear(neighbour, true, q)
		s.pass(100 * time.Millisecond)
	}
	s.pass(10 * time.Second)
	var at []time.Duration
	for _, p := range s.take() {
		at = append(at, p.at-began)
	}
	if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("answered at %v, want %v", at, want)
	}
}

func TestMoreKnownAnswersFollow(t *testing.T) {
	s := runs(t, here())
	began := s.now - epoch
	s.hear(neighbour, true, message(t, 0, dnssd.FlagTruncated, "q _ssh._tcp.local PTR", "q _zigbee-coordinator._tcp.local PTR"))
	s.pass(100 * time.Millisecond)
	s.silent("before the rest")
	// Of another host it says nothing about this one's question.
	s.hear(netip.MustParseAddrPort("192.0.2.10:5353"), true, message(t, 0, 0, "an _zigbee-coordinator._tcp.local PTR 4500 box-445566._zigbee-coordinator._tcp.local"))
	s.hear(neighbour, true, message(t, 0, 0, "an _ssh._tcp.local PTR 4500 box-445566._ssh._tcp.local"))
	s.pass(time.Second)
	p := s.one("answer")
	if got := show(t, p.msg)[0]; !strings.HasPrefix(got, "an _zigbee-coordinator._tcp.local PTR") || p.at-began != 450*time.Millisecond {
		t.Errorf("after %v: %s", p.at-began, got)
	}
	for _, line := range show(t, p.msg) {
		if strings.Contains(line, "_ssh") {
			t.Errorf("known, and sent: %s", line)
		}
	}
}

// What another host has just answered needs no repetition.
func TestDuplicateAnswer(t *testing.T) {
	s := runs(t, here())
	s.hear(neighbour, true, message(t, 0, 0, "q _services._dns-sd._udp.local PTR"))
	s.hear(netip.MustParseAddrPort("192.0.2.10:5353"), true, message(t, 0, dnssd.FlagResponse, "an _services._dns-sd._udp.local PTR 4500 _ssh._tcp.local"))
	s.pass(time.Second)
	s.wantItems("answer", s.one("answer").msg, "an _services._dns-sd._udp.local PTR 4500 _zigbee-coordinator._tcp.local")
}

func TestUnicastAnswers(t *testing.T) {
	a := []string{"an box.local A 120 flush 192.0.2.1", "ar box.local AAAA 120 flush fe80::1"}
	far6 := netip.MustParseAddrPort("[2001:db8::9]:5353")
	near6 := netip.MustParseAddrPort("[fe80::9%eth0]:5353")
	tests := []struct {
		name      string
		from      netip.AddrPort
		multicast bool
		heard     bool // it was multicast a moment ago
		query     []string
		to        netip.AddrPort // zero: the group
		want      []string
	}{
		{"QU, heard lately", neighbour, true, true, []string{"q box.local A QU"}, neighbour, a},
		{"QU, not heard lately", neighbour, true, false, []string{"q box.local A QU"}, netip.AddrPort{}, a},
		{"QU from another subnet on this cable", stranger, true, true, []string{"q box.local A QU"}, netip.AddrPort{}, a},
		{"QM from another subnet on this cable", stranger, true, false, []string{"q box.local A"}, netip.AddrPort{}, a},
		{"sent to the box", neighbour, false, false, []string{"q box.local A"}, neighbour, a},
		{"sent to the box from far away", stranger, false, false, []string{"q box.local A"}, netip.AddrPort{}, nil},
		{"link-local", near6, false, false, []string{"q box.local A"}, near6, a},
		{"sent to the box from far away, v6", far6, false, false, []string{"q box.local A"}, netip.AddrPort{}, nil},
		{"plain resolver", resolver, true, false, []string{"q box.local A"}, resolver, []string{
			"q box.local A", "an box.local A 10 192.0.2.1", "ar box.local AAAA 10 fe80::1",
		}},
		{"plain resolver asks the box", resolver, false, false, []string{"q box.local A QU"}, resolver, []string{
			"q box.local A", "an box.local A 10 192.0.2.1", "ar box.local AAAA 10 fe80::1",
		}},
		{"plain resolver from another subnet", netip.MustParseAddrPort("203.0.113.9:40000"), true, false, []string{"q box.local A"}, netip.AddrPort{}, nil},
		{"plain resolver, nothing of ours", resolver, true, false, []string{"q other.local A"}, netip.AddrPort{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := runs(t, here())
			if tt.heard {
				for _, host := range []netip.AddrPort{neighbour, near6} {
					s.hear(host, true, message(t, 0, 0, "q box.local A"))
				}
				s.pass(2 * time.Second)
				s.take()
			}
			s.hear(tt.from, tt.multicast, message(t, 4711, 0, tt.query...))
			s.pass(5 * time.Second)
			if tt.want == nil {
				s.silent("answer")
				return
			}
			p := s.one("answer")
			s.wantItems("answer", p.msg, tt.want...)
			if p.to != tt.to {
				t.Errorf("sent to %v, want %v", p.to, tt.to)
			}
			if m, _ := dnssd.Read(p.msg); (m.ID == 4711) != (tt.from.Port() != 5353) {
				t.Errorf("ID %d", m.ID)
			}
		})
	}
}

// A flood with a false source gets no flood of answers, and does not keep the
// box from defending its name.
func TestUnicastIsBounded(t *testing.T) {
	s := runs(t, here())
	q := message(t, 1, 0, "q box.local ANY")
	for range 1000 {
		s.hear(resolver, true, q)
		s.pass(time.Millisecond)
	}
	if n := len(s.take()); n < 20 || n > 41 {
		t.Errorf("%d answers to 1000 questions in a second, want 20 and 20 more", n)
	}
	s.hear(neighbour, true, message(t, 0, 0, "q box.local ANY QU", "ns box.local A 120 192.0.2.9"))
	if p := s.one("defence"); p.to.IsValid() {
		t.Errorf("defended towards %v only", p.to)
	}
}

// A name is defended at once, and again after 250 ms if need be.
func TestDefence(t *testing.T) {
	s := runs(t, here())
	began := s.now - epoch
	probe := message(t, 0, 0, "q box.local ANY QU", "ns box.local A 120 192.0.2.9")
	for range 3 {
		s.hear(neighbour, true, probe)
		s.pass(100 * time.Millisecond)
	}
	s.pass(5 * time.Second)
	var at []time.Duration
	for _, p := range s.take() {
		at = append(at, p.at-began)
		if got := show(t, p.msg)[0]; got != "an box.local A 120 flush 192.0.2.1" || p.to.IsValid() {
			t.Errorf("defence to %v: %s", p.to, got)
		}
	}
	if want := []time.Duration{0, 250 * time.Millisecond}; !slices.Equal(at, want) {
		t.Errorf("defended at %v, want %v", at, want)
	}
}

func TestConflictWhileProbing(t *testing.T) {
	tests := []struct {
		name, answer, host, instance string
	}{
		{"host", "an BOX.local A 120 192.0.2.9", "box-2.local", "box-445566._ssh._tcp.local"},
		{"host, another type", "an box.local HINFO 120", "box-2.local", "box-445566._ssh._tcp.local"},
		{"instance", "an box-445566._ssh._tcp.local SRV 120 22 other.local", "box.local", "box-445566-2._ssh._tcp.local"},
		{"in the additional section", "ar box.local A 120 192.0.2.9", "box-2.local", "box-445566._ssh._tcp.local"},
		{"our own record", "an box.local A 120 192.0.2.1", "box.local", "box-445566._ssh._tcp.local"},
		{"somebody's goodbye", "an box.local A 0 192.0.2.9", "box.local", "box-445566._ssh._tcp.local"},
		{"another service", "an _ssh._tcp.local PTR 4500 other._ssh._tcp.local", "box.local", "box-445566._ssh._tcp.local"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSim(t)
			s.set(s.now, here(), true, true)
			s.until(400 * time.Millisecond) // two probes
			s.hear(neighbour, true, message(t, 0, dnssd.FlagResponse, tt.answer))
			s.until(time.Minute)
			all := s.take()
			last := strings.Join(show(t, all[len(all)-1].msg), "\n")
			for _, want := range []string{"an " + tt.host + " A 120 flush 192.0.2.1", "an " + tt.instance + " SRV 120 flush 22 " + tt.host} {
				if !strings.Contains(last, want+"\n") {
					t.Errorf("no %q in\n%s", want, last)
				}
			}
			said := strings.Join(s.log, "\n")
			if changed := tt.host != "box.local" || strings.Contains(tt.instance, "-2"); strings.Contains(said, "is taken by another host; this one is") != changed ||
				!strings.Contains(said, "mdns: this is "+tt.host) {
				t.Errorf("log:\n%s", said)
			}
		})
	}
}

// Somebody turns up with the name later (two networks are joined): both ask
// again, and the one that is answered takes another name.
func TestConflictLater(t *testing.T) {
	s := runs(t, here())
	theirs := message(t, 0, dnssd.FlagResponse, "an box.local A 120 192.0.2.9")
	s.hear(neighbour, true, theirs)
	s.pass(400 * time.Millisecond)
	probes := s.take()
	if len(probes) != 4 || show(t, probes[0].msg)[0] != "q box.local ANY QU" {
		t.Fatalf("%d packets after the conflict", len(probes))
	}
	s.hear(neighbour, true, theirs)
	s.pass(5 * time.Second)
	all := s.take()
	if got := show(t, all[len(all)-1].msg)[0]; got != "an box-2.local A 120 flush 192.0.2.1" {
		t.Errorf("announced %s", got)
	}
	// Nobody answers: the name stays.
	s = runs(t, here())
	s.hear(neighbour, true, theirs)
	s.pass(5 * time.Second)
	all = s.take()
	if got := show(t, all[len(all)-1].msg)[0]; got != "an box.local A 120 flush 192.0.2.1" {
		t.Errorf("announced %s", got)
	}
}

// Responses that come from another port or from far away are nobody's.
func TestFalseConflicts(t *testing.T) {
	theirs := message(t, 0, dnssd.FlagResponse, "an box.local A 120 192.0.2.9")
	for _, tt := range []struct {
		name      string
		from      netip.AddrPort
		multicast bool
	}{
		{"another port", resolver, true},
		{"far away", stranger, false},
		{"itself", netip.MustParseAddrPort("192.0.2.1:5353"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := runs(t, here())
			s.hear(tt.from, tt.multicast, theirs)
			s.pass(5 * time.Second)
			s.silent("conflict")
		})
	}
}

// A host that takes every name is given up on for 5 s at a time.
func TestConflictsWithoutEnd(t *testing.T) {
	s := newSim(t)
	s.set(s.now, here(), true, true)
	s.hostN = 90 // the names grow, and stay within a label
	s.rebuild()
	for range 30 {
		for len(s.sent) == 0 {
			s.pass(10 * time.Millisecond)
		}
		s.take()
		s.hear(neighbour, true, message(t, 0, dnssd.FlagResponse, "an "+s.zone.host.String()+" A 120 192.0.2.9"))
	}
	if passed := s.now - epoch; passed < 70*time.Second || passed > 90*time.Second {
		t.Errorf("30 names in %v, want 5 s for each from the 15th on", passed)
	}
	if got := s.zone.host.String(); got != "box-120.local" {
		t.Errorf("the name is %s", got)
	}
}

func TestTieBreak(t *testing.T) {
	for _, tt := range []struct {
		name   string
		theirs []string
		lost   bool
	}{
		{"a later address", []string{"ns box.local A 120 192.0.2.2", "ns box.local AAAA 120 fe80::1"}, true},
		{"an earlier address", []string{"ns box.local A 120 192.0.2.0", "ns box.local AAAA 120 fe80::ff"}, false},
		{"the same", []string{"ns box.local AAAA 120 fe80::1", "ns box.local A 120 192.0.2.1"}, false},
		{"more of the same", []string{"ns box.local AAAA 120 fe80::1", "ns box.local A 120 192.0.2.1", "ns box.local AAAA 120 fe80::2"}, true},
		{"less of the same", []string{"ns box.local A 120 192.0.2.1"}, false},
		{"another type", []string{"ns box.local AAAA 120 ::"}, true},
		{"the instance, a later port", []string{"ns box-445566._ssh._tcp.local SRV 120 23 box.local", "ns box-445566._ssh._tcp.local TXT 1 " + sshTXT}, true},
		{"the instance, an earlier port", []string{"ns box-445566._ssh._tcp.local SRV 120 21 box.local", "ns box-445566._ssh._tcp.local TXT 1 " + sshTXT}, false},
		{"the instance, an earlier text", []string{"ns box-445566._ssh._tcp.local SRV 120 23 box.local", "ns box-445566._ssh._tcp.local TXT 1 a"}, false},
		{"another name", []string{"ns other.local A 120 255.255.255.255"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSim(t)
			s.set(s.now, here(), true, true)
			s.until(200 * time.Millisecond) // one probe
			s.take()
			s.hear(neighbour, true, message(t, 0, 0, append([]string{"q box.local ANY QU"}, tt.theirs...)...))
			s.until(1100 * time.Millisecond)
			if lost := len(s.take()) == 0; lost != tt.lost {
				t.Errorf("lost %v, want %v", lost, tt.lost)
			}
			s.until(time.Minute) // nobody has it after all
			all := s.take()
			if got := show(t, all[len(all)-1].msg)[0]; got != "an box.local A 120 flush 192.0.2.1" {
				t.Errorf("announced %s", got)
			}
		})
	}
}

func TestWithdrawalInOTBRMode(t *testing.T) {
	s := runs(t, here())
	f := here()
	f.radio.Mode = config.ModeOTBR
	s.set(s.now, f, true, false)
	s.pass(10 * time.Second)
	all := s.take()
	if len(all) != 6 {
		t.Fatalf("%d packets, want a goodbye and two announcements on both families", len(all))
	}
	s.wantItems("goodbye", all[0].msg,
		"an box-445566._zigbee-coordinator._tcp.local SRV 0 8888 box.local",
		"an box-445566._zigbee-coordinator._tcp.local TXT 0 "+zigbeeTXT,
		"an _zigbee-coordinator._tcp.local PTR 0 box-445566._zigbee-coordinator._tcp.local",
		"an _services._dns-sd._udp.local PTR 0 _zigbee-coordinator._tcp.local",
		"an box-445566._ssh._tcp.local TXT 0 "+sshTXT)
	s.wantItems("announcement", all[2].msg,
		"an box.local A 120 flush 192.0.2.1", "an box.local AAAA 120 flush fe80::1",
		"an box-445566._ssh._tcp.local SRV 120 flush 22 box.local",
		"an box-445566._ssh._tcp.local TXT 4500 flush "+strings.Replace(sshTXT, "mode=zigbee", "mode=otbr", 1),
		"an _ssh._tcp.local PTR 4500 box-445566._ssh._tcp.local",
		"an _services._dns-sd._udp.local PTR 4500 _ssh._tcp.local")
	s.hear(neighbour, true, message(t, 0, 0, "q _zigbee-coordinator._tcp.local PTR"))
	s.pass(time.Second)
	s.silent("asked for the coordinator")

	// Back: its name may have been taken meanwhile, so it is asked for.
	s.set(s.now, here(), true, false)
	s.pass(10 * time.Second)
	all = s.take()
	if got := show(t, all[2].msg)[0]; got != "q box.local ANY QU" {
		t.Errorf("first %s", got)
	}
	s.wantItems("announcement", all[len(all)-1].msg, everything("an")...)
}

func TestNewAddress(t *testing.T) {
	s := runs(t, here())
	f := here()
	f.addrs = []netip.Prefix{netip.MustParsePrefix("198.51.100.7/24"), f.addrs[1]}
	began := s.now - epoch
	s.set(s.now, f, true, false)
	s.set(s.now, f, true, false) // nothing new
	s.pass(10 * time.Second)
	all := s.take()
	var at []time.Duration
	for _, p := range all {
		at = append(at, p.at-began)
	}
	if want := []time.Duration{0, 0, 0, 0, time.Second, time.Second}; !slices.Equal(at, want) {
		t.Fatalf("sent at %v, want %v", at, want)
	}
	s.wantItems("goodbye", all[0].msg, "an box.local A 0 192.0.2.1")
	if got := show(t, all[2].msg)[0]; got != "an box.local A 120 flush 198.51.100.7" {
		t.Errorf("announced %s", got)
	}
	// One after the other, a second apart at least.
	began = s.now - epoch
	s.set(s.now, here(), true, false)
	s.pass(100 * time.Millisecond)
	s.set(s.now, f, true, false)
	s.pass(10 * time.Second)
	at = nil
	for _, p := range s.take() {
		if m, _ := dnssd.Read(p.msg); p.family == v4 && m.Response() && !strings.Contains(show(t, p.msg)[0], " 0 ") {
			at = append(at, p.at-began)
		}
	}
	if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("announced at %v, want %v", at, want)
	}
}

func TestStopSaysGoodbye(t *testing.T) {
	s := runs(t, here())
	s.stop()
	all := s.take()
	if len(all) != 2 {
		t.Fatalf("%d packets, want one a family", len(all))
	}
	var want []string
	for _, line := range everything("an") {
		line = strings.Replace(strings.Replace(line, " flush", "", 1), " 4500 ", " 0 ", 1)
		want = append(want, strings.Replace(line, " 120 ", " 0 ", 1))
	}
	s.wantItems("goodbye", all[0].msg, want...)
	s.pass(time.Minute)
	s.hear(neighbour, true, message(t, 0, 0, "q box.local A"))
	s.silent("after the end")

	s = newSim(t) // which nobody has heard of yet
	s.set(s.now, here(), true, true)
	s.until(400 * time.Millisecond)
	s.take()
	s.stop()
	s.silent("goodbye of what was not announced")
}

func TestWithoutLink(t *testing.T) {
	s := runs(t, here())
	s.set(s.now, facts{hostname: "box"}, false, true)
	s.pass(time.Hour)
	s.hear(neighbour, true, message(t, 0, 0, "q box.local A"))
	s.silent("without a link")
	began := s.now - epoch
	s.set(s.now, here(), true, true)
	s.pass(5 * time.Second)
	all := s.take()
	if len(all) != 10 || all[0].at-began != 125*time.Millisecond {
		t.Errorf("%d packets, the first after %v", len(all), all[0].at-began)
	}
}

func TestWhenThereIsACoordinator(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*facts)
		want   bool
	}{
		{"as it comes", func(*facts) {}, true},
		{"NCP firmware", func(f *facts) { f.radio.Firmware = "ncp" }, true},
		{"RCP firmware", func(f *facts) { f.radio.Firmware = "rcp" }, false},
		{"router firmware", func(f *facts) { f.radio.Firmware = "router" }, false},
		{"border router", func(f *facts) { f.radio.Mode = config.ModeOTBR }, false},
		{"safe mode", func(f *facts) { f.safe = true }, false},
		{"no address but the link's", func(f *facts) { f.addrs = f.addrs[1:] }, false},
		{"an IPv6 address", func(f *facts) { f.addrs[0] = netip.MustParsePrefix("2001:db8::1/64") }, true},
		{"the kernel's engine", func(f *facts) { f.radio.KernelEngine = true }, true},
		{"the kernel's engine without IPv4", func(f *facts) {
			f.radio.KernelEngine, f.addrs[0] = true, netip.MustParsePrefix("2001:db8::1/64")
		}, false},
		{"bound to its address", func(f *facts) { f.radio.Bind = "192.0.2.1" }, true},
		{"bound to another", func(f *facts) { f.radio.Bind = "127.0.0.1" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := here()
			tt.change(&f)
			z, err := f.build(1, 1)
			if err != nil {
				t.Fatal(err)
			}
			has := slices.ContainsFunc(z.records, func(r record) bool {
				return r.Type == dnssd.TypeSRV && string(r.Data) == string(dnssd.DataSRV(8888, z.host))
			})
			if has != tt.want {
				t.Errorf("announced: %v, want %v", has, tt.want)
			}
			// SSH on the bridge's port is the user engine's.
			ssh := slices.ContainsFunc(z.records, func(r record) bool {
				return r.Type == dnssd.TypeTXT && strings.Contains(string(r.Data), "bridge_port=8888")
			})
			if ssh == (f.safe || f.radio.KernelEngine) {
				t.Errorf("SSH on the bridge's port: %v", ssh)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	f := here()
	for _, tt := range []struct {
		hostname       string
		n              int
		host, instance string
	}{
		{"box", 1, "box", "box-445566"},
		{"box", 2, "box-2", "box-445566-2"},
		{"box.example.com", 12, "box-12", "box-445566-12"},
		{strings.Repeat("b", 63), 1, strings.Repeat("b", 63), strings.Repeat("b", 56) + "-445566"},
		{strings.Repeat("b", 63), 10, strings.Repeat("b", 60) + "-10", strings.Repeat("b", 53) + "-445566-10"},
	} {
		f.hostname = tt.hostname
		if h, i := f.hostLabel(tt.n), f.instanceLabel(tt.n); h != tt.host || i != tt.instance {
			t.Errorf("%s, %d: %s and %s, want %s and %s", tt.hostname, tt.n, h, i, tt.host, tt.instance)
		}
	}
}

// What is not for this box costs no memory.
func TestQueriesOfOthersAllocateNothing(t *testing.T) {
	s := runs(t, here())
	query := message(t, 0, 0, "q printer._ipp._tcp.local SRV", "q _http._tcp.local PTR", "an _http._tcp.local PTR 4500 other._http._tcp.local")
	answer := message(t, 0, dnssd.FlagResponse, "an other.local A 120 192.0.2.9", "an _ssh._tcp.local PTR 4500 other._ssh._tcp.local")
	asked := message(t, 0, 0, "q box.local A")
	s.responder.send = func(family, netip.AddrPort, []byte) {}
	p := packet{from: neighbour, multicast: true}
	for _, tt := range []struct {
		name string
		msg  []byte
	}{{"query of others", query}, {"answer of others", answer}, {"query for this box", asked}} {
		n := testing.AllocsPerRun(100, func() {
			p.msg = tt.msg
			s.now += 2 * time.Second
			s.receive(s.now, &p)
			s.tick(s.now)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}

// Whatever comes in: nothing breaks, and little goes out.
func FuzzReceive(f *testing.F) {
	f.Add(message(f, 0, 0, "q box.local A", "an box.local A 60 192.0.2.1"), uint16(5353), true)
	f.Add(message(f, 0, dnssd.FlagTruncated, "q _ssh._tcp.local PTR QU", "an _ssh._tcp.local PTR 4500 box-445566._ssh._tcp.local"), uint16(5353), true)
	f.Add(message(f, 0, 0, "q box.local ANY QU", "ns box.local A 120 192.0.2.9", "ns box-445566._ssh._tcp.local SRV 120 23 box.local"), uint16(5353), true)
	f.Add(message(f, 0, dnssd.FlagResponse, "an box.local A 120 192.0.2.9", "ar box-445566._ssh._tcp.local TXT 1 x"), uint16(5353), false)
	f.Add(message(f, 9, 0, "q _services._dns-sd._udp.local PTR"), uint16(40000), false)
	f.Fuzz(func(t *testing.T, msg []byte, port uint16, multicast bool) {
		from := netip.AddrPortFrom(neighbour.Addr(), port)
		for _, after := range []time.Duration{0, 200 * time.Millisecond, time.Second, 10 * time.Second} {
			s := newSim(t)
			s.set(s.now, here(), true, true)
			s.until(after)
			s.take()
			for range 3 {
				s.hear(from, multicast, msg)
				s.pass(10 * time.Millisecond)
			}
			s.pass(900 * time.Millisecond)
			if n := len(s.take()); n > 16 {
				t.Errorf("%d packets in a second", n)
			}
			s.pass(time.Minute)
			for _, p := range s.take() {
				m, ok := dnssd.Read(p.msg)
				var it dnssd.Item
				for ok && m.Next(&it) {
				}
				if !ok || m.Has(dnssd.Questions) || m.Has(dnssd.Additionals) {
					t.Errorf("sent %x", p.msg)
				}
			}
			if s.state != running {
				t.Errorf("in state %d a minute later", s.state)
			}
		}
	})
}
