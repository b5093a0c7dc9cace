package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gwinit/test/bench"
	"gwinit/test/board"
)

const (
	qdiscPairs  = 6 // of turns; even, for each discipline to be first as often
	qdiscFrames = 150
	// The queue is the board's own: its way out is made narrower than what it
	// can send on a busy host, in bytes a second, and that many connections
	// fill it.
	qdiscRate        = 5_000_000 / 8
	qdiscConnections = 8
	// warm is what has to have arrived before frames are timed: by then the
	// connections send as fast as they may.
	warm = 512 << 10
)

// The disciplines, and what the frames meet beside them.
const (
	leafFQ   = "fq_codel"
	leafFIFO = "pfifo"
	leafNone = "alone"
)

var leaves = []string{leafFIFO, leafFQ}

// beside is one turn: round trips of frames while bulk TCP leaves the board, and
// its speed in Mbit/s.
type beside struct {
	trips []time.Duration // sorted
	mbit  float64
}

// queueing times frames through the bridge while bulk TCP fills a queue on the
// board's way out, by each discipline in turns on one boot.
func queueing(ctx context.Context, dir, images, svg string) (rows []bench.Row, err error) {
	userdata, err := withShape(ctx, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 45*time.Minute)
	defer cancel()
	g, err := startGuest(ctx, boardConfig(dir, images, userdata), "shape")
	if err != nil {
		return nil, err
	}
	defer func() { err = g.end(err) }()
	// The tuner leaves a discipline alone that is not its own.
	if err := g.run("gwctl eth queue default -try"); err != nil {
		return nil, err
	}
	if err := g.connect(ctx, board.BridgePort); err != nil {
		return nil, err
	}
	defer g.client.Close()
	turns := map[string][]beside{}
	for pair := range qdiscPairs {
		alone, err := g.trips(qdiscFrames)
		if err != nil {
			return nil, err
		}
		turns[leafNone] = append(turns[leafNone], beside{trips: alone})
		for i := range leaves {
			leaf := leaves[(i+pair)%len(leaves)]
			t, err := g.filled(leaf)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", leaf, err)
			}
			turns[leaf] = append(turns[leaf], t)
			fmt.Printf("qdisc: %-8s beside %.1f Mbit/s p50 %.0f p99 %.0f us, alone p50 %.0f p99 %.0f us\n", leaf, t.mbit,
				percentile(t.trips, .5), percentile(t.trips, .99), percentile(alone, .5), percentile(alone, .99))
		}
	}
	if svg != "" {
		if err := os.WriteFile(svg, picture(turns), 0o644); err != nil {
			return nil, err
		}
	}
	return queueingRows(turns), nil
}

func queueingRows(turns map[string][]beside) (rows []bench.Row) {
	for _, m := range []struct {
		name, unit string
		of         func(beside) float64
	}{
		{"round-trip-p50", "us", func(t beside) float64 { return percentile(t.trips, .5) }},
		{"round-trip-p99", "us", func(t beside) float64 { return percentile(t.trips, .99) }},
		{"throughput", "Mbit/s", func(t beside) float64 { return t.mbit }},
	} {
		pick := func(leaf string) (v []float64) {
			for _, t := range turns[leaf] {
				v = append(v, m.of(t))
			}
			return v
		}
		rows = append(rows, paired("qdisc/"+m.name, m.unit, pick(leafFQ), leafFIFO, pick(leafFIFO)))
		if m.unit == "us" {
			rows = append(rows, paired("qdisc/"+m.name, m.unit, pick(leafFQ), leafNone, pick(leafNone)))
		}
	}
	return rows
}

// withShape makes a writable partition that has shape in it.
func withShape(ctx context.Context, dir string) (image string, err error) {
	stage := filepath.Join(dir, "userdata")
	if err := os.CopyFS(stage, os.DirFS("rootfs/skeleton/userdata")); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(stage, "shape"), "./"+source+"/shape")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build shape: %w\n%s", err, out)
	}
	return bench.Userdata(ctx, dir, stage)
}

// filled is a turn with that leaf.
func (g *guest) filled(leaf string) (t beside, err error) {
	if err := g.run(fmt.Sprintf("/tmp/shape set eth0 %d %s", qdiscRate, leaf)); err != nil {
		return t, err
	}
	d, err := g.flood(qdiscConnections)
	if err != nil {
		return t, err
	}
	var from, to int64
	var began time.Time
	if err = d.await(warm); err == nil {
		from, began = d.bytes.Load(), time.Now()
		t.trips, err = g.trips(qdiscFrames)
		to = d.bytes.Load()
	}
	t.mbit = float64(to-from) * 8 / 1e6 / time.Since(began).Seconds()
	if err == nil && to == from {
		err = errors.New("bulk TCP: no byte beside the frames")
	}
	return t, errors.Join(err, d.close(), g.run("/tmp/shape clear eth0"))
}

// drain reads from bulk connections as fast as it can.
type drain struct {
	conns []net.Conn
	bytes atomic.Int64
	ended sync.WaitGroup
}

// flood has the board send zeros to this process by n connections.
func (g *guest) flood(n int) (*drain, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	// QEMU's network knows this host's loopback as 10.0.2.2.
	if err := g.run(fmt.Sprintf("/tmp/shape bulk 10.0.2.2:%d %d & true", l.Addr().(*net.TCPAddr).Port, n)); err != nil {
		return nil, err
	}
	d := &drain{}
	for range n {
		if err := l.SetDeadline(time.Now().Add(commandTime)); err != nil {
			return nil, errors.Join(err, d.close())
		}
		c, err := l.Accept()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("shape bulk on the board: %w", err), d.close())
		}
		d.conns = append(d.conns, c)
		d.ended.Go(func() {
			buf := make([]byte, 64<<10)
			for {
				n, err := c.Read(buf)
				d.bytes.Add(int64(n))
				if err != nil {
					return // closed, or it ended: that is seen by what arrives
				}
			}
		})
	}
	return d, nil
}

// await waits until n bytes have arrived.
func (d *drain) await(n int64) error {
	for end := time.Now().Add(commandTime); d.bytes.Load() < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("bulk TCP: %d bytes in %v", d.bytes.Load(), commandTime)
		}
	}
	return nil
}

// close ends the connections, and with them who sends.
func (d *drain) close() (err error) {
	for _, c := range d.conns {
		err = errors.Join(err, c.Close())
	}
	d.ended.Wait()
	return err
}

// all are the trips of every turn, sorted.
func all(turns []beside) (trips []time.Duration) {
	for _, t := range turns {
		trips = append(trips, t.trips...)
	}
	slices.Sort(trips)
	return trips
}
