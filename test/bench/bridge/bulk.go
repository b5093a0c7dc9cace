package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"gwinit/internal/api"
	"gwinit/test/bench"
	"gwinit/test/board"
)

const (
	// Pairs of turns; even, for each bridge to be first as often.
	bulkPairs  = 12
	bulkFrames = 300
	bulkSize   = 24
	// inFlight is more than the host, QEMU and the guest hold of a bulk
	// connection: beyond it, the guest is sending now.
	inFlight = 1 << 20
)

// turn is one bridge's turn: sorted round trips without and with bulk TCP
// beside them, and the speed of that in MiB/s.
type turn struct {
	alone, beside []time.Duration
	bulk          float64
}

// histogram is what the bridge counted of each direction, see api.BridgeFlow.
type histogram [2][api.LatencyBuckets]uint32

// besideBulk times frames there and back on the emulated board while the
// gateway sends bulk TCP as fast as it can: through ours and through the C
// loop, in turns on the same boot. The board runs by the host's clock.
func besideBulk(ctx context.Context, dir, images string) (rows []bench.Row, err error) {
	userdata, err := withLoop(ctx, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	g, err := startGuest(ctx, boardConfig(dir, images, userdata), "loop")
	if err != nil {
		return nil, err
	}
	defer func() { err = g.end(err) }()
	if err := g.m.WaitPort(ctx, board.BridgePort); err != nil {
		return nil, err
	}
	sink, err := g.bulk()
	if err != nil {
		return nil, err
	}
	defer sink.Close()
	if err := g.run(programs[0].stop...); err != nil {
		return nil, err
	}
	turns := map[string][]turn{}
	var counted histogram
	for pair := range bulkPairs {
		for i := range programs {
			p := programs[(i+pair)%len(programs)]
			t, err := g.turn(ctx, p, sink, &counted)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			turns[p.name] = append(turns[p.name], t)
			fmt.Printf("bulk: %-6s alone p50 %.0f p99 %.0f us, beside %.2f MiB/s p50 %.0f p99 %.0f us\n", p.name,
				percentile(t.alone, .5), percentile(t.alone, .99), t.bulk, percentile(t.beside, .5), percentile(t.beside, .99))
		}
	}
	return bulkRows(turns, counted), nil
}

func bulkRows(turns map[string][]turn, counted histogram) []bench.Row {
	var rows []bench.Row
	for _, m := range []struct {
		name, unit string
		of         func(turn) float64
	}{
		{"alone/round-trip-p50", "us", func(t turn) float64 { return percentile(t.alone, .5) }},
		{"alone/round-trip-p99", "us", func(t turn) float64 { return percentile(t.alone, .99) }},
		{"round-trip-p50", "us", func(t turn) float64 { return percentile(t.beside, .5) }},
		{"round-trip-p99", "us", func(t turn) float64 { return percentile(t.beside, .99) }},
		{"throughput", "MiB/s", func(t turn) float64 { return t.bulk }},
	} {
		pick := func(name string) (v []float64) {
			for _, t := range turns[name] {
				v = append(v, m.of(t))
			}
			return v
		}
		rows = append(rows, paired("bulk/"+m.name, m.unit, pick(ours), cLoop, pick(cLoop)))
	}
	// It knows no turns, so neither does what it stands beside.
	var trips []time.Duration
	for _, t := range turns[ours] {
		trips = append(trips, t.beside...)
	}
	slices.Sort(trips)
	for i, way := range []string{"to-client", "to-radio"} {
		below, n := counted.p99(i)
		rows = append(rows, bench.Compare("bulk/histogram-p99-below/"+way, "us", below, "round trip of all turns", percentile(trips, .99), n))
	}
	return rows
}

// p99 is the end, in us, of the bucket that the 99th percentile of a direction
// is in, and of how many samples.
func (h *histogram) p99(way int) (below float64, n int) {
	for _, c := range h[way] {
		n += int(c)
	}
	seen := 0
	for i, c := range h[way] {
		seen += int(c)
		if n > 0 && seen > n*99/100 {
			return float64(int(1) << i), n
		}
	}
	return 0, n
}

// turn adds what ours counted beside bulk TCP to counted.
func (g *guest) turn(ctx context.Context, p program, sink *sink, counted *histogram) (t turn, err error) {
	if err := g.run(p.start...); err != nil {
		return t, err
	}
	if err := g.connect(ctx, p.port); err != nil {
		return t, err
	}
	defer g.client.Close()
	if t.alone, err = g.trips(bulkFrames); err != nil {
		return t, err
	}
	var before, after histogram
	if p.name == ours {
		if before, err = g.histogram(); err != nil {
			return t, err
		}
	}
	t.bulk, err = sink.during(func() (err error) {
		t.beside, err = g.trips(bulkFrames)
		return err
	})
	if err != nil {
		return t, err
	}
	if p.name == ours {
		if after, err = g.histogram(); err != nil {
			return t, err
		}
		for way := range counted {
			for i := range counted[way] {
				counted[way][i] += after[way][i] - before[way][i]
			}
		}
	}
	return t, g.run(p.stop...)
}

// trips are the times of n frames there and back, sorted.
func (g *guest) trips(n int) ([]time.Duration, error) {
	frame, err := ashFrame(bulkSize)
	if err != nil {
		return nil, err
	}
	if err := g.patience(5 * time.Minute); err != nil {
		return nil, err
	}
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		if err := g.trip(frame); err != nil {
			return nil, fmt.Errorf("frame %d: %w", i, err)
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times, g.radio.SetDeadline(time.Time{})
}

func (g *guest) histogram() (h histogram, err error) {
	out, status, err := g.m.Console().RunCommand("gwctl bridge -json", commandTime)
	if err != nil {
		return h, err
	}
	if status != 0 {
		return h, fmt.Errorf("gwctl bridge -json: exit status %d: %s", status, out)
	}
	var w api.BridgeWatch
	if err := json.Unmarshal([]byte(out), &w); err != nil {
		return h, fmt.Errorf("gwctl bridge -json: %w: %s", err, out)
	}
	copy(h[0][:], w.FromRadio.Latency)
	copy(h[1][:], w.ToRadio.Latency)
	return h, nil
}

// sink is the host's end of a bulk connection. Between two uses nobody reads,
// and TCP stops the guest.
type sink struct{ *net.TCPConn }

// bulk makes the board send zeros to this process, for as long as it reads.
func (g *guest) bulk() (*sink, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	// QEMU's network knows this host's loopback as 10.0.2.2.
	if err := g.run(fmt.Sprintf("nc 10.0.2.2 %d </dev/zero >/dev/null & true", l.Addr().(*net.TCPAddr).Port)); err != nil {
		return nil, err
	}
	if err := l.SetDeadline(time.Now().Add(commandTime)); err != nil {
		return nil, err
	}
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, fmt.Errorf("nc on the board: %w", err)
	}
	if err := conn.SetReadBuffer(inFlight / 4); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &sink{conn}, nil
}

// during lets the guest send, runs f once it does, and stops it again. It
// returns the MiB that arrived in each second of f.
func (s *sink) during(f func() error) (rate float64, err error) {
	if err := s.SetReadDeadline(time.Now().Add(commandTime)); err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for n := 0; n < inFlight; {
		more, err := s.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("bulk TCP: %w", err)
		}
		n += more
	}
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	type end struct {
		n   int
		err error
	}
	done := make(chan end)
	go func() {
		var e end
		for e.err == nil {
			var more int
			more, e.err = s.Read(buf)
			e.n += more
		}
		done <- e
	}()
	start := time.Now()
	err = f()
	took := time.Since(start)
	err = errors.Join(err, s.SetReadDeadline(start)) // long past: the reader ends
	e := <-done
	if !errors.Is(e.err, os.ErrDeadlineExceeded) {
		err = errors.Join(err, fmt.Errorf("bulk TCP: %w", e.err))
	} else if e.n == 0 {
		err = errors.Join(err, errors.New("bulk TCP: no byte beside the frames"))
	}
	return float64(e.n) / (1 << 20) / took.Seconds(), err
}
