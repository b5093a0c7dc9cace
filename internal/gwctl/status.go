package gwctl

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/api"
)

// columns is the width of the screen, and label that of its first column.
const (
	columns = 80
	label   = 9
)

// screen prints for people: 80 columns of ASCII (what the box itself says may
// hold more), readable on a serial console of 38400 baud. What needs somebody
// is marked "!!", and bold if colour is set.
type screen struct {
	b      *bytes.Buffer
	colour bool
}

// row writes a label and its text, wrapped.
func (s screen) row(name, text string) { s.lines(fmt.Sprintf("%-*s", label, name), text, false) }

// list is a row of phrases with commas between them, wrapped between phrases
// as long as each fits a line.
func (s screen) list(name string, phrases ...string) {
	line := ""
	flush := func() {
		if line != "" {
			s.row(name, line)
			name, line = "", ""
		}
	}
	for i, p := range phrases {
		if i+1 < len(phrases) {
			p += ","
		}
		if line != "" && len(line)+1+len(p) > columns-label {
			flush()
		}
		line = strings.TrimPrefix(line+" "+p, " ")
	}
	flush()
}

// alarm is a row that nobody should miss.
func (s screen) alarm(name, text string) {
	s.lines(fmt.Sprintf("%-*s", label, name), "!! "+text, true)
}

// Lines writes text behind first, wrapped to the screen's width and safe for a
// terminal.
func Lines(b *bytes.Buffer, first, text string) { screen{b: b}.lines(first, text, false) }

func (s screen) lines(first, text string, loud bool) {
	indent := strings.Repeat(" ", len(first))
	for _, l := range wrap(clean(text), columns-len(first)) {
		if loud && s.colour {
			l = "\x1b[1;31m" + l + "\x1b[0m"
		}
		s.b.WriteString(first + l + "\n")
		first = indent
	}
}

// status writes the whole box.
func (s screen) status(st api.Status) {
	s.head(st)
	if st.Bench != nil {
		s.bench(st.Bench)
	}
	s.userdata(st)
	s.network(st)
	s.radio(st)
	s.bridge(st)
	s.panel(st.Panel)
	s.services(st.Services)
	s.warnings(st.Warnings)
}

// warnings writes the first few: files of noise give hundreds.
func (s screen) warnings(all []string) {
	const most = 6
	if len(all) == 0 {
		return
	}
	s.b.WriteString("\nwarnings\n")
	for _, w := range all[:min(len(all), most)] {
		s.lines("  - ", w, false)
	}
	if more := len(all) - most; more > 0 {
		s.lines("  ", fmt.Sprintf("... and %d more: gwctl config check", more), false)
	}
}

func (s screen) head(st api.Status) {
	on := or(st.Board.ID, "unknown board")
	if m := st.Board.Model; m != "" && m != on {
		on += " (" + m + ")"
	}
	if st.Board.Emulated && !strings.Contains(on, "mulated") {
		on += ", emulated"
	}
	s.row("gateway", fmt.Sprintf("%s, gwinit %s on %s", or(st.Hostname, "no name"), or(st.Version, "of unknown version"), on))
	switch st.BootMode {
	case "safe":
		s.alarm("boot", "SAFE: only console, network and ssh run; gwctl reboot ends this")
	case "factory":
		s.alarm("boot", "FACTORY: the firmware in the rootfs runs, not an update; gwctl reboot ends this")
	case "normal", "":
	default:
		s.alarm("boot", st.BootMode)
	}
	at := "wall time not known yet"
	if st.Wall != 0 {
		at = time.Unix(0, st.Wall).UTC().Format("2006-01-02 15:04:05 UTC")
	}
	s.row("up", duration(st.Uptime)+", "+at)
	if st.Clock != nil {
		s.clock(*st.Clock)
	}
	m := st.Memory
	s.row("memory", fmt.Sprintf("%s available of %s, %s free", kib(m.Available), kib(m.Total), kib(m.Free)))
}

// clock writes how far the time can be trusted.
func (s screen) clock(c api.Clock) {
	var phrases []string
	switch c.State {
	case api.ClockSynced:
		phrases = append(phrases, "synchronised")
	case api.ClockNear:
		phrases = append(phrases, "not synchronised: the saved time, or set by hand")
	default:
		phrases = append(phrases, "not known")
	}
	if c.Source != "" {
		phrases = append(phrases, "by "+c.Source, fmt.Sprintf("stratum %d", c.Stratum))
		if c.Asked > 1 {
			phrases = append(phrases, fmt.Sprintf("%d of %d servers agree", c.Agree, c.Asked))
		}
		unit := 100 * time.Microsecond
		offset := time.Duration(c.Offset * float64(time.Second)).Round(unit)
		if offset.Abs() >= time.Second {
			offset = offset.Round(time.Second)
		}
		phrases = append(phrases, duration(c.Since)+" ago", fmt.Sprintf("then %v off", offset))
	}
	s.list("clock", phrases...)
	if c.Problem != "" {
		s.row("", c.Problem)
	}
}

// userdataAdvice says what to do about a partition that is not mounted.
var userdataAdvice = map[string]string{
	"absent":      "there is no such partition; see cat /proc/mtd",
	"unformatted": "what is on it is no file system, and it is never erased by itself: erase it if nothing on it is needed, then gwctl reboot",
	"corrupt":     "its file system is damaged, and it is never erased by itself: copy what is needed, erase it, then gwctl reboot",
	"failed":      "gwctl logs says more",
	"skipped":     "gwctl reboot mounts it again",
}

func (s screen) userdata(st api.Status) {
	u := st.Userdata
	switch {
	case u.State == "mounted":
		text := fmt.Sprintf("mounted, %s free of %s", kib(u.Free), kib(u.Total))
		if u.Device != "" {
			text += " on " + u.Device
		}
		s.row("userdata", text)
		if u.Reason != "" {
			s.alarm("", u.Reason)
		}
		// statfs of JFFS2 leaves its reserve out already; a twentieth is some
		// 600 KiB on these boards, more than all settings together.
		if u.Free < u.Total/20 {
			s.alarm("", "almost full: settings may not be stored; delete what is not needed in /userdata")
		}
	case u.State == "waiting":
		s.row("userdata", "not mounted yet")
	default:
		text := strings.ToUpper(or(u.State, "unknown"))
		if u.Device != "" {
			text += " (" + u.Device + ")"
		}
		text += ": settings are defaults and changes are lost with the next boot."
		if u.Reason != "" {
			text += " " + sentence(u.Reason)
		}
		if a := userdataAdvice[u.State]; a != "" {
			text += " " + sentence(a)
		}
		s.alarm("userdata", text)
	}
}

func (s screen) network(st api.Status) {
	n := st.Network
	if n == nil {
		s.absent("network", "core", st.Services)
		return
	}
	name := or(n.Interface, "eth0")
	switch {
	case n.State == "no-carrier" || n.State != "down" && !n.Carrier:
		s.alarm("network", name+" has no link: check the cable and the switch")
	case n.State == "down":
		s.alarm("network", name+" is down; gwctl logs core says why")
	case n.State == "asking" && len(n.Addresses) == 0:
		s.alarm("network", name+" has no address yet: no DHCP server has given one")
	case n.State == "fallback":
		s.alarm("network", name+" uses its fallback address: no DHCP server has given another")
	case len(n.Addresses) == 0:
		s.alarm("network", name+" has no address; gwctl logs core says why")
	}
	for _, c := range n.Conflicts {
		s.alarm(s.again("network"), c.Address+" is also used by "+or(c.MAC, "another host")+": give one of the two another address")
	}
	text := name + " " + or(n.Method, "none")
	if n.State != n.Method {
		text += " " + n.State
	}
	first := append([]string{text}, n.Addresses...)
	if n.Gateway != "" {
		first = append(first, "gateway "+n.Gateway)
	}
	s.list(s.again("network"), first...)
	var more []string
	if n.Lease > 0 {
		lease := "lease for " + duration(float64(n.Lease))
		if n.Server != "" {
			lease += " from " + n.Server
		}
		more = append(more, lease)
	}
	if len(n.DNS) > 0 {
		more = append(more, "DNS "+strings.Join(n.DNS, " "))
	}
	if n.Carrier && n.SpeedMbit > 0 {
		more = append(more, strconv.Itoa(n.SpeedMbit)+" Mbit/s")
	}
	if n.MAC != "" {
		more = append(more, "MAC "+n.MAC)
	}
	s.list("", more...)
}

// again is name, or nothing if the line before belongs to it already.
func (s screen) again(name string) string {
	if bytes.Contains(s.b.Bytes(), []byte("\n"+name)) {
		return ""
	}
	return name
}

func (s screen) radio(st api.Status) {
	r := st.Radio
	text := fmt.Sprintf("%s, %s at %d baud, flow control %s", or(r.Mode, "unknown mode"), or(r.Device, "no UART"), r.Baud, flow(r.Flow))
	owner := ", nobody has it"
	if r.Owner != "" {
		owner = ", owner " + r.Owner
	}
	s.row("radio", text+owner)
	if r.Released > 0 {
		s.row("", "released by the bridge for "+duration(r.Released)+" more; gwctl radio take ends that")
	}
}

func flow(f string) string {
	switch f {
	case "hw":
		return "RTS/CTS"
	case "sw":
		return "XON/XOFF"
	}
	return or(f, "unknown")
}

func (s screen) bridge(st api.Status) {
	b := st.Bridge
	if st.Radio.Mode == "otbr" {
		s.row("bridge", "not in use: the radio is in Thread mode")
		return
	}
	if b == nil {
		s.absent("bridge", "bridge", st.Services)
		return
	}
	if !b.UARTOpen && st.Radio.Released == 0 {
		why := "; gwctl logs bridge says why"
		if b.UARTErr != "" {
			why = ": " + b.UARTErr
		}
		s.alarm("bridge", "the UART "+b.UART+" is not open"+why)
	}
	if k := b.Kernel; k != nil {
		s.kernel(b, k)
		return
	}
	if c := b.Client; c != nil {
		s.list(s.again("bridge"), fmt.Sprintf("%s connected for %s", c.Addr, duration(c.Since)), size(c.Rx)+" from the radio", size(c.Tx)+" to it")
	} else {
		text := "no client on " + or(b.Listen, "any address")
		if b.UARTOpen {
			text += "; use " + connectTo(st)
		}
		s.row(s.again("bridge"), text)
		if b.LastClose != "" {
			s.row("", "last: "+b.LastClose)
		}
	}
	var notes []string
	if b.Pending > 0 {
		notes = append(notes, count(uint64(b.Pending), "newcomer")+" that said nothing yet")
	}
	if b.Takeovers > 0 {
		notes = append(notes, count(b.Takeovers, "takeover"))
	}
	if b.Refused > 0 {
		notes = append(notes, strconv.FormatUint(b.Refused, 10)+" refused")
	}
	if b.Discarded > 0 {
		notes = append(notes, size(b.Discarded)+" from the radio while nobody was connected")
	}
	if b.TxDropped > 0 {
		notes = append(notes, size(b.TxDropped)+" to the radio dropped when their client ended")
	}
	if len(notes) > 0 {
		s.list("", append([]string{count(b.Connects, "connect")}, notes...)...)
	}
	var lost []string
	for _, e := range []struct {
		n           uint64
		what, where string
	}{
		{b.FrameErrors, "frame error", ""},
		{b.ParityErrors, "parity error", ""},
		{b.Overruns, "overrun", " in the UART"},
		{b.BufOverruns, "overrun", " in the tty"},
	} {
		if e.n > 0 {
			lost = append(lost, count(e.n, e.what)+e.where)
		}
	}
	if len(lost) > 0 {
		s.alarm("", "lost on the line: "+strings.Join(lost, ", ")+"; check baud and flow control")
	}
	if b.QueueDropped > 0 {
		s.alarm("", size(b.QueueDropped)+" dropped because a queue was full: the radio has no flow control and could not keep up")
	}
}

// kernel is the bridge in the kernel, which gives no account of its client.
func (s screen) kernel(b *api.Bridge, k *api.BridgeKernel) {
	text := "the kernel's driver"
	if b.UARTOpen {
		text += " on " + b.Listen
	}
	s.list(s.again("bridge"), text, size(b.RxBytes)+" from the radio", size(b.TxBytes)+" to it",
		size(b.Discarded)+" from the radio while nobody was connected")
	var lost []string
	if k.DropsErr > 0 {
		lost = append(lost, size(k.DropsErr)+" from the radio")
	}
	if k.DropsTx > 0 {
		lost = append(lost, size(k.DropsTx)+" to it")
	}
	if k.TxPauseTimeouts > 0 {
		lost = append(lost, count(k.TxPauseTimeouts, "XOFF")+" overridden")
	}
	if len(lost) > 0 {
		s.alarm("", "lost by the driver: "+strings.Join(lost, ", "))
	}
}

// panel writes what is missing there, and what is not for ever.
func (s screen) panel(p *api.Panel) {
	if p == nil {
		return
	}
	if p.ButtonProblem != "" {
		s.row("panel", "the button does nothing: "+p.ButtonProblem)
	}
	if len(p.Missing) > 0 {
		s.row(s.again("panel"), "no LED in this kernel: "+strings.Join(p.Missing, ", "))
	}
	if p.Enrol > 0 {
		s.alarm(s.again("panel"), "a key can be enrolled over SSH for "+duration(p.Enrol)+" more: the button was pressed three times")
	}
}

// connectTo is what a client is told to use.
func connectTo(st api.Status) string {
	host := or(st.Hostname, "GATEWAY")
	if st.Network != nil {
		for _, a := range st.Network.Addresses {
			a, _, _ = strings.Cut(a, "/")
			if !strings.Contains(a, ":") { // IPv4, which every client takes
				host = a
				break
			}
		}
	}
	port := "8888"
	if i := strings.LastIndexByte(st.Bridge.Listen, ':'); i >= 0 {
		port = st.Bridge.Listen[i+1:]
	}
	return "tcp://" + host + ":" + port
}

// absent is the row of a part whose service gave no answer.
func (s screen) absent(row, service string, all []api.Service) {
	for _, x := range all {
		if x.Name != service {
			continue
		}
		switch x.State {
		case "waiting", "starting":
			s.row(row, "not known yet: "+service+" is "+x.State)
		case "stopped", "done", "failed":
			s.alarm(row, fmt.Sprintf("not known: %s is %s; gwctl start %s starts it", service, x.State, service))
		case "backoff":
			s.alarm(row, fmt.Sprintf("not known: %s ended and is started again soon; gwctl logs %s says why", service, service))
		default:
			s.alarm(row, fmt.Sprintf("not known: %s does not answer; gwctl logs %s may say why", service, service))
		}
		return
	}
	s.row(row, "not known: "+service+" does not run in this boot mode")
}

func (s screen) services(all []api.Service) {
	if len(all) == 0 {
		return
	}
	wide := len("SERVICE")
	for _, x := range all {
		wide = max(wide, len(clean(x.Name)))
	}
	const format = "%-*s  %-8s  %8s  %8s  %8s  %8s  %8s\n"
	s.b.WriteByte('\n')
	fmt.Fprintf(s.b, format, wide, "SERVICE", "STATE", "SINCE", "RESTARTS", "CPU", "RSS", "ANON")
	for _, x := range all {
		used, rss, anon := "-", "-", "-"
		if x.PID > 0 {
			used, rss, anon = cpu(x.CPU), kib(x.RSS), kib(x.Anon)
		}
		line := fmt.Sprintf(format, wide, clean(x.Name), clean(x.State), duration(x.Since), strconv.Itoa(x.Restarts), used, rss, anon)
		ill := x.State == "failed" || x.State == "backoff"
		if ill && s.colour {
			line = "\x1b[1;31m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
		}
		s.b.WriteString(line)
		if why := lastWords(x); why != "" {
			if x.State == "failed" {
				why = "!! " + why + "; gwctl restart " + x.Name + " tries again"
			}
			s.lines("  ", why, ill)
		}
	}
}

func or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}

// sentence gives s a capital and a full stop.
func sentence(s string) string {
	if c := s[0]; 'a' <= c && c <= 'z' && !strings.HasPrefix(s, "gwctl") {
		s = string(c-'a'+'A') + s[1:]
	}
	return strings.TrimSuffix(s, ".") + "."
}
