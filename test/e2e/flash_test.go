//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
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
	"gwinit/test/board"
)

// The kernel reads what gwctl flash has added to a userdata image, on both kernels,
// and the gateway answers what gwctl flash asks it. The board is none that it
// flashes, which it says, and the last thing that it looks at then.
func TestUserdataWithSettings(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 200<<10) // of several erase blocks
	_, _ = rand.Read(big)
	files := map[string][]byte{
		"etc/hostname":        []byte("attic\n"),
		"ssh/authorized_keys": ssh.MarshalAuthorizedKey(signer.PublicKey()),
		"thread/0_58.data":    big,
	}
	onEachKernel(t, func(t *testing.T, on func(*board.Config)) {
		image, err := os.ReadFile(userdataBin)
		if err != nil {
			t.Fatal(err)
		}
		h, flashed, err := mtdimage.Parse(image)
		if err != nil {
			t.Fatal(err)
		}
		area := bytes.Clone(flashed[:len(flashed)-2])
		var add []jffs2.File
		for name, data := range files {
			add = append(add, jffs2.File{Name: name, Mode: 0o100600, MTime: 1e9, Data: data})
		}
		if err := jffs2.Add(area, add, 1e9); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "userdata.bin")
		if err := os.WriteFile(path, mtdimage.Wrap(h, area), 0o600); err != nil {
			t.Fatal(err)
		}
		m := start(t, func(c *board.Config) {
			on(c)
			c.Userdata = path
			c.Forward[board.SSHPort] = 0
		})
		shell(t, m)
		if out := run(t, m, "hostname; dmesg | grep -i jffs2 | grep -ciE 'crc|error|bad|wrong'; true"); !strings.HasPrefix(out, "attic") || !strings.HasSuffix(strings.TrimSpace(out), "0") {
			t.Errorf("host name and JFFS2's complaints: %q", out)
		}
		box := login(t, m.Addr(board.SSHPort), signer)
		archive, err := flash.Settings(t.Context(), box)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]byte{}
		for r := tar.NewReader(bytes.NewReader(archive)); ; {
			e, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got[e.Name], _ = io.ReadAll(r)
		}
		for name, data := range files {
			if !bytes.Equal(got[name], data) {
				t.Errorf("%s: %d bytes, and it was made with %d", name, len(got[name]), len(data))
			}
		}
		var out bytes.Buffer
		err = flash.Run(t.Context(), flash.Env{Name: "attic", Out: &out, Err: &out, Dial: func(context.Context) (flash.Box, error) { return box, nil }}, []string{"-n", rootfsBin})
		if err == nil || !strings.Contains(err.Error(), "no gateway that these images are for") || !strings.Contains(out.String(), "attic runs gwinit ") {
			t.Errorf("%s%v", out.String(), err)
		}
	})
}

// sshLogin is a flash.Box.
type sshLogin struct{ *ssh.Client }

func (l sshLogin) Addr() netip.Addr { return netip.MustParseAddrPort(l.RemoteAddr().String()).Addr() }

func (l sshLogin) Run(ctx context.Context, command string, in io.Reader, out io.Writer) error {
	return flash.RunCommand(ctx, l.Client, command, in, out)
}

// login waits until the gateway lets in.
func login(t *testing.T, addr string, signer ssh.Signer) sshLogin {
	t.Helper()
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(time.Second) {
		c, err := ssh.Dial("tcp", addr, &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: time.Minute})
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return sshLogin{c}
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
