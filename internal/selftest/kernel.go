//go:build linux

package selftest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// feature is something that the kernel has or not.
type feature struct {
	name   string
	needed bool // FAIL without it
	try    func() error
}

// call makes a system call for its error.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// opens makes a descriptor and closes it.
func opens(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// features are tried in this order. None leaves anything behind.
func features() []feature {
	return []feature{
		{"epoll", true, func() error { return opens(unix.EpollCreate1(unix.EPOLL_CLOEXEC)) }},
		{"eventfd", true, func() error { return opens(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)) }},
		{"pipe2", true, func() error {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				return err
			}
			return errors.Join(unix.Close(p[0]), unix.Close(p[1]))
		}},
		{"getrandom without waiting", false, func() error {
			_, err := unix.Getrandom(make([]byte, 16), unix.GRND_NONBLOCK)
			return err
		}},
		{"timerfd", false, func() error { return opens(unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)) }},
		{"signalfd", false, func() error { return opens(unix.Signalfd(-1, &unix.Sigset_t{}, unix.SFD_CLOEXEC)) }},
		{"inotify", false, func() error { return opens(unix.InotifyInit1(unix.IN_CLOEXEC)) }},
		{"memfd", false, func() error { return opens(unix.MemfdCreate("selftest", unix.MFD_CLOEXEC)) }},
		{"pidfd", false, func() error { return opens(unix.PidfdOpen(unix.Getpid(), 0)) }},
		{"madvise", false, func() error { return onPage(func(mem []byte) error { return unix.Madvise(mem, unix.MADV_DONTNEED) }) }},
		{"mlock", false, func() error { return onPage(unix.Mlock) }},
		{"membarrier", false, func() error { return call(unix.SYS_MEMBARRIER, 0) }},
		// Any answer but ENOSYS to a wrong size means that it is there.
		{"rseq", false, func() error { return there(call(unix.SYS_RSEQ, 0, 1, 0, 0)) }},
		{"io_uring", false, func() error { return there(call(unix.SYS_IO_URING_SETUP, 0, 0)) }},
		{"seccomp", false, func() error { return there(call(unix.SYS_SECCOMP, 99, 0, 0)) }},
		{"openat2", false, func() error { return there(call(unix.SYS_OPENAT2, 0, 0, 0, 0)) }},
		{"statx", false, func() error {
			var st unix.Statx_t
			return unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_BASIC_STATS, &st)
		}},
		{"timer with a thread's signal", false, func() error { return there(call(unix.SYS_TIMER_CREATE, 99, 0, 0)) }},
		{"real-time priority", false, realtime},
		{"TUN", false, exists("/dev/net/tun")},
		{"IPv6", false, exists("/proc/net/if_inet6")},
		{"watchdog", false, exists("/dev/watchdog")}, // never opened: that would start it
		{"nftables", false, func() error {
			return opens(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER))
		}},
		{"queueing disciplines", false, qdiscs},
		{"uevents", false, func() error {
			return opens(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT))
		}},
	}
}

// there takes every error but the one of a call that does not exist for yes.
func there(err error) error {
	if errors.Is(err, unix.ENOSYS) {
		return err
	}
	return nil
}

// onPage tries something on a page of its own.
func onPage(try func([]byte) error) error {
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	return errors.Join(try(mem), unix.Munmap(mem))
}

// exists looks for a file.
func exists(name string) func() error {
	return func() error {
		_, err := os.Lstat(name)
		return err
	}
}

// realtime asks for SCHED_FIFO for this thread, and goes back.
func realtime() error {
	const fifo, other = 1, 0
	param := int32(1)
	if err := call(unix.SYS_SCHED_SETSCHEDULER, 0, fifo, uintptr(unsafe.Pointer(&param))); err != nil {
		return err
	}
	param = 0
	return call(unix.SYS_SCHED_SETSCHEDULER, 0, other, uintptr(unsafe.Pointer(&param)))
}

// qdiscs asks the routing socket for the list of queueing disciplines: a
// kernel without them refuses the request.
func qdiscs() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const size = 16 + 20 // nlmsghdr, tcmsg
	req := make([]byte, size)
	binary.NativeEndian.PutUint32(req, size)
	binary.NativeEndian.PutUint16(req[4:], unix.RTM_GETQDISC)
	binary.NativeEndian.PutUint16(req[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 8192)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	return netlinkError(answer[:n])
}

// netlinkError is the error in a netlink answer, nil if it starts with anything else.
func netlinkError(answer []byte) error {
	if len(answer) < 20 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return nil
	}
	if code := int32(binary.NativeEndian.Uint32(answer[16:])); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}

// runKernel lists what there is.
func runKernel(_ context.Context, e *env) {
	var with, without []string
	for _, f := range features() {
		err := f.try()
		switch {
		case err == nil:
			with = append(with, f.name)
		case f.needed:
			e.say(f.name, Fail, "%v: Go programs need it", err)
		default:
			without = append(without, fmt.Sprintf("%s (%v)", f.name, err))
		}
	}
	e.say("has", OK, "%s", strings.Join(with, ", "))
	e.say("has not", Info, "%s", strings.Join(without, ", "))
	time64(e)
	for _, f := range []struct{ name, file string }{
		{"version", "/proc/version"},
		{"clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
		{"load", "/proc/loadavg"},
		{"partitions", "/proc/mtd"},
	} {
		b, err := os.ReadFile(filepath.Join(e.root, f.file))
		if err != nil {
			e.say(f.name, Info, "%v", err)
			continue
		}
		const most = 1500
		e.say(f.name, Info, "%s", strings.TrimSpace(string(b[:min(len(b), most)])))
	}
}
