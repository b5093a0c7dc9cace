package eth

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/atomicfile"
	"gwinit/internal/netdev"
	"gwinit/services/eth/dhcp"
)

// When an address is written for the next boot (INV 6): it has been held for
// savedAfter, so that a box which keeps rebooting writes nothing, and is another
// one than what is there; and nothing was written in the savedEvery before.
const (
	savedAfter = 10 * time.Minute
	savedEvery = 24 * time.Hour
)

// saved is what the file for the next boot holds, as far as is known.
type saved struct {
	read  bool
	text  string
	wrote time.Duration // Options.Uptime then; 0: not in this boot
}

// recall returns the address of the boot before, if it was this MAC's.
func (s *Service) recall(mac netdev.MAC) dhcp.Known {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readSavedLocked()
	return parseSaved(s.saved.text, mac)
}

func (s *Service) readSavedLocked() {
	if s.saved.read {
		return
	}
	s.saved.read = true
	if b, err := os.ReadFile(s.path(fmt.Sprintf(savedFile, s.opt.Interface))); err == nil {
		s.saved.text = string(b)
	}
	if b, err := os.ReadFile(s.path(fmt.Sprintf(savedRun, s.opt.Interface))); err == nil {
		if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 31); err == nil {
			s.saved.wrote = time.Duration(n) * time.Second
		}
	}
}

// parseSaved reads "ADDRESS SERVER MAC", and gives nothing for what is damaged or
// of another MAC.
func parseSaved(text string, mac netdev.MAC) dhcp.Known {
	f := strings.Fields(text)
	if len(f) != 3 || f[2] != mac.String() {
		return dhcp.Known{}
	}
	addr, err := netip.ParseAddr(f[0])
	server, errServer := netip.ParseAddr(f[1])
	if err != nil || errServer != nil || !addr.Is4() || !addr.IsGlobalUnicast() || !server.Is4() || !server.IsGlobalUnicast() {
		return dhcp.Known{}
	}
	return dhcp.Known{Addr: addr, Server: server}
}

// rememberLocked writes the address in use for the next boot, if it is time. A
// failure is logged, and tried again a day later.
func (s *Service) rememberLocked() {
	if s.lease == nil || s.cur.state != "bound" || time.Since(s.since) < savedAfter {
		return
	}
	s.readSavedLocked()
	text := fmt.Sprintf("%v %v %v\n", s.lease.Addr.Addr(), s.lease.Server, s.link.MAC)
	now := s.opt.Uptime()
	if text == s.saved.text || s.saved.wrote > 0 && now-s.saved.wrote < savedEvery || !s.opt.Userdata() {
		return
	}
	s.saved.text, s.saved.wrote = text, now
	err := s.write(fmt.Sprintf(savedRun, s.opt.Interface), strconv.FormatInt(int64(now/time.Second), 10)+"\n")
	if err == nil { // else the next process would write again
		err = atomicfile.Write(s.path(fmt.Sprintf(savedFile, s.opt.Interface)), []byte(text), 0o644)
	}
	if err != nil {
		s.opt.Log(err.Error())
	}
}
