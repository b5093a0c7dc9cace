// Package config reads and changes the gateway's settings: the files in
// /userdata/etc. They are those of the firmware that these boards come from,
// with its keys, meanings and defaults, plus gateway.conf for what is new.
//
// Files are parsed and never run as shell, although some of them were made for
// that. Nothing here stops a boot: an absent file is its defaults, a bad value
// is a Warning that says what is used instead, a file is read up to 64 KiB.
// Changes go through atomicfile (INV 6) and keep comments and order.
//
// The package does not act on a setting; services do.
package config

import (
	"cmp"
	"net/netip"
	"strconv"

	"gwinit/board/rtl8196e"
)

// Config is everything that Load reads.
type Config struct {
	Radio    Radio
	Network  Network
	LEDs     LEDs
	Netwatch Netwatch
	NTP      NTP
	Gateway  Gateway
	Tunnel   WireGuard
	Hostname string // as Network.Hostname
	TZ       string // a POSIX TZ string
	Users    []User // passwd, valid lines only
	Thread   bool   // /userdata/thread has files: a Thread network is stored
}

// Modes of the radio.
const (
	ModeZigbee = "zigbee"
	ModeOTBR   = "otbr"
)

// Flow control of the radio's UART.
const (
	FlowNone     = "none"
	FlowSoftware = "sw"
	FlowHardware = "hw"
)

// Engines of the bridge.
const (
	EngineUser   = "user"   // ours
	EngineKernel = "kernel" // the in-kernel driver of the incumbent's kernel
)

// Who takes the radio from a client that has it.
const (
	TakeoverNewest   = "newest"    // whoever comes and speaks a radio's protocol
	TakeoverSameHost = "same-host" // only who comes from the same address
	TakeoverNever    = "never"
)

// What holds when radio.conf says nothing, and the limits of what it can say.
const (
	DefaultClaimMS = 250
	DefaultStallS  = 30
	maxAllow       = 16 // entries of BRIDGE_ALLOW
)

// Door is who gets the radio of the bridge. Zero is the defaults.
type Door struct {
	ClaimMS  int    // after how many ms a silent client counts as one; 0: DefaultClaimMS
	Takeover string // one of those above; "": TakeoverNewest
	StallS   int    // how many seconds nothing may move; 0: DefaultStallS
	// Allow is who may have the radio; nil: hosts of local networks. Not nil
	// and empty, as a file that lists only nonsense gives: nobody else than the
	// gateway itself.
	Allow []netip.Prefix
}

// What holds for the Thread border router when radio.conf says nothing: what the
// incumbent does.
const (
	DefaultTxPower  = 4 // dBm
	DefaultLogLevel = 2 // OpenThread's: 0 none, 1 critical, 2 warning, 3 note, 4 info, 5 debug
	// LoopbackREST is what OTBR_REST_BIND becomes when MODE is set to otbr on a
	// gateway that was not in that mode: nobody's Home Assistant depends on it.
	LoopbackREST = "127.0.0.1"
)

// OTBR is what of radio.conf is about the Thread border router. Zero is the
// defaults.
type OTBR struct {
	// RESTBind is the address that the agent's REST listens on. "": every one,
	// where nothing is said: so the incumbent has it, and clients depend on it.
	RESTBind string
	RESTSet  bool // OTBR_REST_BIND says so, also that it is every address
	txPower  *int // nil: DefaultTxPower
	logLevel *int // nil: DefaultLogLevel
}

// TxPower is in dBm.
func (o OTBR) TxPower() int { return *cmp.Or(o.txPower, new(DefaultTxPower)) }

// LogLevel is the agent's, once it runs; OpenThread's count.
func (o OTBR) LogLevel() int { return *cmp.Or(o.logLevel, new(DefaultLogLevel)) }

// Open tells whether others than this box can reach the agent's REST.
func (o OTBR) Open() bool {
	a, err := netip.ParseAddr(o.RESTBind)
	return err != nil || !a.IsLoopback()
}

// Radio is radio.conf.
type Radio struct {
	Mode    string // ModeZigbee or ModeOTBR
	Baud    int    // 1200 to 4000000
	Flow    string // "none", "sw", "hw"; "" when FIRMWARE_FLOW_CTRL is absent or bad
	FlowSet bool   // Flow is not ""
	Bind    string // IPv4 or IPv6 literal that the bridge listens on; "" is every address

	Door Door

	KernelEngine bool // BRIDGE_ENGINE is EngineKernel, not EngineUser

	OTBR OTBR

	// What somebody noted about the radio's firmware; "" when absent.
	Firmware          string // ncp, rcp, otrcp, router
	FirmwareVersion   string
	BootloaderVersion string
}

// Engine names the bridge's engine: EngineUser or EngineKernel.
func (r Radio) Engine() string {
	if r.KernelEngine {
		return EngineKernel
	}
	return EngineUser
}

// Network is eth0.conf, eth0.bak, mac_address and hostname.
type Network struct {
	Static   *Static // nil: DHCP
	Fallback Static  // while no DHCP server answers
	MAC      [6]byte // of a host; zero when there is none yet
	Hostname string
}

// Static is one IPv4 set-up. Load gives only what can be used: an address that
// a host can have, and a gateway that can be one.
type Static struct {
	Addr    netip.Prefix // the host's address with the length of its prefix
	Gateway netip.Addr   // not valid: no default route
	OnLink  bool         // Gateway is outside Addr, and is taken to be on the cable
	DNS     []netip.Addr
	Domain  string // search domain, "" for none
}

// LEDs is leds.conf.
type LEDs struct {
	Mode string // one of the constants
}

// Values of LEDs.Mode.
const (
	LEDsOff    = "off"
	LEDsDim    = "dim"
	LEDsBright = "bright"
)

// Netwatch is netwatch.conf.
type Netwatch struct {
	Enabled     bool
	Targets     []string // addresses, names and TargetGateway; empty: TargetGateway
	FailMinutes int
	PollSeconds int
	MaxReboots  int
	WindowHours int
	DryRun      bool
}

// TargetGateway is the target of netwatch that is every default gateway at the
// moment.
const TargetGateway = "gateway"

// NTP is ntp.conf.
type NTP struct {
	Servers []string // as SplitServer reads them, never empty
	Set     bool     // Servers are ntp.conf's; false: it names none, and they are the public pool's
}

// Gateway is gateway.conf.
type Gateway struct {
	LogKiB   int // size of the log ring in memory
	Ethernet Ethernet
	// NetwatchDriver has netwatch bind the Ethernet driver anew before it reboots.
	NetwatchDriver bool
	Firewall       Firewall
	// Metrics is where figures are served, as for net.Listen; "": nowhere.
	Metrics string
	// MetricsAllow is who may have them beside hosts of local networks.
	MetricsAllow []netip.Prefix
	Syslog       Syslog
}

// Firewall is whether there is one, and what it lets in beside what every gateway
// needs.
type Firewall struct {
	On    bool
	Allow []Opening
}

// Opening is an entry of FIREWALL_ALLOW. Openings are comparable.
type Opening struct {
	UDP         bool // else TCP
	First, Last uint16
	From        netip.Prefix // not valid: from everywhere, or Bridge is set
	Bridge      bool         // from whom BRIDGE_ALLOW lets have the radio
}

// String is the entry as FIREWALL_ALLOW has it.
func (o Opening) String() string {
	s := "tcp/"
	if o.UDP {
		s = "udp/"
	}
	s += strconv.Itoa(int(o.First))
	if o.Last != o.First {
		s += "-" + strconv.Itoa(int(o.Last))
	}
	switch {
	case o.Bridge:
		s += "@bridge"
	case o.From.IsValid():
		s += "@" + joinPrefixes([]netip.Prefix{o.From})
	}
	return s
}

// DefaultMetricsPort is Prometheus' for a machine.
const DefaultMetricsPort = 9100

// Syslog is a server that the log is sent to.
type Syslog struct {
	Network string // udp, tcp; "": none
	Address string // host:port, as for net.Dial
}

// String is the setting's form: udp://HOST:PORT, or off.
func (s Syslog) String() string {
	if s.Network == "" {
		return "off"
	}
	return s.Network + "://" + s.Address
}

// Ethernet is how the Ethernet driver and its queue are tuned. The zero value
// touches nothing but the queue.
type Ethernet struct {
	Profile string // one of EthProfiles; "": the first
	// Knobs are names and values, as name=value between blanks, that go before
	// the profile's.
	Knobs string
	Qdisc string // QdiscFQCodel or QdiscDefault; "": the first
}

// EthProfiles are the names of the tables in services/eth/tune.
var EthProfiles = [...]string{"stock", "latency", "throughput", "bench"}

// What the queue in front of the Ethernet driver can be.
const (
	QdiscFQCodel = "fq_codel" // where the kernel has it
	QdiscDefault = "default"  // the kernel's own choice
)

// WireGuard is wireguard.conf. Keys and peers are in a file of their own, which
// services/wireguard/conf reads.
type WireGuard struct {
	Enabled   bool           // the tunnel comes up at the boot
	Interface string         // its name
	Addresses []netip.Prefix // the gateway's in the tunnel, with the length of the prefix
	MTU       int            // bytes; 0: the tunnel's default
	Routes    []netip.Prefix // what else is reached through it, masked
}

// User is a line of passwd.
type User struct {
	Name  string
	Hash  string // crypt(3) form; "", "*", "!", "x" as in passwd(5)
	UID   int
	GID   int
	Home  string
	Shell string
}

// Load reads every file below root ("" or "/" on the box). It never fails; the
// warnings are in the order of files and lines.
func Load(root string, b rtl8196e.Board) (Config, []Warning) {
	l := loader{root: root}
	return l.all(b), l.warnings
}

func (l *loader) all(b rtl8196e.Board) Config {
	c := Config{
		Radio:    l.radio(b),
		Network:  l.network(),
		LEDs:     l.leds(),
		Netwatch: l.netwatch(),
		NTP:      l.ntp(),
		Gateway:  l.gateway(),
		Tunnel:   l.wireguard(),
		TZ:       l.tz(),
		Users:    l.passwd(),
		Thread:   l.thread(),
	}
	c.Hostname = c.Network.Hostname
	return c
}

// LoadRadio reads only what the bridge needs before it can listen: radio.conf.
func LoadRadio(root string, b rtl8196e.Board) (Radio, []Warning) {
	l := loader{root: root}
	r := l.radio(b)
	return r, l.warnings
}

// LoadNetwork reads eth0.conf, eth0.bak, mac_address and hostname.
func LoadNetwork(root string) (Network, []Warning) {
	l := loader{root: root}
	n := l.network()
	return n, l.warnings
}

// LoadNTP reads ntp.conf.
func LoadNTP(root string) (NTP, []Warning) {
	l := loader{root: root}
	n := l.ntp()
	return n, l.warnings
}

// LoadNetwatch reads netwatch.conf.
func LoadNetwatch(root string) (Netwatch, []Warning) {
	l := loader{root: root}
	n := l.netwatch()
	return n, l.warnings
}

// LoadLEDs reads leds.conf.
func LoadLEDs(root string) (LEDs, []Warning) {
	l := loader{root: root}
	leds := l.leds()
	return leds, l.warnings
}

// LoadGateway reads gateway.conf.
func LoadGateway(root string) (Gateway, []Warning) {
	l := loader{root: root}
	g := l.gateway()
	return g, l.warnings
}

// LoadWireGuard reads wireguard.conf.
func LoadWireGuard(root string) (WireGuard, []Warning) {
	l := loader{root: root}
	w := l.wireguard()
	return w, l.warnings
}
