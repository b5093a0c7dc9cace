// Guest is the init that the harness's own tests boot: a console with a
// handful of commands that show what the board gives. It stands in for a shell
// there (`; ` between commands, $? in echo) and is no part of the firmware.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this mounts file systems; it is init of the emulated board")
		os.Exit(1)
	}
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			fmt.Println(m[1], err)
		}
	}
	if l, err := net.Listen("tcp", ":8888"); err != nil {
		fmt.Println(err)
	} else {
		go serve(l)
	}
	fmt.Print("guest# ")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Print("guest# ") {
		status := 0
		for command := range strings.SplitSeq(lines.Text(), "; ") {
			if f := strings.Fields(command); len(f) > 0 {
				status = run(f[0], f[1:], status)
			}
		}
	}
}

// serve says hello to who connects.
func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(c, "hello")
		c.Close()
	}
}

func run(name string, args []string, status int) int {
	if name == "echo" {
		line := strings.ReplaceAll(strings.Join(args, " "), `"`, "")
		fmt.Println(strings.ReplaceAll(line, "$?", strconv.Itoa(status)))
		return 0
	}
	if err := do(name, args); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func do(name string, args []string) error {
	for len(args) < 3 {
		args = append(args, "")
	}
	switch name {
	case "true":
		return nil
	case "cat":
		b, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(b)
		return err
	case "ls":
		entries, err := os.ReadDir(args[0])
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return err
	case "mount":
		return unix.Mount(args[0], args[1], args[2], 0, "")
	case "write": // and wait until it is on flash
		f, err := os.Create(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteString(args[1]); err != nil {
			return err
		}
		return f.Sync()
	case "peek", "poke":
		return devmem(name == "poke", args[0], args[1])
	case "address":
		return address()
	case "carrier":
		for i := 0; i < 100; i++ {
			if b, err := os.ReadFile("/sys/class/net/eth0/carrier"); err == nil && strings.TrimSpace(string(b)) == args[0] {
				return nil
			}
			time.Sleep(100 * time.Millisecond)
		}
		return fmt.Errorf("carrier is not %s", args[0])
	case "echo-radio":
		baud, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		return echoRadio(baud)
	case "watchdog":
		_, err := unix.Open("/dev/watchdog", unix.O_WRONLY, 0)
		return err
	case "reboot":
		return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	case "poweroff":
		return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
	return fmt.Errorf("%s: no such command", name)
}

// devmem reads or writes a word of physical memory.
func devmem(write bool, addr, value string) error {
	at, err := strconv.ParseInt(addr, 0, 64)
	if err != nil {
		return err
	}
	f, err := os.OpenFile("/dev/mem", os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if write {
		_, err = f.WriteAt([]byte(value), at)
		return err
	}
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	fmt.Printf("%q\n", b)
	return nil
}

// address gives eth0 the address that QEMU's user network forwards to.
func address() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("eth0")
	if err != nil {
		return err
	}
	if err := req.SetInet4Addr([]byte{10, 0, 2, 15}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, req); err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// echoRadio opens the radio's UART at a rate beyond what its driver knows, and
// sends back what arrives.
func echoRadio(baud int) error {
	fd, err := unix.Open("/dev/ttyS1", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	const (
		tiocgserial = 0x5484
		tiocsserial = 0x5485
		baseBaud    = 28 // in struct serial_struct
	)
	var serial [128]byte
	if err := ioctl(fd, tiocgserial, &serial); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(serial[baseBaud:], 12_500_000)
	if err := ioctl(fd, tiocsserial, &serial); err != nil {
		return err
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS2)
	if err != nil {
		return err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.BOTHER
	t.Ispeed, t.Ospeed = uint32(baud), uint32(baud)
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS2, t); err != nil {
		return err
	}
	go func() {
		f := os.NewFile(uintptr(fd), "/dev/ttyS1")
		_, _ = io.Copy(f, f)
	}()
	return nil
}
