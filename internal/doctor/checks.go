package doctor

import (
	"bytes"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/enrol"
	"gwinit/internal/ramfiles"
	"gwinit/internal/seed"
	"gwinit/internal/tools/network"
)

// gwinit: does PID 1 answer, and do its services run?
func (b *box) gwinit() {
	if b.silent != nil {
		b.say(Fault, "the console may show why; the other checks saw files only", "PID 1 gives no status: %v", b.silent)
		return
	}
	good := true
	for _, s := range b.status.Services {
		switch {
		case s.State == "failed" || s.State == "backoff":
			b.say(Fault, "gwctl logs "+s.Name, "%s does not run (%s): %s", s.Name, s.State, s.LastExit)
		case s.Name == serviceTunnel, s.Name == serviceOTBR && b.settings.Radio.Mode != config.ModeOTBR:
			continue // its own check tells
		case s.State == "stopped" && b.status.BootMode != api.BootSafe:
			b.say(Warning, "gwctl start "+s.Name, "%s was stopped", s.Name)
		case s.Restarts > 0 && s.Name != "console":
			b.say(Note, "gwctl logs "+s.Name, "%s was started again %s", s.Name, count(s.Restarts, "time"))
		default:
			continue
		}
		good = false
	}
	if m := b.status.BootMode; m != "" && m != "normal" {
		b.say(Note, "gwctl reboot", "boot mode %s", m)
	} else if good {
		b.say(OK, "", "%s runs with all its services", b.status.Version)
	}
}

// configuration: what of the settings is not used as it stands.
func (b *box) configuration() {
	const most = 6
	all := b.status.Warnings
	for i, w := range all {
		if strings.HasPrefix(w, ramfiles.Warning) {
			continue // a check of its own
		}
		if i == most {
			b.say(Warning, "gwctl status", "and %d more", len(all)-most)
			break
		}
		b.say(Warning, "gwctl config check tells about settings", "%s", w)
	}
	if len(all) == 0 && b.silent == nil {
		b.say(OK, "", "every setting is used as it stands")
	}
}

// What a flash that may be failing says, and what to do about it.
const (
	refuses = "the flash refuses to be erased or written"
	backup  = "copy what is needed from /userdata: the chip may be failing"
)

// trouble is what the kernel's log may hold.
var trouble = []struct {
	words    string // of the line, all of them, with "&" between
	severity string
	what     string
	remedy   string
}{
	{"previous panic:", Warning, "the boot before ended in a panic", "report the line; gwctl logs has what came before only if it was stored"},
	{"soft lockup", Fault, "the kernel hung in a loop", "report the lines in dmesg"},
	{"INFO: task &blocked for more than", Fault, "a process hangs in the kernel", "report the lines in dmesg; gwctl reboot"},
	{"Oops", Fault, "the kernel has a bug", "report the lines in dmesg; gwctl reboot"},
	{"RLX: Unhandled reserved instruction", Fault, "a program has instructions that this CPU does not have", "the program named there was built for another CPU: remove it"},
	{"Out of memory: ", Warning, "the kernel killed a process for its memory", "see what takes memory: top, du /tmp /var"},
	{"page allocation failure", Warning, "the kernel ran out of memory for a moment", "see what takes memory: top, du /tmp /var"},
	{"stuck RX-timeout IIR", Note, "the radio's UART stuck and was freed by its driver", ""},
	{"Erase at 0x&failed", Fault, refuses, backup}, // JFFS2
	{"Write of &bytes at 0x&failed", Fault, refuses, backup},
	{"rase operation failed", Fault, refuses, backup}, // the SPI NOR driver
	{"rogram operation failed", Fault, refuses, backup},
	{"jffs2&CRC", Note, "pieces of files on flash have a wrong checksum", "a few are normal after a power cut; if each boot shows more, the chip may be failing"},
	{"NETDEV WATCHDOG", Warning, "the Ethernet driver stood still and was reset", "report the lines in dmesg"},
	{"SQUASHFS error", Fault, "the rootfs on flash is damaged", "flash the firmware again"},
}

// log looks for known trouble in the kernel's log.
func (b *box) log() {
	text, err := b.kernel.Log()
	if err != nil {
		b.say(Note, "", "the kernel's log cannot be read: %v", err)
		return
	}
	good := true
	for _, t := range trouble {
		n, last := 0, ""
	lines:
		for line := range bytes.Lines(text) {
			for word := range strings.SplitSeq(t.words, "&") {
				if !bytes.Contains(line, []byte(word)) {
					continue lines
				}
			}
			n, last = n+1, string(bytes.TrimSpace(line))
		}
		if n > 0 {
			good = false
			b.say(t.severity, t.remedy, "%s, %s: %s", t.what, count(n, "line"), last)
		}
	}
	if good {
		b.say(OK, "", "the kernel's log has nothing that is known to be bad")
	}
}

// watchdog: what happens when the box hangs.
func (b *box) watchdog() {
	const dir = "/sys/class/watchdog/watchdog0/"
	who, good := b.read(dir+"identity"), false
	_, err := os.Stat(b.path("/dev/watchdog"))
	switch {
	case err != nil:
		b.say(Warning, "a kernel with the board's watchdog driver", "there is no watchdog: a box that hangs stays so until its power is cut")
	case b.read(dir+"state") == "inactive":
		b.say(Warning, "dmesg may say why; gwctl reboot", "the watchdog is not armed: a box that hangs stays so until its power is cut")
	case strings.Contains(who, "rtl819x"):
		b.say(Note, "", "%s says %s s and resets about 671 s after it was fed last: a box that hangs is away for 11 minutes", who, b.read(dir+"timeout"))
	default:
		good = true
	}
	// 0 is for ever; a negative number is at once.
	if b.read("/proc/sys/kernel/panic") == "0" {
		b.say(Warning, "a kernel with CONFIG_PANIC_TIMEOUT=10; until then, echo 10 >/proc/sys/kernel/panic", "a panic of the kernel ends in no reset")
	} else if good {
		b.say(OK, "", "%s is armed, %s s", or(who, "the watchdog"), or(b.read(dir+"timeout"), "?"))
	}
}

// flash: is /userdata there, and is there room?
func (b *box) flash() {
	u := b.status.Userdata
	switch {
	case b.silent != nil:
	case u.State == "skipped" || u.State == "waiting":
		b.say(Note, "gwctl reboot mounts it", "/userdata is not mounted. %s", u.Reason)
	case u.State != "mounted":
		b.say(Fault, "gwctl status says what to do", "/userdata is %s: settings are defaults, changes are lost. %s", or(u.State, "unknown"), u.Reason)
	case strings.HasPrefix(u.Reason, "read-only"):
		b.say(Fault, "", "/userdata is %s", u.Reason)
	case u.Free < u.Total/20:
		b.say(Warning, "delete what is not needed in /userdata", "/userdata has %d KiB free beyond the reserve of JFFS2: settings may not be stored", u.Free)
	case u.Reason != "":
		b.say(Note, "", "/userdata: %s", u.Reason)
	default:
		b.say(OK, "", "/userdata has %d of %d KiB free", u.Free, u.Total)
	}
	if strings.Contains(b.read("/proc/swaps"), "mtdblock") {
		b.say(Fault, "swapoff it", "flash is used as swap space, which wears it out within weeks")
	}
}

// Memory that should be available, in KiB. An idle box has some 16 MiB; below 5
// it throws out pages of programs that it needs again at once.
const (
	fewKiB = 5 << 10
	noKiB  = 2 << 10
)

func (b *box) memory() {
	files := ramfiles.Used(b.path(""))
	m := b.status.Memory
	switch {
	case b.silent == nil && m.Available < noKiB:
		b.say(Fault, "top shows who has it; gwctl reboot", "%d KiB of %d KiB of memory are available", m.Available, m.Total)
	case b.silent == nil && m.Available < fewKiB:
		b.say(Warning, "top shows who has it", "%d KiB of %d KiB of memory are available", m.Available, m.Total)
	case files > ramfiles.MostKiB:
	default:
		b.say(OK, "", "%d KiB of %d KiB available, files in memory take %d KiB", m.Available, m.Total, files)
	}
	if files > ramfiles.MostKiB {
		b.say(Warning, "delete what is not needed: du /tmp /var /run", ramfiles.Warning+"%d KiB of memory", files)
	}
}

// Services that need not run.
const (
	serviceTunnel = "wireguard"
	serviceOTBR   = "otbr"
)

// tunnel: is it up if it shall be, and are its peers there?
func (b *box) tunnel() {
	state := ""
	for _, s := range b.status.Services {
		if s.Name == serviceTunnel {
			state = s.State
		}
	}
	switch {
	case state == "running":
		for _, w := range b.tunnelWarnings {
			b.say(Warning, "gwctl wg show", "%s", w)
		}
		if len(b.tunnelWarnings) == 0 {
			b.say(OK, "", "the tunnel is up")
		}
	case b.settings.Tunnel.Enabled && b.silent == nil && b.status.BootMode != api.BootSafe && state != "failed" && state != "backoff":
		b.say(Warning, "gwctl wg up; gwctl logs wireguard", "wireguard.ENABLED is set, and the tunnel is not up")
	}
	if info, err := os.Stat(b.path(fileTunnelKey)); err == nil && info.Mode().Perm()&0o077 != 0 {
		b.say(Warning, "chmod 600 "+fileTunnelKey, "others than root can read the tunnel's private key")
	}
}

// fileTunnelKey is services/wireguard/conf's.
const fileTunnelKey = "/userdata/etc/wireguard/wg0.conf"

func (b *box) clock() {
	c := b.status.Clock
	switch {
	case c == nil:
		if b.silent == nil {
			b.say(Note, "", "nobody says whether the clock is right: core gives no answer")
		}
	case c.State == api.ClockUnknown:
		b.say(Warning, "name a server that can be reached: gwctl config set ntp.server NAME", "the time is not known, and logs have none. %s", c.Problem)
	case c.State == api.ClockNear:
		b.say(Note, "", "the time is the saved one, or set by hand. %s", c.Problem)
	default:
		b.say(OK, "", "kept by %s", or(c.Source, "time servers"))
	}
}

func (b *box) entropy() {
	good := b.kernel.Entropy()
	if !good {
		b.say(Warning, "it comes by itself within a minute; the next boot has a seed", "no random numbers yet: keys have to wait")
	}
	if _, err := os.Lstat(b.path(seed.Path)); err != nil && b.status.Userdata.State == "mounted" {
		b.say(Note, "", "%s is not there yet: the next boot begins without entropy", seed.Path)
	} else if good {
		b.say(OK, "", "there are random numbers, and a seed for the next boot")
	}
}

func (b *box) network() {
	n := b.status.Network
	switch {
	case n == nil:
		if b.silent == nil {
			b.say(Warning, "gwctl logs core", "nobody says how the network is: core gives no answer")
		}
	case !n.Carrier:
		b.say(Fault, "check the cable and the switch", "%s has no link", n.Interface)
	case len(n.Addresses) == 0:
		b.say(Fault, "gwctl logs core", "%s has no address (%s)", n.Interface, n.State)
	case n.State == "fallback":
		b.say(Warning, "a DHCP server, or an address in eth0.conf", "no DHCP server answered: %s has its fallback address %s", n.Interface, strings.Join(n.Addresses, " "))
	default:
		b.say(OK, "", "%s has %s (%s)", n.Interface, strings.Join(n.Addresses, " "), n.Method)
	}
}

// The ports that a gateway listens on.
const (
	portSSH    = 22
	portBridge = 8888
	portMDNS   = 5353 // UDP
)

// Other ports of UDP that are no news: a DHCP client's, and those that the kernel
// picks for a question whose answer is awaited.
const (
	portDHCP   = 68
	portDHCPv6 = 546
	portREST   = 8081  // the Thread border router's
	portPicked = 32768 // and above
)

// expected tells whether a gateway listens there.
func expected(port uint16, udp bool) bool {
	if udp {
		return port == portMDNS || port == portDHCP || port == portDHCPv6 || port >= portPicked
	}
	return port == portSSH || port == portBridge
}

// openPort says why one is worth a line, or "". (A map would be made at the start
// of every process.)
func openPort(port uint16) string {
	switch port {
	case portREST:
		return "the Thread network's key can be read there"
	case 5201:
		return "a bandwidth test that anybody may run"
	case 23:
		return "passwords pass it in the clear"
	}
	return ""
}

func (b *box) ports() {
	list, err := network.Listeners(b.path(""))
	if err != nil {
		b.say(Note, "", "listening ports are not known: %v", err)
		return
	}
	said := map[string]bool{}
	for _, l := range list {
		name := "port " + strconv.Itoa(int(l.At.Port()))
		if l.UDP {
			name = "UDP " + name
		}
		if expected(l.At.Port(), l.UDP) || l.At.Addr().Unmap().IsLoopback() || said[name] {
			continue
		}
		if l.UDP && strings.HasSuffix(l.Owner, "/gw-wireguard") {
			continue // it answers nobody without a key
		}
		said[name] = true
		text := name + " is open to the network"
		if l.Owner != "" {
			text += " by " + l.Owner
		}
		if b.closed(l.At.Port(), l.UDP) {
			b.say(Note, "", "%s, but for the firewall, which drops what comes for it", text)
			continue
		}
		if !l.UDP && strings.HasSuffix(b.settings.Gateway.Metrics, ":"+strconv.Itoa(int(l.At.Port()))) {
			b.say(Note, "", "%s: METRICS says so, figures can be read there", text)
			continue
		}
		if why := openPort(l.At.Port()); why != "" && !l.UDP {
			text += ": " + why
		}
		remedy := "end that program if it is not meant to be there"
		if l.At.Port() == portREST && b.settings.Radio.Mode == config.ModeOTBR {
			remedy = "gwctl config set radio.OTBR_REST_BIND=" + config.LoopbackREST + ", unless a Home Assistant elsewhere needs it"
		}
		b.say(Warning, remedy, "%s", text)
	}
	if len(said) == 0 {
		b.say(OK, "", "nothing listens but on ports %d and %d, and UDP %d", portSSH, portBridge, portMDNS)
	}
}

// closed tells whether the firewall drops what comes for a port from the
// network: it is set and, as nobody warns, in force.
func (b *box) closed(port uint16, udp bool) bool {
	f := b.settings.Gateway.Firewall
	if !f.On || b.silent != nil || b.status.BootMode == api.BootSafe || b.status.Network == nil {
		return false
	}
	for _, w := range b.status.Warnings {
		if strings.Contains(w, "firewall") {
			return false
		}
	}
	for _, o := range f.Allow {
		if o.UDP == udp && o.First <= port && port <= o.Last {
			return false
		}
	}
	return true
}

// desLength is that of a password in the oldest form of crypt(3), which the
// default of today's firmware has.
const desLength = 13

func (b *box) login() {
	const file = "/userdata/ssh/authorized_keys"
	keys, err := os.Stat(b.path(file))
	if err != nil {
		keys, _ = os.Stat(b.path("/etc/ssh/authorized_keys")) // the image's
	}
	good, password := true, false
	for _, u := range b.settings.Users {
		switch {
		case u.Hash == "":
			b.say(Fault, "passwd "+u.Name, "%s has no password: who reaches a login gets in", u.Name)
			good = false
		case u.Name == "root" && b.isDefault(u.Hash):
			b.say(Warning, "passwd root, or passwd -l and a key in "+file, "the password of root is root, which everybody knows: SSH refuses it")
			good, password = false, true
		case len(u.Hash) == desLength && !strings.ContainsAny(u.Hash, "$*!"):
			b.say(Warning, "passwd "+u.Name+", or a key in "+file, "the password of %s is stored in the form of 1977, as the default root:root of today's firmware is", u.Name)
			good, password = false, true
		case strings.HasPrefix(u.Hash, "$"):
			password = true
		}
	}
	switch {
	case keys == nil && !password && good:
		b.say(Note, "put a key into "+file, "nobody can log in over the network: there is neither a key nor a password")
	case keys != nil && keys.Mode().Perm()&0o022 != 0:
		b.say(Warning, "chmod 600 "+file, "others than root may add keys")
	case good:
		b.say(OK, "", "no default or empty password")
	}
	root := b.path("")
	if w := enrol.Look(root); w.Open() {
		b.say(Note, "it ends by itself, and with the first key", "for %.0f min yet the code on the serial console lets a key in", w.Left().Minutes())
	}
	if left := enrol.Pressed(root); left > 0 {
		b.say(Warning, "it ends by itself, and with the first key", "the button was pressed: for %.0f s yet whoever comes first may bring a key in", left.Seconds())
	}
}

// isDefault tells whether a stored password is the one of today's firmware.
func (b *box) isDefault(hash string) bool {
	ok, err := b.kernel.Verify(hash, "root")
	return ok && err == nil // a form that is not known is another
}

func (b *box) bridge() {
	s := b.status.Bridge
	good := true
	say := func(severity, remedy, format string, args ...any) {
		good = false
		b.say(severity, remedy, format, args...)
	}
	for _, p := range b.settings.Radio.Door.Allow {
		const remedy = "gwctl config set radio.BRIDGE_ALLOW with the networks that are meant"
		switch {
		case p.Bits() == 0:
			say(Warning, remedy, "BRIDGE_ALLOW lets every host have the radio")
		case public(p.Addr()):
			say(Warning, remedy, "BRIDGE_ALLOW lets hosts of the internet have the radio: %v", p)
		}
	}
	bind := b.settings.Radio.Bind
	if n := b.status.Network; n != nil {
		for _, text := range n.Addresses {
			p, err := netip.ParsePrefix(text)
			if a := p.Addr(); err == nil && a.Is4() && public(a) && (bind == "" || bind == a.String()) {
				say(Warning, "BRIDGE_ALLOW and BRIDGE_BIND, or a router in front of it", "%v is an address of the internet: its neighbours there may have the radio, and anybody may knock", a)
			}
		}
	}
	if s == nil {
		if b.silent == nil && b.status.Radio.Mode != "otbr" && b.status.BootMode != api.BootSafe {
			say(Fault, "gwctl logs bridge", "the bridge gives no answer")
		}
		return
	}
	if s.NotAllowed > 0 {
		say(Warning, "gwctl logs bridge names them; radio.BRIDGE_ALLOW lets them in", "%s refused because of their address", count(int(s.NotAllowed), "connection"))
	}
	if s.Contentions > 0 {
		say(Warning, "gwctl logs bridge names the hosts: run one Zigbee program only", "two hosts took the radio from each other %s", count(int(s.Contentions), "time"))
	}
	if s.QueueDropped > 0 {
		say(Warning, "flow control, if the radio has it: radio.FIRMWARE_FLOW_CTRL", "%d bytes were lost because the radio did not take them", s.QueueDropped)
	}
	if good {
		b.say(OK, "", "listens on %s", or(s.Listen, "the kernel's port"))
	}
}

// Limits of what a good line shows: resent frames of a hundred, and a client's
// time without a byte from the radio, in seconds.
const (
	mostResent = 2
	mostSilent = 60
)

// checkLine is the remedy for a line that loses bytes.
const checkLine = "check radio.FIRMWARE_BAUD and radio.FIRMWARE_FLOW_CTRL against the radio's firmware"

func (b *box) radio() {
	s := b.status.Bridge
	if s == nil {
		return
	}
	good := true
	say := func(severity, remedy, format string, args ...any) {
		good = false
		b.say(severity, remedy, format, args...)
	}
	if !s.UARTOpen && b.status.Radio.Released == 0 {
		say(Fault, "gwctl radio; gwctl logs bridge", "%s is not open: %s", s.UART, s.UARTErr)
	}
	if n := s.FrameErrors + s.ParityErrors + s.Overruns + s.BufOverruns; n > 0 {
		say(Warning, checkLine, "%s on the UART", count(int(n), "error"))
	}
	if s.Stalls > 0 {
		say(Warning, checkLine, "the radio took nothing for too long, %s", count(int(s.Stalls), "time"))
	}
	if c := s.Client; c != nil && c.Since > mostSilent && c.Rx == 0 && c.Tx > 0 {
		say(Fault, checkLine, "the radio has not answered %s once in %.0f s", c.Addr, c.Since)
	}
	if w := b.watch; w != nil {
		for _, f := range []struct {
			name string
			ash  api.ASHCounter
		}{{"radio", w.FromRadio.ASH}, {"client", w.ToRadio.ASH}} {
			if a := f.ash; a.Resent*100 > a.Data*mostResent && a.Data > 100 {
				say(Warning, "gwctl bridge shows how; "+checkLine, "the %s sent %d of %d frames again", f.name, a.Resent, a.Data)
			}
		}
		if r := w.Reset; r != nil && r.Frame == "ERROR" {
			say(Note, "gwctl logs bridge", "the radio gave its link up %.0f s ago: %s", r.Ago, r.Reason)
		}
	}
	protocol := ""
	if b.watch != nil && s.Client != nil {
		protocol = b.watch.Protocol
	}
	switch {
	case !good:
	case s.Client == nil || s.Client.Rx == 0:
		b.say(OK, "", "%s is open; nobody asks the radio anything", s.UART)
	case protocol == "unknown":
		b.say(Note, checkLine, "the radio sends, but neither ASH nor Spinel")
	case protocol != "":
		b.say(OK, "", "%s is open, and the radio answers (%s)", s.UART, protocol)
	default:
		b.say(OK, "", "%s is open, and the radio answers", s.UART)
	}
}

// shared are the addresses behind a provider's translation (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")

// public tells whether an address is one of the internet.
func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !shared.Contains(a)
}

func or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}
