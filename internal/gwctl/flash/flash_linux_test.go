package flash_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/flash"
	"gwinit/internal/gwctl/remote"
	"gwinit/internal/mtdimage"
	"gwinit/internal/netdev/netlab"
	"gwinit/internal/texttest"
	"gwinit/test/loader"
)

// The command line itself, from today's firmware to this one.
func TestCommandLine(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newLab(t, nil)
	l.ready()
	file := save(t, "rootfs.bin", ours(t, "1.0"))
	var out texttest.Buffer
	a := remote.Wrap("test")
	status := a.Execute(t.Context(), applet.IO{In: strings.NewReader(""), Out: &out, Err: &out},
		[]string{"-H", loader.GatewayAddr, "-i", l.key, "-accept-new", "flash", "rootfs", file, "-y"})
	if status != 0 {
		t.Fatalf("exit status %d:\n%s", status, out.String())
	}
	contains(t, out.String(), "runs today's firmware v4.7.0", "board: lidl", "login afterwards: with a key of this computer", "S95mine",
		"saved as gateway-settings-192.168.88.88-", "the loader will wait at 192.168.88.6", "sent: ", "written and compared", "runs gwinit 1.0")
	l.wantBoots("linux", "loader 192.168.88.6", "linux")
	if got, _ := os.ReadFile(file); !bytes.Equal(l.Flash[0x200000:0x200000+len(got)-16], got[16:]) {
		t.Error("the flash holds something else")
	}
	saved, _ := filepath.Glob("gateway-settings-*.tar")
	list, err := exec.Command("tar", append([]string{"tf"}, saved...)...).Output()
	if err != nil || !strings.Contains(string(list), "etc/radio.conf") || !strings.Contains(string(list), "thread/0_58.data") {
		t.Errorf("the archive of settings: %v\n%s", err, list)
	}
	if st, err := os.Stat(saved[0]); err != nil || st.Mode().Perm() != 0o600 {
		t.Error("others may read it")
	}
}

// Each kind, there and back: the flash holds what was sent, and settings stay.
func TestKinds(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newLab(t, nil)
	l.ready()
	before := l.Files()
	whole := func() []byte {
		b, err := mtdimage.BuildFull(boot(), kernel("6.18.60-rtl8196e-v4.8.0", lidl), ours(t, "2.0"), userdata(t, map[string]string{"etc/gateway.conf": "A=1\n"}))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	copied := theirFlash(t) // a copy of a flash: without a trailer
	copy(copied[0x1FFF0:], bytes.Repeat([]byte{0xFF}, 16))
	for _, step := range []struct {
		name string
		file []byte
		runs string
	}{
		{"rootfs", ours(t, "1.0"), "gwinit 1.0, kernel " + theirKernel},
		{"kernel", kernel("6.18.60-rtl8196e-v4.8.0", lidl), "kernel 6.18.60"},
		{"userdata", userdata(t, map[string]string{"etc/radio.conf": "FIRMWARE_BAUD=1\n", "etc/gateway.conf": "A=1\n"}), "gwinit 1.0"},
		{"full", whole(), "gwinit 2.0, kernel 6.18.60"},
		{"full", copied, "today's firmware, kernel " + theirKernel},
	} {
		out, err := l.flash(nil, step.name, save(t, "file", step.file))
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		contains(t, out[strings.Index(out, "is back"):], step.runs)
		if step.name == "userdata" {
			contains(t, out, "LOST: what is in /userdata/photos")
		}
		after := l.Files()
		for _, name := range []string{"etc/radio.conf", "etc/hostname", "thread/0_58.data", "ssh/authorized_keys", "etc/dropbear/dropbear_ed25519_host_key"} {
			if before[name] == "" && !strings.Contains(name, "dropbear") || before[name] != "" && after[name] != before[name] {
				t.Errorf("after %s: %s is not what it was", step.name, name)
			}
		}
		if step.name == "userdata" && after["etc/gateway.conf"] != "A=1\n" {
			t.Error("what the image brings is not there")
		}
	}
	if mtdimage.TrailerOf(l.Flash) != mtdimage.TrailerGood {
		t.Error("a full image has no trailer in the flash")
	}
}

// What a check finds leaves the gateway as it is.
func TestRefused(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newLab(t, nil)
	l.ready()
	good := ours(t, "1.0")
	flipped := bytes.Clone(good)
	flipped[1000] ^= 1
	stray, err := mtdimage.BuildFull(boot(), kernel("1", sengled), good, userdata(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	netlab.Cable(t, "other", "eth0").Run("ip", "addr", "add", "192.168.88.9/24", "dev", "eth0")
	netlab.Run(t, "ip", "link", "set", "other", "master", "gwbr", "up")
	tests := []struct {
		name   string
		file   []byte
		args   []string
		change func()
		undo   func()
		says   string
	}{
		{"damaged", flipped, nil, nil, nil, "checksum is wrong"},
		{"of another kind than was said", good, []string{"kernel"}, nil, nil, "is for rootfs and not for kernel"},
		{"a loader alone", boot(), nil, nil, nil, "as a part of a full image only"},
		{"a kernel for another board", kernel("1", sengled), nil, nil, nil, "is for sengled-e39-g8c"},
		{"in a full image", stray, nil, nil, nil, "is for sengled-e39-g8c"},
		{"a kernel for nobody knows what", kernel("1", ""), nil, nil, nil, "-force flashes it"},
		{"two images", append(bytes.Clone(good), kernel("1", lidl)...), nil, nil, nil, "holds 2 images"},
		{"a rootfs of something else", rootfs(t, map[string]string{"a": "b"}), nil, nil, nil, "neither this firmware's nor today's"},
		{"an address of another network", good, []string{"-loader", "10.0.0.6"}, nil, nil, "is not in this network"},
		{"our own address", good, []string{"-loader", loader.HostAddr}, nil, nil, "is this computer's"},
		{"the gateway's own", good, []string{"-loader", loader.GatewayAddr}, nil, nil, "is the gateway's own"},
		{"an address in use", good, []string{"-loader", "192.168.88.9"}, nil, nil, "somebody has the address"},
		{"the broadcast address", good, []string{"-loader", "192.168.88.255"}, nil, nil, "is the network's own"},
		{"another layout of the flash", good, nil, func() { l.put("proc/mtd", "mtd0: 00020000 00010000 \"boot\"\n") }, func() {
			l.put("proc/mtd", "mtd1: 001e0000 00010000 \"linux\"\nmtd2: 00200000 00010000 \"rootfs\"\nmtd3: 00c00000 00010000 \"jffs2-fs\"\n")
		}, "laid out in another way"},
		{"another board", good, nil, func() { l.put("proc/device-tree/model", "A router\x00") }, func() { l.put("proc/device-tree/model", lidl+"\x00") }, "no gateway that these images are for"},
		{"a key with limits only", good, nil, func() { l.put("userdata/ssh/authorized_keys", "no-pty "+l.line+"\n") }, func() { l.put("userdata/ssh/authorized_keys", l.line+"\n") }, "no key would let anybody in afterwards"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change != nil {
				tt.change()
				defer tt.undo()
			}
			_, err := l.flash(nil, append(tt.args, save(t, "file", tt.file))...)
			if err == nil {
				t.Fatal("it was flashed")
			}
			contains(t, err.Error(), tt.says, "Nothing was changed")
		})
	}
	t.Run("only a look", func(t *testing.T) {
		out, err := l.flash(nil, "-n", save(t, "file", good))
		if err != nil {
			t.Fatal(err)
		}
		contains(t, out, "Would: have attic restart into its loader at 192.168.88.6", "Nothing was changed")
	})
	t.Run("nobody says yes", func(t *testing.T) {
		var out texttest.Buffer
		if err := flash.Run(t.Context(), l.env(&out), []string{save(t, "file", good)}); err == nil {
			t.Fatal("it was flashed")
		}
	})
	l.wantBoots("linux")
	if files, _ := filepath.Glob(filepath.Join(l.Root, "dram/0x*")); len(files) != 0 {
		t.Errorf("words were left for the loader: %v", files)
	}
}

// put changes a file of the running gateway.
func (l *lab) put(name, data string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.Root, name), []byte(data), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// A gateway without a key for us is given one, if that is wanted.
func TestAddKey(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newLab(t, nil)
	l.ready()
	// The login goes on with a key that opens no shell of ours.
	l.put("userdata/ssh/authorized_keys", "no-pty "+l.line)
	out, err := l.flash(nil, "-add-key", save(t, "file", ours(t, "1.0")))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, out, "this computer's key was added")
	if got := l.Files()["ssh/authorized_keys"]; got != "no-pty "+l.line+"\n"+l.line+"\n" {
		t.Errorf("authorized_keys: %q", got)
	}
}

// Without boothold the words are written by devmem, where the kernel says.
func TestDevmem(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newLab(t, func(g *loader.Gateway) { g.NoBoothold = true })
	l.ready()
	if err := os.Remove(filepath.Join(l.Root, "userdata/usr/bin/boothold")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.flash(nil, "-loader", "192.168.88.77", save(t, "file", ours(t, "1.0"))); err != nil {
		t.Fatal(err)
	}
	l.wantBoots("linux", "loader 192.168.88.77", "linux")
}

// What goes wrong at each step, what is said then, and that the command it names
// brings the gateway where it was to go.
func TestFaults(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	tests := map[string]struct {
		faults loader.Faults
		forget bool
		says   []string // of the error; nil: it works all the same
		out    []string
		again  bool // from the loader
		change func(e *flash.Env)
	}{
		"LossyNetwork": {faults: loader.Faults{Lose: func(_ bool, _, block uint16, nth int) bool { return block%100 == 3 && nth <= 2 }}},
		"LostRequest":  {faults: loader.Faults{Lose: func(_ bool, op, _ uint16, nth int) bool { return op == 2 && nth <= 3 }}},
		"LostLastAnswer": {
			faults: loader.Faults{Lose: func(from bool, _, block uint16, _ int) bool { return from && block > 400 }},
			out:    []string{"sent, but for the last answer", "written and compared"},
		},
		"Stops":         {faults: loader.Faults{DiesAt: 100}, says: []string{"stopped answering", "Nothing was flashed", "Switched off and on it starts as before"}},
		"CannotWrite":   {faults: loader.Faults{WriteFails: 64 << 10}, says: []string{"could not write", "Do not switch the gateway off", "waits in its loader at 192.168.88.6"}, again: true},
		"SaysNothing":   {faults: loader.Faults{NoNotice: true}, out: []string{"the loader said nothing", "runs gwinit 1.0"}},
		"Deaf":          {faults: loader.Faults{Deaf: true}, says: []string{"somebody is at 192.168.88.6", "firewall", "Nothing was flashed"}, again: true},
		"ForgetsHold":   {forget: true, says: []string{"came back without waiting", "runs as before"}, change: func(e *flash.Env) { e.Waits.Loader = 4 * time.Second }},
		"PowerCut":      {faults: loader.Faults{CutAt: 100 << 10}, says: []string{"lets nobody log in", "Whether the image was written is not known", "docs/recover.md"}, change: func(e *flash.Env) { e.Waits.Verdict, e.Waits.Back = 3*time.Second, 3*time.Second }},
		"AnotherAnswer": {faults: loader.Faults{NoNotice: true, WriteFails: 1}, says: []string{"lets nobody log in"}, again: true, change: func(e *flash.Env) { e.Waits.Verdict, e.Waits.Back = 3*time.Second, 3*time.Second }},
	}
	for n, tt := range tests {
		t.Run(n, func(t *testing.T) {
			l := newLab(t, func(g *loader.Gateway) { g.Loader.Faults, g.Forgets = tt.faults, tt.forget })
			l.ready()
			file := save(t, "file", ours(t, "1.0"))
			out, err := l.flash(tt.change, file)
			contains(t, out, tt.out...)
			switch {
			case tt.says == nil && err != nil:
				t.Fatal(err)
			case tt.says != nil && err == nil:
				t.Fatal("it says that it worked")
			case err != nil:
				contains(t, err.Error(), tt.says...)
			}
			if !tt.again {
				return
			}
			// The loader waits; what was wrong with it is not any more.
			l.Mend()
			if _, err := l.flash(alone, "-loader", "192.168.88.6", "-force", file); err != nil {
				t.Fatal(err)
			}
			l.ready()
			if boots := l.Boots(); boots[len(boots)-1] != "linux" {
				t.Errorf("it started as %v", boots)
			}
		})
	}
}

// Interrupted in the middle of a userdata upload, the command that is named goes
// on with the settings that were saved.
func TestInterrupted(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newLab(t, nil)
	l.ready()
	file := save(t, "file", userdata(t, map[string]string{"etc/gateway.conf": "A=1\n"}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out texttest.Buffer
	e := l.env(&out)
	go func() {
		for l.Count("data") < 5000 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	err := flash.Run(ctx, e, []string{"-y", file})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v\n%s", err, out.String())
	}
	contains(t, err.Error(), "Nothing was flashed", "go on with: gwctl flash userdata "+file+" -loader 192.168.88.6 -settings gateway-settings-attic-")
	saved, _ := filepath.Glob("gateway-settings-*.tar")
	// The old transfer is forgotten after a while; a new one waits for that.
	if _, err := l.flash(func(e *flash.Env) { e.Dial, e.Waits.Firewall = nil, 40*time.Second }, "userdata", file, "-loader", "192.168.88.6", "-settings", saved[0]); err != nil {
		t.Fatal(err)
	}
	l.ready()
	after := l.Files()
	if after["etc/hostname"] != "attic\n" || after["etc/gateway.conf"] != "A=1\n" || !strings.Contains(after["ssh/authorized_keys"], l.line) {
		t.Errorf("after all: %q", after["etc/hostname"])
	}
}

// A firewall that lets in answers only is found before anything changes.
func TestFirewall(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newLab(t, nil)
	l.ready()
	netlab.Run(t, "nft", "add table inet t; add chain inet t in { type filter hook input priority 0; }; add rule inet t in ct state established,related accept; add rule inet t in meta l4proto udp drop")
	file := save(t, "file", ours(t, "1.0"))
	_, err := l.flash(nil, file)
	if err == nil {
		t.Fatal("it was flashed")
	}
	contains(t, err.Error(), "firewall", "Nothing was changed")
	l.wantBoots("linux")
	// Where that cannot be seen, the loader's silence tells.
	if err := os.Remove(filepath.Join(l.Root, "bin/nc")); err != nil {
		t.Fatal(err)
	}
	_, err = l.flash(nil, file)
	if err == nil {
		t.Fatal("it was flashed")
	}
	contains(t, err.Error(), "somebody is at 192.168.88.6", "firewall", "Nothing was flashed")
	netlab.Run(t, "nft", "flush", "ruleset")
	if _, err := l.flash(func(e *flash.Env) { e.Dial, e.Waits.Firewall = nil, 40*time.Second }, "-loader", "192.168.88.6", "-force", file); err != nil {
		t.Fatal(err)
	}
	l.ready()
}

// A loader cannot be asked for what a login shows.
func TestWithoutALogin(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	l := newLab(t, nil)
	for _, tt := range []struct {
		file []byte
		args []string
		says string
	}{
		{ours(t, "1.0"), nil, "cannot be seen from here"},
		{kernel("1", lidl), nil, "cannot be asked what board it is on"},
		{userdata(t, nil), nil, "has a key that lets you log in afterwards"},
		{ours(t, "1.0"), []string{"-loader", "10.1.1.1"}, "is on no network"},
	} {
		args := append([]string{"-loader", "192.168.88.6", save(t, "file", tt.file)}, tt.args...)
		if _, err := l.flash(alone, args...); err == nil {
			t.Error("it was flashed")
		} else {
			contains(t, err.Error(), tt.says, "Nothing was changed")
		}
	}
	if _, err := l.flash(alone, "-loader", "192.168.88.6", save(t, "file", todays(t))); err == nil {
		t.Error("nobody waits there")
	} else {
		contains(t, err.Error(), "no answer from a loader", "Nothing was flashed")
	}
}
