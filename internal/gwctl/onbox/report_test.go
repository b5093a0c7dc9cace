//go:build linux

package onbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/config"
)

// secrets are what must never be in a report, by what they are, with lines that
// hold them as files, logs and programs do.
var secrets = []struct{ secret, line string }{
	{"xTraditional1", "root:xTraditional1:0:0:root:/root:/bin/sh"}, // DES, in passwd
	{"hQ8z5pXoVlYQpGm1", "root:$1$salt$hQ8z5pXoVlYQpGm1:0:0::/root:/bin/sh"},
	{"SHASHASHAcrypt.512", "user $6$rounds=5000$salt$SHASHASHAcrypt.512 logged"},
	{"yescrypt.thing/0", "x $y$j9T$yescrypt.thing/0"},
	{"QGVvcJAgCzYrEw2uTzSPhXAp7dGY4RHTzX6jDo+3CWM=", "PrivateKey = QGVvcJAgCzYrEw2uTzSPhXAp7dGY4RHTzX6jDo+3CWM="},
	{"aPresharedOne", "PresharedKey=aPresharedOne"},
	{"UGVlclByaXZhdGVLZXlXaXRob3V0TmFtZTEyMzQ1Njc4OTA", "wg: UGVlclByaXZhdGVLZXlXaXRob3V0TmFtZTEyMzQ1Njc4OTA"},
	{"00112233445566778899aabbccddeeff", "Network Key: 00112233445566778899aabbccddeeff"},
	{"0e080000000000010000000300001035060004001fffe0", "dataset 0e080000000000010000000300001035060004001fffe0"},
	{"11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff:00", "key 11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff:00"},
	{"J01NME", `{"networkName":"x","pskc": "J01NME","psk":'J01NME'}`},
	{"hunter2", "--password hunter2 -v"},
	{"hunter3", " otbr --psk=hunter3"},
	{"hunter4", `api_token: "hunter4"`},
	{"hunter5", "mqtt://me:hunter5@192.0.2.1:1883"},
	{"0123456789abcdef0123456789abcdef01234567", "1 SHA1 0123456789abcdef0123456789abcdef01234567"},
	{"b3BlbnNzaC1rZXktdjEAAAA", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAA\nc2hvcnQ=\n-----END OPENSSH PRIVATE KEY-----"},
	{"c2hvcnQ=", "the key above"},
	{"AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN9MyXEYRl00CMD1", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN9MyXEYRl00CMD1 me@home"},
}

// plain are what a report is for, and has to keep.
var plain = []string{
	"client 192.0.2.10:5123 connected, the first", "eth0: link up, 100 Mbit/s", "mac 02:11:22:33:44:55", "2001:db8:1234:5678:9abc:def0:1234:5678",
	"login from 192.0.2.10:5 by SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDmGlDWIhQE6RHTzX6", "no default or empty password", "password of root is refused",
	"/sys/devices/platform/soc/18002100.serial/tty/ttyS1", "the key is kept in /userdata/ssh/authorized_keys", "epc=801234ab ra=80123456",
}

// planted is a text with all of them.
func planted() string {
	var b strings.Builder
	for _, s := range secrets {
		b.WriteString(s.line + "\n")
	}
	b.WriteString(strings.Join(plain, "\n") + "\n")
	return b.String()
}

// unpack returns the files of an archive.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = string(b)
	}
}

// Every secret is in everything that a report is made of, and none is in it.
func TestReportWithoutSecrets(t *testing.T) {
	b := gateway(t, lidl, nil)
	files := append([]string{}, reportFiles[:]...)
	for _, s := range config.Settings() {
		files = append(files, s.File)
	}
	for _, name := range []string{"passwd", "shadow", "ntp.keys", "wireguard/wg0.conf", "dropbear/dropbear_ed25519_host_key", "something.conf"} {
		files = append(files, config.Dir+"/"+name)
	}
	files = append(files, "/userdata/ssh/authorized_keys", "/userdata/thread/0_1.data")
	for _, name := range files {
		path := filepath.Join(b.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(planted()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var ran []string
	run := func(_ context.Context, args []string) ([]byte, error) {
		command := strings.Join(args, " ")
		ran = append(ran, command)
		if command == "gwctl -json incidents" {
			return []byte(`[{"number":9,"summary":"x"},{"number":7,"summary":"y"}]`), nil
		}
		if command == "dmesg" {
			return []byte(planted()), errors.New("exit status 1, password: hunter2")
		}
		return []byte(planted()), nil
	}
	var out, errs bytes.Buffer
	if err := Report(t.Context(), b, applet.IO{Out: &out, Err: &errs}, nil, false, run); err != nil {
		t.Fatal(err)
	}
	all := unpack(t, out.Bytes())
	for name, text := range all {
		for _, s := range secrets {
			if strings.Contains(text, s.secret) {
				t.Errorf("%s has %q of %q", name, s.secret, s.line)
			}
		}
		for _, p := range plain {
			if name != "gateway-report/README.txt" && name != "gateway-report/files.txt" && !strings.Contains(text, p) {
				t.Errorf("%s has not %q", name, p)
			}
		}
	}
	for _, c := range reportCommands {
		if all["gateway-report/"+c.file] == "" {
			t.Errorf("no %s of %v", c.file, ran)
		}
	}
	for _, want := range []string{"incident-9.txt", "incident-7.txt", "proc/meminfo", "userdata/etc/radio.conf", "userdata/etc/mac_address"} {
		if all["gateway-report/"+want] == "" {
			t.Errorf("no %s", want)
		}
	}
	for _, never := range []string{"userdata/etc/passwd", "userdata/etc/ntp.keys", "userdata/ssh/authorized_keys", "userdata/thread/0_1.data"} {
		if all["gateway-report/"+never] != "" {
			t.Errorf("%s is in it", never)
		}
		if list := all["gateway-report/files.txt"]; !strings.Contains(list, fmt.Sprintf(" %9d ", len(planted()))) || !strings.Contains(list, `"`+strings.TrimPrefix(never, "userdata")+`"`) {
			t.Errorf("%s is not in the list:\n%s", never, list)
		}
	}
	if text := all["gateway-report/dmesg.txt"]; !strings.HasSuffix(text, "\n-- dmesg: exit status 1, password: [removed]\n") {
		t.Errorf("a command that fails: %q", text[max(0, len(text)-80):])
	}
	if !strings.Contains(errs.String(), "look before you show it") {
		t.Errorf("said %q", errs.String())
	}
}

func TestReportToAFile(t *testing.T) {
	b := gateway(t, lidl, settings)
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	run := func(context.Context, []string) ([]byte, error) { return nil, errors.New("not here") }
	var out bytes.Buffer
	if err := Report(t.Context(), b, applet.IO{Out: &out}, []string{file}, true, run); err != nil || out.String() != `{"file":"`+file+`"}`+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	out.Reset()
	if err := Report(t.Context(), b, applet.IO{Out: &out}, []string{file}, false, run); err != nil || !strings.Contains(out.String(), " KiB of text in "+file+". Passwords") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := Report(t.Context(), b, applet.IO{}, []string{"a", "b"}, false, run); err == nil || err.Error() != "report takes one FILE, or - for standard output" {
		t.Errorf("%v", err)
	}
}

// Whatever a program says, what is left has no more than it and keeps its lines.
func FuzzRedact(f *testing.F) {
	f.Add(planted())
	f.Add("-----BEGIN RSA PRIVATE KEY-----\n")
	r := newRedactor(f.TempDir())
	f.Fuzz(func(t *testing.T, text string) {
		out := r.text([]byte(text))
		if strings.Count(string(out), "\n") < strings.Count(text, "\n") {
			t.Errorf("%q became %q", text, out)
		}
	})
}
