// Package conf reads a tunnel's file in the form of wg(8) and wg-quick(8). It
// is parsed and never run: what would be commands there is named and left out.
package conf

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"gwinit/internal/prefix"
)

// File is where it is on the box.
const File = "/userdata/etc/wireguard/wg0.conf"

// MaxPeers is how many peers a tunnel has at most: each costs some 40 KiB, and
// 80 KiB more while it is flooded.
const MaxPeers = 16

// Limits of an interface's MTU, in bytes: those of today's firmware.
const (
	MinMTU = 576
	MaxMTU = 65535
)

// Key is a private, a public or a preshared key.
type Key [32]byte

// errKey is what ParseKey says.
var errKey = errors.New("not a key: one is 44 characters of base64, as gwctl wg genkey prints")

// ParseKey reads a key as people write it, in base64.
func ParseKey(s string) (k Key, err error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(k) {
		return k, errKey
	}
	return Key(b), nil
}

// String is the inverse of ParseKey.
func (k Key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// Zero tells whether it is no key.
func (k Key) Zero() bool { return k == Key{} }

// Config is one file.
type Config struct {
	PrivateKey Key // zero: the file has none
	ListenPort uint16
	MTU        int            // 0: not said
	Addresses  []netip.Prefix // the host's, with the length of the prefix
	Peers      []Peer
}

// Peer is one [Peer] of it.
type Peer struct {
	PublicKey    Key
	PresharedKey Key            // zero: none
	AllowedIPs   []netip.Prefix // masked
	Endpoint     string         // host:port as it is written; "" waits for the peer to come
	Keepalive    uint16         // seconds; 0: none
	Line         int            // of its [Peer]
}

// Problem is what is wrong with a line. The rest of the file holds.
type Problem struct {
	Line int // from 1
	Text string
}

// maxProblems are told of one file.
const maxProblems = 20

// notRun are keys of wg-quick that a gateway does not act upon, and why.
var notRun = map[string]string{
	"preup":      "it is a command, and none is run here",
	"postup":     "it is a command, and none is run here",
	"predown":    "it is a command, and none is run here",
	"postdown":   "it is a command, and none is run here",
	"saveconfig": "the file is never rewritten",
	"dns":        "name servers are those of eth0",
	"fwmark":     "there are no routing rules here",
	"table":      "routes go to the main table; ROUTES in wireguard.conf says which",
}

// Parse reads a file of at most some KiB. A line that cannot be used is a
// Problem; so is a peer without a key, which is left out.
func Parse(text string) (Config, []Problem) {
	p := parser{}
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		p.line++
		p.read(line)
	}
	p.endPeer()
	return p.c, p.problems
}

type parser struct {
	c        Config
	problems []Problem
	line     int
	section  string // lower case
	peer     *Peer  // the one that is being read
	hasKey   bool   // it has a PublicKey
}

func (p *parser) problem(line int, text string) {
	switch {
	case len(p.problems) < maxProblems:
		p.problems = append(p.problems, Problem{line, text})
	case len(p.problems) == maxProblems:
		p.problems = append(p.problems, Problem{line, "and more of the same"})
	}
}

func (p *parser) read(line string) {
	line, _, _ = strings.Cut(line, "#")
	line = strings.Trim(line, " \t\r\n\x00")
	if line == "" {
		return
	}
	if line[0] == '[' {
		p.endPeer()
		switch p.section = strings.ToLower(line); p.section {
		case "[interface]":
		case "[peer]":
			p.peer, p.hasKey = &Peer{Line: p.line}, false
		default:
			p.problem(p.line, clip(line)+" is neither [Interface] nor [Peer]: what follows is left out")
		}
		return
	}
	key, value, ok := strings.Cut(line, "=")
	if !ok {
		p.problem(p.line, "no KEY = VALUE")
		return
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	var wrong string
	switch p.section {
	case "[interface]":
		wrong = p.ofInterface(strings.ToLower(key), value)
	case "[peer]":
		wrong = p.ofPeer(strings.ToLower(key), value)
	case "":
		wrong = "it stands before any [Interface]"
	}
	if wrong != "" {
		p.problem(p.line, word(key)+": "+wrong)
	}
}

const unknown = "there is no such key"

func (p *parser) ofInterface(key, value string) (wrong string) {
	switch key {
	case "privatekey":
		k, err := ParseKey(value)
		if err != nil {
			return err.Error()
		}
		p.c.PrivateKey = k
	case "listenport":
		return number(value, 0, 65535, func(n int) { p.c.ListenPort = uint16(n) })
	case "mtu":
		return number(value, MinMTU, MaxMTU, func(n int) { p.c.MTU = n })
	case "address":
		return list(value, func(s string) bool {
			a, ok := prefix.Host(s)
			if ok {
				p.c.Addresses = append(p.c.Addresses, a)
			}
			return ok
		})
	default:
		if why := notRun[key]; why != "" {
			return "not used: " + why
		}
		return unknown
	}
	return ""
}

func (p *parser) ofPeer(key, value string) (wrong string) {
	switch key {
	case "publickey":
		k, err := ParseKey(value)
		if err != nil {
			return err.Error()
		}
		p.peer.PublicKey, p.hasKey = k, true
	case "presharedkey":
		k, err := ParseKey(value)
		if err != nil {
			return err.Error()
		}
		p.peer.PresharedKey = k
	case "allowedips":
		return list(value, func(s string) bool {
			a, ok := prefix.Host(s)
			if ok {
				p.peer.AllowedIPs = append(p.peer.AllowedIPs, a.Masked())
			}
			return ok
		})
	case "endpoint":
		if _, _, ok := SplitEndpoint(value); !ok {
			return clip(value) + " is not HOST:PORT; an IPv6 address stands in brackets"
		}
		p.peer.Endpoint = value
	case "persistentkeepalive":
		if strings.EqualFold(value, "off") {
			p.peer.Keepalive = 0
			return ""
		}
		return number(value, 0, 65535, func(n int) { p.peer.Keepalive = uint16(n) })
	default:
		return unknown
	}
	return ""
}

// endPeer keeps the peer that is complete now.
func (p *parser) endPeer() {
	peer := p.peer
	p.peer = nil
	if peer == nil {
		return
	}
	switch {
	case !p.hasKey:
		p.problem(peer.Line, "this peer has no PublicKey and is left out")
		return
	case len(p.c.Peers) == MaxPeers:
		p.problem(peer.Line, "more than "+strconv.Itoa(MaxPeers)+" peers do not fit into the memory: this one is left out")
		return
	}
	for _, other := range p.c.Peers {
		if other.PublicKey == peer.PublicKey {
			p.problem(peer.Line, "the same PublicKey as in line "+strconv.Itoa(other.Line)+": this one is left out")
			return
		}
		for _, a := range other.AllowedIPs {
			for _, b := range peer.AllowedIPs {
				if a == b {
					p.problem(peer.Line, b.String()+" is of the peer in line "+strconv.Itoa(other.Line)+", too: the last one has it")
				}
			}
		}
	}
	p.c.Peers = append(p.c.Peers, *peer)
}

// number reads a decimal number with limits.
func number(s string, low, high int, set func(int)) (wrong string) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || int(n) < low || int(n) > high {
		return clip(s) + " is not a number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high)
	}
	set(int(n))
	return ""
}

// list gives what stands between commas to add, and names the first that it
// does not take.
func list(value string, add func(string) bool) (wrong string) {
	for s := range strings.SplitSeq(value, ",") {
		if s = strings.TrimSpace(s); s != "" && !add(s) && wrong == "" {
			wrong = clip(s) + " is neither an address nor a prefix"
		}
	}
	return wrong
}

// SplitEndpoint splits HOST:PORT; host is a name or an address.
func SplitEndpoint(s string) (host string, port uint16, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 16)
	host = s[:i]
	inner, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		inner, bracketed = strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		if !bracketed || err != nil || !a.Is6() {
			return "", 0, false
		}
		host = inner
	}
	if err != nil || n == 0 || host == "" || !bracketed && strings.ContainsAny(host, ":[] \t") {
		return "", 0, false
	}
	return host, uint16(n), true
}

// word is a key's name; what cannot be one may be a secret on the wrong line.
func word(s string) string {
	notLetter := func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }
	if len(s) > 20 || strings.ContainsFunc(s, notLetter) {
		return "this line"
	}
	return s
}

// clip keeps a word of a file fit for a line of a log.
func clip(s string) string {
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	return strconv.QuoteToASCII(s)
}
