package flash_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/gwctl/flash"
	"gwinit/internal/mtdimage"
	"gwinit/internal/mtdimage/jffs2"
	"gwinit/internal/netdev/netlab"
	"gwinit/internal/texttest"
	"gwinit/rootfs/squashfs"
	"gwinit/test/loader"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// Images, each with the loader's header.

func rootfs(t testing.TB, files map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := squashfs.Make(dir, nil, squashfs.Block)
	if err != nil {
		t.Fatal(err)
	}
	return mtdimage.Wrap(mtdimage.RootfsHeader, b)
}

// ours is a root file system of this firmware, of some 200 KiB.
func ours(t testing.TB, version string) []byte {
	noise := make([]byte, 200<<10)
	_, _ = rand.Read(noise)
	return rootfs(t, map[string]string{"etc/gw-release": version + "\n", "bin/gw": string(noise)})
}

func todays(t testing.TB) []byte {
	return rootfs(t, map[string]string{"etc/inittab": "::sysinit:/etc/init.d/rcS\n", "bin/busybox": "x"})
}

func kernel(version, model string) []byte {
	text := "Linux version " + version + " (builder)\x00" + model + "\x00"
	return mtdimage.Wrap(mtdimage.Header{Signature: [4]byte([]byte("cs6c")), Start: 0x80C00000, Burn: 0x20000}, append(bytes.Repeat([]byte("kern"), 5000), text...))
}

const (
	theirKernel = "6.18.54-rtl8196e-v4.7.0"
	lidl        = "Lidl Silvercrest Gateway"
	sengled     = "Sengled Smart Hub G4 E39-G8C"
)

func userdata(t testing.TB, files map[string]string) []byte {
	t.Helper()
	b := bytes.Repeat([]byte{0xFF}, mtdimage.UserdataSize-2)
	copy(b, "\x19\x85\x20\x03\x00\x00\x00\x0c\xf0\x60\xdc\x98") // a clean marker
	var all []jffs2.File
	for name, data := range files {
		all = append(all, jffs2.File{Name: name, Mode: 0o100600, Data: []byte(data)})
	}
	if err := jffs2.Add(b, all, 0); err != nil {
		t.Fatal(err)
	}
	return mtdimage.Wrap(mtdimage.UserdataHeader, b)
}

func boot() []byte {
	return mtdimage.Wrap(mtdimage.Header{Signature: [4]byte([]byte("boot"))}, append([]byte{0x0B, 0xF0, 0, 4}, make([]byte, 999)...))
}

// theirFlash is that of a gateway with today's firmware.
func theirFlash(t testing.TB) []byte {
	t.Helper()
	b, err := mtdimage.BuildFull(boot(), kernel(theirKernel, lidl), todays(t), userdata(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func save(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lab is a gateway, and a computer with a key and a folder of its own.
type lab struct {
	*loader.Gateway
	t      *testing.T
	signer ssh.Signer
	line   string // of authorized_keys
	key    string // file
}

// settings are on the gateway.
func settings() map[string]string {
	return map[string]string{
		"etc/radio.conf":        "FIRMWARE_BAUD=460800\n",
		"etc/hostname":          "attic\n",
		"etc/init.d/S10network": "#!/bin/sh\n",
		"etc/init.d/S95mine":    "#!/bin/sh\n",
		"thread/0_58.data":      strings.Repeat("\x00\x01thread", 300),
		"panic/history":         "none\n",
		"photos/cat.jpg":        "cat",
	}
}

// newLab has the gateway on, with this firmware's or today's flash. authorized
// tells whether this computer's key lets in.
func newLab(t *testing.T, change func(g *loader.Gateway)) *lab {
	t.Helper()
	l := &lab{t: t}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err == nil {
		l.signer, err = ssh.NewSignerFromKey(private)
	}
	block, e := ssh.MarshalPrivateKey(private, "")
	if err != nil || e != nil {
		t.Fatal(err, e)
	}
	l.line = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(l.signer.PublicKey())))
	l.key = save(t, "id_ed25519", pem.EncodeToMemory(block))
	if err := os.WriteFile(l.key+".pub", []byte(l.line+" me@here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	files := settings()
	files["ssh/authorized_keys"] = l.line + "\n"
	l.Gateway = loader.NewGateway(t, theirFlash(t), files)
	l.Loader.Times.Block = time.Millisecond
	l.Loader.Log = t.Logf
	if change != nil {
		change(l.Gateway)
	}
	l.On()
	return l
}

// login is a Box.
type login struct{ *ssh.Client }

func (l login) Addr() netip.Addr {
	return netip.MustParseAddrPort(l.RemoteAddr().String()).Addr().Unmap()
}

func (l login) Run(ctx context.Context, command string, in io.Reader, out io.Writer) error {
	return flash.RunCommand(ctx, l.Client, command, in, out)
}

func (l *lab) dial(ctx context.Context) (flash.Box, error) {
	d := net.Dialer{Timeout: 2 * time.Second}
	c, err := d.DialContext(ctx, "tcp", loader.GatewayAddr+":22")
	if err != nil {
		return nil, err
	}
	conn, chans, reqs, err := ssh.NewClientConn(c, loader.GatewayAddr+":22", &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(l.signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	return login{ssh.NewClient(conn, chans, reqs)}, nil
}

// ready waits until the gateway lets in.
func (l *lab) ready() {
	l.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		box, err := l.dial(l.t.Context())
		if err == nil {
			box.Close()
			return
		}
		if time.Now().After(end) {
			l.t.Fatal(err)
		}
	}
}

// env is for flash.Run, with times for which nobody has to wait.
func (l *lab) env(out *texttest.Buffer) flash.Env {
	return flash.Env{
		Name: "attic", Dial: l.dial, Out: out, Err: out,
		Yes:   func(string) (bool, error) { return false, fmt.Errorf("nobody is there") },
		Keys:  func() []string { return []string{l.line} },
		Times: flash.Times{Again: 200 * time.Millisecond, Idle: 1200 * time.Millisecond},
		Waits: flash.Waits{Loader: 30 * time.Second, Firewall: 2 * time.Second, Verdict: 20 * time.Second, Back: 20 * time.Second, Every: 100 * time.Millisecond},
	}
}

// flash runs the command with -y.
func (l *lab) flash(change func(e *flash.Env), args ...string) (string, error) {
	var out texttest.Buffer
	e := l.env(&out)
	if change != nil {
		change(&e)
	}
	err := flash.Run(l.t.Context(), e, append([]string{"-y"}, args...))
	l.t.Logf("flash %v:\n%s%v", args, out.String(), err)
	return out.String(), err
}

// alone is for a gateway that waits in its loader.
func alone(e *flash.Env) { e.Dial = nil }

func (l *lab) wantBoots(want ...string) {
	l.t.Helper()
	if got := l.Boots(); fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("it started as %v, want %v", got, want)
	}
}

func contains(t *testing.T, where string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(where, w) {
			t.Errorf("it does not say %q:\n%s", w, where)
		}
	}
}
