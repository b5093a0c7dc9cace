// Command boot counts what a boot costs: the guest's instructions from the
// kernel's exec of init until port 8888 is listened on, repeatably, on the
// emulated board with QEMU's -icount. `make bench-boot` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"gwinit/test/bench"
	"gwinit/test/board"
)

// The peer is the userland that these gateways have today, on the same board
// and kernel machine: static busybox init with 120 applets, syslogd, udhcpc and
// a C bridge with poll. It was measured once, as a recorded figure; the goal is
// at most 1.5 times its total.
const (
	peer              = "busybox and C (recorded)"
	peerInstructions  = 189.3e6
	peerDecompression = 0.8 * peerInstructions
	goal              = 1.5
)

func main() {
	var (
		rootfs   = flag.String("rootfs", "build/rootfs.bin", "the `image`")
		userdata = flag.String("userdata", "build/userdata.bin", "the `image` of the writable partition")
		out      = flag.String("out", "build/bench/boot.json", "`file` for the result")
		n        = flag.Int("n", 3, "boots; the median counts")
		order    = flag.String("record", "", "count nothing, but write to this `file` what the boot touches, in order: see toolchain/rlx")
		linkMap  = flag.String("map", "build/gw.map", "with -record, the linker's map of the image's binary")
	)
	flag.Parse()
	if *order != "" {
		if err := record(*rootfs, *userdata, *linkMap, *order); err != nil {
			fmt.Fprintln(os.Stderr, "bench-boot:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*rootfs, *userdata, *out, *n); err != nil {
		fmt.Fprintln(os.Stderr, "bench-boot:", err)
		os.Exit(1)
	}
}

func run(rootfs, userdata, out string, n int) error {
	var counts []board.Instructions
	for boot := range n {
		c, err := count(rootfs, userdata, boot)
		if err != nil {
			return err
		}
		fmt.Printf("init to listening on 8888: %.1f M instructions (decompression %.1f, kernel %.1f, user %.1f)\n",
			float64(c.Total())/1e6, float64(c.Decompress)/1e6, float64(c.Kernel)/1e6, float64(c.User)/1e6)
		counts = append(counts, c)
	}
	slices.SortFunc(counts, func(a, b board.Instructions) int { return int(int64(a.Total()) - int64(b.Total())) })
	m := counts[n/2]
	row := func(name string, value uint64, peerValue float64) bench.Row {
		return bench.Compare(name, "instructions", float64(value), peer, peerValue, n)
	}
	rows := []bench.Row{
		row("boot/total", m.Total(), peerInstructions),
		row("boot/decompression", m.Decompress, peerDecompression),
		row("boot/kernel+user", m.Kernel+m.User, peerInstructions-peerDecompression),
	}
	if err := bench.Write(out, rows); err != nil {
		return err
	}
	fmt.Printf("%s: %.2f times the peer's, goal %.1f\n", out, rows[0].Ratio, goal)
	if rows[0].Ratio > goal {
		return fmt.Errorf("a boot costs %.2f times the peer's, more than %.1f: `make layout` records anew what it touches", rows[0].Ratio, goal)
	}
	return nil
}

// count boots once. Two boots of the same number are the same to the
// instruction; another number gives the kernel another seed, and with it Go's
// maps, and threads that are stopped elsewhere.
func count(rootfs, userdata string, boot int) (board.Instructions, error) {
	dir, err := os.MkdirTemp("", "bench-boot")
	if err != nil {
		return board.Instructions{}, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return board.CountBoot(ctx, board.Config{
		Rootfs: rootfs, Userdata: userdata, Dir: dir, Forward: map[int]int{board.BridgePort: 0},
		Append: []string{fmt.Sprintf("bench.boot=%d", boot)},
	}, board.BridgePort)
}
