// Command iperf3 runs the box's iperf3 server and the C one in turns with the
// real client, on this computer, and writes what each moved and what CPU it took
// for a GiB.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"gwinit/test/bench"
)

func main() {
	n := flag.Int("n", 5, "runs of each")
	out := flag.String("out", "build/bench/iperf3.json", "results")
	gw := flag.String("gw", "build/gw.host", "the binary")
	seconds := flag.Int("t", 2, "seconds of a run")
	flag.Parse()
	if err := run(context.Background(), *gw, *out, *n, *seconds); err != nil {
		fmt.Fprintln(os.Stderr, "bench-iperf3:", err)
		os.Exit(1)
	}
}

// ways are the client's options.
var ways = []struct{ name, args string }{
	{"tcp-receive", ""}, {"tcp-send", "-R"}, {"udp-receive", "-u -b 0 -l 1400"}, {"udp-send", "-u -b 0 -l 1400 -R"},
}

func run(ctx context.Context, gw, out string, n, seconds int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ports := [2]string{"5391", "5392"}
	for i, argv := range [][]string{{gw, "iperf3", "-s", "-p", ports[0]}, {"iperf3", "-s", "-p", ports[1]}} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	var rows []bench.Row
	for _, w := range ways {
		var rate, cpu [2][]float64
		for turn := range 2 * n {
			which := (turn + turn/2) % 2 // ABBA
			r, c, err := once(ctx, ports[which], seconds, strings.Fields(w.args))
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			rate[which], cpu[which] = append(rate[which], r), append(cpu[which], c)
		}
		const peer = "iperf3 of Debian, same run"
		rows = append(rows,
			bench.Compare(w.name, "Mbit/s", median(rate[0]), peer, median(rate[1]), n),
			bench.Compare(w.name+"/cpu", "ms/GiB", median(cpu[0]), peer, median(cpu[1]), n))
	}
	for _, r := range rows {
		fmt.Printf("%-18s %10.1f %s, %s %.1f\n", r.Name, r.Value, r.Unit, r.Peer, r.PeerValue)
	}
	return bench.Write(out, rows)
}

// once is one run: Mbit/s as the receiver has it, and ms of the server's CPU for
// each GiB that it moved.
func once(ctx context.Context, port string, seconds int, args []string) (rate, cpu float64, err error) {
	args = append([]string{"-J", "-c", "127.0.0.1", "-p", port, "-t", fmt.Sprint(seconds)}, args...)
	var text []byte
	for range 20 { // the server may be starting
		if text, err = exec.CommandContext(ctx, "iperf3", args...).Output(); err == nil {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	var r struct {
		End struct {
			Sent struct {
				Bytes, Seconds float64
			} `json:"sum_sent"`
			Received struct {
				Bytes   float64
				Seconds float64
				Rate    float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			CPU struct {
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("iperf3 %q: %w", args, err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return 0, 0, err
	}
	moved := r.End.Received.Bytes // by the server
	if slices.Contains(args, "-R") {
		moved = r.End.Sent.Bytes
	}
	if moved <= 0 {
		return 0, 0, fmt.Errorf("iperf3 %q moved nothing", args)
	}
	return r.End.Received.Rate / 1e6, r.End.CPU.Remote / 100 * r.End.Received.Seconds * 1000 / (moved / (1 << 30)), nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
