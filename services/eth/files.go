package eth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/atomicfile"
	"gwinit/internal/config"
	"gwinit/internal/netdev"
	"gwinit/services/eth/dhcp"
)

// Files below Root. /etc/resolv.conf and /etc/hosts are links into /run.
const (
	resolvFile = "run/resolv.conf"
	hostsFile  = "run/hosts"
	addrFile   = "run/%s.addr"
	leaseFile  = "run/%s.lease"
	savedRun   = "run/%s.saved"          // when savedFile was written, in s of Options.Uptime
	savedFile  = "userdata/etc/%s.lease" // for the next boot
)

func (s *Service) path(name string) string { return filepath.Join("/", s.opt.Root, name) }

// writeFiles writes what other programs read about the network.
func (s *Service) writeFiles(to setup) error {
	addr := ""
	if to.addr.IsValid() {
		addr = to.addr.String() + "\n"
	}
	err := errors.Join(s.write(fmt.Sprintf(addrFile, s.opt.Interface), addr), s.writeLease())
	_, errResolv := s.writeResolv(to)
	s.writeHosts(to.addr.Addr())
	return errors.Join(err, errResolv)
}

// writeResolv writes resolv.conf, if there is anything to write, and tells
// whether that changed it.
func (s *Service) writeResolv(to setup) (changed bool, err error) {
	if !to.addr.IsValid() && len(s.routerDNS) == 0 {
		return false, nil
	}
	return s.replace(resolvFile, resolvConf(s.nameServersLocked(to), s.searchLocked(to)))
}

// write replaces a file if that changes it.
func (s *Service) write(name, text string) error {
	_, err := s.replace(name, text)
	return err
}

func (s *Service) replace(name, text string) (changed bool, err error) {
	path := s.path(name)
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return false, nil
	}
	return true, atomicfile.Write(path, []byte(text), 0o644)
}

// resolvConf makes the file of resolv.conf(5), of which a resolver reads three
// servers.
func resolvConf(dns []netip.Addr, search []string) string {
	var b strings.Builder
	if len(search) > 0 {
		b.WriteString("search " + strings.Join(search, " ") + "\n")
	}
	for _, d := range dns[:min(len(dns), 3)] {
		b.WriteString("nameserver " + d.String() + "\n")
	}
	return b.String()
}

// writeHosts names the box: by its address, or by 127.0.1.1 while it has none.
func (s *Service) writeHosts(addr netip.Addr) {
	if !addr.IsValid() {
		addr = netip.AddrFrom4([4]byte{127, 0, 1, 1})
	}
	text := "127.0.0.1 localhost\n::1 localhost ip6-localhost\n" + addr.String() + " " + s.cfg.Hostname + "\n"
	if err := s.write(hostsFile, text); err != nil {
		s.opt.Log(err.Error())
	}
}

// kept returns the address that this service gave the interface before it was
// restarted, if it is still there.
func (s *Service) kept(index int) netip.Prefix {
	b, err := os.ReadFile(s.path(fmt.Sprintf(addrFile, s.opt.Interface)))
	if err != nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(strings.TrimSpace(string(b)))
	if err != nil || !p.Addr().Is4() {
		return netip.Prefix{}
	}
	addrs, err := s.opt.Kernel.Addrs(index)
	if err != nil {
		return netip.Prefix{}
	}
	for _, a := range addrs {
		if a.Prefix == p {
			return p
		}
	}
	return netip.Prefix{}
}

// record is the lease in use, for the process after this one.
type record struct {
	MAC   netdev.MAC
	Lease dhcp.Lease
	// Acquired is Lease.Acquired as Options.Uptime had it.
	Acquired time.Duration
}

// writeLease records the lease in use, or that there is none.
func (s *Service) writeLease() error {
	name := fmt.Sprintf(leaseFile, s.opt.Interface)
	if s.lease == nil {
		err := os.Remove(s.path(name))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	}
	// In whole seconds, and none too late: the time between the two readings
	// of the clock must not look like a change, nor like the future.
	acquired := (s.opt.Uptime() - time.Since(s.lease.Acquired)).Truncate(time.Second)
	b, err := json.Marshal(record{s.link.MAC, *s.lease, acquired})
	if err != nil {
		return fmt.Errorf("record the lease: %w", err)
	}
	return s.write(name, string(b)+"\n")
}

// unended returns the recorded lease if it is of this MAC and of the address
// that is on the interface, and has not ended.
func (s *Service) unended(mac netdev.MAC, addr netip.Prefix) (dhcp.Lease, bool) {
	b, err := os.ReadFile(s.path(fmt.Sprintf(leaseFile, s.opt.Interface)))
	if err != nil {
		return dhcp.Lease{}, false
	}
	l, ok := readRecord(b, mac, s.opt.Uptime())
	return l, ok && addr.IsValid() && l.Addr == addr
}

// readRecord reads a record at an uptime. It returns false for one that is
// damaged, ended, or of another MAC.
func readRecord(b []byte, mac netdev.MAC, now time.Duration) (dhcp.Lease, bool) {
	var r record
	if json.Unmarshal(b, &r) != nil {
		return dhcp.Lease{}, false
	}
	l, age := r.Lease, now-r.Acquired
	switch {
	case r.MAC != mac, age < 0, r.Acquired < 0,
		!l.Addr.IsValid(), !l.Addr.Addr().Is4(), !l.Server.Is4(),
		l.T1 <= 0, l.T1 > l.T2, l.T2 > l.Duration, age >= l.Duration:
		return dhcp.Lease{}, false
	}
	l.Acquired = time.Now().Add(-age)
	return l, true
}

// uptime is what Options.Uptime is on the box.
func uptime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails for a bad clock or pointer only
	return time.Duration(ts.Nano())
}

// setSysctl writes below /proc/sys. A kernel without the setting is no failure
// (INV 11).
func (s *Service) setSysctl(name, value string) {
	path := s.path("proc/sys/" + name)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(value)
		err = errors.Join(err, f.Close())
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.opt.Log(err.Error())
	}
}

// entropyWait bounds how long the first start of a box waits for entropy: it
// has none for its first 13 to 15 s, and two boxes with one MAC on one network
// are worse than a late network.
const entropyWait = 20 * time.Second

// mac returns the MAC that the interface shall have: the stored one, or one
// that is made and stored now, as the board has none of its own. Without
// /userdata, where it would be another one after each boot, the kernel's stays.
//
// An interface that is up has the MAC of the process before this one, and the
// leases and neighbours that go with it: with nothing stored, that is stored.
func (s *Service) mac(ctx context.Context, link netdev.Link) (netdev.MAC, bool) {
	if stored := netdev.MAC(s.cfg.MAC); stored != (netdev.MAC{}) {
		return stored, true
	}
	if !s.opt.Userdata() {
		return link.MAC, false
	}
	mac, did := link.MAC, "adopted"
	if !link.Up {
		mac, did = netdev.MAC{0: 0x02}, "made" // locally administered, unicast
		wait, stop := context.WithTimeout(ctx, entropyWait)
		defer stop()
		if err := s.opt.Random(wait, mac[1:]); err != nil {
			s.opt.Log(fmt.Sprintf("make a MAC: %v; keeping %v", err, link.MAC))
			return link.MAC, false
		}
	}
	if err := config.StoreMAC(s.opt.Root, mac); err != nil {
		s.opt.Log(fmt.Sprintf("store the MAC: %v; keeping %v", err, link.MAC))
		return link.MAC, false
	}
	s.cfg.MAC = mac
	s.opt.Log(did + " MAC " + mac.String())
	return mac, true
}

// random reads the kernel's random numbers as soon as they are good, and what
// there is when ctx ends first.
func random(ctx context.Context, b []byte) error {
	poll := time.NewTicker(250 * time.Millisecond)
	defer poll.Stop()
	for {
		n, err := unix.Getrandom(b, unix.GRND_NONBLOCK)
		if err == nil && n == len(b) {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("getrandom: %w", err)
		}
		// A read from urandom makes the kernel gather entropy from its clock's
		// jitter, if that is fine enough (drivers/char/random.c); on the
		// emulated board this takes 2 s where waiting takes 6 s.
		rest := make([]byte, len(b))
		if err := readFull("/dev/urandom", rest); err != nil {
			return fmt.Errorf("no entropy yet: %w", err)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			copy(b, rest)
			return nil
		}
	}
}

// readFull fills b from a device.
func readFull(path string, b []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(f, b)
	return err
}

// mounted tells whether something is mounted at dir: its device is not its
// parent's.
func mounted(dir string) bool {
	var at, above syscall.Stat_t
	if syscall.Stat(dir, &at) != nil || syscall.Stat(filepath.Dir(dir), &above) != nil {
		return false
	}
	return at.Dev != above.Dev
}
