//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// held is how much memory the stand-in for the border router's agent takes.
const heldMiB = 6

// anon is what PID 1 and the services that always run have of their own, KiB.
func anon(t *testing.T, m *board.Machine, s api.Status) (kib uint64) {
	t.Helper()
	fields := strings.Fields(run(t, m, "grep RssAnon /proc/1/status"))
	if len(fields) != 3 {
		t.Fatalf("RssAnon of PID 1: %q", fields)
	}
	kib, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, svc := range s.Services {
		// The shell that asks here is nobody's on an idle box, and sshd's memory goes
		// with its sessions.
		if svc.Name != "console" && svc.Name != "sshd" {
			kib += svc.Anon
		}
	}
	return kib
}

// below is the bound that the part of a histogram's samples is under.
func below(histogram []uint32, part float64) time.Duration {
	var all, n uint64
	for _, c := range histogram {
		all += uint64(c)
	}
	for i, c := range histogram {
		if n += uint64(c); float64(n) >= part*float64(all) {
			return time.Microsecond << i
		}
	}
	return 0
}

// A board with 32 MiB on which everything goes on at once: bytes both ways as fast
// as a radio at 115200 baud has them, and 6 MiB that another program has. Nothing
// fails for want of memory. In the soak, for an hour, with a login every minute and
// on a host that does little else, what the services take also stays what it is,
// and no byte waits long.
func TestMemoryUnderLoad(t *testing.T) {
	t.Parallel()
	const (
		rate   = 11520 // bytes a second
		warmUp = 600   // s, of the soak
		most   = 20 * time.Millisecond
	)
	seconds, every := 15.0, 5*time.Second
	if soak {
		seconds, every = 3600, time.Minute
	}
	hold := filepath.Join(t.TempDir(), "hold")
	command(t, "hold", "env", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", hold, ".")
	m := start(t, func(c *board.Config) {
		c.Forward[board.SSHPort], c.Forward[metricsPort] = 0, 0
	})
	shell(t, m)
	await(t, m, "everything running", settled)
	p := newPerson(t, m)
	key, err := os.ReadFile(p.file("id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, m, "gwctl config set METRICS=on")
	run(t, m, "mkdir -p /userdata/ssh && echo '"+strings.TrimSpace(string(key))+"' >/userdata/ssh/authorized_keys")
	program, err := os.Open(hold)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	p.must(board.BridgePort, program, "ssh", "root@127.0.0.1", "cat >/userdata/hold && chmod 755 /userdata/hold")
	run(t, m, "/userdata/hold "+strconv.Itoa(heldMiB)+" >/run/hold & true")
	await(t, m, "the stand-in has its memory", func(api.Status) bool {
		return strings.Contains(run(t, m, "cat /run/hold"), "held")
	})

	radio, client := wire(t, m), dial(t, m)
	hello := []byte{0x1a}
	if _, err := client.Write(hello); err != nil {
		t.Fatal(err)
	}
	if _, err := radio.Read(hello); err != nil {
		t.Fatal(err)
	}
	before := await(t, m, "the client", func(s api.Status) bool { return s.Bridge != nil && s.Bridge.Client != nil })
	until, stop := context.WithCancel(t.Context())
	defer stop()
	down, up := make(chan passed, 1), make(chan passed, 1)
	go func() { down <- pass(until, radio, client, 1, rate) }()
	go func() { up <- pass(until, client, radio, 2, rate) }()

	type sample struct {
		at                float64 // s since the load began
		anon, unavailable uint64  // KiB
	}
	var samples []sample
	for s := before; ; {
		if soak {
			p.must(board.BridgePort, nil, "ssh", "root@127.0.0.1", "gwctl status; gwctl bridge; ls -lR /userdata /etc >/dev/null")
		}
		scrape(t, m)
		time.Sleep(every)
		s = status(t, m)
		one := sample{s.Uptime - before.Uptime, anon(t, m, s), s.Memory.Total - s.Memory.Available}
		samples = append(samples, one)
		t.Logf("after %4.0f s: services %d KiB of their own, %d KiB of the board in use", one.at, one.anon, one.unavailable)
		if one.at >= seconds {
			break
		}
	}
	stop()
	for name, c := range map[string]chan passed{"to the client": down, "to the radio": up} {
		if e := <-c; e.err != nil || e.n == 0 {
			t.Errorf("%s: %v after %d bytes", name, e.err, e.n)
		} else {
			t.Logf("%s: %d bytes", name, e.n)
		}
	}

	w := answer[api.BridgeWatch](t, m, "gwctl bridge -json")
	for name, f := range map[string]api.BridgeFlow{"from the radio": w.FromRadio, "to the radio": w.ToRadio} {
		p99 := below(f.Latency, 0.99)
		t.Logf("%s: 99 %% below %v, longest held %.3f s", name, p99, f.HeldLongest)
		if soak && p99 > most {
			t.Errorf("%s: 99 %% of the bytes are below %v only, want %v", name, p99, most)
		}
	}
	after := status(t, m)
	if b := after.Bridge; b.QueueDropped+b.Overruns+b.BufOverruns+b.TxDropped != 0 || b.Client == nil {
		t.Errorf("the bridge lost bytes or its client: %+v", b)
	}
	for _, svc := range after.Services {
		if svc.Restarts != service(t, before, svc.Name).Restarts && svc.Name != "sshd" {
			t.Errorf("%s was restarted", svc.Name)
		}
	}
	if out := run(t, m, "pidof hold; dmesg"); !('0' <= out[0] && out[0] <= '9') ||
		strings.Contains(out, "ut of memory") || strings.Contains(out, "oom") || strings.Contains(out, "allocation failure") {
		t.Errorf("memory ran out:\n%s", out)
	}
	if !soak {
		return
	}
	warm := slices.IndexFunc(samples, func(s sample) bool { return s.at >= warmUp })
	const ends = 10 // samples
	if warm < 0 || len(samples)-warm < 2*ends {
		t.Fatalf("%d samples, of which those from %d on are warm: too few", len(samples), warm)
	}
	median := func(of []sample, what func(sample) uint64) float64 {
		var all []uint64
		for _, s := range of {
			all = append(all, what(s))
		}
		slices.Sort(all)
		return float64(all[len(all)/2])
	}
	first, last := samples[warm:warm+ends], samples[len(samples)-ends:]
	hours := (last[ends/2].at - first[ends/2].at) / 3600
	for name, what := range map[string]func(sample) uint64{
		"services":  func(s sample) uint64 { return s.anon },
		"the board": func(s sample) uint64 { return s.unavailable },
	} {
		begin, end := median(first, what), median(last, what)
		growth := 100 * (end - begin) / begin / hours
		t.Logf("%s: %.0f KiB, then %.0f: %+.2f %% an hour", name, begin, end, growth)
		if growth >= 1 {
			t.Errorf("the memory of %s grows by %.2f %% an hour, want less than 1 %%", name, growth)
		}
	}
}
