package discover

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/dnssd"
)

func name(t testing.TB, instance, rest string) dnssd.Name {
	t.Helper()
	n, err := dnssd.NewName(instance, rest)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// response is what a gateway answers; items are "ptr", "srv", "txt", "addr".
func response(t testing.TB, host, service string, port uint16, ttl uint32, items string, txt ...string) []byte {
	t.Helper()
	h, ptr, inst := name(t, "", host+".local"), name(t, "", service+".local"), name(t, host+"-1", service+".local")
	var b dnssd.Builder
	b.Begin(0, dnssd.FlagResponse, false)
	add := func(n dnssd.Name, typ, class uint16, data []byte) {
		if !b.Record(dnssd.Answers, &dnssd.Record{Name: n, Type: typ, Class: class, TTL: ttl, Data: data}) {
			t.Fatal("not written")
		}
	}
	for item := range strings.FieldsSeq(items) {
		switch item {
		case "ptr":
			add(ptr, dnssd.TypePTR, dnssd.ClassIN, inst)
		case "srv":
			add(inst, dnssd.TypeSRV, dnssd.ClassIN|dnssd.Flush, dnssd.DataSRV(port, h))
		case "txt":
			add(inst, dnssd.TypeTXT, dnssd.ClassIN|dnssd.Flush, dnssd.DataTXT(txt...))
		case "addr":
			for _, a := range []string{"fe80::1", "192.0.2.1", "2001:db8::1"} {
				typ := uint16(dnssd.TypeAAAA)
				if !strings.Contains(a, ":") {
					typ = dnssd.TypeA
				}
				add(h, typ, dnssd.ClassIN|dnssd.Flush, netip.MustParseAddr(a).AsSlice())
			}
		}
	}
	return bytes.Clone(b.Bytes())
}

var ours = []string{dnssd.Mark, "board=lidl", "version=1.0", "mode=otbr", "serial_number=02:00:00:00:00:01", "bridge_port=8888"}

func TestGateways(t *testing.T) {
	var s seen
	const all = "ptr srv txt addr"
	s.add(response(t, "kitchen", dnssd.ServiceSSH, 22, 120, all, ours...), "eth0")
	s.add(response(t, "attic", dnssd.ServiceZigbee, 8889, 120, all, dnssd.Mark, "radio_type=ezsp", "version=2.0", "board=emulated"), "eth1")
	s.add(response(t, "cellar", dnssd.ServiceSSH, 22, 120, all, dnssd.Mark, "mode=safe", "version=2.0", "board=lidl"), "")
	s.add(response(t, "server", dnssd.ServiceSSH, 22, 120, all), "eth0")                                   // anybody's ssh
	s.add(response(t, "stick", dnssd.ServiceZigbee, 6638, 120, all, "radio_type=znp"), "eth0")             // another vendor's
	s.add(response(t, "printer", "_http._tcp", 80, 120, all, dnssd.Mark), "eth0")                          // another service
	s.add(response(t, "left", dnssd.ServiceSSH, 22, 120, all, ours...), "eth0")                            // and then
	s.add(response(t, "left", dnssd.ServiceSSH, 22, 0, "ptr"), "eth0")                                     // gone
	s.add(response(t, "vague", dnssd.ServiceSSH, 22, 120, "ptr txt", ours...), "eth0")                     // no host yet
	s.add([]byte("\x00\x00\x84\x00\x00\x00\x00\x02\x00\x00\x00\x00\x01x\x00\x00\x0c\x00\x01\x00"), "eth0") // damaged

	var out bytes.Buffer
	if err := show(&out, s.gateways(), false); err != nil {
		t.Fatal(err)
	}
	want := `NAME           PORT  MODE    BOARD     VERSION  ADDRESSES
attic.local    8889  zigbee  emulated  2.0      192.0.2.1 2001:db8::1 fe80::1%eth1
cellar.local   -     safe    lidl      2.0      192.0.2.1 2001:db8::1
kitchen.local  8888  otbr    lidl      1.0      192.0.2.1 2001:db8::1 fe80::1%eth0
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	if err := show(&out, s.gateways()[2:], true); err != nil {
		t.Fatal(err)
	}
	want = `[{"name":"kitchen-1","host":"kitchen.local","addresses":["192.0.2.1","2001:db8::1","fe80::1%eth0"],"port":8888,"sshPort":22,"mode":"otbr","version":"1.0","board":"lidl","serialNumber":"02:00:00:00:00:01"}]` + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	if err := show(&out, new(seen).gateways(), true); err != nil || out.String() != "[]\n" {
		t.Errorf("nothing is %q, %v", out.String(), err)
	}
}

// What an answer leaves open is asked for.
func TestQueryAsksForWhatIsMissing(t *testing.T) {
	var s seen
	ask := func() (names []string) {
		m, ok := dnssd.Read(s.query())
		if !ok || m.Response() {
			t.Fatal("no query")
		}
		var it dnssd.Item
		for m.Next(&it) {
			n, _ := m.AppendName(nil, &it)
			names = append(names, dnssd.Name(n).String())
		}
		return names
	}
	first := []string{"_ssh._tcp.local", "_zigbee-coordinator._tcp.local"}
	for _, step := range []struct {
		answer string
		want   []string
	}{
		{"", nil},
		{"ptr", []string{"a-1._ssh._tcp.local"}},
		{"srv", []string{"a-1._ssh._tcp.local"}},
		{"txt", []string{"a.local"}},
		{"addr", nil},
	} {
		s.add(response(t, "a", dnssd.ServiceSSH, 22, 120, step.answer, ours...), "eth0")
		if got := ask(); !slices.Equal(got, append(slices.Clone(first), step.want...)) {
			t.Errorf("after %q asked for %v", step.answer, got)
		}
	}
}

func TestStrangersTextIsHarmless(t *testing.T) {
	var s seen
	s.add(response(t, "a\x1b[2J", dnssd.ServiceSSH, 22, 120, "ptr srv txt addr", dnssd.Mark, "version=\x1b]0;x\x07", "board=\xff\tb", "bridge_port=99999"), "")
	var out bytes.Buffer
	if err := show(&out, s.gateways(), false); err != nil {
		t.Fatal(err)
	}
	if want := "a?[2J.local  -     -     ??b    ?]0;x?   192.0.2.1 2001:db8::1\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, args := range [][]string{{"-t", "soon"}, {"-t", "-1s"}, {"kitchen"}, {"-x"}} {
		var u applet.UsageError
		if err := run(applet.IO{}, args, false); !asUsage(err, &u) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func asUsage(err error, u *applet.UsageError) (ok bool) {
	*u, ok = err.(applet.UsageError)
	return ok
}

// Over a real socket: a host that answers the question directly.
func TestBrowse(t *testing.T) {
	box, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := make(chan []Gateway)
	go func() {
		found <- browse(ctx, []conn{{c, box.LocalAddr().(*net.UDPAddr).AddrPort()}})
	}()
	buf := make([]byte, 1500)
	answers := [][]byte{
		response(t, "a", dnssd.ServiceSSH, 22, 120, "ptr srv txt", ours...),
		response(t, "a", dnssd.ServiceSSH, 22, 120, "addr"),
	}
	for i := 0; i < len(answers)+1; i++ { // the last question was asked with all in hand
		n, from, err := box.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := dnssd.Read(buf[:n]); !ok || m.Response() {
			t.Fatalf("asked %x", buf[:n])
		}
		if i < len(answers) {
			if _, err := box.WriteToUDPAddrPort(answers[i], from); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if g := <-found; len(g) != 1 || g[0].Host != "a.local" || len(g[0].Addresses) < 2 {
		t.Errorf("found %+v", g)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(response(f, "a", dnssd.ServiceSSH, 22, 120, "ptr srv txt addr", ours...))
	f.Add(response(f, "a", dnssd.ServiceZigbee, 22, 0, "ptr txt srv", ours...))
	f.Fuzz(func(t *testing.T, msg []byte) {
		var s seen
		s.add(msg, "eth0")
		if m, ok := dnssd.Read(s.query()); !ok || m.Response() {
			t.Error("no query any more")
		}
		for _, g := range s.gateways() {
			if g.Name == "" || g.Addresses == nil {
				t.Errorf("%+v", g)
			}
		}
		var out bytes.Buffer
		if err := show(&out, s.gateways(), false); err != nil || bytes.IndexFunc(out.Bytes(), func(r rune) bool { return r < ' ' && r != '\n' }) >= 0 {
			t.Errorf("printed %q, %v", out.String(), err)
		}
	})
}
