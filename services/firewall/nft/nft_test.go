package nft

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gwinit/internal/netdev/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var words []string
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "//")
		words = append(words, strings.Fields(line)...)
	}
	b, err := hex.DecodeString(strings.Join(words, ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// every is a rule of each form.
var every = []Rule{
	{Text: "lo", Interface: "lo", Accept: true},
	{Text: "answers", Answers: true, Accept: true},
	{Text: "ping", Protocol: ICMP, Span: Span{8, 8}, Accept: true},
	{Text: "errors", Protocol: ICMPv6, Span: Span{1, 4}, Accept: true},
	{Text: "reports", Protocol: IGMP, Accept: true},
	{Text: "ssh", Protocol: TCP, Span: Span{22, 22}, Accept: true},
	{Text: "range", Protocol: UDP, Span: Span{40000, 40100}, Accept: true},
	{Text: "host", From: netip.MustParsePrefix("192.168.1.20/32"), Protocol: TCP, Span: Span{8081, 8081}, Accept: true},
	{Text: "net", From: netip.MustParsePrefix("172.16.0.0/12"), Protocol: TCP, Span: Span{8081, 8081}, Accept: true},
	{Text: "net6", From: netip.MustParsePrefix("fc00::/7"), Protocol: TCP, Span: Span{8081, 8081}, Accept: true},
	{Text: "tcp", Protocol: TCP, Tally: true},
	{Text: "udp", Protocol: UDP, Tally: true},
	{Text: "rest"},
}

// listed is how nft(8) reads every in the kernel: nobody else's word for what
// the rules mean.
const listed = `table inet gwinit {
	set dropped {
		type inet_proto . inet_service
		size 64
		flags dynamic,timeout
		timeout 1h
	}

	chain input {
		type filter hook input priority filter; policy drop;
		iifname "lo" counter packets 0 bytes 0 accept comment "lo"
		ct state established,related counter packets 0 bytes 0 accept comment "answers"
		icmp type echo-request counter packets 0 bytes 0 accept comment "ping"
		icmpv6 type 1-4 counter packets 0 bytes 0 accept comment "errors"
		meta l4proto igmp counter packets 0 bytes 0 accept comment "reports"
		tcp dport 22 counter packets 0 bytes 0 accept comment "ssh"
		udp dport 40000-40100 counter packets 0 bytes 0 accept comment "range"
		ip saddr 192.168.1.20 tcp dport 8081 counter packets 0 bytes 0 accept comment "host"
		ip saddr 172.16.0.0/12 tcp dport 8081 counter packets 0 bytes 0 accept comment "net"
		ip6 saddr fc00::/7 tcp dport 8081 counter packets 0 bytes 0 accept comment "net6"
		meta l4proto tcp counter packets 0 bytes 0 update @dropped { meta l4proto . tcp dport counter } drop comment "tcp"
		meta l4proto udp counter packets 0 bytes 0 update @dropped { meta l4proto . udp dport counter } drop comment "udp"
		counter packets 0 bytes 0 drop comment "rest"
	}
}
`

// What a big-endian kernel gets of a table with one rule, byte for byte.
const golden = `
	00000014 0010 0001 00000001 00000000  00 00 000a       // begin
	00000020 0a00 0405 00000002 00000000  01 00 0000       // the table is there
		000b 0001 6777696e697400 00
	00000020 0a02 0005 00000003 00000000  01 00 0000       // it goes
		000b 0001 6777696e697400 00
	00000020 0a00 0405 00000004 00000000  01 00 0000       // it comes
		000b 0001 6777696e697400 00
	00000064 0a09 0405 00000005 00000000  01 00 0000       // the set
		000b 0001 6777696e697400 00
		000c 0002 64726f7070656400                         //   dropped
		0008 0003 00000030                                 //   timeout, eval
		0008 0004 0000030d                                 //   inet_proto . inet_service
		0008 0005 00000008
		000c 8009 0008 0001 00000040                       //   64 of them
		0008 000a 00000001
		000c 000b 000000000036ee80                         //   an hour
	00000054 0a03 0405 00000006 00000000  01 00 0000       // the chain
		000b 0001 6777696e697400 00
		000a 0003 696e70757400 0000                        //   input
		0014 8004 0008 0001 00000001  0008 0002 00000000   //   hook input, priority 0
		0008 0005 00000000                                 //   policy drop
		000b 0007 66696c74657200 00                        //   filter
	00000130 0a06 0c05 00000007 00000000  01 00 0000       // a rule, appended
		000b 0001 6777696e697400 00
		000a 0002 696e70757400 0000
		00f8 8004
			0024 8001 0009 0001 6d65746100 000000  0014 8002                  // meta
				0008 0002 00000010 0008 0001 00000001                         //   l4proto to register 1
			002c 8001 0008 0001 636d7000  0020 8002                           // cmp
				0008 0001 00000001 0008 0002 00000000                         //   register 1 ==
				000c 8003 0005 0001 06 000000                                 //   TCP
			0034 8001 000c 0001 7061796c6f616400  0024 8002                   // payload
				0008 0001 00000001 0008 0002 00000002                         //   of the transport header
				0008 0003 00000002 0008 0004 00000002                         //   from 2, 2 bytes
			002c 8001 0008 0001 636d7000  0020 8002
				0008 0001 00000001 0008 0002 00000000
				000c 8003 0006 0001 0016 0000                                 //   22
			0014 8001 000c 0001 636f756e74657200  0004 8002                   // counter
			0030 8001 000e 0001 696d6d65646961746500 0000  001c 8002          // immediate
				0008 0001 00000000                                            //   the verdict:
				0010 8002 000c 8002 0008 0001 00000001                        //   accept
		000a 0007 00 04 73736800 0000                                         // comment "ssh"
	00000014 0011 0001 00000008 00000000  00 00 000a       // end
`

func TestGoldenTransaction(t *testing.T) {
	got, answers := transaction(binary.BigEndian, every[5:6])
	if want := unhex(t, golden); !bytes.Equal(got, want) {
		t.Errorf("\n%x, want\n%x", got, want)
	}
	if answers != 6 {
		t.Errorf("%d messages want an answer, not 6", answers)
	}
	gone, answers := transaction(binary.BigEndian, nil)
	if want := unhex(t, golden)[:0x14+0x20+0x20]; !bytes.HasPrefix(gone, want) || len(gone) != len(want)+0x14 || answers != 2 {
		t.Errorf("without rules %d answers to\n%x", answers, gone)
	}
}

// The pieces that differ between CPUs, and how.
func TestGoldenAnswers(t *testing.T) {
	for _, tt := range []struct {
		order byteOrder
		want  string
	}{
		{binary.BigEndian, `
			0020 8001 0007 0001 637400 00  0014 8002                   // ct
				0008 0002 00000000 0008 0001 00000001                  //   state to register 1
			0044 8001 000c 0001 6269747769736500  0034 8002            // bitwise
				0008 0001 00000001 0008 0002 00000001 0008 0003 00000004
				000c 8004 0008 0001 00000006                           //   & established, related
				000c 8005 0008 0001 00000000
			002c 8001 0008 0001 636d7000  0020 8002                    // cmp
				0008 0001 00000001 0008 0002 00000001                  //   register 1 !=
				000c 8003 0008 0001 00000000                           //   0
			0014 8001 000c 0001 636f756e74657200  0004 8002            // counter
			0030 8001 000e 0001 696d6d65646961746500 0000  001c 8002   // immediate
				0008 0001 00000000                                     //   the verdict:
				0010 8002 000c 8002 0008 0001 00000001                 //   accept`},
		{binary.LittleEndian, `
			2000 0180 0700 0100 637400 00  1400 0280
				0800 0200 00000000 0800 0100 00000001
			4400 0180 0c00 0100 6269747769736500  3400 0280
				0800 0100 00000001 0800 0200 00000001 0800 0300 00000004
				0c00 0480 0800 0100 06000000
				0c00 0580 0800 0100 00000000
			2c00 0180 0800 0100 636d7000  2000 0280
				0800 0100 00000001 0800 0200 00000001
				0c00 0380 0800 0100 00000000
			1400 0180 0c00 0100 636f756e74657200  0400 0280
			3000 0180 0e00 0100 696d6d65646961746500 0000  1c00 0280
				0800 0100 00000000
				1000 0280 0c00 0280 0800 0100 00000001`},
	} {
		w := &writer{order: tt.order}
		w.expressions(every[1])
		if want := unhex(t, tt.want); !bytes.Equal(w.b, want) {
			t.Errorf("%v\n% x, want\n% x", tt.order, w.b, want)
		}
	}
}

// A real kernel takes every form of rule, nft(8) understands it as it is meant,
// and what is read back is what was written.
func TestKernel(t *testing.T) {
	const none = "nothing is there"
	wantState := func(what string, want State) State {
		t.Helper()
		s, err := System{}.Read(every)
		if err != nil || s.Present != want.Present || s.Same != want.Same {
			t.Fatalf("%s: %+v, %v", what, s, err)
		}
		return s
	}
	wantState(none, State{})
	if err := (System{}).Remove(); err != nil {
		t.Errorf("remove what is not there: %v", err)
	}
	for range 2 { // the second takes the place of the first
		if err := (System{}).Replace(every); err != nil {
			t.Fatal(err)
		}
	}
	if got := netlab.Run(t, "nft", "list", "ruleset"); got != listed {
		t.Errorf("nft reads\n%s, want\n%s", got, listed)
	}
	if s := wantState("all of it", State{Present: true, Same: true}); len(s.Rules) != len(every) || len(s.Ports) != 0 {
		t.Errorf("%+v", s)
	}

	for name, change := range map[string]string{
		"another policy":     "chain inet gwinit input { policy accept ; }",
		"another rule":       "add rule inet gwinit input tcp dport 23 accept",
		"a rule before them": "insert rule inet gwinit input accept",
		"no rule":            "flush chain inet gwinit input",
	} {
		netlab.Run(t, "nft", change)
		wantState(name, State{Present: true})
		if err := (System{}).Replace(every); err != nil {
			t.Fatal(err)
		}
		wantState("put right", State{Present: true, Same: true})
	}
	if s, err := (System{}).Read(every[:len(every)-1]); err != nil || s.Same {
		t.Errorf("fewer rules are the same: %+v, %v", s, err)
	}

	// All or nothing, and the rule that it is about.
	bad := slices.Clone(every)
	bad[1].Text = strings.Repeat("long", 100)
	if err := (System{}).Replace(bad); err == nil || !strings.Contains(err.Error(), bad[1].Text) {
		t.Errorf("a rule that cannot be: %v", err)
	}
	wantState("as before", State{Present: true, Same: true})

	if err := (System{}).Remove(); err != nil {
		t.Fatal(err)
	}
	wantState(none, State{})
	if got := netlab.Run(t, "nft", "list", "ruleset"); got != "" {
		t.Errorf("left behind:\n%s", got)
	}
}

// What is dropped is counted, by port.
func TestTally(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	rules := every[5:] // without lo
	if err := (System{}).Replace(rules); err != nil {
		t.Fatal(err)
	}
	send := func(kind int, port int, n int) {
		t.Helper()
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		to := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
		if kind == unix.SOCK_STREAM {
			if err := unix.Connect(fd, to); !errors.Is(err, unix.EINPROGRESS) {
				t.Fatal(err)
			}
			return
		}
		for range n {
			if err := unix.Sendto(fd, make([]byte, 72), 0, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(unix.SOCK_STREAM, 23, 1)
	send(unix.SOCK_DGRAM, 161, 3)
	s, err := System{}.Read(rules)
	if err != nil || !s.Same {
		t.Fatalf("%+v, %v", s, err)
	}
	slices.SortFunc(s.Ports, func(a, b Port) int { return int(a.Protocol) - int(b.Protocol) })
	if len(s.Ports) != 2 || s.Ports[0].Protocol != TCP || s.Ports[0].Number != 23 || s.Ports[0].Packets != 1 ||
		s.Ports[1] != (Port{UDP, 161, Count{3, 300}}) {
		t.Errorf("ports %+v", s.Ports)
	}
	if n := len(rules); s.Rules[n-3].Packets != 1 || s.Rules[n-2] != (Count{3, 300}) || s.Rules[n-1] != (Count{}) {
		t.Errorf("rules %+v", s.Rules)
	}
}

// answerOfRule is a rule of the golden table as a big-endian kernel tells it:
// other attributes among those that were sent, in another order, and a counter.
const answerOfRule = `
	000b 0001 6777696e697400 00
	000a 0002 696e70757400 0000
	000c 0003 0000000000000002
	0110 8004
		0024 0001 0009 0001 6d65746100 000000  0014 0002 0008 0002 00000010 0008 0001 00000001
		002c 0001 0008 0001 636d7000  0020 0002 0008 0001 00000001 0008 0002 00000000 000c 8003 0005 0001 06 000000
		0034 0001 000c 0001 7061796c6f616400  0024 0002
			0008 0004 00000002 0008 0001 00000001 0008 0002 00000002 0008 0003 00000002
		002c 0001 0008 0001 636d7000  0020 0002 0008 0001 00000001 0008 0002 00000000 000c 8003 0006 0001 0016 0000
		002c 0001 000c 0001 636f756e74657200  001c 0002 000c 0001 000000000000012c 000c 0002 0000000000000005
		0030 0001 000e 0001 696d6d65646961746500 0000  001c 0002 0008 0001 00000000 0010 0002 000c 0002 0008 0001 00000001
	000a 0007 00 04 73736800 0000`

func TestParseRule(t *testing.T) {
	b := unhex(t, answerOfRule)
	if c, same := parseRule(binary.BigEndian, b, every[5]); !same || c != (Count{5, 300}) {
		t.Errorf("same %v, %+v", same, c)
	}
	for name, change := range map[string]func(r *Rule){
		"another port":     func(r *Rule) { r.Span = Span{23, 23} },
		"another protocol": func(r *Rule) { r.Protocol = UDP },
		"another verdict":  func(r *Rule) { r.Accept = false },
		"another comment":  func(r *Rule) { r.Text = "shh" },
		"less":             func(r *Rule) { r.Span = Span{} },
		"more":             func(r *Rule) { r.Interface = "eth0" },
	} {
		r := every[5]
		change(&r)
		if _, same := parseRule(binary.BigEndian, b, r); same {
			t.Errorf("%s: taken for the same", name)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	b := unhex(t, `
		00000024 0002 0000 00000007 00000000  fffffffe  00000138 0a06 0c05 00000007 00000000
		00000018 0a06 0002 00000001 00000000  01 00 0000 00000000
		00000014 0003 0002 00000001 00000000  00000000`)
	var got []answer
	for len(b) > 0 {
		a, rest, err := parseAnswer(binary.BigEndian, b)
		if err != nil {
			t.Fatal(err)
		}
		got, b = append(got, a), rest
	}
	if len(got) != 3 || got[0].code != -2 || got[0].number != 7 || got[1].kind != msgNewRule || len(got[1].body) != 4 || got[2].kind != kindDone {
		t.Errorf("%+v", got)
	}
	for _, short := range []string{"00", "00000008 0002 0000 00000000 00000000", "00000012 0002 0000 00000007 00000000 0000", "00000040 0002 0000 00000007 00000000"} {
		if _, _, err := parseAnswer(binary.BigEndian, unhex(t, short)); !errors.Is(err, errShort) {
			t.Errorf("%s: %v", short, err)
		}
	}
}

func TestParsePorts(t *testing.T) {
	b := unhex(t, `
		000b 0001 6777696e697400 00
		000c 0002 64726f7070656400
		0060 8003
			005c 8001
				0010 8001 000c 0001 06000000 0017 0000
				0034 8007 000c 0001 636f756e74657200 0024 8002 000c 0001 0000000000000040 000c 0002 0000000000000001 0008 0003 00000000
				000c 0005 000000000036ee00
				0008 0003 00000000`)
	if got := parsePorts(binary.BigEndian, b); len(got) != 1 || got[0] != (Port{TCP, 23, Count{1, 64}}) {
		t.Errorf("%+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(unhex(f, answerOfRule))
	f.Add(unhex(f, "0010 8003 000c 8001 0008 8001 0004 0001"))
	f.Add(unhex(f, "00000024 0002 0000 00000007 00000000  fffffffe  00000138 0a06 0c05 00000007 00000000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for rest := b; len(rest) > 0; {
			_, behind, err := parseAnswer(binary.BigEndian, rest)
			if err != nil {
				break
			}
			if len(behind) >= len(rest) {
				t.Fatal("no end")
			}
			rest = behind
		}
		parseRule(binary.BigEndian, b, every[5])
		if n := len(parsePorts(binary.BigEndian, b)); n > len(b) {
			t.Errorf("%d ports in %d bytes", n, len(b))
		}
	})
}
