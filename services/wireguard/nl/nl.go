// Package nl is what a tunnel needs of the kernel over netlink: links,
// addresses and routes (rtnetlink), and the kernel's own WireGuard device
// (generic netlink). It is not for anything else: services/eth has a library
// that brings 0.7 MiB of memory.
//
// Formats are those of the kernel's include/uapi/linux: netlink.h, rtnetlink.h,
// if_link.h, genetlink.h, wireguard.h.
package nl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Link is a network interface by name and number.
type Link struct {
	Name  string
	Index int
}

// FindLink returns the link of that name; the error is fs.ErrNotExist's kind,
// unix.ENODEV, if there is none.
func FindLink(name string) (Link, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Link{}, fmt.Errorf("find link %s: %w", name, err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return Link{}, fmt.Errorf("find link %q: %w", name, err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
		return Link{}, fmt.Errorf("find link %s: %w", name, err)
	}
	return Link{name, int(ifr.Uint32())}, nil
}

// AddLink makes a link of a kind; unix.EOPNOTSUPP: the kernel has none.
func AddLink(name, kind string) (Link, error) {
	if err := ask(unix.NETLINK_ROUTE, addLink(binary.NativeEndian, name, kind)); err != nil {
		return Link{}, fmt.Errorf("add link %s of kind %s: %w", name, kind, err)
	}
	return FindLink(name)
}

// Delete removes the link.
func (l Link) Delete() error {
	return l.wrap("delete", ask(unix.NETLINK_ROUTE, delLink(binary.NativeEndian, l.Index)))
}

// Up brings the link up with that MTU, in bytes, and a queue of TxQueueLen.
func (l Link) Up(mtu int) error {
	return l.wrap(fmt.Sprintf("bring up with MTU %d", mtu), ask(unix.NETLINK_ROUTE, setLink(binary.NativeEndian, l.Index, mtu)))
}

// AddAddr gives the link an address, with the length of its prefix.
func (l Link) AddAddr(p netip.Prefix) error {
	return l.wrap("address "+p.String(), ask(unix.NETLINK_ROUTE, addr(binary.NativeEndian, true, l.Index, p)))
}

// DelAddr takes an address from it.
func (l Link) DelAddr(p netip.Prefix) error {
	return l.wrap("remove address "+p.String(), ask(unix.NETLINK_ROUTE, addr(binary.NativeEndian, false, l.Index, p)))
}

// AddRoute leads a prefix to the link; unix.EEXIST: it leads elsewhere.
func (l Link) AddRoute(p netip.Prefix) error {
	return l.wrap("route "+p.String(), ask(unix.NETLINK_ROUTE, route(binary.NativeEndian, true, l.Index, p)))
}

// DelRoute ends that.
func (l Link) DelRoute(p netip.Prefix) error {
	return l.wrap("remove route "+p.String(), ask(unix.NETLINK_ROUTE, route(binary.NativeEndian, false, l.Index, p)))
}

func (l Link) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", l.Name, what, err)
}

const (
	// answerTime is for a kernel that says nothing, which none does.
	answerTime = 5 * time.Second
	// answerSize is what the kernel puts into one packet of a dump at most.
	answerSize = 32 << 10
)

// ask sends a request to the kernel and waits for its acknowledgement.
func ask(protocol int, m *message) error {
	_, err := exchange(protocol, m, nil)
	return err
}

// exchange sends a request and gives the messages of the answer to take, until
// an acknowledgement, an error or the end of a dump. It returns how many there
// were.
func exchange(protocol int, m *message, take func(body []byte) error) (n int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return 0, fmt.Errorf("netlink socket: %w", err)
	}
	defer unix.Close(fd)
	tv := unix.NsecToTimeval(answerTime.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return 0, fmt.Errorf("netlink socket: %w", err)
	}
	const seq = 1 // of the only request of this socket
	if err := unix.Sendto(fd, m.done(seq), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("send to the kernel: %w", err)
	}
	buf := make([]byte, answerSize)
	for {
		got, from, err := unix.Recvfrom(fd, buf, 0)
		switch sender, ok := from.(*unix.SockaddrNetlink); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, fmt.Errorf("answer of the kernel: %w", err)
		case !ok || sender.Pid != 0:
			continue // anybody may send
		}
		done, count, err := answer(binary.NativeEndian, buf[:got], seq, take)
		n += count
		if done || err != nil {
			return n, err
		}
	}
}

// answer goes through the messages of one packet, and tells whether it holds
// the end of the answer.
func answer(o Order, b []byte, seq uint32, take func(body []byte) error) (done bool, n int, err error) {
	for len(b) >= headerLen {
		length := int(o.Uint32(b))
		if length < headerLen || length > len(b) {
			return true, n, fmt.Errorf("%w: a message of %d bytes in %d", ErrMalformed, length, len(b))
		}
		typ, body := o.Uint16(b[4:]), b[headerLen:length]
		own := o.Uint32(b[8:]) == seq
		b = b[min((length+3)&^3, len(b)):]
		switch {
		case !own:
		case typ == unix.NLMSG_DONE:
			return true, n, nil
		case typ == unix.NLMSG_ERROR:
			if len(body) < 4 {
				return true, n, fmt.Errorf("%w: an error of %d bytes", ErrMalformed, len(body))
			}
			if code := int32(o.Uint32(body)); code != 0 {
				return true, n, os.NewSyscallError("netlink", unix.Errno(-code))
			}
			return true, n, nil
		case typ >= unix.NLMSG_MIN_TYPE && take != nil:
			n++
			if err := take(body); err != nil {
				return true, n, err
			}
		}
	}
	return false, n, nil
}
