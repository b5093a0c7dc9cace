// Command size tells what the gateway binary costs: in the 2 MiB rootfs, by
// part, and in zero-filled memory. It is run by `make size` and, with -check,
// by `make image`.
//
// A part's cost is measured by leaving it out: the binary is built again with
// the part's build tag and packed as the image is, and the difference is what
// the part adds to what the others bring anyway.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gwinit/internal/mtdimage"
	"gwinit/rootfs/squashfs"
)

// maxZeroFilled bounds .bss and .noptrbss together, in bytes. A 32 MiB board
// refuses to exec a binary that asks for more memory than it has, and one
// import of crypto/* asks for 32 MiB.
const maxZeroFilled = 1 << 20

// part is something that can be left out of the binary by a build tag.
type part struct{ tag, what string }

var parts = []part{
	{"no_shell", "shell (mvdan.cc/sh, x/term)"},
	{"no_tools", "files, text, process and system tools"},
	{"no_nettools", "ip, ping, netstat (vishvananda/netlink)"},
	{"no_core", "core: eth, DHCP (netlink, insomniacslk/dhcp, net)"},
	{"no_mdns", "mDNS"},
	{"no_clock", "time (NTP)"},
	{"no_panel", "button and LEDs"},
	{"no_metrics", "metrics over HTTP"},
	{"no_syslog", "log to a syslog server"},
	{"no_ethtune", "Ethernet tuning, ethtool, fq_codel"},
	{"no_netwatch", "netwatch"},
	{"no_firewall", "firewall (nftables)"},
	{"no_bench", "bench mode, iperf3's server"},
	{"no_gwctl", "gwctl's command line"},
	{"no_doctor", "gwctl doctor"},
	{"no_backup", "gwctl backup, restore"},
	{"no_report", "gwctl report"},
	{"no_events", "gwctl events"},
	{"no_bridge", "bridge"},
	{"no_otbr", "Thread border router, gwctl thread"},
	{"no_radio", "radio operations: probes, GBL, XMODEM (gwctl radio flash ...)"},
	{"no_sshd", "SSH: sshd, port 22, passwd (x/crypto/ssh, crypto)"},
	{"no_selftest", "selftest"},
	{"no_wireguard", "what runs the WireGuard add-on, gwctl wg"},
}

// addons are programs outside of the rootfs, in /userdata.
var addons = []string{"./cmd/gw-wireguard"}

// budget is the flash that parts still to come may take, in KiB.
var budget = []struct {
	what string
	kib  int
}{
	{"iperf3 server, bench mode", 50},
	{"updates (minisign, slots)", 40},
}

func main() {
	var (
		check  = flag.Bool("check", false, "only check the zero-filled memory")
		gotool = flag.String("go", "build/rlx go", "`command` that is the gateway's go")
		block  = flag.Int("block", squashfs.Block, "squashfs block size in `bytes`")
	)
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: size [flags] BINARY [go build's flags of the binary]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	build := slices.Concat(strings.Fields(*gotool), []string{"build"}, flag.Args()[1:])
	if err := run(flag.Arg(0), *check, build, *block); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

// run measures what build, a go build command without the package, makes.
func run(gw string, checkOnly bool, build []string, block int) error {
	zero, err := zeroFilled(gw)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d KiB of zero-filled memory (limit %d)\n", gw, zero>>10, maxZeroFilled>>10)
	if zero > maxZeroFilled {
		return fmt.Errorf("%s wants %d KiB of zero-filled memory, more than %d: a 32 MiB board refuses to exec it. `go tool nm -size -sort size` on an unstripped build names the array (crypto/internal/fips140/drbg is the usual one)", gw, zero>>10, maxZeroFilled>>10)
	}
	if checkOnly {
		return nil
	}
	dir, err := os.MkdirTemp("", "size")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	with := tagsOf(build)
	alone := filepath.Join(dir, "root")
	if err := os.Mkdir(alone, 0o755); err != nil {
		return err
	}
	bin := filepath.Join(alone, "gw")
	compile := func(program string, tags ...string) error {
		// The last of two -tags counts.
		cmd := exec.Command(build[0], slices.Concat(build[1:], []string{"-tags", strings.Join(tags, ","), "-o", bin, program})...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s with tags %q: %w", program, tags, err)
		}
		return nil
	}
	measure := func(tags ...string) (raw, packed int64, err error) {
		if err := compile("./cmd/gwinit", tags...); err != nil {
			return 0, 0, err
		}
		st, err := os.Stat(bin)
		if err != nil {
			return 0, 0, err
		}
		image, err := squashfs.Make(alone, nil, block)
		return st.Size(), int64(len(image)), err
	}
	raw, packed, err := measure(with...)
	if err != nil {
		return err
	}
	fmt.Printf("\n%-58s %9s %9s\n", "part", "raw KiB", "flash KiB")
	fmt.Printf("%-58s %9d %9d\n", "everything", raw>>10, packed>>10)
	var tags []string
	shared := packed
	for _, p := range parts {
		r, q, err := measure(slices.Concat(with, []string{p.tag})...)
		if err != nil {
			return err
		}
		tags = append(tags, p.tag)
		shared -= packed - q
		fmt.Printf("  %-56s %9d %9d\n", p.what, (raw-r)>>10, (packed-q)>>10)
	}
	r, q, err := measure(slices.Concat(with, tags)...)
	if err != nil {
		return err
	}
	fmt.Printf("  %-56s %9s %9d\n", "needed by several of these (net, json, regexp ...)", "", (shared-q)>>10)
	fmt.Printf("  %-56s %9d %9d\n", "without all of these: PID 1, supervisor, Go runtime", r>>10, q>>10)

	fmt.Printf("\n%-58s %9s %9s\n", "add-ons, in /userdata", "raw KiB", "flash KiB")
	for _, program := range addons {
		if err := compile(program, with...); err != nil {
			return err
		}
		raw, flash, err := inJFFS2(bin)
		if err != nil {
			return err
		}
		fmt.Printf("  %-56s %9d %9d\n", program, raw>>10, flash>>10)
	}

	fmt.Printf("\nbudget of parts to come%35s %9s\n", "", "flash KiB")
	var sum int
	for _, b := range budget {
		fmt.Printf("  %-56s %9s %9d\n", b.what, "", b.kib)
		sum += b.kib
	}
	left := mtdimage.RootfsSize>>10 - int(packed>>10)
	fmt.Printf("left in the partition: %d KiB; budgeted: %d KiB\n", left, sum)
	return perPackage(dir, build)
}

// tagsOf finds the build tags in a go build command.
func tagsOf(build []string) []string {
	if i := slices.Index(build, "-tags"); i >= 0 && i+1 < len(build) {
		return strings.Split(build[i+1], ",")
	}
	return nil
}

// zeroFilled adds up .bss and .noptrbss of an ELF file, in bytes.
func zeroFilled(name string) (uint64, error) {
	f, err := elf.Open(name)
	if err != nil {
		return 0, fmt.Errorf("%w; `make gw` builds it", err)
	}
	defer f.Close()
	var n uint64
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOBITS && s.Flags&elf.SHF_ALLOC != 0 && s.Flags&elf.SHF_TLS == 0 {
			n += s.Size
		}
	}
	if n == 0 {
		return 0, errors.New(name + ": no .bss: not a Go program")
	}
	return n, nil
}

// perPackage prints the packages with the most code and data, uncompressed.
func perPackage(dir string, build []string) error {
	bin := filepath.Join(dir, "gw.syms")
	// The last of two -ldflags counts: with symbols.
	cmd := exec.Command(build[0], slices.Concat(build[1:], []string{"-ldflags=", "-o", bin, "./cmd/gwinit"})...)
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build with symbols: %w\n%s", err, b)
	}
	nm, err := exec.Command("go", "tool", "nm", "-size", bin).Output()
	if err != nil {
		return fmt.Errorf("go tool nm: %w", err)
	}
	sizes := map[string]int64{}
	s := bufio.NewScanner(bytes.NewReader(nm))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 4 || strings.ContainsAny(f[2], "bBU") {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		sizes[packageOf(f[3])] += n
	}
	type row struct {
		pkg string
		n   int64
	}
	var rows []row
	for p, n := range sizes {
		rows = append(rows, row{p, n})
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(b.n, a.n) })
	fmt.Printf("\n%-58s %9s\n", "packages with the most code and data", "raw KiB")
	for _, r := range rows[:min(30, len(rows))] {
		fmt.Printf("  %-56s %9d\n", r.pkg, r.n>>10)
	}
	return nil
}

// packageOf is the import path in a symbol such as
// "gwinit/internal/api.(*Error).Error" or "type:.eq.net/netip.Addr".
func packageOf(sym string) string {
	if i := strings.IndexByte(sym, ':'); i >= 0 && !strings.Contains(sym[:i], "/") {
		return sym[:i] + ": (type and runtime data)"
	}
	slash := strings.LastIndexByte(sym, '/')
	if dot := strings.IndexByte(sym[slash+1:], '.'); dot >= 0 {
		return sym[:slash+1+dot]
	}
	return sym
}

// inJFFS2 is what a file takes in a JFFS2 with zlib: nodes of a page each,
// behind 68 bytes of struct jffs2_raw_inode, at multiples of four.
func inJFFS2(file string) (raw, flash int, err error) {
	const page, header, align = 4096, 68, 4
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	var packed bytes.Buffer
	for chunk := range slices.Chunk(b, page) {
		packed.Reset()
		w := zlib.NewWriter(&packed)
		if _, err := w.Write(chunk); err != nil {
			return 0, 0, err
		}
		if err := w.Close(); err != nil {
			return 0, 0, err
		}
		flash += (header + min(packed.Len(), len(chunk)) + align - 1) / align * align
	}
	return len(b), flash, nil
}
