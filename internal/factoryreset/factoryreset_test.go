//go:build linux

package factoryreset

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fill makes a /userdata below a new root.
func fill(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, "userdata", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// files lists what is there.
func files(t *testing.T, root string) (all []string) {
	t.Helper()
	dir := filepath.Join(root, "userdata")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

var everything = map[string]string{
	"etc/mac_address": "02:11:22:33:44:55\n", "etc/eth0.conf": "IPADDR=192.0.2.9\n", "etc/hostname": "cellar\n",
	"etc/passwd": "root:x:0:0::/root:/bin/sh\n", "etc/dropbear/key": "secret", "etc/gateway.conf": "GW_LOG_KIB=64\n",
	"etc/random-seed": "x", "etc/clock": "1", "etc/init.d/S99mine": "#!/bin/sh\n", "etc/a-later-feature.conf": "A=1\n",
	"etc/radio.conf":        "# mine\nFIRMWARE=ncp\nFIRMWARE_BAUD=115200\nMODE=otbr\nBRIDGE_ALLOW=10.0.0.1\n FIRMWARE_FLOW_CTRL = hw\n",
	"ssh/authorized_keys":   "ssh-ed25519 AAAA\n",
	"thread/0_1.data":       "network key",
	"netwatch/budget":       "kept",
	"usr/sbin/otbr-agent":   "program",
	"system/a-copy-of-ours": "program",
}

func TestFactoryReset(t *testing.T) {
	root := fill(t, everything)
	if text := Carry(root); text != "" {
		t.Fatalf("without being asked: %s", text)
	}
	if err := Request(root); err != nil {
		t.Fatal(err)
	}
	text := Carry(root)
	for _, want := range []string{"etc/eth0.conf", "etc/passwd", "etc/dropbear", "ssh", "thread", "etc/a-later-feature.conf", "MAC address"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not tell of %s", text, want)
		}
	}
	want := []string{
		"etc/clock", "etc/init.d/S99mine", "etc/mac_address", "etc/radio.conf", "etc/random-seed",
		"netwatch/budget", "system/a-copy-of-ours", "usr/sbin/otbr-agent",
	}
	if got := files(t, root); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	b, err := os.ReadFile(filepath.Join(root, "userdata/etc/radio.conf"))
	if err != nil || string(b) != "FIRMWARE=ncp\nFIRMWARE_BAUD=115200\n FIRMWARE_FLOW_CTRL = hw\n" {
		t.Errorf("radio.conf: %q, %v", b, err)
	}
	if text := Carry(root); text != "" {
		t.Errorf("a second time: %s", text)
	}
}

// A power cut in the middle is made up for: the wish goes last.
func TestFactoryResetGoesOn(t *testing.T) {
	root := fill(t, everything)
	if err := Request(root); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"etc/hostname", "ssh"} {
		if err := os.RemoveAll(filepath.Join(root, "userdata", gone)); err != nil {
			t.Fatal(err)
		}
	}
	Carry(root)
	if got := files(t, root); slices.Contains(got, "etc/passwd") || slices.Contains(got, "thread/0_1.data") {
		t.Errorf("left are %v", got)
	}
}

func TestFactoryResetOfNothing(t *testing.T) {
	root := fill(t, map[string]string{"netwatch/budget": "kept"})
	if err := Request(root); err != nil {
		t.Fatal(err)
	}
	if text := Carry(root); !strings.Contains(text, "there were no settings") || strings.Contains(text, "NOT DONE") {
		t.Errorf("got %s", text)
	}
}

// What cannot be removed is told, and the wish goes all the same.
func TestFactoryResetTellsWhatIsLeft(t *testing.T) {
	root := fill(t, map[string]string{"etc/radio.conf/a-folder": ""})
	if err := Request(root); err != nil {
		t.Fatal(err)
	}
	if text := Carry(root); !strings.Contains(text, "NOT DONE") || !strings.Contains(text, "radio.conf") {
		t.Errorf("got %s", text)
	}
	if text := Carry(root); text != "" {
		t.Errorf("it would be done at each boot: %s", text)
	}
	if err := Request(t.TempDir()); err == nil {
		t.Error("asked for without a /userdata")
	}
}
