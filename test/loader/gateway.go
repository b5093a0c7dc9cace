//go:build linux

package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/mtdimage/jffs2"
	"gwinit/internal/mtdimage/squashfs"
	"gwinit/internal/netdev/netlab"
)

// Addresses of an emulated gateway and of the computer beside it.
const (
	GatewayAddr = "192.168.88.88"
	HostAddr    = "192.168.88.10"
	Switch      = "gwbr" // the bridge device
)

// Gateway is a gateway that can be switched on: its loader, and behind it a
// stand-in of the firmware that is in its flash, of dropbear and BusyBox. It is
// on a switch with this network namespace, which has HostAddr/24.
//
// The stand-in is made of this machine's programs, in a root of its own: its
// shell, tar, SSH server and files are those of today's firmware in kind, its
// boothold, devmem, nc, reboot and uname are scripts, and its mtd devices files.
type Gateway struct {
	Flash  []byte // not while it runs
	Loader Config // for its next start in the loader; Flash and Addr are set
	// NoBoothold leaves the script out, as on older firmware.
	NoBoothold bool
	// Ignores the hold word: a loader that is older, or lost its RAM.
	Forgets bool
	Root    string // of the stand-in
	// Ours, if it is given, runs this firmware where that is in the flash, in place
	// of the stand-in: an emulated board on a tap device of this namespace that it
	// joins to Switch. It returns at the board's reset with what the flash holds by
	// then and a reader of the RAM's words.
	Ours func(ctx context.Context, flash []byte) (after []byte, word func(addr uint32) uint32, err error)

	t       testing.TB
	peer    *netlab.Peer
	taps    int
	changed bool // the stand-in's files are newer than the flash's
	off     context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex // guards the rest
	results []Result
	boots   []string // "loader ADDR", "linux", "dead"
	loader  *Loader
}

// NewGateway makes one that is off. files are what its /userdata holds beside what
// is in the flash's JFFS2.
func NewGateway(t testing.TB, flash []byte, files map[string]string) *Gateway {
	t.Helper()
	g := &Gateway{Flash: flash, t: t, Root: t.TempDir()}
	g.peer = netlab.Cable(t, "gwport", "eth0")
	netlab.Run(t, "ip", "link", "add", Switch, "type", "bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", Switch).Run() })
	netlab.Run(t, "ip", "addr", "add", HostAddr+"/24", "dev", Switch)
	netlab.Run(t, "ip", "link", "set", Switch, "up")
	netlab.Run(t, "ip", "link", "set", "gwport", "master", Switch, "up")
	g.peer.Run("ip", "addr", "add", GatewayAddr+"/24", "dev", "eth0")
	g.root()
	g.userdata(files)
	return g
}

func (g *Gateway) write(name, data string, mode fs.FileMode) {
	path := filepath.Join(g.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), mode); err != nil {
		g.t.Fatal(err)
	}
}

// root lays the stand-in's programs down.
func (g *Gateway) root() {
	g.t.Helper()
	for _, program := range []string{"/bin/busybox", "/bin/bash", "/usr/sbin/dropbear"} {
		g.copy(program)
		out, err := exec.Command("ldd", program).Output()
		if err != nil {
			g.t.Fatalf("ldd %s: %v", program, err)
		}
		for f := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(f, "/") {
				g.copy(f)
			}
		}
	}
	list, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		g.t.Fatal(err)
	}
	for a := range strings.FieldsSeq(string(list)) {
		if !slices.Contains([]string{"busybox", "devmem", "nc", "reboot", "uname"}, a) {
			_ = os.Symlink("busybox", filepath.Join(g.Root, "bin", a))
		}
	}
	g.write("bin/devmem", "#!/bin/sh\nif [ $# = 3 ]; then echo $3 >/dram/$1; else cat /dram/$1 2>/dev/null || echo 0x00000000; fi\n", 0o755)
	g.write("bin/nc", "#!/bin/bash\n[ $1 = -u ] && cat >/dev/udp/$4/$5\n", 0o755) // -u -w 1 HOST PORT
	g.write("bin/reboot", "#!/bin/sh\n: >/dram/reboot\n", 0o755)
	g.write("dram/.keep", "", 0o644)
	g.write("proc/device-tree/model", "Lidl Silvercrest Gateway\x00", 0o644)
	g.write("proc/device-tree/reserved-memory/boothold@1ffe000/reg", "\x01\xff\xe0\x00\x00\x00\x10\x00", 0o644)
	g.write("proc/mtd", "dev:    size   erasesize  name\nmtd0: 00020000 00010000 \"boot+cfg\"\nmtd1: 001e0000 00010000 \"linux\"\nmtd2: 00200000 00010000 \"rootfs\"\nmtd3: 00c00000 00010000 \"jffs2-fs\"\n", 0o644)
	for _, link := range [][2]string{{"/userdata/ssh", "root/.ssh"}, {"/userdata/etc/passwd", "etc/passwd"}, {"/userdata/etc/group", "etc/group"}, {"/userdata/usr/bin", "usr/bin"}} {
		_ = os.MkdirAll(filepath.Dir(filepath.Join(g.Root, link[1])), 0o750)
		if err := os.Symlink(link[0], filepath.Join(g.Root, link[1])); err != nil {
			g.t.Fatal(err)
		}
	}
	_ = os.MkdirAll(filepath.Join(g.Root, "dev"), 0o755)
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "urandom": 9, "random": 8} {
		path := filepath.Join(g.Root, "dev", name)
		if err := errors.Join(unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))), os.Chmod(path, 0o666)); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (g *Gateway) copy(path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	g.write(path, string(b), 0o755)
}

// userdata lays /userdata down anew, from the flash, and files.
func (g *Gateway) userdata(files map[string]string) {
	if err := os.RemoveAll(filepath.Join(g.Root, "userdata")); err != nil {
		g.t.Fatal(err)
	}
	g.write("userdata/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0o600)
	g.write("userdata/etc/group", "root:x:0:\n", 0o644)
	i, err := jffs2.Read(g.Flash[0x400000:0xFFFFFE])
	if err != nil {
		g.t.Errorf("userdata in the flash: %v", err)
	}
	for _, f := range i.Files {
		if f.Regular() {
			g.write("userdata/"+f.Name, string(f.Data), fs.FileMode(f.Mode&0o777))
		}
	}
	for name, data := range files {
		g.write("userdata/"+name, data, 0o600)
	}
	if g.NoBoothold {
		return
	}
	g.write("userdata/usr/bin/boothold", `#!/bin/sh
if [ $# = 1 ]; then
	IFS=.
	set -- $1
	printf '0x%02X%02X%02X%02X\n' $1 $2 $3 $4 >/dram/0x01FFEFF4
	echo 0x49505634 >/dram/0x01FFEFF8
fi
echo 0x484F4C44 >/dram/0x01FFEFFC
echo "Boot hold set at 0x01FFEFFC"
`, 0o755)
}

// On switches it on. It stays on, over restarts, until Off.
func (g *Gateway) On() {
	ctx, cancel := context.WithCancel(context.Background())
	g.off, g.done = cancel, make(chan struct{})
	go func() {
		defer close(g.done)
		runtime.LockOSThread() // Pdeathsig is about the thread that started a process
		for ctx.Err() == nil && g.boot(ctx) {
		}
	}()
	g.t.Cleanup(g.Off)
}

// Off takes the power away, and with it what is in RAM.
func (g *Gateway) Off() {
	if g.off == nil {
		return
	}
	g.off()
	<-g.done
	g.off = nil
	_ = os.RemoveAll(filepath.Join(g.Root, "dram"))
	g.write("dram/.keep", "", 0o644)
}

// Boots tells what it started as, so far.
func (g *Gateway) Boots() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.boots)
}

// Results tells how its loaders ended, so far.
func (g *Gateway) Results() []Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.results)
}

// Count is that of the loader that runs, or ran last.
func (g *Gateway) Count(what string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loader == nil {
		return 0
	}
	return g.loader.Count(what)
}

func (g *Gateway) booted(as string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.boots = append(g.boots, as)
}

// word reads what was left in RAM, and clears it.
func (g *Gateway) word(addr string) uint32 {
	path := filepath.Join(g.Root, "dram", addr)
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	_ = os.Remove(path)
	v, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 32)
	return uint32(v)
}

// boot starts it once; false: it is dead.
func (g *Gateway) boot(ctx context.Context) bool {
	hold, mark, ip := g.word("0x01FFEFFC"), g.word("0x01FFEFF8"), g.word("0x01FFEFF4")
	n := int(be(g.Flash, 0x2000C))
	kernel := string(g.Flash[0x20000:0x20004]) == "cs6c" && n >= 2 && n%2 == 0 && n <= 0x1E0000-16 && sum16(g.Flash[0x20010:0x20010+n]) == 0
	if hold == 0x484F4C44 && !g.Forgets || !kernel {
		addr := netip.AddrFrom4([4]byte{192, 168, 1, 6})
		if hold == 0x484F4C44 && mark == 0x49505634 {
			addr = netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)})
		}
		return g.inLoader(ctx, addr)
	}
	return g.linux(ctx)
}

func (g *Gateway) inLoader(ctx context.Context, addr netip.Addr) bool {
	g.booted("loader " + addr.String())
	c := g.Loader
	c.Flash, c.Addr = g.Flash, addr
	g.taps++
	tap := fmt.Sprint("gwtap", g.taps)
	l, err := Open(tap, c)
	if err == nil {
		g.mu.Lock()
		g.loader = l
		g.mu.Unlock()
		defer l.Close()
		out, e := exec.Command("ip", "link", "set", tap, "master", Switch, "up").CombinedOutput()
		if err = e; err != nil {
			err = fmt.Errorf("%w: %s", e, out)
		}
	}
	if err != nil {
		g.t.Errorf("loader: %v", err)
		return false
	}
	r, err := l.Run(ctx)
	g.mu.Lock()
	g.results = append(g.results, r)
	g.mu.Unlock()
	if errors.Is(err, ErrCut) {
		g.booted("cut")
		return false
	}
	if err == nil && slices.ContainsFunc(r.Burnt, func(s string) bool { return s == "userdata" || s == "all but boot" }) {
		g.userdata(nil)
	}
	return err == nil
}

var linuxVersion = regexp.MustCompile(`Linux version (\S+)`)

// linux runs the stand-in until it is told to reboot.
func (g *Gateway) linux(ctx context.Context) bool {
	s, _, err := squashfs.Open(g.Flash[0x200000:0x400000])
	if err != nil {
		g.booted("panic: no root file system")
		<-ctx.Done()
		return false
	}
	if _, err := s.ReadFile("etc/gw-release"); err == nil && g.Ours != nil {
		g.booted("ours")
		return g.ours(ctx)
	}
	g.booted("linux")
	g.changed = true
	for _, name := range []string{"etc/gw-release", "etc/inittab"} {
		_ = os.Remove(filepath.Join(g.Root, name))
		if b, err := s.ReadFile(name); err == nil {
			g.write(name, string(b), 0o644)
		}
	}
	version := "unknown"
	if m := linuxVersion.FindSubmatch(g.Flash[0x20000:0x200000]); m != nil {
		version = string(m[1])
	}
	g.write("bin/uname", "#!/bin/sh\necho "+version+"\n", 0o755)
	for name, at := range map[string][2]int{"mtd0": {0, 0x20000}, "mtd1": {0x20000, 0x200000}, "mtd2": {0x200000, 0x400000}, "mtd3": {0x400000, 0x1000000}} {
		g.write("dev/"+name, string(g.Flash[at[0]:at[1]]), 0o600)
	}
	key := filepath.Join(g.Root, "userdata/etc/dropbear/dropbear_ed25519_host_key")
	if _, err := os.Stat(key); err != nil {
		_ = os.MkdirAll(filepath.Dir(key), 0o700)
		if out, err := exec.Command("dropbearkey", "-t", "ed25519", "-f", key).CombinedOutput(); err != nil {
			g.t.Errorf("dropbearkey: %v\n%s", err, out)
		}
	}
	_ = os.Chmod(filepath.Join(g.Root, "userdata/ssh"), 0o700)
	ended, stop := context.WithCancel(ctx)
	defer stop()
	// A process namespace, so that all of it ends at once, as at a power cut.
	cmd := exec.CommandContext(ended, "nsenter", "-t", g.peer.PID(), "-n", "--", "/usr/sbin/chroot", g.Root,
		"/usr/sbin/dropbear", "-F", "-E", "-s", "-p", "22", "-r", "/userdata/etc/dropbear/dropbear_ed25519_host_key")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		g.t.Errorf("dropbear: %v", err)
		return false
	}
	up := func(state string) { _ = exec.Command("ip", "link", "set", "gwport", state).Run() }
	up("up")
	reboot := filepath.Join(g.Root, "dram/reboot")
	for ctx.Err() == nil {
		if _, err := os.Stat(reboot); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	up("down")
	_ = os.Remove(reboot)
	stop()
	_ = cmd.Wait()
	g.t.Logf("the gateway's dropbear: %s", said.String())
	return ctx.Err() == nil
}

// ours runs Ours, on the files that the stand-in has left.
func (g *Gateway) ours(ctx context.Context) bool {
	if g.changed {
		if err := g.toFlash(); err != nil {
			g.t.Errorf("userdata: %v", err)
			return false
		}
		g.changed = false
	}
	after, word, err := g.Ours(ctx, g.Flash)
	if err != nil {
		if ctx.Err() == nil {
			g.t.Errorf("the emulated board: %v", err)
		}
		return false
	}
	copy(g.Flash, after)
	g.userdata(nil)
	for addr := uint32(0x01FFEFF4); addr <= 0x01FFEFFC; addr += 4 {
		g.write(fmt.Sprintf("dram/0x%08X", addr), fmt.Sprintf("0x%08X\n", word(addr)), 0o644)
	}
	return true
}

// toFlash makes the flash's JFFS2 anew of the stand-in's files.
func (g *Gateway) toFlash() error {
	var all []jffs2.File
	names := g.Files()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		st, err := os.Stat(filepath.Join(g.Root, "userdata", name))
		if err != nil {
			return err
		}
		all = append(all, jffs2.File{Name: name, Mode: 0o100000 | uint32(st.Mode().Perm()), Data: []byte(names[name])})
	}
	area := bytes.Repeat([]byte{0xFF}, 0xC00000-2)
	copy(area, "\x19\x85\x20\x03\x00\x00\x00\x0c\xf0\x60\xdc\x98") // a clean marker
	if err := jffs2.Add(area, all, 0); err != nil {
		return err
	}
	copy(g.Flash[0x400000:], area)
	return nil
}

// Files are what is in its /userdata, by name.
func (g *Gateway) Files() map[string]string {
	all := map[string]string{}
	dir := filepath.Join(g.Root, "userdata")
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err == nil {
				name, _ := filepath.Rel(dir, path)
				all[name] = string(b)
			}
		}
		return nil
	})
	return maps.Clone(all)
}

// Mend takes all faults away from the loader that runs, if it waits, and the next.
func (g *Gateway) Mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Loader.Faults = Faults{}
	if g.loader != nil {
		g.loader.mend()
	}
}
