package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Sentinels.
var (
	// ErrNone: the kernel has no nf_tables.
	ErrNone = errors.New("this kernel has no nftables (CONFIG_NF_TABLES)")
	// ErrPart: it has nf_tables, and not all that the rules need.
	ErrPart = errors.New("this kernel's nftables lacks a part (CONFIG_NF_TABLES_INET, CONFIG_NFT_CT)")
)

// waitSeconds is for an answer of the kernel, which gives it before sending
// returns.
const waitSeconds = 5

// bufferLen holds the largest packet that the kernel makes of a dump.
const bufferLen = 32 << 10

// System is the kernel this process runs on.
type System struct{}

// exchange sends b, which has the messages of one request, and gives each that
// comes back to take until that says it is enough. It returns the first error
// that the kernel tells of, and the number of its message.
func exchange(b []byte, take func(answer) (done bool)) (number uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) {
		err = ErrNone
	}
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	limit := unix.Timeval{Sec: waitSeconds}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return 0, err
	}
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	buf := make([]byte, bufferLen)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		}
		for packet := buf[:n]; len(packet) > 0; {
			var a answer
			if a, packet, err = parseAnswer(binary.NativeEndian, packet); err != nil {
				return 0, err
			}
			switch {
			case a.code != 0:
				return a.number, unix.Errno(-a.code)
			case a.kind == kindDone || take(a):
				return 0, nil
			}
		}
	}
}

// Replace puts the table with these rules in the place of the one that may be
// there, in one step: either all of it is in force or nothing has changed. The
// error wraps ErrNone or ErrPart where the kernel has not got it.
func (System) Replace(rules []Rule) error {
	if rules == nil {
		rules = []Rule{}
	}
	if number, err := transact(rules); err != nil {
		if at := int(number) - numberRules; at >= 0 && at < len(rules) {
			return fmt.Errorf("firewall rule %q: %w", rules[at].Text, err)
		}
		return fmt.Errorf("make the firewall's table: %w", err)
	}
	return nil
}

// Remove takes the table away.
func (System) Remove() error {
	if _, err := transact(nil); err != nil {
		return fmt.Errorf("remove the firewall's table: %w", err)
	}
	return nil
}

func transact(rules []Rule) (number uint32, err error) {
	b, answers := transaction(binary.NativeEndian, rules)
	number, err = exchange(b, func(answer) bool { answers--; return answers == 0 })
	switch {
	case number == numberBegin && errors.Is(err, unix.EOPNOTSUPP):
		err = ErrNone
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT):
		err = fmt.Errorf("%w: %w", ErrPart, err)
	}
	return number, err
}

// Read returns what the kernel has, compared with rules. The error is ErrNone
// where it has no nf_tables.
func (System) Read(rules []Rule) (s State, err error) {
	ask := func(kind uint16, take func(answer) bool) bool {
		if err == nil {
			_, err = exchange(question(binary.NativeEndian, kind), take)
		}
		return err == nil
	}
	defer func() {
		switch {
		case errors.Is(err, unix.EINVAL) && !s.Present:
			err = ErrNone // nobody takes messages of this subsystem
		case errors.Is(err, unix.ENOENT):
			err = nil // it is not there, or not any more
		}
	}()
	once := func(answer) bool { return true }
	if !ask(msgGetTable, once) {
		return s, err
	}
	s.Present = true
	same := false
	if !ask(msgGetChain, func(a answer) bool {
		w := &writer{order: binary.NativeEndian}
		w.chain()
		same = within(binary.NativeEndian, w.b, a.body)
		return true
	}) {
		return s, err
	}
	counts := make([]Count, 0, len(rules))
	if !ask(msgGetRule, func(a answer) bool {
		if n := len(counts); n < len(rules) {
			c, equal := parseRule(binary.NativeEndian, a.body, rules[n])
			counts, same = append(counts, c), same && equal
		} else {
			same = false
		}
		return false
	}) || !same || len(counts) != len(rules) {
		return s, err
	}
	var ports []Port
	if ask(msgGetElement, func(a answer) bool {
		ports = append(ports, parsePorts(binary.NativeEndian, a.body)...)
		return false
	}) {
		s.Same, s.Rules, s.Ports = true, counts, ports
	}
	return s, err
}
