package pid1

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A step makes one piece of the early root. Steps are data: the table below
// is the whole early root, in order. The shape is that of u-root's libinit.
type step interface {
	do(root string) error
	String() string
}

// dir is a folder that must be there, with its mode.
type dir struct {
	path string
	mode os.FileMode
}

func (d dir) String() string { return "mkdir " + d.path }

func (d dir) do(root string) error {
	p := filepath.Join(root, d.path)
	if err := os.MkdirAll(p, d.mode); err != nil {
		return err
	}
	return os.Chmod(p, d.mode) // MkdirAll is subject to the umask
}

// mount is one file system. instead, where set, is tried when the kernel does
// not have fstype.
type mount struct {
	fstype, path string
	flags        uintptr
	data         string
	instead      string
}

func (m mount) String() string { return "mount " + m.fstype + " on " + m.path }

func (m mount) do(root string) error {
	p := filepath.Join(root, m.path)
	err := unix.Mount(m.fstype, p, m.fstype, m.flags, m.data)
	switch {
	case err == nil, errors.Is(err, unix.EBUSY): // EBUSY: the kernel's devtmpfs automount was first
		return nil
	case errors.Is(err, unix.ENODEV) && m.instead != "":
		return unix.Mount(m.instead, p, m.instead, m.flags, m.data)
	}
	return err
}

// node is a device node, made only where devtmpfs did not.
type node struct {
	path         string
	mode         uint32
	major, minor uint32
}

func (n node) String() string { return "mknod " + n.path }

func (n node) do(root string) error {
	err := unix.Mknod(filepath.Join(root, n.path), n.mode, int(unix.Mkdev(n.major, n.minor)))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// symlink is made only where nothing stands.
type symlink struct{ target, path string }

func (s symlink) String() string { return "symlink " + s.path }

func (s symlink) do(root string) error {
	err := os.Symlink(s.target, filepath.Join(root, s.path))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// ramLimit bounds the RAM file systems where the kernel can. The gateway's
// kernel has no tmpfs: the name mounts a ramfs that ignores the limit, which
// is why everything of ours that writes there bounds itself.
const ramLimit = "mode=755,size=4m"

// earlyRoot is everything that must be there before the first service.
// The image holds the mount points; a missing one (somebody's own rootfs) is
// reported and the boot goes on.
var earlyRoot = []step{
	mount{fstype: "proc", path: "/proc", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	mount{fstype: "sysfs", path: "/sys", flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	mount{fstype: "devtmpfs", path: "/dev", flags: unix.MS_NOSUID, data: "mode=755", instead: "tmpfs"},
	// All of these exist already where devtmpfs does.
	node{"/dev/console", unix.S_IFCHR | 0o600, 5, 1},
	node{"/dev/null", unix.S_IFCHR | 0o666, 1, 3},
	node{"/dev/zero", unix.S_IFCHR | 0o666, 1, 5},
	node{"/dev/full", unix.S_IFCHR | 0o666, 1, 7},
	node{"/dev/random", unix.S_IFCHR | 0o666, 1, 8},
	node{"/dev/urandom", unix.S_IFCHR | 0o666, 1, 9},
	node{"/dev/kmsg", unix.S_IFCHR | 0o600, 1, 11},
	node{"/dev/mem", unix.S_IFCHR | 0o600, 1, 1},
	node{"/dev/tty", unix.S_IFCHR | 0o666, 5, 0},
	node{"/dev/ptmx", unix.S_IFCHR | 0o666, 5, 2},
	node{"/dev/ttyS0", unix.S_IFCHR | 0o600, 4, 64},
	node{"/dev/ttyS1", unix.S_IFCHR | 0o600, 4, 65},
	node{"/dev/watchdog", unix.S_IFCHR | 0o600, 10, 130},
	dir{"/dev/net", 0o755},
	node{"/dev/net/tun", unix.S_IFCHR | 0o600, 10, 200},
	symlink{"/proc/self/fd", "/dev/fd"},
	symlink{"/proc/self/fd/0", "/dev/stdin"},
	symlink{"/proc/self/fd/1", "/dev/stdout"},
	symlink{"/proc/self/fd/2", "/dev/stderr"},
	dir{"/dev/pts", 0o755},
	mount{fstype: "devpts", path: "/dev/pts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, data: "gid=0,mode=620,ptmxmode=666"},
	mount{fstype: "tmpfs", path: "/run", flags: unix.MS_NOSUID | unix.MS_NODEV, data: ramLimit},
	mount{fstype: "tmpfs", path: "/var", flags: unix.MS_NOSUID | unix.MS_NODEV, data: ramLimit},
	mount{fstype: "tmpfs", path: "/tmp", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=1777,size=8m"},
	dir{"/tmp", 0o1777 | os.ModeSticky}, // ramfs takes no mode= on some kernels
	dir{"/run/lock", 0o755},
	dir{"/var/log", 0o755},
	dir{"/var/lock", 0o755},
	symlink{"/run", "/var/run"},
	symlink{"/tmp", "/var/tmp"},
}

// makeRoot carries steps out below root. A step that fails is returned in
// words and the others go on: a box without /dev/full is still a gateway.
func makeRoot(steps []step, root string) (problems []string) {
	for _, s := range steps {
		if err := s.do(root); err != nil {
			problems = append(problems, fmt.Sprintf("%v: %v", s, err))
		}
	}
	return problems
}
