//go:build linux

package selftest

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	t.Parallel()
	results := []Result{
		{"cpu", "lw", OK, "20 cases"},
		{"cpu", "mult", Fail, "1 of 20 wrong\nmult, mflo: 3 of 3 runs gave 0x1"},
		{"link", "LL x, SC y", Info, "stored"},
		{"memory", "RAM", Skip, "unknown"},
	}
	var b bytes.Buffer
	p := printer{out: &b}
	p.head(Identity{
		Version: "1.2.3", Quick: true, FileBytes: 4000000, FileCRC32: "00c0ffee", Go: "go1.26.8 linux/mips",
		Board: "lidl (Lidl Gateway)", CPU: "cpu model Lexra LX4380", Kernel: "6.18.51 #1 mips", UID: 0, Uptime: "55.10 s",
	})
	p.group(group{name: "cpu", what: "rules"})
	for _, r := range results {
		p.result(r)
	}
	p.took(1234 * time.Millisecond)
	if err := p.end(Report{Results: results, Counts: count(results), Seconds: 59.6}); err != nil {
		t.Fatal(err)
	}
	const want = `gw selftest 1.2.3 (quick)
file    4000000 bytes, crc32 00c0ffee, go1.26.8 linux/mips
board   lidl (Lidl Gateway)
cpu     cpu model Lexra LX4380
kernel  6.18.51 #1 mips, uptime 55.10 s, uid 0

-- cpu: rules
ok    cpu/lw: 20 cases
FAIL  cpu/mult: 1 of 20 wrong
      | mult, mflo: 3 of 3 runs gave 0x1
info  link/LL x, SC y: stored
skip  memory/RAM: unknown
   1.2 s

1 ok, 1 FAIL, 1 skip, 1 info in 60 s
FAIL cpu/mult: 1 of 20 wrong
verdict: FAIL; please paste everything from the line ` + "`gw selftest`" + ` to here into a report
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestReportThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, quiet := range []bool{false, true} {
		p := printer{out: full{}, quiet: quiet}
		p.head(Identity{})
		if err := p.end(Report{}); err == nil || err.Error() != "full" {
			t.Errorf("quiet %v: %v", quiet, err)
		}
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "proc/cpuinfo", "system type\t\t: RTL8196E\nmachine\t\t\t: Lidl Silvercrest Gateway\nprocessor\t\t: 0\ncpu model\t\t: Lexra LX4380 V0.1\nBogoMIPS\t\t: 398.95\nwait instruction\t: no\nisa\t\t\t: mips1\nASEs implemented\t: mips16\nprocessor : 1\ncpu model : second\n")
	write(t, root, "proc/uptime", "3700.25 3600.00\n")
	write(t, root, "proc/device-tree/model", "Lidl Silvercrest Gateway\x00")
	id := identify(root, "1.2.3", true)
	if id.CPU != "system type RTL8196E, machine Lidl Silvercrest Gateway, cpu model Lexra LX4380 V0.1, BogoMIPS 398.95, isa mips1, ASEs implemented mips16" {
		t.Errorf("cpu %q", id.CPU)
	}
	if id.Uptime != "3700.25 s" || id.Version != "1.2.3" || !id.Quick || !strings.Contains(id.Board, "lidl") || len(id.FileCRC32) != 8 {
		t.Errorf("%+v", id)
	}
	if empty := identify(filepath.Join(root, "none"), "", false); empty.CPU != "" || empty.Uptime != "" || empty.Kernel == "" {
		t.Errorf("%+v", empty)
	}
}

func TestSum(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "f", "123456789")
	if n, crc := sum(filepath.Join(root, "f")); n != 9 || crc != "cbf43926" {
		t.Errorf("%d, %s", n, crc)
	}
	if n, crc := sum(filepath.Join(root, "none")); n != 0 || crc != "" {
		t.Errorf("%d, %s", n, crc)
	}
}
