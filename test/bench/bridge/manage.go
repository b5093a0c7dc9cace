package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gwinit/test/bench"
	"gwinit/test/board"
)

const (
	metricsPort = 9100
	// scrapeGap is more than the time for which figures are given again.
	scrapeGap = 1200 * time.Millisecond
	// scrapeEvery is Prometheus' usual interval.
	scrapeEvery = 15 * time.Second
	manageTries = 15 // scrapes, and logins, that are counted
	managePairs = 4  // of turns
	// manageTime is how long a turn lasts: two scrapes come in it.
	manageTime = 30 * time.Second
	// pace is the gap between two frames, as a busy radio has them.
	pace = 20 * time.Millisecond

	// The gateway's core does some 100 million instructions a second, cache
	// misses and all; this is that second.
	coreSecond = 100e6
	scrapeGoal = 0.030 * coreSecond
	loginGoal  = 3 * coreSecond
)

// managing measures what looking after a gateway costs it: instructions of a
// scrape of METRICS and of an SSH login, and the round trips of frames through the
// bridge beside them.
func managing(ctx context.Context, dir, images string) (rows []bench.Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	user, userdata, err := withKey(ctx, dir)
	if err != nil {
		return nil, err
	}
	config := func(name string) (c board.Config, err error) {
		c = board.Config{
			Rootfs: filepath.Join(images, "rootfs.bin"), Userdata: userdata, Dir: filepath.Join(dir, name),
			Forward: map[int]int{board.BridgePort: 0, metricsPort: 0},
		}
		return c, os.Mkdir(c.Dir, 0o755)
	}
	c, err := config("counted")
	if err == nil {
		rows, err = countManaging(ctx, c, user)
	}
	if err != nil {
		return nil, err
	}
	if c, err = config("timed"); err != nil {
		return nil, err
	}
	more, err := timeManaging(ctx, c, user)
	return append(rows, more...), err
}

// withKey makes a key, and a writable partition that lets it in and serves
// metrics.
func withKey(ctx context.Context, dir string) (user ssh.Signer, image string, err error) {
	stage := filepath.Join(dir, "userdata")
	if err := os.CopyFS(stage, os.DirFS("rootfs/skeleton/userdata")); err != nil {
		return nil, "", err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	if user, err = ssh.NewSignerFromKey(key); err != nil {
		return nil, "", err
	}
	for name, content := range map[string]string{
		"ssh/authorized_keys": string(ssh.MarshalAuthorizedKey(user.PublicKey())),
		"etc/gateway.conf":    "METRICS=on\n",
	} {
		file := filepath.Join(stage, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			return nil, "", err
		}
	}
	image, err = bench.Userdata(ctx, dir, stage)
	return user, image, err
}

// scraped asks for the figures.
func (g *guest) scraped(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.m.Addr(metricsPort)+"/metrics", nil)
	if err != nil {
		return err
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && !bytes.Contains(body, []byte("gateway_bridge_uart_open 1\n")) {
		err = fmt.Errorf("%s: %.200s", answer.Status, body)
	}
	return err
}

// loggedIn logs in at the radio's port.
func (g *guest) loggedIn(user ssh.Signer) (*ssh.Client, error) {
	return ssh.Dial("tcp", g.m.Addr(board.BridgePort), &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(user)}, Timeout: commandTime,
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // the board was made a minute ago
	})
}

// login logs in, runs a command and leaves.
func (g *guest) login(user ssh.Signer) error {
	c, err := g.loggedIn(user)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	return s.Run("true")
}

// countManaging counts the guest's instructions.
func countManaging(ctx context.Context, config board.Config, user ssh.Signer) (rows []bench.Row, err error) {
	m, counter, err := board.StartCounted(ctx, config, board.BridgePort)
	if err != nil {
		return nil, err
	}
	g := &guest{m: m, counter: counter}
	defer func() { err = errors.Join(g.end(err), counter.Close()) }()
	if err := m.Console().WaitShell(bootTime); err != nil {
		return nil, err
	}
	// The first of each pays for what the boot did not touch, and the first
	// login for a host key and the process, too.
	one := func(what string, do func() error) (board.Instructions, error) {
		before := counter.Read()
		err := do()
		now := counter.Read()
		n := board.Instructions{Decompress: now.Decompress - before.Decompress, Kernel: now.Kernel - before.Kernel, User: now.User - before.User}
		fmt.Printf("manage: %s: %.2f M instructions (decompression %.2f, kernel %.2f, user %.2f)\n", what,
			float64(n.Total())/1e6, float64(n.Decompress)/1e6, float64(n.Kernel)/1e6, float64(n.User)/1e6)
		return n, err
	}
	for _, w := range []struct {
		name, goal string
		of         float64
		do         func() error
	}{
		{"scrape", "30 ms of the gateway", scrapeGoal, func() error { return g.scraped(ctx) }},
		{"login", "3 s of the gateway", loginGoal, func() error {
			c, err := g.loggedIn(user)
			if err == nil {
				err = c.Close()
			}
			return err
		}},
	} {
		var first board.Instructions
		for try := 0; ; try++ { // a boot has other things to do
			if first, err = one("first "+w.name, w.do); err == nil {
				break
			}
			if try == 60 {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			time.Sleep(time.Second)
		}
		var all, user []float64
		for range manageTries {
			time.Sleep(scrapeGap)
			n, err := one(w.name, w.do)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			all, user = append(all, float64(n.Total())), append(user, float64(n.User))
		}
		goal := w.goal + " (goal)"
		rows = append(
			rows,
			bench.Compare("manage/"+w.name+"/first", "instructions", float64(first.Total()), goal, w.of, 1),
			bench.Compare("manage/"+w.name+"/all", "instructions", quartile(all), goal, w.of, len(all)),
			bench.Compare("manage/"+w.name+"/user", "instructions", quartile(user), goal, w.of, len(user)),
		)
	}
	return rows, nil
}

// What frames meet in a turn.
var besides = []struct {
	name string
	do   func(ctx context.Context, g *guest, user ssh.Signer) error
}{
	{"a scrape every 15 s", func(ctx context.Context, g *guest, _ ssh.Signer) error {
		return repeat(ctx, scrapeEvery, func() error { return g.scraped(ctx) })
	}},
	{"a login every 15 s", func(ctx context.Context, g *guest, user ssh.Signer) error {
		return repeat(ctx, scrapeEvery, func() error { return g.login(user) })
	}},
	{"a flood of SSH", func(ctx context.Context, g *guest, _ ssh.Signer) error { return g.flooded(ctx) }},
}

// repeat does something at once and then every so often, until ctx ends. One that
// fails is told, since a gateway on a loaded machine may be late; it is an error
// when none is well.
func repeat(ctx context.Context, every time.Duration, do func() error) error {
	well := false
	var last error
	for {
		if err := do(); err == nil {
			well = true
		} else if ctx.Err() == nil {
			last = err
			fmt.Printf("manage: failed: %v\n", err)
		}
		select {
		case <-ctx.Done():
			if !well {
				return last
			}
			return nil
		case <-time.After(every):
		}
	}
}

// flooded opens connections at the radio's port that begin a login and never end
// it, one after the other, by several at a time.
func (g *guest) flooded(ctx context.Context) error {
	const floods = 16
	var all sync.WaitGroup
	for range floods {
		all.Go(func() {
			var d net.Dialer
			for ctx.Err() == nil {
				c, err := d.DialContext(ctx, "tcp", g.m.Addr(board.BridgePort))
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { c.Close() })
				// A client that is real up to its login, which it does not know.
				_, _, _, _ = ssh.NewClientConn(c, "", &ssh.ClientConfig{User: "nobody", HostKeyCallback: ssh.InsecureIgnoreHostKey()}) // that is what it is for
				stop()
				c.Close()
			}
		})
	}
	all.Wait()
	return nil
}

// timeManaging times frames through the bridge, alone and beside each.
func timeManaging(ctx context.Context, config board.Config, user ssh.Signer) (rows []bench.Row, err error) {
	m, err := board.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	g := &guest{m: m}
	defer func() { err = g.end(err) }()
	if g.radio, err = net.Dial("unix", m.RadioPath()); err != nil {
		return nil, err
	}
	if err := m.Console().WaitShell(bootTime); err != nil {
		return nil, err
	}
	if err := g.connect(ctx, board.BridgePort); err != nil {
		return nil, err
	}
	defer g.client.Close()
	// What a boot has to do, and what each touches for the first time.
	for _, do := range []func() error{func() error { return g.scraped(ctx) }, func() error { return g.login(user) }} {
		for try := 0; ; try++ {
			if err = do(); err == nil {
				break
			}
			if try == 60 {
				return nil, err
			}
			time.Sleep(time.Second)
		}
	}
	turns := map[string][][]time.Duration{}
	for pair := range managePairs {
		for i := range besides {
			b := besides[(i+pair)%len(besides)]
			alone, err := g.paced(manageTime / 3)
			if err != nil {
				return nil, err
			}
			until, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- b.do(until, g, user) }()
			trips, err := g.paced(manageTime)
			stop()
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", b.name, err), <-done)
			}
			if err := <-done; err != nil {
				fmt.Printf("manage: a turn of %s does not count: %v\n", b.name, err)
				continue
			}
			turns[b.name] = append(turns[b.name], trips)
			turns["alone beside "+b.name] = append(turns["alone beside "+b.name], alone)
			fmt.Printf("manage: %-20s p50 %.0f p99 %.0f most %.0f us, alone p50 %.0f p99 %.0f most %.0f us\n", b.name,
				percentile(trips, .5), percentile(trips, .99), percentile(trips, 1), percentile(alone, .5), percentile(alone, .99), percentile(alone, 1))
		}
	}
	for _, b := range besides {
		if n := len(turns[b.name]); n < managePairs/2 {
			return nil, fmt.Errorf("%s: %d of %d turns count", b.name, n, managePairs)
		}
		for _, p := range []struct {
			name string
			at   float64
		}{{"p50", .5}, {"p99", .99}} {
			pick := func(name string) (v []float64) {
				for _, trips := range turns[name] {
					v = append(v, percentile(trips, p.at))
				}
				return v
			}
			name := "manage/round-trip-" + p.name + "/" + strings.ReplaceAll(b.name, " ", "-")
			rows = append(rows, paired(name, "us", pick(b.name), "alone", pick("alone beside "+b.name)))
		}
	}
	return rows, nil
}

// paced are the times of frames there and back, one every pace for so long,
// sorted.
func (g *guest) paced(during time.Duration) ([]time.Duration, error) {
	frame, err := ashFrame(bulkSize)
	if err != nil {
		return nil, err
	}
	if err := g.patience(during + 5*time.Minute); err != nil {
		return nil, err
	}
	var times []time.Duration
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < during; <-tick.C {
		start := time.Now()
		if err := g.trip(frame); err != nil {
			return nil, fmt.Errorf("frame %d: %w", len(times), err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times, g.radio.SetDeadline(time.Time{})
}
