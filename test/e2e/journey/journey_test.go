//go:build e2e

// Package journey has a gateway go from today's firmware to this one and back, by
// the command line of gwctl alone: its loader is the emulated one, today's firmware a
// stand-in, and this one runs on an emulated board, all on one network, with one
// flash. It needs root, for a network of its own, QEMU and the built images.
package journey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/mtdimage"
	"gwinit/internal/netdev/netlab"
	"gwinit/internal/texttest"
	"gwinit/internal/wait"
	"gwinit/rootfs/squashfs"
	"gwinit/test/board"
	"gwinit/test/loader"
)

func TestMain(m *testing.M) { netlab.Main(m) }

const (
	rootfsBin = "../../../build/rootfs.bin"
	model     = "Lidl Silvercrest Gateway"
	theirs    = "6.18.54-rtl8196e-v4.7.0"
)

// settings are those of somebody who has used today's firmware.
func settings(key string) map[string]string {
	return map[string]string{
		"etc/eth0.conf":        "IPADDR=" + loader.GatewayAddr + "\nNETMASK=255.255.255.0\nGATEWAY=192.168.88.1\nDNS=192.168.88.1\n",
		"etc/hostname":         "attic\n",
		"etc/radio.conf":       "FIRMWARE=ncp\nFIRMWARE_BAUD=115200\n",
		"etc/leds.conf":        "MODE=dim\n",
		"etc/init.d/S95mine":   "#!/bin/sh\n",
		"etc/TZ":               "CET-1CEST\n",
		"ssh/authorized_keys":  key,
		"thread/0_58.data":     strings.Repeat("\x00\x01thread", 300),
		"usr/bin/own-tool":     "#!/bin/sh\necho own\n",
		"etc/mac_address":      "02:11:22:33:44:55\n",
		"etc/netwatch.conf":    "ENABLED=0\nTARGETS=gateway\n",
		"etc/bridge_bind.conf": "",
	}
}

// theirFlash has today's firmware.
func theirFlash(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"etc/inittab": "::sysinit:/etc/init.d/rcS\n", "bin/busybox": "x"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := squashfs.Make(dir, nil, squashfs.Block)
	if err != nil {
		t.Fatal(err)
	}
	text := "Linux version " + theirs + " (builder)\x00" + model + "\x00"
	linux := mtdimage.Wrap(mtdimage.Header{Signature: [4]byte([]byte("cs6c")), Start: 0x80C00000, Burn: 0x20000}, append(bytes.Repeat([]byte("kern"), 5000), text...))
	boot := mtdimage.Wrap(mtdimage.Header{Signature: [4]byte([]byte("boot"))}, append([]byte{0x0B, 0xF0, 0, 4}, make([]byte, 999)...))
	area := bytes.Repeat([]byte{0xFF}, mtdimage.UserdataSize-2)
	copy(area, "\x19\x85\x20\x03\x00\x00\x00\x0c\xf0\x60\xdc\x98") // a clean marker
	b, err := mtdimage.BuildFull(boot, linux, mtdimage.Wrap(mtdimage.RootfsHeader, root), mtdimage.Wrap(mtdimage.UserdataHeader, area))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// user is somebody at a computer beside the gateway, with its key.
type user struct {
	*loader.Gateway
	t      *testing.T
	dir    string
	gwctl  string
	kernel string // of the emulated board

	mu  sync.Mutex
	on  *board.Machine // while it runs this firmware
	all []string       // what its consoles printed
}

// board is Gateway.Ours.
func (u *user) board(ctx context.Context, flash []byte) ([]byte, func(uint32) uint32, error) {
	m, err := board.Start(ctx, board.Config{
		Kernel: u.kernel, Flash: flash, Dir: u.t.TempDir(),
		Netdev: "tap,ifname=gwboard,script=no,downscript=no", Extra: []string{"-no-reboot"},
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		u.mu.Lock()
		u.on, u.all = nil, append(u.all, m.Transcript())
		u.mu.Unlock()
		_ = m.Close()
	}()
	if out, err := exec.CommandContext(ctx, "ip", "link", "set", "gwboard", "master", loader.Switch, "up").CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("%w: %s", err, out)
	}
	if err := m.Console().WaitShell(3 * time.Minute); err != nil {
		return nil, nil, err
	}
	// The board says that it is a gateway, and which.
	const dt = "/sys/firmware/devicetree/base/model"
	if out, status, err := m.Console().RunCommand(`printf '`+model+`\000' >/run/model && mount -o bind /run/model `+dt, time.Minute); err != nil || status != 0 {
		return nil, nil, fmt.Errorf("the board's model: %w, exit status %d: %s", err, status, out)
	}
	u.mu.Lock()
	u.on = m
	u.mu.Unlock()
	if err := m.Wait(ctx); err != nil {
		return nil, nil, err
	}
	after, err := m.ReadFlash()
	if err != nil {
		return nil, nil, err
	}
	return after, func(addr uint32) uint32 {
		w, err := m.Word(addr)
		if err != nil {
			u.t.Error(err)
		}
		return w
	}, nil
}

// command is gwctl's.
func (u *user) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, u.gwctl, args...)
	c.Dir = u.dir
	c.Env = append(os.Environ(), "HOME="+u.dir, "SSH_AUTH_SOCK=", "XDG_CONFIG_HOME=")
	return c
}

func (u *user) args(args ...string) []string {
	return append([]string{"-H", loader.GatewayAddr, "-i", filepath.Join(u.dir, "id"), "-accept-new"}, args...)
}

// do runs gwctl to its end.
func (u *user) do(args ...string) (string, error) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 15*time.Minute)
	defer cancel()
	out, err := u.command(ctx, args...).CombinedOutput()
	u.t.Logf("gwctl %q: %v\n%s", args, err, out)
	return string(out), err
}

func (u *user) must(args ...string) string {
	u.t.Helper()
	out, err := u.do(args...)
	if err != nil {
		u.t.Fatal(err)
	}
	return out
}

// interrupted runs gwctl until the loader has so many blocks, and kills it then.
func (u *user) interrupted(blocks int, args ...string) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 15*time.Minute)
	defer cancel()
	var out texttest.Buffer
	c := u.command(ctx, args...)
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		u.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // it was killed
	}()
	for u.Count("data") < blocks {
		select {
		case <-ended:
			u.t.Fatalf("gwctl %q ended before %d blocks:\n%s", args, blocks, out.String())
		case <-time.After(time.Millisecond):
		}
	}
	_ = c.Process.Kill() // it may have ended
	<-ended
	u.t.Logf("gwctl %q, killed after %d blocks of at least %d:\n%s", args, u.Count("data"), blocks, out.String())
}

// ask runs a command on the gateway by OpenSSH. A login may have to wait until the
// gateway is there.
func (u *user) ask(line string) string {
	u.t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		ctx, cancel := context.WithTimeout(u.t.Context(), 2*time.Minute)
		var errs bytes.Buffer
		_ = os.MkdirAll(filepath.Join(u.dir, ".ssh"), 0o700)
		c := exec.CommandContext(ctx, "ssh", "-F", "none", "-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile="+filepath.Join(u.dir, ".ssh/known_hosts"),
			"-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-i", filepath.Join(u.dir, "id"), "root@"+loader.GatewayAddr, line)
		c.Stderr = &errs
		out, err := c.Output()
		cancel()
		if err == nil {
			return string(out)
		}
		if time.Now().After(end) || strings.Contains(errs.String(), "REMOTE HOST IDENTIFICATION") {
			u.t.Fatalf("ssh %s: %v\n%s", line, err, errs.String())
		}
		wait.For(u.t.Context(), time.Second)
	}
}

// version is that of the firmware that runs.
func (u *user) version() string {
	u.t.Helper()
	return strings.TrimSpace(u.ask("cat /etc/gw-release"))
}

// kept compares settings on the gateway.
func (u *user) kept(want map[string]string) {
	u.t.Helper()
	for name, text := range want {
		if got := u.ask("cat /userdata/" + name); got != text {
			u.t.Errorf("%s is %q, was %q", name, got, text)
		}
	}
	if got := u.ask("hostname"); got != want["etc/hostname"] {
		u.t.Errorf("its name is %q", got)
	}
}

// image is a file with this firmware of another version.
func image(t *testing.T, version string) string {
	t.Helper()
	out := t.TempDir()
	c := exec.Command("make", "--no-print-directory", "image", "OUT="+out, "VERSION="+version)
	c.Dir = "../../.."
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("make image: %v\n%s", err, said)
	}
	return filepath.Join(out, "rootfs.bin")
}

// rootfs is the flash's.
func rootfs(flash []byte, file string) bool {
	b, err := os.ReadFile(file)
	return err == nil && len(b) > 16 && bytes.HasPrefix(flash[0x200000:], b[16:])
}

func TestThereAndBack(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	kernel, err := board.Kernel(ctx, board.KernelFull)
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	gwctl, err := filepath.Abs("../../../build/gwctl")
	if err != nil {
		t.Fatal(err)
	}
	first, err := filepath.Abs(rootfsBin)
	if err != nil {
		t.Fatal(err)
	}
	second := image(t, "99.0-next")
	u := &user{t: t, dir: t.TempDir(), gwctl: gwctl, kernel: kernel}
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(u.dir, "id")).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	key, err := os.ReadFile(filepath.Join(u.dir, "id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	files := settings(string(key))
	before := theirFlash(t)
	u.Gateway = loader.NewGateway(t, bytes.Clone(before), files)
	u.Ours = u.board
	u.Loader.Times.Block = 20 * time.Millisecond
	t.Cleanup(func() {
		u.Off()
		if t.Failed() {
			t.Logf("the consoles said:\n%s", strings.Join(u.all, "\n----\n"))
		}
	})
	u.On()

	u.ask("true") // it is on

	// A copy first, as the guide says; then to this firmware, with an interruption
	// somewhere on the way.
	u.must(u.args("install", "backup", "flash-backup.bin")...)
	if out := u.must(u.args("flash", "-n", first)...); !strings.Contains(out, "S95mine") {
		t.Error("the user's own script is not named")
	}
	u.interrupted(1+rand.N(3000), u.args("flash", "-y", first)...)
	out := u.must("flash", "rootfs", first, "-loader", "192.168.88.6", "-y", "-force")
	if !strings.Contains(out, "written and compared") {
		t.Error("it is not said to be written")
	}
	kept := map[string]string{}
	for _, name := range []string{"etc/eth0.conf", "etc/hostname", "etc/radio.conf", "etc/leds.conf", "etc/TZ", "ssh/authorized_keys", "etc/mac_address", "etc/netwatch.conf"} {
		kept[name] = files[name]
	}
	if v := u.version(); strings.HasPrefix(v, "99.0") {
		t.Errorf("it runs %s", v)
	}
	u.kept(kept)

	// Another version of it. The power goes while it is sent: nothing has happened.
	u.Loader.Faults.DiesAt = uint16(1 + rand.N(3000))
	if out, err := u.do(u.args("flash", "-y", second)...); err == nil || !strings.Contains(out, "Nothing was flashed") {
		t.Errorf("a loader that ended while it was sent: %v", err)
	}
	u.Off()
	if !rootfs(u.Flash, first) {
		t.Fatal("the flash holds something else than before")
	}
	u.Loader.Faults = loader.Faults{}
	u.On()
	if v := u.version(); strings.HasPrefix(v, "99.0") {
		t.Errorf("it runs %s", v)
	}
	u.must(u.args("flash", "-y", second)...)
	if v := u.version(); !strings.HasPrefix(v, "99.0") {
		t.Errorf("it runs %s", v)
	}
	u.kept(kept)

	// And back to today's firmware, by the copy of the beginning, with the settings
	// of now.
	u.must(u.args("config", "set", "leds.MODE=off")...)
	u.must(u.args("flash", "full", "-y", "flash-backup.bin")...)
	u.Off()
	for _, b := range []int{0x200000, 0x20000} {
		if !bytes.Equal(u.Flash[b:b+0x1000], before[b:b+0x1000]) {
			t.Errorf("the flash at %#x is not what it was", b)
		}
	}
	now := u.Files()
	for name, want := range kept {
		if name == "etc/leds.conf" {
			want = "MODE=off\n"
		}
		if now[name] != want {
			t.Errorf("%s is %q, was %q", name, now[name], want)
		}
	}
	t.Logf("it started as %v", u.Boots())
}
