package wireguard

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// State is what gwctl wg show -json prints. It holds no secret.
type State struct {
	Interface  string         `json:"interface"`
	Engine     string         `json:"engine"` // user, kernel
	PublicKey  string         `json:"public_key"`
	ListenPort uint16         `json:"listen_port"`
	MTU        int            `json:"mtu"`
	Addresses  []netip.Prefix `json:"addresses"`
	Routes     []netip.Prefix `json:"routes"`
	Peers      []PeerState    `json:"peers"`
	Warnings   []string       `json:"warnings,omitempty"`
}

// PeerState is a peer of it.
type PeerState struct {
	PublicKey    string         `json:"public_key"`
	PresharedKey bool           `json:"preshared_key"`      // it has one
	Name         string         `json:"name,omitempty"`     // host:port of the file, if host is a name
	Endpoint     string         `json:"endpoint,omitempty"` // where it is
	AllowedIPs   []netip.Prefix `json:"allowed_ips"`
	Handshake    *float64       `json:"handshake,omitempty"` // seconds since the last one; absent: none yet
	Connected    bool           `json:"connected"`           // there is a session
	RxBytes      uint64         `json:"rx_bytes"`
	TxBytes      uint64         `json:"tx_bytes"`
	Keepalive    uint16         `json:"keepalive"` // seconds; 0: none
}

// State tells how the tunnel is.
func (s *Service) State() (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lookLocked(); err != nil {
		return State{}, err
	}
	d, err := s.engine.state()
	if err != nil {
		return State{}, err
	}
	st := State{
		Interface: s.engine.link().Name, Engine: s.engine.name(), PublicKey: PublicKey(s.conf.PrivateKey).String(),
		ListenPort: d.ListenPort, MTU: s.mtu, Addresses: s.addrs, Routes: s.routes, Warnings: s.warningsLocked(),
	}
	for _, p := range s.peers {
		t := PeerState{
			PublicKey: p.PublicKey.String(), PresharedKey: !p.PresharedKey.Zero(), AllowedIPs: p.AllowedIPs,
			Connected: p.connected(), RxBytes: p.now.RxBytes, TxBytes: p.now.TxBytes, Keepalive: p.Keepalive,
		}
		if p.named {
			t.Name = p.Endpoint
		}
		if p.now.Endpoint.IsValid() {
			t.Endpoint = p.now.Endpoint.String()
		}
		if !p.handshake.IsZero() {
			ago := time.Since(p.handshake).Seconds()
			t.Handshake = &ago
		}
		st.Peers = append(st.Peers, t)
	}
	return st, nil
}

// Warnings are what is wrong with the tunnel, in words.
func (s *Service) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warningsLocked()
}

func (s *Service) warningsLocked() []string {
	all := append(append([]string{}, s.loaded...), s.applied...)
	if s.repaired != "" {
		all = append(all, s.repaired)
	}
	for _, p := range s.peers {
		switch {
		case p.problem != "":
			all = append(all, fmt.Sprintf("peer %s: the name %s gives no address: %s", short(p.PublicKey), p.host, p.problem))
		case p.failing(s.o.Stale) && p.handshake.IsZero():
			all = append(all, fmt.Sprintf("peer %s at %s has not answered yet: are both public keys, its port and its firewall right?", short(p.PublicKey), p.now.Endpoint))
		case p.failing(s.o.Stale):
			all = append(all, fmt.Sprintf("peer %s at %s has not answered for %v", short(p.PublicKey), p.now.Endpoint, time.Since(p.handshake).Round(time.Second)))
		}
	}
	return all
}

// Text is State for people, in the words of wg show.
func (st State) Text() string {
	var b strings.Builder
	row := func(name, format string, a ...any) { fmt.Fprintf(&b, "  %s: %s\n", name, fmt.Sprintf(format, a...)) }
	fmt.Fprintf(&b, "interface: %s\n", st.Interface)
	row("carried by", "%s", map[string]string{EngineKernel: "the kernel", EngineUser: "the service wireguard"}[st.Engine])
	row("public key", "%s", st.PublicKey)
	row("listening port", "%d", st.ListenPort)
	row("mtu", "%d", st.MTU)
	row("addresses", "%s", joined(st.Addresses))
	if len(st.Routes) > 0 {
		row("routes", "%s", joined(st.Routes))
	}
	for _, p := range st.Peers {
		fmt.Fprintf(&b, "\npeer: %s\n", p.PublicKey)
		if p.PresharedKey {
			row("preshared key", "(hidden)")
		}
		switch {
		case p.Name != "" && p.Endpoint == "":
			row("endpoint", "%s, which gives no address", p.Name)
		case p.Name != "":
			row("endpoint", "%s (%s)", p.Endpoint, p.Name)
		case p.Endpoint != "":
			row("endpoint", "%s", p.Endpoint)
		default:
			row("endpoint", "none yet: it has to come")
		}
		row("allowed ips", "%s", joined(p.AllowedIPs))
		if p.Handshake != nil {
			row("latest handshake", "%v ago", time.Duration(*p.Handshake*float64(time.Second)).Round(time.Second))
		} else {
			row("latest handshake", "none yet")
		}
		row("transfer", "%s received, %s sent", size(p.RxBytes), size(p.TxBytes))
		if p.Keepalive > 0 {
			row("persistent keepalive", "every %d seconds", p.Keepalive)
		}
	}
	for i, w := range st.Warnings {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

func joined(all []netip.Prefix) string {
	if len(all) == 0 {
		return "(none)"
	}
	text := make([]string, len(all))
	for i, p := range all {
		text[i] = p.String()
	}
	return strings.Join(text, ", ")
}

func size(n uint64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
