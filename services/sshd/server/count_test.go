//go:build linux

package server

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/api"
)

// What was counted outlives the process, but for who is connected.
func TestTally(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	kept := func() (n api.SSH) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(root, api.SSHPath))
		if err == nil {
			err = json.Unmarshal(b, &n)
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	one := newTally(root)
	one.add(func(n *api.SSH) { n.Open++; n.Logins++ })
	one.add(func(n *api.SSH) { n.Failed += 2 })
	if got, want := kept(), (api.SSH{Open: 1, Logins: 1, Failed: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	two := newTally(root)
	two.add(func(n *api.SSH) { n.Aborted++ })
	if got, want := kept(), (api.SSH{Logins: 1, Failed: 2, Aborted: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := os.WriteFile(filepath.Join(root, api.SSHPath), []byte(`{"logins":7,"fai`), 0o600); err != nil {
		t.Fatal(err)
	}
	three := newTally(root)
	three.add(func(*api.SSH) {})
	if got := kept(); got != (api.SSH{}) {
		t.Errorf("%+v of a torn file", got)
	}
}

// Connections are counted by how they end.
func TestCounted(t *testing.T) {
	b := newBox(t)
	mine := user(t)
	b.put("userdata/ssh/authorized_keys", line(mine))
	want := api.SSH{Open: 1, Logins: 2, Failed: 1, Aborted: 1}
	b.mustDial("root", ssh.PublicKeys(mine))
	c := b.mustDial("root", ssh.PublicKeys(mine))
	if _, _, err := b.dial("root", ssh.PublicKeys(user(t))); err == nil {
		t.Error("a stranger's key is let in")
	}
	raw, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	raw.Close()
	c.Close()
	counted := func() api.SSH {
		b.s.count.mu.Lock()
		defer b.s.count.mu.Unlock()
		return b.s.count.n
	}
	awaits(t, "counts", func() bool { return counted() == want })
}
