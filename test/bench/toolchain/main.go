// Command toolchain measures what the toolchain for the RLX4181 makes of the
// same programs as stock Go: instructions executed, code, and flash. `make
// bench-toolchain` runs it.
//
// Instructions are counted by the interpreter of toolchain/rlx/emu: ours under
// the core's rules, the peer's as on a MIPS32 with interlocks, which is what it
// is made for. The peer of the code generator has the mended runtime of ours,
// so that only code is compared; the peer of the sizes is stock Go with its
// default flags.
package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gwinit/rootfs/squashfs"
	"gwinit/test/bench"
	"gwinit/toolchain/rlx/goroot"
)

// work is what is counted, one kind after the other (see work/main.go).
var work = []string{"floats", "sha256", "ed25519", "json", "maps", "sort", "strconv", "text", "big", "bits", "frames", "channels", "mutex", "gc", "time"}

// sized are the programs whose code and flash are compared. The goals are the
// squashfs of our own binary a quarter smaller, text at most 5 % larger.
var sized = []struct{ name, pkg string }{
	{"gw", "./cmd/gwinit"},
	{"work", "./test/bench/toolchain/work"},
	{"net-http", "./test/bench/toolchain/http"},
}

// codegen are the subjects that the code generator's peer does without.
const codegen = "assembler,compiler,atomics"

func main() {
	var (
		out = flag.String("out", "build/bench/toolchain.json", "`file` for the results")
		emu = flag.String("emu", "build/rlxemu", "the interpreter's `program`")
	)
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: toolchain [-out FILE] [-emu PROGRAM] [-- go build's flags of the image]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(context.Background(), *out, *emu, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-toolchain:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, emu string, release []string) error {
	say := func(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }
	ours, err := goroot.Ready(ctx, goroot.Options{Say: say})
	if err != nil {
		return err
	}
	mended, err := goroot.Ready(ctx, goroot.Options{Say: say, Without: strings.Split(codegen, ",")})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-toolchain")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var rows []bench.Row
	counts, err := instructions(ctx, dir, emu, ours, mended)
	if err != nil {
		return err
	}
	rows = append(rows, counts...)
	sizes, err := sizes(ctx, dir, ours, mended, release)
	if err != nil {
		return err
	}
	rows = append(rows, sizes...)
	for _, r := range rows {
		fmt.Printf("%-24s %14.0f %14.0f  %.3f of %s\n", r.Name, r.Value, r.PeerValue, r.Ratio, r.Peer)
	}
	return bench.Write(out, rows)
}

// instructions counts each kind of work less what starting and ending costs.
func instructions(ctx context.Context, dir, emu, ours, mended string) ([]bench.Row, error) {
	const peer = "stock code generator, same runtime"
	a, b := filepath.Join(dir, "work.ours"), filepath.Join(dir, "work.peer")
	if err := build(ctx, ours, a, "./test/bench/toolchain/work"); err != nil {
		return nil, err
	}
	if err := build(ctx, mended, b, "./test/bench/toolchain/work"); err != nil {
		return nil, err
	}
	count := func(mode, program, kind string) (float64, string, error) {
		file := filepath.Join(dir, "count.json")
		said, err := exec.CommandContext(ctx, emu, "-mode", mode, "-count", file, program, kind).CombinedOutput()
		if err != nil {
			return 0, "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), kind, err, said)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, "", err
		}
		var c struct {
			Instructions float64 `json:"instructions"`
		}
		if err := json.Unmarshal(text, &c); err != nil || c.Instructions == 0 {
			return 0, "", fmt.Errorf("%s: no count of instructions in it (%v)", file, err)
		}
		return c.Instructions, string(said), nil
	}
	startOurs, _, err := count("strict", a, "none")
	if err != nil {
		return nil, err
	}
	startPeer, _, err := count("mips32", b, "none")
	if err != nil {
		return nil, err
	}
	rows := []bench.Row{bench.Compare("instructions/start", "instructions", startOurs, peer, startPeer, 1)}
	logs := 0.0
	for _, kind := range work {
		n, said, err := count("strict", a, kind)
		if err != nil {
			return nil, err
		}
		p, peerSaid, err := count("mips32", b, kind)
		if err != nil {
			return nil, err
		}
		if said != peerSaid {
			return nil, fmt.Errorf("%s: ours says %q, stock's %q: one of them computes wrong values", kind, said, peerSaid)
		}
		r := bench.Compare("instructions/"+kind, "instructions", n-startOurs, peer, p-startPeer, 1)
		logs += math.Log(r.Ratio)
		rows = append(rows, r)
	}
	mean := math.Exp(logs / float64(len(work)))
	return append(rows, bench.Compare("instructions/geometric-mean", "ratio", mean, peer, 1, len(work))), nil
}

func sizes(ctx context.Context, dir, ours, mended string, release []string) ([]bench.Row, error) {
	var rows []bench.Row
	for _, p := range sized {
		a, b := filepath.Join(dir, p.name+".ours"), filepath.Join(dir, p.name+".stock")
		if err := build(ctx, ours, a, p.pkg); err != nil {
			return nil, err
		}
		if err := build(ctx, mended, b, p.pkg); err != nil {
			return nil, err
		}
		n, err := text(a)
		if err != nil {
			return nil, err
		}
		m, err := text(b)
		if err != nil {
			return nil, err
		}
		rows = append(rows, bench.Compare("text/"+p.name, "bytes", n, "stock code generator, same flags", m, 1))
		stock := filepath.Join(dir, p.name+".default")
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", stock, p.pkg)
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("stock go build %s: %w\n%s", p.pkg, err, said)
		}
		small := filepath.Join(dir, p.name+".release")
		if err := build(ctx, ours, small, p.pkg, release...); err != nil {
			return nil, err
		}
		n, err = packed(small)
		if err != nil {
			return nil, err
		}
		m, err = packed(stock)
		if err != nil {
			return nil, err
		}
		rows = append(rows, bench.Compare("squashfs/"+p.name, "bytes", n, "stock Go, default flags, -s -w", m, 1))
	}
	return rows, nil
}

func build(ctx context.Context, root, out, pkg string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false"}, flags...)
	if len(flags) == 0 {
		args = append(args, "-ldflags=-s -w")
	}
	if said, err := goroot.Command(ctx, root, append(args, "-o", out, pkg)...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return nil
}

func text(name string) (float64, error) {
	f, err := elf.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	s := f.Section(".text")
	if s == nil {
		return 0, fmt.Errorf("%s: no .text", name)
	}
	return float64(s.Size), nil
}

// packed is a file's size in a squashfs made as the image's is.
func packed(name string) (float64, error) {
	dir, err := os.MkdirTemp(filepath.Dir(name), "packed")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Link(name, filepath.Join(dir, "program")); err != nil {
		return 0, err
	}
	image, err := squashfs.Make(dir, nil, squashfs.Block)
	return float64(len(image)), err
}
