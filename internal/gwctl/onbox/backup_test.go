//go:build linux

package onbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/backup"
	"gwinit/internal/restore"
)

// gateway is one with a device tree of that model, and files below /userdata.
func gateway(t *testing.T, model string, files map[string]string) Box {
	t.Helper()
	root := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/device-tree/model", model+"\x00")
	for name, text := range files {
		put("userdata/"+name, text)
	}
	return Box{Root: root, Version: "0.1.0-abc", NewHash: sha256.New}
}

func (b Box) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Root, "userdata", name))
	if err != nil {
		return ""
	}
	return string(text)
}

const (
	lidl    = "Lidl Silvercrest Gateway"
	sengled = "Sengled Smart Hub G4"
)

var settings = map[string]string{
	"etc/hostname": "attic\n", "etc/radio.conf": "FIRMWARE_BAUD=460800\n", "etc/mac_address": "02:11:22:33:44:55\n",
	"etc/dropbear/dropbear_ed25519_host_key": "host key", "ssh/authorized_keys": "ssh-ed25519 OLD me", "thread/0_1.data": "network",
}

func backupOf(t *testing.T, b Box) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	var out bytes.Buffer
	if err := Backup(b, applet.IO{Out: &out, Err: &out}, []string{file}, false); err != nil {
		t.Fatal(err)
	}
	if want := "6 files of attic (" + b.board() + ", 0.1.0-abc)\n"; out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
	return file
}

func TestBackupAndRestore(t *testing.T) {
	file := backupOf(t, gateway(t, lidl, settings))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	fresh := map[string]string{"etc/mac_address": "02:aa:aa:aa:aa:aa\n", "etc/eth0.conf": "IPADDR=192.0.2.1\n", "ssh/authorized_keys": "ssh-ed25519 NEW me\n"}
	for _, mac := range []bool{false, true} {
		b := gateway(t, lidl, fresh)
		args := []string{"-y", file}
		if mac {
			args = append(args, "-mac")
		}
		var out bytes.Buffer
		if err := Restore(b, applet.IO{Out: &out}, args, false); err != nil {
			t.Fatal(err)
		}
		if b.file(t, "etc/hostname") != "" || b.file(t, "etc/eth0.conf") == "" {
			t.Error("something changed before the boot")
		}
		files := 5
		want := map[string]string{"etc/mac_address": fresh["etc/mac_address"], "ssh/authorized_keys": "ssh-ed25519 OLD me\nssh-ed25519 NEW me\n", "etc/eth0.conf": ""}
		if mac {
			files, want["etc/mac_address"] = 6, settings["etc/mac_address"]
		}
		said := fmt.Sprintf("%d files of attic (lidl, 0.1.0-abc) from ", files)
		if text := out.String(); !strings.HasPrefix(text, said) || !strings.HasSuffix(text, "; without etc/eth0.conf, which it does not have.\nThey take effect with the next boot: gwctl reboot.\n") {
			t.Errorf("said %q", text)
		}
		if text, want := restore.Carry(b.Root), fmt.Sprintf("restore: %d files put back, 1 removed", files); text != want {
			t.Errorf("%q, want %q", text, want)
		}
		for _, name := range []string{"etc/hostname", "etc/radio.conf", "etc/dropbear/dropbear_ed25519_host_key", "thread/0_1.data"} {
			want[name] = settings[name]
		}
		for name, text := range want {
			if got := b.file(t, name); got != text {
				t.Errorf("%s: %q, want %q", name, got, text)
			}
		}
	}
}

func TestRestoreAsks(t *testing.T) {
	file := backupOf(t, gateway(t, lidl, settings))
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		model  string
		in     string
		args   []string
		err    string // how it begins
		staged bool
		asked  bool
	}{
		{name: "yes", in: "yes\n", args: []string{file}, asked: true, staged: true},
		{name: "no", in: "no\n", args: []string{file}, asked: true, err: "nothing was changed"},
		{name: "a trial", args: []string{"-n", file}},
		{name: "standard input", in: string(archive), args: []string{"-", "-y"}, staged: true},
		{name: "standard input, and no yes", in: string(archive), args: []string{"-"}, err: "standard input cannot be asked as well: add -y"},
		{name: "another kind of board", model: sengled, args: []string{"-y", file}, err: file + ": it is of a board of another kind (lidl), and this one is sengled-e39-g8c: nothing was changed"},
		{name: "cut off", in: string(archive[:len(archive)-9]), args: []string{"-", "-y"}, err: "the backup: " + backup.ErrFormat.Error()},
		{name: "no file", args: []string{"-y"}, err: "restore what? A FILE"},
		{name: "two files", args: []string{"a", "b"}, err: `restore takes -n, -y, -mac and one FILE, or - for standard input; not "b"`},
		{name: "not there", args: []string{"-y", "/no/such"}, err: "open /no/such:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := gateway(t, tt.model, map[string]string{"etc/hostname": "cellar\n"})
			if tt.model == "" {
				b = gateway(t, lidl, map[string]string{"etc/hostname": "cellar\n"})
			}
			var out, errs bytes.Buffer
			err := Restore(b, applet.IO{In: strings.NewReader(tt.in), Out: &out, Err: &errs}, tt.args, false)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if !strings.HasPrefix(said, tt.err) || tt.err == "" && said != "" {
				t.Errorf("error %q, want %q", said, tt.err)
			}
			if asked := strings.HasSuffix(errs.String(), "Take them from the next boot on? (yes/no) "); asked != tt.asked {
				t.Errorf("asked %q", errs.String())
			}
			carried := restore.Carry(b.Root)
			if (carried != "") != tt.staged || (b.file(t, "etc/hostname") == "attic\n") != tt.staged {
				t.Errorf("carried out: %q; hostname %q", carried, b.file(t, "etc/hostname"))
			}
		})
	}
	b := gateway(t, lidl, nil)
	if err := os.RemoveAll(filepath.Join(b.Root, "userdata")); err != nil {
		t.Fatal(err)
	}
	if err := Restore(b, applet.IO{}, []string{"-y", file}, false); !errors.Is(err, restore.ErrNotWritable) {
		t.Errorf("without /userdata: %v", err)
	}
}

func TestBackupForPrograms(t *testing.T) {
	b := gateway(t, lidl, settings)
	if err := os.Symlink("x", filepath.Join(b.Root, "userdata/etc/link")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	var out, errs bytes.Buffer
	if err := Backup(b, applet.IO{Out: &out, Err: &errs}, []string{file}, true); err != nil {
		t.Fatal(err)
	}
	var got backupJSON
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Files != 6 || got.Board != "lidl" || got.File != file || !slices.Equal(got.LeftOut, []string{"etc/link"}) || errs.Len() > 0 {
		t.Errorf("%s, %v, %q", out.String(), err, errs.String())
	}
	out.Reset()
	if err := Restore(b, applet.IO{Out: &out}, []string{"-n", file}, true); err != nil {
		t.Fatal(err)
	}
	var done restoreJSON
	if err := json.Unmarshal(out.Bytes(), &done); err != nil || done.Files != 5 || !done.DryRun || done.Reboot || done.Hostname != "attic" || len(done.Removed) > 0 {
		t.Errorf("%s, %v", out.String(), err)
	}
	// To standard output there is the archive only.
	var archive, words bytes.Buffer
	if err := Backup(b, applet.IO{Out: &archive, Err: &words}, nil, false); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(archive.Bytes(), []byte{0x1f, 0x8b}) || !strings.HasSuffix(words.String(), "6 files of attic (lidl, 0.1.0-abc)\n") || !strings.Contains(words.String(), "/userdata/etc/link") {
		t.Errorf("%d bytes, %q", archive.Len(), words.String())
	}
	if err := Backup(b, applet.IO{}, []string{"-x"}, false); err == nil || err.Error() != "backup takes one FILE, or - for standard output" {
		t.Errorf("%v", err)
	}
	if err := Backup(b, applet.IO{}, []string{"/no/such/b"}, false); err == nil {
		t.Error("into a folder that is not there")
	}
}
