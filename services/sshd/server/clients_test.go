//go:build linux

package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// The clients that people have: OpenSSH's, dropbear's and PuTTY's.

// clientTime is how long one may take: these machines are slow at times.
const clientTime = time.Minute

// client is a user with a key on a disk of their own.
type client struct {
	t          *testing.T
	dir        string
	host, port string
}

func newClient(t *testing.T, b *box) *client {
	t.Helper()
	c := &client{t: t, dir: t.TempDir()}
	c.host, c.port, _ = net.SplitHostPort(b.addr)
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		c.must("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", c.file("id_"+kind))
	}
	b.put("userdata/ssh/authorized_keys", c.read("id_ed25519.pub")+c.read("id_ecdsa.pub")+c.read("id_rsa.pub"))
	return c
}

func (c *client) file(name string) string { return filepath.Join(c.dir, name) }

func (c *client) read(name string) string {
	c.t.Helper()
	b, err := os.ReadFile(c.file(name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// try runs a program and returns what it said, and its status.
func (c *client) try(in, name string, args ...string) (string, int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), clientTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "HOME="+c.dir, "SSH_AUTH_SOCK=")
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (c *client) must(name string, args ...string) string {
	c.t.Helper()
	out, status := c.try("", name, args...)
	if status != 0 {
		c.t.Fatalf("%s %q: status %d\n%s", name, args, status, out)
	}
	return out
}

// options of OpenSSH's programs, which know nothing but what is here.
func (c *client) options(key string, more ...string) []string {
	return append([]string{
		"-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile=" + c.file("known_hosts"),
		"-o", "IdentitiesOnly=yes", "-o", "IdentityFile=" + c.file(key), "-o", "Port=" + c.port,
	}, more...)
}

func TestOpenSSH(t *testing.T) {
	b := newBox(t)
	c := newClient(t, b)
	to := "root@" + c.host
	for _, key := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		if out, status := c.try("", "ssh", c.options(key, to, "status 3")...); status != 3 {
			t.Errorf("%s: %d, %q", key, status, out)
		}
	}
	if out, status := c.try("12345", "ssh", c.options("id_ed25519", to, "count")...); status != 0 || out != "5\n" {
		t.Errorf("input: %d, %q", status, out)
	}
	if out, status := c.try("", "ssh", c.options("id_ed25519", "-tt", to, "tty")...); status != 0 || !strings.Contains(out, "controlling terminal /dev/pts/") {
		t.Errorf("terminal: %d, %q", status, out)
	}
	for _, cipher := range []string{"chacha20-poly1305@openssh.com", "aes256-ctr", "aes128-ctr"} {
		if out, status := c.try("", "ssh", c.options("id_ed25519", "-c", cipher, to, "echo a")...); status != 0 || out != "a\n" {
			t.Errorf("%s: %d, %q", cipher, status, out)
		}
	}
	for _, weak := range []string{"Ciphers=aes128-cbc", "MACs=hmac-sha1", "KexAlgorithms=diffie-hellman-group14-sha1", "HostKeyAlgorithms=ssh-rsa"} {
		if out, status := c.try("", "ssh", c.options("id_ed25519", "-o", weak, "-o", "Ciphers=aes256-ctr", to, "echo a")...); status != 255 || !strings.Contains(out, "no match") {
			t.Errorf("%s: %d, %q", weak, status, out)
		}
	}
	// A key exchange anew in the middle, as after a gigabyte.
	big := strings.Repeat("x", 1<<20)
	if out, status := c.try(big, "ssh", c.options("id_ed25519", "-o", "RekeyLimit=64K", to, "count")...); status != 0 || out != "1048576\n" {
		t.Errorf("rekeying: %d, %q", status, out)
	}
	if out := c.must("ssh-keyscan", "-T", "20", "-p", c.port, c.host); !strings.Contains(out, " ssh-ed25519 ") {
		t.Errorf("ssh-keyscan: %q", out)
	}
}

// The files that travel, by all ways of OpenSSH that there are.
func TestOpenSSHFiles(t *testing.T) {
	b := newBox(t)
	c := newClient(t, b)
	remote := t.TempDir()
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(c.file("up"), content, 0o640); err != nil {
		t.Fatal(err)
	}
	same := func(path string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	to := "root@" + c.host + ":"
	c.must("scp", c.options("id_ed25519", "-s", "-p", c.file("up"), to+remote+"/a")...)
	same(remote + "/a")
	c.must("scp", c.options("id_ed25519", "-s", to+remote+"/a", c.file("down"))...)
	same(c.file("down"))
	c.must("scp", c.options("id_ed25519", "-s", "-r", to+remote, c.file("tree"))...)
	same(c.file("tree/a"))

	// The protocol before SFTP, which `scp` of this version speaks with -O.
	old := append([]string{"-O"}, c.options("id_ed25519")...)
	with := func(args ...string) []string { return append(append([]string{}, old...), args...) }
	c.must("scp", with("-p", c.file("up"), to+remote+"/sub-a")...)
	same(remote + "/sub-a")
	if info, err := os.Stat(remote + "/sub-a"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	c.must("scp", with("-r", c.file("tree"), to+remote+"/")...)
	same(remote + "/tree/a")
	c.must("scp", with("-rp", to+remote+"/tree", c.file("tree2"))...)
	same(c.file("tree2/a"))
	c.must("scp", with(to+remote+"/sub-a", c.file("down2"))...)
	same(c.file("down2"))
	for _, args := range [][]string{with(to+remote+"/none", c.file("x")), with(to+remote+"/tree", c.file("x")), with(c.file("up"), to+"/none/x")} {
		if out, status := c.try("", "scp", args...); status == 0 || !strings.Contains(out, "scp: ") {
			t.Errorf("scp %q: %d, %q", args[len(args)-2:], status, out)
		}
	}
	if err := os.RemoveAll(remote + "/tree"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(remote + "/sub-a"); err != nil {
		t.Fatal(err)
	}

	batch := strings.Join([]string{
		"cd " + remote, "pwd", "ls -la", "mkdir sub", "put " + c.file("up") + " sub/b", "rename sub/b sub/c", "ln -s c sub/link", "chmod 600 sub/c",
		"get sub/link " + c.file("again"), "df", "ls sub", "rm sub/link", "rm sub/c", "rmdir sub", "-get nothing", "-rename a a",
	}, "\n") + "\n"
	out, status := c.try(batch, "sftp", append(c.options("id_ed25519"), "-b", "-", "root@"+c.host)...)
	if status != 0 || !strings.Contains(out, "Remote working directory: "+remote) || !strings.Contains(out, "-rw-r-----") || !strings.Contains(out, `"`+remote+`/nothing" not found`) {
		t.Errorf("sftp: %d\n%s", status, out)
	}
	same(c.file("again"))
	if names, err := os.ReadDir(remote); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

// A forwarding, and a connection that two sessions share.
func TestOpenSSHForwarding(t *testing.T) {
	b := newBox(t)
	c := newClient(t, b)
	at := echo(t)
	if out, status := c.try("to and fro", "ssh", c.options("id_ed25519", "-W", at, "root@"+c.host)...); status != 0 || !strings.HasSuffix(out, "to and fro") {
		t.Errorf("%d, %q", status, out)
	}
}

func TestOpenSSHSetup(t *testing.T) {
	b := newBox(t)
	c := newClient(t, b)
	if err := os.Remove(filepath.Join(b.root, "userdata/ssh/authorized_keys")); err != nil {
		t.Fatal(err)
	}
	code := b.beginSetup()
	answer := c.file("answer")
	if err := os.WriteFile(answer, []byte("#!/bin/sh\necho "+code+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSH_ASKPASS", answer)
	t.Setenv("SSH_ASKPASS_REQUIRE", "force")
	// Of two options the first counts.
	out, status := c.try("", "ssh", append([]string{"-o", "BatchMode=no"}, c.options("id_ed25519", "setup@"+c.host)...)...)
	if status != 0 || !strings.Contains(out, "The key is let in from now on") || !strings.Contains(out, "the key that you offer is let in") {
		t.Errorf("setup: %d, %q", status, out)
	}
	if out, status := c.try("", "ssh", c.options("id_ed25519", "root@"+c.host, "echo in")...); status != 0 || out != "in\n" {
		t.Errorf("%d, %q", status, out)
	}
}

func TestDropbearClient(t *testing.T) {
	b := newBox(t)
	c := newClient(t, b)
	dropbearkey(t, "ed25519", c.file("id_dropbear"))
	line := ""
	for l := range strings.Lines(c.must("dropbearkey", "-y", "-f", c.file("id_dropbear"))) {
		if strings.HasPrefix(l, "ssh-ed25519 ") {
			line = l
		}
	}
	b.put("userdata/ssh/authorized_keys", line)
	out, status := c.try("", "dbclient", "-y", "-i", c.file("id_dropbear"), "-p", c.port, "root@"+c.host, "echo from dropbear")
	if status != 0 || !strings.HasSuffix(out, "from dropbear\n") {
		t.Errorf("%d, %q", status, out)
	}
	if out, status := c.try("", "dbclient", "-y", "-i", c.file("id_dropbear"), "-p", c.port, "root@"+c.host, "status 9"); status != 9 {
		t.Errorf("%d, %q", status, out)
	}
}

func TestPuTTY(t *testing.T) {
	b := newBox(t)
	b.put("userdata/etc/passwd", "root:rl.3StKT.4T8M:0:0::/root:/bin/sh\n")
	c := newClient(t, b)
	key := ssh.FingerprintSHA256(b.s.keys[0].PublicKey())
	out, status := c.try("", "plink", "-batch", "-ssh", "-P", c.port, "-hostkey", key, "-pw", "rasmuslerdorf", "root@"+c.host, "echo from plink")
	if status != 0 || !strings.HasSuffix(out, "from plink\n") {
		t.Errorf("%d, %q", status, out)
	}
	c.must("puttygen", c.file("id_ed25519"), "-o", c.file("id.ppk"))
	out, status = c.try("", "plink", "-batch", "-ssh", "-P", c.port, "-hostkey", key, "-i", c.file("id.ppk"), "root@"+c.host, "status 5")
	if status != 5 {
		t.Errorf("%d, %q", status, out)
	}
	if out, status := c.try("put "+c.file("id_rsa.pub")+" "+c.file("copy")+"\nquit\n", "psftp", "-batch", "-P", c.port, "-hostkey", key, "-i", c.file("id.ppk"), "root@"+c.host); status != 0 || c.read("copy") != c.read("id_rsa.pub") {
		t.Errorf("psftp: %d, %q", status, out)
	}
}
