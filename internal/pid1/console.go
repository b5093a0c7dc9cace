package pid1

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// keyWindow is how long a key on the serial console can choose the boot.
const keyWindow = 2 * time.Second

// safeStop bounds the wait for what a safe boot must not run: the shell comes
// all the same.
const safeStop = 12 * time.Second

// bridgeChance is how long the login shell waits for the bridge to listen.
const bridgeChance = 10 * time.Second

// watchConsole waits for a key, then lets the login shell have the console.
// The boot does not wait for it: what a safe boot must not run is stopped again.
func (in *initd) watchConsole() {
	defer in.survive("console")
	defer in.startConsole()
	dev := in.board.Console.Device
	f, err := os.OpenFile(dev, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		in.notice("console: " + err.Error())
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "\r\ngwinit %s: press s within %.0f s for a safe boot, with console and network only\r\n", in.version, keyWindow.Seconds())
	safe, err := readKey(int(f.Fd()), 's', keyWindow)
	if err != nil {
		in.notice("console: " + err.Error())
	}
	if safe {
		in.enterSafe()
	}
}

// startConsole starts the login shell once the bridge listens, or has had its
// time: what the shell needs from flash comes after what the bridge needs.
func (in *initd) startConsole() {
	in.quietKernel()
	ctx, cancel := context.WithTimeout(context.Background(), bridgeChance)
	_ = in.sup.AwaitSettled(ctx, svcBridge) // a bridge that takes longer must not keep a person from the console
	cancel()
	if err := in.sup.Start(context.Background(), svcConsole); err != nil {
		in.notice("console: " + err.Error())
	}
}

// quietKernel keeps all but errors of the kernel off the console, where
// somebody types.
func (in *initd) quietKernel() {
	if err := os.WriteFile("/proc/sys/kernel/printk", []byte("4"), 0); err != nil {
		in.logf("the kernel's messages stay on the console: %v", err)
	}
}

// enterSafe turns this boot into a safe one.
func (in *initd) enterSafe() {
	in.setMode(modeSafe)
	ctx, cancel := context.WithTimeout(context.Background(), safeStop)
	defer cancel()
	for _, s := range services(in.board) {
		if !s.Safe {
			if err := in.sup.Stop(ctx, s.Name); err != nil {
				in.notice("safe mode: " + err.Error())
			}
		}
	}
}

func (in *initd) setMode(mode string) {
	in.mu.Lock()
	in.mode = mode
	in.mu.Unlock()
	in.say("boot mode %s, by the console", mode)
}

// readKey reads a terminal until d is over and reports whether key was pressed,
// once or more, and nothing else but Enter: a line that floats, or somebody's
// typing ahead, chooses nothing. The terminal is as before afterwards.
func readKey(fd int, key byte, d time.Duration) (pressed bool, err error) {
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return false, fmt.Errorf("terminal settings: %w", err)
	}
	raw := *old
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return false, fmt.Errorf("terminal settings: %w", err)
	}
	defer func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, old) }()
	other := false
	var b [64]byte
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left <= 0 {
			return pressed && !other, nil
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return false, fmt.Errorf("wait for a key: %w", err)
		}
		n, err := unix.Read(fd, b[:])
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return false, nil // hung up: nobody is there
		}
		for _, c := range b[:n] {
			switch c {
			case key:
				pressed = true
			case '\r', '\n':
			default:
				other = true
			}
		}
	}
}
