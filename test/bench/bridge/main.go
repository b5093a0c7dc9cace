// Command bridge measures the bridge beside its peers: ser2net, socat and a
// minimal poll loop in C on the host, over pty pairs and loopback, in turns in
// one run; and beside the same loop on the emulated board, in instructions of
// the guest and in time while bulk TCP takes the rest of the machine.
// `make bench-bridge` runs it. Parts qdisc and manage are of their own: the
// bridge beside bulk TCP by two queueing disciplines (`make bench-qdisc`), and what
// metrics and SSH cost, and leave to the bridge (`make bench-manage`).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"gwinit/test/bench"
)

// source is where the C programs are, from the module's root.
const source = "test/bench/bridge"

func main() {
	var (
		gw    = flag.String("gw", "build/gw.host", "gw built for this machine, the `program` that is measured")
		out   = flag.String("out", "build/bench/bridge.json", "`file` for the result")
		n     = flag.Int("n", 7, "runs, each of every program; medians count")
		where = flag.String("only", "", "`part` to measure: host, guest, bulk, qdisc or manage; without it all but the last two")
		svg   = flag.String("svg", "", "`file` for the picture of qdisc")
		image = flag.String("images", "build", "`folder` with rootfs.bin and the binary gw")
		cpus  = flag.String("cpus", "0,1", "`two` CPUs: of the radio and the client, and of the bridge")
	)
	flag.Parse()
	if err := run(*gw, *out, *n, *where, *image, *cpus, *svg); err != nil {
		fmt.Fprintln(os.Stderr, "bench-bridge:", err)
		os.Exit(1)
	}
}

func run(gw, out string, n int, where, images, cpus, svg string) error {
	switch where {
	case "", "host", "guest", "bulk", "qdisc", "manage":
	default:
		return fmt.Errorf("-only %q: want host, guest, bulk, qdisc or manage", where)
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bench-bridge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var rows []bench.Row
	if where == "" || where == "host" {
		var pair [2]int
		if _, err := fmt.Sscanf(cpus, "%d,%d", &pair[0], &pair[1]); err != nil {
			return fmt.Errorf("-cpus %q: want two numbers, as 0,1", cpus)
		}
		more, err := onHost(ctx, dir, gw, n, pair)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	for _, part := range []struct {
		name    string
		measure func(ctx context.Context, dir, images string) ([]bench.Row, error)
	}{{"guest", onGuest}, {"bulk", besideBulk}} {
		if where != "" && where != part.name {
			continue
		}
		sub := filepath.Join(dir, part.name)
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
		more, err := part.measure(ctx, sub, images)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	switch where {
	case "qdisc":
		rows, err = queueing(ctx, dir, images, svg)
	case "manage":
		rows, err = managing(ctx, dir, images)
	}
	if err != nil {
		return err
	}
	show(os.Stdout, rows)
	return bench.Write(out, rows)
}
