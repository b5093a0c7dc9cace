package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want options // without dir
		err  string
	}{
		{
			name: "defaults",
			want: options{kernel: "full", rootfs: "build/rootfs.bin", userdata: "build/userdata.bin", radio: "build/radiosim", bridgePort: 8888, sshPort: 2222, benchPort: 5201},
		},
		{
			name: "the environment",
			env: map[string]string{
				"KERNEL": "vmlinux", "ROOTFS": "r", "USERDATA": "u", "RADIO": "none", "BOARD": "sengled-e39-g8c",
				"BRIDGE_PORT": "1", "SSH_PORT": "2", "BENCH_PORT": "3", "HEADLESS": "1", "RESET": "1",
			},
			want: options{kernel: "vmlinux", rootfs: "r", userdata: "u", board: "sengled-e39-g8c", bridgePort: 1, sshPort: 2, benchPort: 3, headless: true, reset: true},
		},
		{
			name: "a flag goes before the environment", args: []string{"-bridge-port", "7"}, env: map[string]string{"BRIDGE_PORT": "1", "HEADLESS": "0"},
			want: options{kernel: "full", rootfs: "build/rootfs.bin", userdata: "build/userdata.bin", radio: "build/radiosim", bridgePort: 7, sshPort: 2222, benchPort: 5201},
		},
		{name: "no port", env: map[string]string{"SSH_PORT": "ssh"}, err: "SSH_PORT=ssh: not a port number"},
		{name: "port too high", env: map[string]string{"BRIDGE_PORT": "70000"}, err: "not a port number"},
		{name: "no board", env: map[string]string{"BOARD": "tuya"}, err: "lidl or sengled-e39-g8c"},
		{name: "an argument", args: []string{"now"}, err: "not understood"},
		{name: "no flag", args: []string{"-x"}, err: "not defined"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(tt.args, func(name string) string { return tt.env[name] }, io.Discard)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !filepath.IsAbs(got.dir) || !strings.HasSuffix(got.dir, "build/run") {
				t.Errorf("dir %s", got.dir)
			}
			got.dir = ""
			if got != tt.want {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestEscape(t *testing.T) {
	tests := []struct {
		name  string
		typed []string // by read
		keys  string
		end   bool
	}{
		{"plain", []string{"ls\r\x03"}, "ls\r\x03", false},
		{"ctrl-a x", []string{"ab\x01xcd"}, "ab", true},
		{"in two reads", []string{"ab\x01", "X"}, "ab", true},
		{"ctrl-a twice is one", []string{"\x01\x01x"}, "\x01x", false},
		{"ctrl-a and another key", []string{"\x01", "b"}, "\x01b", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var e escape
			var keys string
			var end bool
			for _, s := range tt.typed {
				k, x := e.filter([]byte(s))
				keys, end = keys+string(k), x
			}
			if keys != tt.keys || end != tt.end {
				t.Errorf("got %q %v, want %q %v", keys, end, tt.keys, tt.end)
			}
		})
	}
}

func TestTyped(t *testing.T) {
	tests := []struct {
		name, in, sent string
		end            bool
	}{
		{"end of input", "abc", "abc", false},
		{"ctrl-a x", "abc\x01x", "abc", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := w.WriteString(tt.in); err != nil {
				t.Fatal(err)
			}
			w.Close()
			var sent string
			end := typed(t.Context(), int(r.Fd()), func(s string) error { sent += s; return nil })
			if sent != tt.sent || end != tt.end {
				t.Errorf("got %q %v, want %q %v", sent, end, tt.sent, tt.end)
			}
		})
	}
	t.Run("ctx ends", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if typed(ctx, int(r.Fd()), func(string) error { return nil }) {
			t.Error("nobody typed ctrl-a x")
		}
	})
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if pid, err := owner(dir); pid != 0 || err != nil {
		t.Errorf("before: %d %v", pid, err)
	}
	lock, err := acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(dir); !errors.Is(err, errRunning) {
		t.Errorf("second: %v", err)
	}
	if pid, err := owner(dir); pid != os.Getpid() || err != nil {
		t.Errorf("owner %d %v, we are %d", pid, err, os.Getpid())
	}
	lock.Close()
	if pid, err := owner(dir); pid != 0 || err != nil {
		t.Errorf("after: %d %v", pid, err)
	}
	var out strings.Builder
	if err := stopRunning(options{dir: dir}, &out); err != nil || out.String() != "no gateway runs here\n" {
		t.Errorf("stop with nothing to stop: %q %v", out.String(), err)
	}
	if err := status(options{dir: dir}, &out); !errors.Is(err, errNotRunning) {
		t.Errorf("status with nothing to ask: %v", err)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := portFree(port, "SSH_PORT"); err == nil || !strings.Contains(err.Error(), "make run SSH_PORT=") {
		t.Errorf("in use: %v", err)
	}
	l.Close()
	if err := portFree(port, "SSH_PORT"); err != nil {
		t.Errorf("free: %v", err)
	}
}

func TestUnknownCommand(t *testing.T) {
	err := run(t.Context(), []string{"boot"}, func(string) string { return "" }, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "run|stop|status") {
		t.Errorf("got %v", err)
	}
}

func TestMissingRootfs(t *testing.T) {
	_, err := open(t.Context(), options{dir: t.TempDir(), rootfs: "/nonexistent"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "make image") {
		t.Errorf("got %v", err)
	}
}
