package otbr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// agentPath is where the agent is: in /userdata, as it does not fit the rootfs.
const agentPath = "/userdata/usr/bin/otbr-agent"

// errPointless is wrapped where another start does not help.
var errPointless = errors.New("the Thread border router cannot run")

// check looks for what no agent can do without. An error says what to do.
func (s *Service) check() error {
	info, err := os.Stat(s.path(agentPath))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no %s: copy the agent of the firmware before there, or go back by gwctl radio mode zigbee", errPointless, agentPath)
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%w: %s is not executable: chmod 755 %s", errPointless, agentPath, agentPath)
	}
	if _, err := os.Stat(s.path("/proc/sys/net/ipv6")); err != nil {
		return fmt.Errorf("%w: the kernel has no IPv6: it needs CONFIG_IPV6", errPointless)
	}
	if _, err := os.Stat(s.path("/dev/net/tun")); err != nil {
		return fmt.Errorf("%w: there is no /dev/net/tun: the kernel needs CONFIG_TUN", errPointless)
	}
	return nil
}

// setting is a sysctl that a border router needs.
type setting struct {
	name, value string
	// why is what does not work without it, for a kernel that has it not.
	why string
}

// sysctls are in the order in which they have to be set: with forwarding on, a
// kernel forgets the routes of routers unless accept_ra is 2.
var sysctls = []setting{
	{"net/ipv6/conf/" + infraInterface + "/accept_ra", "2", "the network's IPv6 routes are lost"},
	// Prefixes up to 64 bits: those of Thread networks behind other routers.
	{"net/ipv6/conf/" + infraInterface + "/accept_ra_rt_info_max_plen", "64", "Thread networks behind other border routers are not reached"},
	{"net/ipv6/conf/all/forwarding", "1", "nothing passes between Thread and the network"},
}

// route sets the sysctls and returns what does not work. undo has what was.
func (s *Service) route() (problems []string, undo []setting) {
	for _, c := range sysctls {
		path := s.path("/proc/sys/" + c.name)
		old, err := os.ReadFile(path)
		if err == nil {
			was := strings.TrimSpace(string(old))
			if was == c.value {
				continue
			}
			if err = os.WriteFile(path, []byte(c.value), 0); err == nil {
				undo = append([]setting{{name: c.name, value: was}}, undo...)
				continue
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("the kernel has it not")
		}
		problems = append(problems, fmt.Sprintf("%s=%s: %v: %s", c.name, c.value, err, c.why))
	}
	return problems, undo
}

// unroute takes back what route set.
func (s *Service) unroute(undo []setting) {
	for _, c := range undo {
		if err := os.WriteFile(s.path("/proc/sys/"+c.name), []byte(c.value), 0); err != nil {
			s.log("sysctl: %v", err)
		}
	}
}

func (s *Service) path(name string) string { return filepath.Join("/", s.o.Root, name) }
