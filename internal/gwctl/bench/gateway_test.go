package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/control/client"
)

// server answers the control protocol on connections that are made with dial.
type server struct {
	t *testing.T

	mu     sync.Mutex // guards the rest
	mode   chan api.Bench
	asked  []string
	on     func() []api.Bench // what is told after "on"; nil: settling, then on
	refuse *api.Error
	away   int // dials that fail
	conns  []net.Conn
}

func (s *server) dial(context.Context, string) (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away > 0 {
		s.away--
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	s.conns = append(s.conns, far)
	go s.serve(far)
	return client.New(near), nil
}

func (s *server) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	reply := func(r api.Reply) bool {
		b, err := json.Marshal(r)
		if err == nil {
			_, err = c.Write(append(b, '\n'))
		}
		return err == nil
	}
	data := func(v any) json.RawMessage {
		b, _ := json.Marshal(v) // these types always go
		return b
	}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r api.Request
		var a api.BenchArgs
		_ = json.Unmarshal(line, &r)
		_ = json.Unmarshal(r.Args, &a)
		s.mu.Lock()
		name := r.Op
		if r.Op == api.OpBench {
			name += " " + a.Action
		}
		s.asked = append(s.asked, name)
		refuse := s.refuse
		s.mu.Unlock()
		switch name {
		case "status":
			if !reply(api.Reply{OK: true, Data: data(api.Status{Version: "1.2", Board: api.Board{ID: "lidl"}, Hostname: "attic", Network: &api.Network{Interface: "eth0", SpeedMbit: 100}})}) {
				return
			}
		case "call":
			reply(api.Reply{OK: true, Data: data(api.Ethernet{Driver: "rtl8196e-eth", Version: "2.24"})})
		case "bench status":
			reply(api.Reply{OK: true, Data: data(api.Bench{State: api.BenchIsOff})})
		case "bench counters":
			reply(api.Reply{OK: true, Data: data(api.BenchCount{At: 5e9, Device: procDev, SNMP: procSNMP, Busy: 5, Total: 10, Kernel: "6.18.54", Driver: []api.EthCounter{{Name: "isr_cnt", Value: 7}}})})
		case "bench on":
			if refuse != nil {
				reply(api.Reply{Error: refuse})
				continue
			}
			tell := []api.Bench{{State: api.BenchStopping}, {State: api.BenchSettling}, {State: api.BenchIsOn, Port: 5201, Profile: "bench", Door: "nftables", Stopped: []string{"bridge"}, Load: &api.BenchLoad{CPU: 0.02, Quiet: true}}}
			s.mu.Lock()
			if s.on != nil {
				tell = s.on()
			}
			mode := make(chan api.Bench, 1)
			s.mode = mode
			s.mu.Unlock()
			for _, b := range tell {
				if !reply(api.Reply{OK: true, Data: data(b), More: b.State != api.BenchIsOff}) {
					return
				}
			}
			if tell[len(tell)-1].State == api.BenchIsOff {
				continue
			}
			end, ok := <-mode
			if !ok {
				return
			}
			reply(api.Reply{OK: true, Data: data(end)})
		case "bench off":
			reply(api.Reply{OK: true, Data: data(api.Bench{State: api.BenchRestoring})})
			s.mu.Lock()
			if s.mode != nil {
				s.mode <- api.Bench{State: api.BenchIsOff, Why: "it was told to end"}
			}
			s.mu.Unlock()
		}
	}
}

// cut ends every connection, as a power cut would.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
	if s.mode != nil {
		close(s.mode)
		s.mode = nil
	}
}

func newServer(t *testing.T) (*server, *gateway) {
	s := &server{t: t}
	g := &gateway{dial: s.dial, args: api.BenchArgs{Seconds: 900, Peer: "192.0.2.9"}, say: t.Logf}
	t.Cleanup(func() { s.cut(); g.close() })
	return s, g
}

func TestGateway(t *testing.T) {
	s, g := newServer(t)
	f, err := g.Facts(t.Context())
	if err != nil || f.Board != "lidl" || f.Driver != "rtl8196e-eth 2.24" || f.Kernel != "" || f.SpeedMbit != 100 {
		t.Errorf("%+v, %v", f, err)
	}
	for range 2 {
		m, err := g.Enter(t.Context())
		if err != nil || m.Port != 5201 || m.Load == nil || !m.Load.Quiet || m.Load.CPU != 0.02 || !slices.Equal(m.Stopped, []string{"bridge"}) || m.Door != "nftables" {
			t.Fatalf("%+v, %v", m, err)
		}
		c, err := g.Counters(t.Context())
		if err != nil || c.At != 5e9 || c.Device["rx packets"] != 101 || c.SNMP["Tcp.RetransSegs"] != 17 || c.Driver["isr_cnt"] != 7 || c.Busy != 5 || c.Total != 10 || c.Kernel != "6.18.54" {
			t.Fatalf("%+v, %v", c, err)
		}
		if err := g.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Leave(t.Context()); err != nil {
		t.Errorf("left twice: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.asked, ", "); got != "status, call, bench on, bench counters, bench off, bench status, status, bench on, bench counters, bench off, bench status, status" {
		t.Errorf("asked for %s", got)
	}
}

func TestGatewayRefuses(t *testing.T) {
	s, g := newServer(t)
	s.refuse = &api.Error{Code: "confirm", Message: "192.0.2.7 uses the radio"}
	if _, err := g.Enter(t.Context()); err == nil || err.Error() != "192.0.2.7 uses the radio" {
		t.Errorf("%v", err)
	}
	s.refuse = nil
	s.on = func() []api.Bench {
		return []api.Bench{{State: api.BenchStopping}, {State: api.BenchIsOff, Why: "still there: sshd"}}
	}
	if _, err := g.Enter(t.Context()); err == nil || !strings.Contains(err.Error(), "bench mode did not begin: still there: sshd") {
		t.Errorf("%v", err)
	}
	s.on = func() []api.Bench { return []api.Bench{{State: api.BenchSettling}} }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := g.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a gateway that never settles: %v", err)
	}
}

// A connection that is lost is told as such, and a gateway that comes back is waited
// for.
func TestGatewayLost(t *testing.T) {
	s, g := newServer(t)
	if _, err := g.Facts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.mode <- api.Bench{State: api.BenchIsOff, Why: "the button was pressed"}
	s.mu.Unlock()
	for {
		err := g.lasting()
		if err == nil {
			continue // it has not come yet
		}
		if !errors.Is(err, errLost) || !strings.HasSuffix(err.Error(), "bench mode ended: the button was pressed") {
			t.Errorf("%v", err)
		}
		break
	}
	if _, err := g.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.away = 100
	s.mu.Unlock()
	s.cut()
	if _, err := g.Counters(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("%v", err)
	}
	if err := g.Leave(t.Context()); err == nil || !strings.Contains(err.Error(), "it ends by itself 5 minutes after the connection") {
		t.Errorf("%v", err)
	}
	s.mu.Lock()
	s.away = 1
	s.mu.Unlock()
	if _, err := g.Enter(t.Context()); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	if _, err := g.Counters(t.Context()); err != nil {
		t.Error(err)
	}
}
