package network

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

const netstatUsage = `netstat [-alnptuw]

  -t -u -w  TCP, UDP, raw sockets (all of them if none is given)
  -l        only listening ones
  -a        listening ones too
  -p        with process
  -n        accepted: numbers are all it prints`

// sock is one line of /proc/net/tcp and its kin.
type sock struct {
	local, remote netip.AddrPort
	state         uint8
	tx, rx        uint32 // bytes queued
	uid           uint32
	inode         uint64
}

// States of a socket (include/net/tcp_states.h).
const (
	stateEstablished = 1
	stateClose       = 7 // of an unconnected UDP socket too
	stateListen      = 10
)

func stateName(s uint8) string {
	names := [...]string{
		"", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE",
		"CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return strconv.Itoa(int(s))
}

// parseSock reads a line such as
//
//	0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 12345 1 ...
//
// (net/ipv4/tcp_ipv4.c, net/ipv6/tcp_ipv6.c). An address is printed as 32-bit
// numbers in the order in which the CPU reads the bytes of the wire: 127.0.0.1
// is 0100007F on a little-endian CPU and 7F000001 on a big-endian one. order
// is that CPU's. The heading is no such line.
func parseSock(line string, order binary.ByteOrder) (sock, bool) {
	f := strings.Fields(line)
	if len(f) < 10 || !strings.HasSuffix(f[0], ":") {
		return sock{}, false
	}
	var s sock
	var ok1, ok2 bool
	s.local, ok1 = parseEnd(f[1], order)
	s.remote, ok2 = parseEnd(f[2], order)
	state, err1 := strconv.ParseUint(f[3], 16, 8)
	tx, rx, ok3 := strings.Cut(f[4], ":")
	txn, err2 := strconv.ParseUint(tx, 16, 32)
	rxn, err3 := strconv.ParseUint(rx, 16, 32)
	uid, err4 := strconv.ParseUint(f[7], 10, 32)
	inode, err5 := strconv.ParseUint(f[9], 10, 64)
	if !ok1 || !ok2 || !ok3 || errors.Join(err1, err2, err3, err4, err5) != nil {
		return sock{}, false
	}
	s.state, s.tx, s.rx, s.uid, s.inode = uint8(state), uint32(txn), uint32(rxn), uint32(uid), inode
	return s, true
}

// parseEnd reads ADDRESS:PORT, where the port is a plain hexadecimal number.
func parseEnd(text string, order binary.ByteOrder) (netip.AddrPort, bool) {
	addr, port, ok := strings.Cut(text, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || len(addr) != 8 && len(addr) != 32 {
		return netip.AddrPort{}, false
	}
	b, err := hex.DecodeString(addr)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		order.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(p)), ok
}

func netstat(root string, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "alnptuw")
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return applet.Usagef("no operands")
	}
	every := !o.Has('t') && !o.Has('u') && !o.Has('w')
	var owners map[uint64]string
	if o.Has('p') {
		owners = socketOwners(root)
	}
	w := bufio.NewWriter(std.Out)
	fmt.Fprintf(w, "Proto Recv-Q Send-Q %-28s %-28s State", "Local Address", "Foreign Address")
	if o.Has('p') {
		fmt.Fprint(w, "        PID/Program")
	}
	fmt.Fprintln(w)
	for _, proto := range []struct {
		option byte
		name   string
	}{{'t', "tcp"}, {'t', "tcp6"}, {'u', "udp"}, {'u', "udp6"}, {'w', "raw"}, {'w', "raw6"}} {
		if !every && !o.Has(proto.option) {
			continue
		}
		socks, err := readSocks(filepath.Join(root, "proc/net", proto.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without that family
		}
		if err != nil {
			return err
		}
		for _, s := range socks {
			waits := s.state == stateListen || proto.option != 't' && s.state == stateClose
			if waits && !o.Has('a') && !o.Has('l') || !waits && o.Has('l') {
				continue
			}
			state := stateName(s.state)
			if proto.option != 't' && s.state != stateEstablished {
				state = ""
			}
			line := fmt.Sprintf("%-5s %6d %6d %-28s %-28s %-12s", proto.name, s.rx, s.tx, end(s.local), end(s.remote), state)
			if o.Has('p') {
				owner := owners[s.inode]
				if owner == "" {
					owner = "-"
				}
				line += " " + owner
			}
			fmt.Fprintln(w, strings.TrimRight(line, " "))
		}
	}
	return w.Flush()
}

// A Listener is an address that TCP is listened on, or that UDP is taken at from
// anybody.
type Listener struct {
	At    netip.AddrPort
	UDP   bool
	Owner string // process ID and program, "51/bridge"; "" when not known
}

// Listeners returns those of IPv4 and IPv6 on the kernel below root.
func Listeners(root string) ([]Listener, error) {
	var list []Listener
	owners := socketOwners(root)
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		udp := name[0] == 'u'
		socks, err := readSocks(filepath.Join(root, "proc/net", name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, s := range socks {
			if s.state == stateListen && !udp || s.state == stateClose && udp {
				list = append(list, Listener{s.local, udp, owners[s.inode]})
			}
		}
	}
	return list, nil
}

// end prints one end of a connection; port 0 is any.
func end(a netip.AddrPort) string {
	port := "*"
	if a.Port() != 0 {
		port = strconv.Itoa(int(a.Port()))
	}
	return a.Addr().String() + ":" + port
}

func readSocks(path string) ([]sock, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []sock
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if s, ok := parseSock(lines.Text(), nativeOrder()); ok {
			list = append(list, s)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return list, nil
}

// socketOwners finds the process of each socket, by inode. Processes that end
// meanwhile are left out.
func socketOwners(root string) map[uint64]string {
	owners := map[uint64]string{}
	procs, err := os.ReadDir(filepath.Join(root, "proc"))
	if err != nil {
		return owners
	}
	for _, p := range procs {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		dir := filepath.Join(root, "proc", p.Name())
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue
		}
		name := ""
		for _, fd := range fds {
			to, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if err != nil {
				continue
			}
			text, ok := strings.CutPrefix(to, "socket:[")
			inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
			if !ok || err != nil {
				continue
			}
			if name == "" {
				name = p.Name() + "/" + command(dir)
			}
			owners[inode] = name
		}
	}
	return owners
}

// command is what a process is called: for the one binary that is everything
// here, its applet.
func command(dir string) string {
	line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	words := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	name := filepath.Base(words[0])
	if name == "gw" && len(words) > 1 {
		return words[1]
	}
	if words[0] == "" {
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		return strings.TrimSpace(string(comm))
	}
	return name
}

// nativeOrder is this CPU's order.
func nativeOrder() binary.ByteOrder {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}
