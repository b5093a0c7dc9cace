package netlab

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Wire is a cable whose frames pass through the test's hands.
type Wire struct {
	ends  [2]*os.File // packet sockets: the near end, the far one
	tasks sync.WaitGroup

	mu    sync.Mutex // guards what follows
	treat func(frame []byte, far bool) []time.Duration
	ended bool
}

// vnetHeader is the length of struct virtio_net_hdr, which a packet socket puts
// before each frame when it is told to: checksums that are still to be filled in
// survive that way.
const vnetHeader = 10

// Extend puts another host, with the interface remote, behind p, whose interface
// near is; p only passes frames on from then on, as a Wire says.
func (p *Peer) Extend(near, remote string) (*Peer, *Wire) {
	p.t.Helper()
	far := newPeer(p.t)
	p.Run("ip", "link", "add", "far", "type", "veth", "peer", "name", remote, "netns", far.pid)
	for _, iface := range []string{near, "far"} {
		p.Run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/"+iface+"/disable_ipv6")
		p.Run("ip", "link", "set", iface, "arp", "off", "up")
	}
	far.Run("ip", "link", "set", remote, "up")
	w := &Wire{}
	for i, iface := range []string{near, "far"} {
		f, err := p.frames(iface)
		if err != nil {
			p.t.Fatal(err)
		}
		w.ends[i] = f
	}
	for i := range w.ends {
		w.tasks.Go(func() { w.pass(p.t, i) })
	}
	p.t.Cleanup(func() {
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		for _, f := range w.ends {
			f.Close()
		}
		w.tasks.Wait()
	})
	return far, w
}

// Treat has f say what becomes of each frame from now on: a copy arrives after
// each of the times that it returns, and nothing does if there is none. far tells
// that the frame comes from the host that Extend made. A nil f passes all on.
func (w *Wire) Treat(f func(frame []byte, far bool) []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.treat = f
}

// frames opens a packet socket on an interface of p's namespace.
func (p *Peer) frames(iface string) (*os.File, error) {
	// Back again and not left to end: programs die with the thread that
	// started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(here)
	there, err := unix.Open("/proc/"+p.pid+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(there)
	if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter a namespace: %w", err)
	}
	fd, err := openFrames(iface)
	if back := unix.Setns(here, unix.CLONE_NEWNET); back != nil {
		panic(fmt.Sprintf("leave a namespace: %v", back))
	}
	if err != nil {
		return nil, fmt.Errorf("packet socket on %s: %w", iface, err)
	}
	return os.NewFile(uintptr(fd), iface), nil
}

func openFrames(iface string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	ifreq, err := unix.NewIfreq(iface)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifreq)
	}
	if err == nil {
		err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
	}
	if err == nil {
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // the tests' machines are little-endian
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: int(ifreq.Uint32())})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// pass carries frames from one end to the other.
func (w *Wire) pass(t testing.TB, from int) {
	to := w.ends[1-from]
	buf := make([]byte, vnetHeader+65536)
	for {
		n, err := w.ends[from].Read(buf)
		if errors.Is(err, unix.ENETDOWN) {
			continue
		}
		if err != nil || n < vnetHeader {
			w.mu.Lock()
			if !w.ended {
				t.Errorf("wire: %d bytes, %v", n, err)
			}
			w.mu.Unlock()
			return
		}
		frame := append([]byte(nil), buf[:n]...)
		w.mu.Lock()
		delays := []time.Duration{0}
		if w.treat != nil {
			delays = w.treat(frame[vnetHeader:], from == 1)
		}
		w.mu.Unlock()
		for _, d := range delays {
			if d == 0 {
				_, _ = to.Write(frame) // what does not fit is lost, as on a cable
				continue
			}
			time.AfterFunc(d, func() { _, _ = to.Write(frame) })
		}
	}
}
