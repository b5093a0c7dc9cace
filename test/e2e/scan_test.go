//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// network is one of its own with this computer's programs at 10.9.0.1 and the
// gateway's cable in it.
type network struct {
	t   *testing.T
	pid string // of who holds the namespace
}

// newNetwork makes one, and returns QEMU's -netdev for the cable. It needs root.
func newNetwork(t *testing.T) (n *network, netdev string) {
	t.Helper()
	holder := exec.Command("unshare", "-n", "sh", "-c", "ip link set lo up && ip tuntap add lan0 mode tap && ip addr add 10.9.0.1/24 dev lan0 && ip link set lan0 up && echo ready && exec sleep 100000")
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill() // it may have ended
		_ = holder.Wait()
	})
	ready := make([]byte, 6)
	if _, err := out.Read(ready); err != nil {
		t.Fatalf("a network of its own: %v", err)
	}
	n = &network{t, strconv.Itoa(holder.Process.Pid)}

	// The tap's descriptor works from anywhere once it is open.
	tap := make(chan *os.File, 1)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends in that namespace
		f, err := openTap("/proc/"+n.pid+"/ns/net", "lan0")
		if err != nil {
			failed <- err
			return
		}
		tap <- f
	}()
	var f *os.File
	select {
	case f = <-tap:
	case err := <-failed:
		t.Fatalf("open the tap: %v", err)
	}
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: ours, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		buf := make([]byte, 2048)
		for {
			k, err := f.Read(buf)
			if err != nil {
				return
			}
			// Nobody is there while QEMU starts.
			_, _ = conn.WriteToUnix(buf[:k], &net.UnixAddr{Name: theirs, Net: "unixgram"})
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		buf := make([]byte, 2048)
		for {
			k, err := conn.Read(buf)
			if err != nil {
				return
			}
			_, _ = f.Write(buf[:k]) // a frame is lost, as on a cable
		}
	}()
	t.Cleanup(func() {
		f.Close()
		conn.Close()
		<-done
		<-done
	})
	return n, fmt.Sprintf("dgram,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", theirs, ours)
}

func openTap(namespace, name string) (*os.File, error) {
	ns, err := os.Open(namespace)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "tap"), nil
}

// run runs a program in the network and wants it to succeed.
func (n *network) run(args ...string) string {
	n.t.Helper()
	return command(n.t, ".", append([]string{"nsenter", "-t", n.pid, "-n"}, args...)...)
}

// dhcp gives addresses from 10.9.0.50 on.
func (n *network) dhcp() {
	n.t.Helper()
	dir := n.t.TempDir()
	cmd := exec.Command("nsenter", "-t", n.pid, "-n", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--port=0", "--no-resolv",
		"--interface=lan0", "--bind-interfaces", "--dhcp-authoritative", "--dhcp-range=10.9.0.50,10.9.0.60,1h",
		"--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"))
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
}

var openPort = regexp.MustCompile(`(\d+)/open/(tcp|udp)/`)

// What a stranger finds at a gateway that is as new: every TCP port is tried, and
// every UDP port, over the cable. 22 and 8888 are open, and mDNS answers; there is
// nothing else. It needs root, for a network of its own.
func TestScanOfFreshGateway(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("a network of its own takes root")
	}
	lan, netdev := newNetwork(t)
	lan.dhcp()
	m := start(t, func(c *board.Config) { c.Forward, c.Netdev = nil, netdev })
	shell(t, m)
	s := await(t, m, "an address, and everything running", func(s api.Status) bool { return settled(s) && len(s.Network.Addresses) > 0 })
	address, _, _ := strings.Cut(s.Network.Addresses[0], "/")

	// What the kernel says: all sockets, of both protocols and both families.
	var listed []string
	for line := range strings.Lines(run(t, m, "netstat -tuln")) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "tcp") && !strings.HasPrefix(f[0], "udp") {
			continue
		}
		listed = append(listed, f[0][:3]+f[3][strings.LastIndexByte(f[3], ':'):])
	}
	slices.Sort(listed)
	if listed = slices.Compact(listed); !slices.Equal(listed, []string{"tcp:22", "tcp:8888", "udp:5353"}) {
		t.Errorf("the gateway's sockets are %q", listed)
	}

	// A closed UDP port is told by an ICMP message, of which a kernel sends some a
	// second only: without that limit the scan ends today.
	run(t, m, "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit; echo 100000 >/proc/sys/net/ipv4/icmp_msgs_per_sec; echo 10000 >/proc/sys/net/ipv4/icmp_msgs_burst")
	for _, scan := range []struct {
		how  string
		want []string
	}{
		{"-sS", []string{"22/open/tcp/", "8888/open/tcp/"}},
		{"-sU", []string{"5353/open/udp/"}},
	} {
		began := time.Now()
		scanned := func() string {
			return lan.run("nmap", "-n", "-Pn", scan.how, "-p-", "--min-rate", "1500", "--max-retries", "6", "--host-timeout", "9m", "-oG", "-", address)
		}
		out := scanned()
		// On its own network nmap asks by ARP first, and gives up after half a second.
		for end := time.Now().Add(time.Minute); strings.Contains(out, "(0 hosts up)") && time.Now().Before(end); {
			out = scanned()
		}
		got := openPort.FindAllString(out, -1)
		if !slices.Equal(got, scan.want) || strings.Contains(out, "open|filtered") && scan.how == "-sS" {
			t.Errorf("nmap %s found %q, want %q:\n%s", scan.how, got, scan.want, tail(out))
		}
		t.Logf("nmap %s: %v in %v", scan.how, got, time.Since(began).Round(time.Second))
	}
}
