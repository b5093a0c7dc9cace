//go:build linux

package rootfsflash

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/boothold"
	"gwinit/internal/mtd"
)

// Name is the process's, by which the program knows what it is to be.
const Name = "rootfs-flash"

// Where the copy is: on a ramfs of its own, whose pages are in memory and stay.
const (
	ramDir   = "/tmp"
	ramExe   = ramDir + "/" + Name
	ramImage = ramDir + "/rootfs.new"
)

// Exec makes PID 1 the flasher. It is for its last moment, when nothing else runs,
// and returns with an error if it could not be done: nothing is changed then.
func Exec() error {
	exe, err := os.Stat("/proc/self/exe")
	if err != nil {
		return err
	}
	image, err := os.Stat(Staged)
	if err != nil {
		return err
	}
	// A copy of both, and the image once more in what Main reads: the file goes.
	if err := enough("", exe.Size()+image.Size()); err != nil {
		return err
	}
	if err := unix.Mount("ramfs", ramDir, "ramfs", 0, "mode=700"); err != nil {
		return os.NewSyscallError("mount a ramfs", err)
	}
	for to, from := range map[string]string{ramExe: "/proc/self/exe", ramImage: Staged} {
		if err := copyFile(to, from); err != nil {
			return err
		}
	}
	if err := os.Remove(Staged); err != nil {
		return err
	}
	return os.NewSyscallError("exec", unix.Exec(ramExe, []string{Name}, nil))
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil { // before it is executed
		err = e
	}
	return err
}

// feedEvery is how often the watchdog is fed while blocks are written, of which one
// takes a second at most.
const feedEvery = 5 * time.Second

// Main is PID 1 from then on. It does not return.
func Main() {
	debug.SetGCPercent(-1) // there is no more garbage than memory
	board := rtl8196e.Detect("")
	console, err := unix.Open(board.Console.Device, unix.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	say := func(format string, args ...any) {
		if err == nil { // a console that takes nothing loses lines
			_, _ = unix.Write(console, []byte("rootfs: "+fmt.Sprintf(format, args...)+"\r\n"))
		}
	}
	if err := replace(say); err != nil {
		say("FAILED: %v", err)
	}
	// A person may want to read it.
	time.Sleep(2 * time.Second)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {} // the watchdog ends this
}

// replace is all of it. What it says comes from memory, and so does everything that
// it calls from the first erase on.
func replace(say func(string, ...any)) error {
	p, err := mtd.Find("", rtl8196e.PartRootfs)
	if err != nil {
		return err
	}
	file, err := os.ReadFile(ramImage)
	if err != nil {
		return err
	}
	image, err := Check(file, p.SizeBytes)
	if err != nil {
		return err
	}
	if err := p.Nodes(""); err != nil {
		return err
	}
	f, err := p.OpenWrite("")
	if err != nil {
		return err
	}
	if info, err := mtd.ReadInfo(f); err != nil || info.EraseBytes != p.EraseBytes {
		return fmt.Errorf("%s: blocks of %d bytes: %w", p.Name(), info.EraseBytes, err)
	}
	dog, err := os.OpenFile("/dev/watchdog", os.O_WRONLY, 0)
	if err != nil {
		say("no watchdog: %v", err)
	}
	var fed time.Time
	feed := func() {
		if now := time.Now(); dog != nil && now.Sub(fed) > feedEvery {
			fed = now
			_, _ = dog.Write([]byte{0}) // its end of patience says it
		}
	}
	feed()
	release, err := boothold.Guard("")
	if err != nil {
		say("the loader cannot be told to wait if this fails: %v", err)
		release = func() error { return nil }
	}
	if err := unix.Mlockall(unix.MCL_CURRENT); err != nil {
		say("memory is not locked: %v", err) // what there is lies in a ramfs, and nothing is swapped
	}
	say("writing %d bytes to %s; DO NOT SWITCH IT OFF", len(image), p.Name())
	if err := write(mtd.Writer{File: f}, image, int(p.EraseBytes), feed, say); err != nil {
		return fmt.Errorf("%w. The loader waits at its next start: gwctl flash rootfs FILE -loader 192.168.1.6", err)
	}
	say("written and read back; restarting")
	if err := release(); err != nil {
		say("the loader waits at its next start: %v; switch the gateway off and on", err)
	}
	return nil
}
