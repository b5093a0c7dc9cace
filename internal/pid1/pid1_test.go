package pid1

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/supervisor"
)

func TestModeByParameter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, cmdline, want string }{
		{"none", "console=ttyS0,38400 root=/dev/mtdblock2", modeNormal},
		{"safe", "console=ttyS0 gw.safe=1", modeSafe},
		{"bare", "gw.safe", modeSafe},
		{"off", "gw.safe=0", modeNormal},
		{"last wins", "gw.safe=1 gw.safe=0", modeNormal},
		{"factory", "gw.factory=1 quiet", modeFactory},
		{"safe before factory", "gw.factory=1 gw.safe=1", modeSafe},
		{"not ours", "safe=1 xgw.safe=1", modeNormal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, "proc"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "proc/cmdline"), []byte(tt.cmdline+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := modeByParameter(root); got != tt.want {
				t.Errorf("modeByParameter of %q = %s, want %s", tt.cmdline, got, tt.want)
			}
		})
	}
}

func TestParseMeminfo(t *testing.T) {
	t.Parallel()
	const sample = "MemTotal:          25492 kB\nMemFree:           12332 kB\nMemAvailable:      17568 kB\nBuffers:             104 kB\nOdd\nHugePages_Total:       x\n"
	want := api.Memory{Total: 25492, Free: 12332, Available: 17568}
	if got := parseMeminfo(sample); got != want {
		t.Errorf("parseMeminfo = %+v, want %+v", got, want)
	}
}

func TestMountPoints(t *testing.T) {
	t.Parallel()
	const sample = "/dev/root / squashfs ro 0 0\nproc /proc proc rw 0 0\n/dev/mtdblock3 /user\\040data jffs2 rw 0 0\nbroken\n"
	want := []string{"/", "/proc", "/user data"}
	if got := mountPoints([]byte(sample)); !slices.Equal(got, want) {
		t.Errorf("mountPoints = %q, want %q", got, want)
	}
}

// The steps that need no privilege, and that a failing one stops none.
func TestMakeRoot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	problems := makeRoot([]step{
		dir{"/a/b", 0o750},
		dir{"/file/below", 0o755}, // cannot be
		symlink{"b", "/a/link"},
		symlink{"elsewhere", "/a/link"}, // stands already: stays
		dir{"/tmp", 0o1777 | os.ModeSticky},
	}, root)
	if len(problems) != 1 || !strings.Contains(problems[0], "mkdir /file/below") {
		t.Errorf("problems = %q, want one about /file/below", problems)
	}
	if target, err := os.Readlink(filepath.Join(root, "a/link")); err != nil || target != "b" {
		t.Errorf("link to %q, %v; want b", target, err)
	}
	for path, mode := range map[string]os.FileMode{"a/b": 0o750, "tmp": 0o777 | os.ModeSticky} {
		if st, err := os.Stat(filepath.Join(root, path)); err != nil || st.Mode()&(os.ModePerm|os.ModeSticky) != mode {
			t.Errorf("%s: mode %v, %v; want %v", path, st.Mode(), err, mode)
		}
	}
}

// In a mount namespace of its own: what is there already is no error, a file
// system that the kernel lacks is replaced.
func TestMountStep(t *testing.T) {
	done := make(chan struct{})
	go func() { // the thread is given up with its namespace
		defer close(done)
		lockThread()
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Errorf("unshare needs root: %v", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			t.Error(err)
			return
		}
		root := t.TempDir()
		for _, m := range []mount{
			{fstype: "tmpfs", path: "/", data: "size=64k"},
			{fstype: "no-such-fs", path: "/", instead: "tmpfs"},
		} {
			if err := m.do(root); err != nil {
				t.Errorf("%v: %v", m, err)
			}
		}
		if err := (mount{fstype: "no-such-fs", path: "/"}).do(root); err == nil {
			t.Error("a file system that does not exist was mounted")
		}
		if err := (node{"/null", unix.S_IFCHR | 0o666, 1, 3}).do(root); err != nil {
			t.Error(err)
		}
		if err := (node{"/null", unix.S_IFCHR | 0o666, 1, 3}).do(root); err != nil {
			t.Errorf("a node that stands already: %v", err)
		}
	}()
	<-done
}

func TestReadKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, typed string
		want        bool
	}{
		{"the key", "s", true},
		{"twice, with Enter", "s\rs\r", true},
		{"among other things", "reboots", false},
		{"noise behind it", "s\xff\x00", false},
		{"nothing", "", false},
		{"only Enter", "\r\r", false},
		{"only others", "qqq", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			master, slave := openPTY(t)
			before, err := unix.IoctlGetTermios(slave, unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			go func() { // a key counts from the moment the terminal gives single ones
				m, err := before, error(nil)
				for m.Lflag&unix.ICANON != 0 {
					time.Sleep(time.Millisecond)
					if m, err = unix.IoctlGetTermios(slave, unix.TCGETS); err != nil {
						return
					}
				}
				_, _ = unix.Write(master, []byte(tt.typed))
			}()
			got, err := readKey(slave, 's', 300*time.Millisecond)
			if err != nil || got != tt.want {
				t.Errorf("readKey = %v, %v; want %v", got, err, tt.want)
			}
			after, err := unix.IoctlGetTermios(slave, unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("the terminal is not as it was: %+v, %v", after, err)
			}
		})
	}
}

func TestWatchdogIsFedAndDisarmedOnlyByHand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "watchdog")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := openWatchdog(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "\x00" {
		t.Errorf("opening wrote %q, want one feeding", b)
	}
	w.disarm()
	if b, _ := os.ReadFile(path); string(b) != "\x00V" {
		t.Errorf("disarm left %q, want the magic V", b)
	}
	if _, err := openWatchdog(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing device was opened")
	}
}

// A console that is stopped (ctrl-S) takes nothing: PID 1 goes on (INV 1).
func TestStoppedConsoleHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	_, slave := openPTY(t)
	if err := unix.IoctlSetInt(slave, unix.TCXONC, unix.TCOOFF); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("/proc/self/fd/%d", slave)
	if !within(10*time.Second, func() { writeConsole(name, strings.Repeat("x", 1<<20)) }) {
		t.Error("a line for a stopped console waits for it")
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	p := newPatience()
	got := 0
	// Calls one behind the other, and side by side, all have their turn.
	turns := make(chan bool)
	for range 50 {
		go func() { turns <- p.try(time.Minute, func() func() { return func() {} }) }()
	}
	for range 50 {
		if !<-turns {
			t.Error("a call beside others was not in time")
		}
	}
	for range 200 {
		if !p.try(time.Minute, func() func() { return func() {} }) {
			t.Fatal("a call right behind another was not in time")
		}
	}
	if !p.try(time.Minute, func() func() { return func() { got = 1 } }) || got != 1 {
		t.Errorf("a call that is in time: got %d", got)
	}
	block := make(chan struct{})
	hang := func() func() { <-block; return func() { got = 2 } }
	for _, call := range []string{"a call that hangs", "a second beside it"} {
		if p.try(time.Millisecond, hang) {
			t.Error(call + " was in time")
		}
	}
	if got != 1 {
		t.Error("what came too late was used")
	}
	close(block)
}

func TestWithin(t *testing.T) {
	t.Parallel()
	if !within(time.Minute, func() {}) {
		t.Error("a quick call did not end")
	}
	block := make(chan struct{})
	defer close(block)
	if within(time.Millisecond, func() { <-block }) {
		t.Error("a call that hangs ended")
	}
}

// The table is one that the supervisor takes, on every board.
func TestServiceTable(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"lidl", "sengled-e39-g8c", "emulated"} {
		b, ok := rtl8196e.ByID(id)
		if !ok {
			t.Fatalf("no board %s", id)
		}
		if _, err := supervisor.New(supervisor.Options{}, services(b)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestShutdownRefusals(t *testing.T) {
	t.Parallel()
	in := &initd{}
	for _, tt := range []struct {
		name string
		args api.ShutdownArgs
		code string
	}{
		{"no action", api.ShutdownArgs{}, api.CodeBadRequest},
		{"unknown action", api.ShutdownArgs{Action: "explode"}, api.CodeBadRequest},
		{"unknown mode", api.ShutdownArgs{Action: "reboot", Mode: "fast"}, api.CodeBadRequest},
		{"power-off has no next boot", api.ShutdownArgs{Action: "poweroff", Mode: "safe"}, api.CodeBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err, ok := in.requestShutdown(tt.args).(*api.Error)
			if !ok || err.Code != tt.code {
				t.Errorf("requestShutdown = %v, want code %s", err, tt.code)
			}
			if in.stopping() {
				t.Error("a refused request began a shutdown")
			}
		})
	}
	in.ending.Store(true)
	if err, ok := in.requestShutdown(api.ShutdownArgs{Action: "reboot"}).(*api.Error); !ok || err.Code != api.CodeBusy {
		t.Errorf("a second shutdown: %v, want busy", err)
	}
}
