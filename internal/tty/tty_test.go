//go:build linux

package tty

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gwinit/internal/tty/ptytest"
)

func TestBaudRoundTrip(t *testing.T) {
	for _, baud := range []int{115200, 230400, 460800, 691200, 892857, 12345} {
		_, slave := ptytest.Open(t)
		p, err := Open(slave, Config{Baud: baud})
		if err != nil {
			t.Fatal(err)
		}
		if p.Baud() != baud {
			t.Errorf("asked for %d baud, runs at %d", baud, p.Baud())
		}
		tio, err := unix.IoctlGetTermios(p.FD(), unix.TCGETS2)
		if err != nil {
			t.Fatal(err)
		}
		if int(tio.Ospeed) != baud || int(tio.Ispeed) != baud {
			t.Errorf("termios2 speeds %d/%d, want %d", tio.Ispeed, tio.Ospeed, baud)
		}
		if tio.Cflag&(unix.CSIZE|unix.PARENB|unix.CSTOPB|unix.HUPCL|unix.CLOCAL|unix.CREAD) != unix.CS8|unix.CLOCAL|unix.CREAD {
			t.Errorf("cflag %#x is not 8N1, local, without hang-up on close", tio.Cflag)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFlow(t *testing.T) {
	for _, flow := range []Flow{FlowNone, FlowSoft, FlowHard} {
		t.Run(flow.String(), func(t *testing.T) {
			_, slave := ptytest.Open(t)
			p, err := Open(slave, Config{Baud: 460800, Flow: flow})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if p.Flow() != flow {
				t.Errorf("flow control %v", p.Flow())
			}
			got, err := ParseFlow(flow.String())
			if err != nil || got != flow {
				t.Errorf("ParseFlow(%q) = %v, %v", flow, got, err)
			}
		})
	}
	if _, err := ParseFlow("rtscts"); err == nil {
		t.Error("ParseFlow takes rtscts")
	}
}

func TestEveryByteValuePasses(t *testing.T) {
	master, slave := ptytest.Open(t)
	p, err := Open(slave, Config{Baud: 460800})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	if _, err := unix.Write(p.FD(), all); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 256)
	if _, err := io.ReadFull(master, got); err != nil || string(got) != string(all) {
		t.Errorf("to the line: % x, %v", got, err)
	}
	if _, err := master.Write(all); err != nil {
		t.Fatal(err)
	}
	n, err := unix.Read(p.FD(), got)
	if err != nil || string(got[:n]) != string(all) {
		t.Errorf("from the line: % x, %v", got[:n], err)
	}
}

func TestXOFFHoldsUntilResumed(t *testing.T) {
	master, slave := ptytest.Open(t)
	p, err := Open(slave, Config{Baud: 460800, Flow: FlowSoft})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	master.Write([]byte{0x13, 'x'})
	b := make([]byte, 8)
	// The read takes 'x' only: the XOFF before it was eaten and obeyed.
	if n, err := unix.Read(p.FD(), b); err != nil || string(b[:n]) != "x" {
		t.Fatalf("read %q, %v", b[:n], err)
	}
	if _, err := unix.Write(p.FD(), []byte("a")); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("write while stopped: %v, want EAGAIN", err)
	}
	if err := p.ResumeOutput(); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(p.FD(), []byte("a")); err != nil {
		t.Errorf("write after resume: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Config{Baud: 115200}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("absent device: %v", err)
	}
	if _, err := Open("/dev/null", Config{Baud: 115200}); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("not a terminal: %v", err)
	}
	_, slave := ptytest.Open(t)
	if _, err := Open(slave, Config{Baud: 115200, BaseBaud: 12500000}); err == nil {
		t.Error("a pty took a base baud")
	}
}

func TestHangUp(t *testing.T) {
	master, slave := ptytest.Open(t)
	p, err := Open(slave, Config{Baud: 115200})
	if err != nil {
		t.Fatal(err)
	}
	if idle, err := p.Idle(); !idle || err != nil {
		t.Errorf("a pty, which has no FIFO: idle %v, %v", idle, err)
	}
	master.Close()
	if _, err := p.Unsent(); !errors.Is(err, unix.EIO) {
		t.Errorf("after a hang-up: %v, want EIO", err)
	}
	if _, err := p.Idle(); !errors.Is(err, unix.EIO) {
		t.Errorf("after a hang-up: %v, want EIO", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("close after a hang-up: %v", err)
	}
}

// TestLayout pins the sizes and offsets of linux/serial.h and termbits.h.
func TestLayout(t *testing.T) {
	var s serialStruct
	var c Counts
	type golden struct{ termios, serial, icount uintptr }
	want := map[uintptr]golden{
		8: {44, 72, 80},
		4: {44, 60, 80},
	}[unsafe.Sizeof(uintptr(0))]
	if unix.VMIN == 4 { // MIPS: c_cc has 23 bytes
		want.termios = 48
	}
	if got := (golden{unsafe.Sizeof(unix.Termios{}), unsafe.Sizeof(s), unsafe.Sizeof(c)}); got != want {
		t.Errorf("sizes %+v, want %+v", got, want)
	}
	if o := unsafe.Offsetof(s.BaudBase); o != 28 {
		t.Errorf("baud_base at %d, want 28", o)
	}
	if o := unsafe.Offsetof(s.ClosingWait); o != 40 {
		t.Errorf("closing_wait at %d, want 40", o)
	}
	if o := unsafe.Offsetof(c.BufferOverrun); o != 40 {
		t.Errorf("buf_overrun at %d, want 40", o)
	}
	// The request numbers carry the size: 0x30 on MIPS, 0x2c elsewhere.
	if got := uintptr(unix.TCGETS2 >> 16 & 0x1fff); got != want.termios {
		t.Errorf("TCGETS2 is for %d bytes, want %d", got, want.termios)
	}
}

// TestMIPS runs the layout test on the target's architecture. It goes no
// further because qemu-mips answers ENOSYS to the termios2 ioctls.
func TestMIPS(t *testing.T) {
	if unix.VMIN == 4 {
		return // this is that run
	}
	qemu, err := exec.LookPath("qemu-mips")
	if err != nil {
		t.Fatal("qemu-mips is missing: install the package qemu-user")
	}
	bin := filepath.Join(t.TempDir(), "tty.test")
	build := exec.Command("go", "test", "-c", "-o", bin, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build for mips: %v\n%s", err, out)
	}
	if out, err := exec.Command(qemu, bin, "-test.run=Layout", "-test.v").CombinedOutput(); err != nil {
		t.Errorf("on mips: %v\n%s", err, out)
	}
}
