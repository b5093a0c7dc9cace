// Command shape is what the benchmark of queueing runs on the emulated board:
// it makes a queue on an interface's way out, which is slower than what sends,
// and it sends. It is no part of the firmware.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/vishvananda/netlink"
)

const usage = `usage: shape set IFACE BYTES-PER-SECOND pfifo|fq_codel
       shape clear IFACE
       shape bulk ADDRESS CONNECTIONS`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "set":
		rate, err := strconv.ParseUint(args[2], 10, 32)
		if err != nil {
			return err
		}
		return set(args[1], rate, args[3])
	case len(args) == 2 && args[0] == "clear":
		link, err := netlink.LinkByName(args[1])
		if err != nil {
			return err
		}
		return netlink.QdiscDel(root(link, 1))
	case len(args) == 3 && args[0] == "bulk":
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return bulk(args[1], n)
	}
	return fmt.Errorf("%s", usage)
}

func attrs(link netlink.Link, parent, handle uint32) netlink.QdiscAttrs {
	return netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Parent: parent, Handle: handle}
}

// root is a token bucket of that rate, in bytes a second, with a burst of two
// frames.
func root(link netlink.Link, rate uint64) *netlink.Tbf {
	return &netlink.Tbf{
		QdiscAttrs: attrs(link, netlink.HANDLE_ROOT, netlink.MakeHandle(1, 0)),
		Rate:       rate, Limit: 1 << 20, Buffer: uint32(netlink.Xmittime(rate, 2*1514)),
	}
}

// set makes the root, and the leaf that packets wait in: 1000 of them, as
// anywhere, or fq_codel as the gateway has it.
func set(iface string, rate uint64, leaf string) error {
	link, err := netlink.LinkByName(iface)
	if err != nil {
		return err
	}
	if err := netlink.QdiscReplace(root(link, rate)); err != nil {
		return fmt.Errorf("tbf: %w", err)
	}
	at := attrs(link, netlink.MakeHandle(1, 1), netlink.MakeHandle(2, 0))
	var q netlink.Qdisc
	switch leaf {
	case "pfifo":
		q = &netlink.GenericQdisc{QdiscAttrs: at, QdiscType: leaf}
	case "fq_codel":
		// The target is not sent, and is 5 ms by itself.
		q = &netlink.FqCodel{QdiscAttrs: at, Limit: 1024, Flows: 128, Quantum: 300, Interval: 100_000, ECN: 1, MemoryLimit: 1 << 20}
	default:
		return fmt.Errorf("no leaf %q: pfifo or fq_codel", leaf)
	}
	if err := netlink.QdiscReplace(q); err != nil {
		return fmt.Errorf("%s: %w", leaf, err)
	}
	return nil
}

// bulk sends zeros by n connections until the other end closes them.
func bulk(address string, n int) error {
	var all []net.Conn
	for range n {
		c, err := net.Dial("tcp4", address)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			defer c.Close()
			zeros := make([]byte, 16<<10)
			for {
				if _, err := c.Write(zeros); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return nil
}
