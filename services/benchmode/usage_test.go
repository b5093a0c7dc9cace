//go:build linux

package benchmode

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
)

func TestUntil(t *testing.T) {
	first := &Usage{Processes: map[int]Process{1: {"init", 100e6, 10}, 9: {"gone", 5e9, 5}}, Busy: 50, Total: 1000, Rx: 7, Tx: 3}
	last := &Usage{
		Processes: map[int]Process{1: {"init", 103e6, 40}, 50: {"bench", 900e6, 900}, 60: {"new", 1e6, 2}},
		Busy:      80, Total: 7000, Rx: 127, Tx: 3, pid: 50, before: Process{"bench", 2e6, 30},
	}
	l := first.Until(last, 60*time.Second)
	if near := func(a, b float64) bool { return a > b*0.999 && a < b*1.001 }; !near(l.CPU, 0.01) || !near(l.Wakeups, 62.0/60) || !near(l.Busy, 0.5) || !near(l.Rx, 2) || l.Tx != 0 || l.Seconds != 60 {
		t.Errorf("%+v", l)
	}
	if !l.Quiet {
		t.Error("it is quiet")
	}
	slices.Sort(l.By)
	if want := []string{"bench (process 50): 0.003 %, 0.50/s", "init (process 1): 0.005 %, 0.50/s"}; !slices.Equal(l.By, want) {
		t.Errorf("by %q", l.By)
	}
	for _, p := range []Process{{"cpu", api.BenchQuietCPU/100*60*1e9 + 1, 0}, {"wakeups", 0, api.BenchQuietWakeups*60 + 1}} {
		if l := (&Usage{}).Until(&Usage{Processes: map[int]Process{7: p}}, 60*time.Second); l.Quiet {
			t.Errorf("quiet with %+v", l)
		}
	}
}

// The kernel's own figures of this process and of one that works.
func TestUsage(t *testing.T) {
	y := System{Interface: "lo"}
	first, err := y.Usage()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	var last *Usage
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if last, err = y.Usage(); err != nil {
			t.Fatal(err)
		}
		if p := last.Processes[cmd.Process.Pid]; p.Wakeups > 0 && p.CPU > 1e6 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the shell's usage: %+v", last.Processes[cmd.Process.Pid])
		}
	}
	if p := last.Processes[os.Getpid()]; p.CPU == 0 || p.CPU < last.before.CPU || last.pid != os.Getpid() {
		t.Errorf("of this process %+v, before %+v", p, last.before)
	}
	if last.Total <= first.Total || last.Busy < first.Busy {
		t.Errorf("ticks %d of %d, then %d of %d", first.Busy, first.Total, last.Busy, last.Total)
	}
	if _, ok := last.Processes[2]; ok {
		if b, _ := os.ReadFile("/proc/2/comm"); strings.TrimSpace(string(b)) == "kthreadd" {
			t.Error("the kernel's threads are in it")
		}
	}
}

func TestParseStat(t *testing.T) {
	tests := []struct {
		text   string
		name   string
		parent int
		flags  uint64
		ok     bool
	}{
		{"51 (gw) S 1 51 51 0 -1 4194560 12", "gw", 1, 4194560, true},
		{"7 (a) b (c) R 3 7 7 0 -1 64 1", "a) b (c", 3, 64, true},
		{"2 (kthreadd) S 0 0 0 0 -1 2129984 0", "kthreadd", 0, 2129984, true},
		{"9 (gone) Z 1 9 9 0 -1 4228100 0", "", 0, 0, false},
		{"9 gone S 1 9 9 0 -1 4228100 0", "", 0, 0, false},
		{"", "", 0, 0, false},
		{")(", "", 0, 0, false},
	}
	for _, tt := range tests {
		p, flags, ok := parseStat(tt.text)
		if ok != tt.ok || ok && (p.name != tt.name || p.parent != tt.parent || flags != tt.flags) {
			t.Errorf("%q: %+v, %d, %v", tt.text, p, flags, ok)
		}
	}
	if kernelThread&2129984 == 0 || kernelThread&4194560 != 0 {
		t.Error("the flag of kernel threads")
	}
}

func TestTicksAndPackets(t *testing.T) {
	if busy, total := ticks("cpu  10 1 20 1000 5 3 4 2 77 0\ncpu0 1 1 1 1\n"); busy != 40 || total != 1045 {
		t.Errorf("busy %d of %d", busy, total)
	}
	if busy, total := ticks("what"); busy != 0 || total != 0 {
		t.Errorf("busy %d of %d", busy, total)
	}
	const dev = "Inter-|   Receive\n face |bytes packets\n    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n  eth0:123456 789 0 0 0 0 0 0 654321 987 0 0 0 0 0 0\n"
	if rx, tx := packets(dev, "eth0"); rx != 789 || tx != 987 {
		t.Errorf("packets %d, %d", rx, tx)
	}
	if rx, tx := packets(dev, "wlan0"); rx != 0 || tx != 0 {
		t.Errorf("packets %d, %d", rx, tx)
	}
}

// procfs makes files of a proc file system.
func procfs(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, "proc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLeft(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	root := procfs(t, map[string]string{
		"1/stat":         "1 (init) S 0 1 1 0 -1 4194560",
		"2/stat":         "2 (kthreadd) S 0 0 0 0 -1 2129984",
		self + "/stat":   self + " (bench) S 1 1 1 0 -1 4194560",
		"9000001/stat":   "9000001 (iperf3) S " + self + " 1 1 0 -1 4194560",
		"60/stat":        "60 (sshd) S 1 1 1 0 -1 4194560",
		"61/stat":        "61 (sh) S 60 1 1 0 -1 4194560",
		"62/stat":        "62 (top) S 61 1 1 0 -1 4194560",
		"70/stat":        "70 (otbr-agent) S 1 1 1 0 -1 4194560",
		"70/cmdline":     "/userdata/usr/sbin/otbr-agent\x00-I\x00wpan0\x00",
		"71/stat":        "71 (zombie) Z 1 1 1 0 -1 4194560",
		"72/stat":        "72 (nc) S 70 1 1 0 -1 4194560",
		"net/tcp":        "  sl  local_address\n   0: 00000000:22B8 00000000:0000 0A\n   1: 0F02000A:22B8 0202000A:8C2E 01\n",
		"net/tcp6":       "  sl  local_address\n   0: 00000000000000000000000000000000:22B8 0:0 0A\n   1: 00000000000000000000000000000000:0016 0:0 0A\n",
		"self/something": "",
	})
	left, err := System{Root: root}.Left([]int{60})
	slices.Sort(left)
	want := []string{"/userdata/usr/sbin/otbr-agent -I wpan0 (process 70)", "a listener on tcp/22", "a listener on tcp/8888", "nc (process 72)"}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left %q, %v; want %q", left, err, want)
	}
	if left, err := (System{Root: root}).Left([]int{60, 70}); err != nil || len(left) != 2 {
		t.Errorf("with 70 kept: %q, %v", left, err)
	}
}

func TestFaulty(t *testing.T) {
	log := "<6>[ 1.0] fine\n<4>[ 2.0] WARNING: CPU: 0 PID: 1 at x.c:1\n<1>[ 3.0] Oops[#1]:\n<6>[ 4.0] rtl8196e-eth: BUGless\n"
	if got := faulty([]byte(log)); len(got) != 2 || !strings.Contains(got[0], "WARNING: CPU") || !strings.Contains(got[1], "Oops") {
		t.Errorf("%q", got)
	}
	if got := faulty([]byte(strings.Repeat("BUG: x\n", 100))); len(got) != mostFaults {
		t.Errorf("%d lines", len(got))
	}
}

func TestCount(t *testing.T) {
	c, err := System{}.Count()
	if err != nil {
		t.Fatal(err)
	}
	if c.At == 0 || c.Total == 0 || !strings.Contains(c.Device, "lo:") || !strings.Contains(c.SNMP, "Tcp:") || c.Kernel == "" || strings.Contains(c.Kernel, "\n") {
		t.Errorf("%+v", c)
	}
}

// What the kernel has learnt from a connection is gone.
func TestForgetTCP(t *testing.T) {
	learnt := func() string {
		out, err := exec.Command("ip", "tcp_metrics", "show", "127.0.0.1").CombinedOutput()
		if err != nil && !strings.Contains(string(out), "No such process") { // which is nothing
			t.Fatalf("ip tcp_metrics: %v\n%s", err, out)
		}
		return string(out)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for try := 0; !strings.Contains(learnt(), "127.0.0.1"); try++ {
		if try == 100 {
			t.Fatal("the kernel learns nothing from connections")
		}
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(make([]byte, 1<<16))
		c.Close()
		_, _ = io.Copy(io.Discard, s)
		s.Close()
	}
	// Others may teach it anew at any time.
	for try := 0; ; try++ {
		if err := ForgetTCP(); err != nil {
			t.Fatal(err)
		}
		text := learnt()
		if !strings.Contains(text, "127.0.0.1") {
			return
		}
		if try == 20 {
			t.Fatalf("left: %s", text)
		}
	}
}

func FuzzProcfs(f *testing.F) {
	f.Add("51 (gw) S 1 51 51 0 -1 4194560 12")
	f.Add("cpu  10 1 20 1000 5 3 4 2 77 0\n")
	f.Add("  eth0:123456 789 0 0 0 0 0 0 654321 987 0 0 0 0 0 0\n")
	f.Add("   0: 00000000:22B8 00000000:0000 0A\n")
	f.Add("Name: x\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, _, ok := parseStat(text); ok && !strings.Contains(text, p.name) {
			t.Errorf("name %q", p.name)
		}
		if busy, total := ticks(text); busy > total && total > 1<<32 {
			t.Errorf("%d of %d", busy, total)
		}
		packets(text, "eth0")
		for _, port := range listening(text) {
			if port < 0 || port > 65535 {
				t.Errorf("port %d", port)
			}
		}
		waits([]byte(text))
		faulty([]byte(text))
	})
}
