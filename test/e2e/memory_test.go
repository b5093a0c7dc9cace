//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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
	return anonOf(t, run(t, m, "grep RssAnon /proc/1/status"), s)
}

// anonOf is anon with PID 1's line of its status.
func anonOf(t *testing.T, line string, s api.Status) (kib uint64) {
	t.Helper()
	fields := strings.Fields(line)
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
// as a radio at 115200 baud has them, figures and the log for who keeps them, the
// firewall, netwatch, and 6 MiB that another program has. Nothing fails for want of
// memory. In the soak, for an hour, with a login every minute and a file of an update's
// size written every ten, what the services take also stays what it is, and by the
// board's own clock no byte waits long: on a host that has the time for it.
func TestMemoryUnderLoad(t *testing.T) {
	t.Parallel()
	const (
		rate   = 11520 // bytes a second
		warmUp = 600   // s, of the soak
		most   = 20 * time.Millisecond
		update = 2 << 20 // bytes, more than the program's own file takes in the rootfs
		upload = 10      // every so many rounds
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
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var logged atomic.Int64
	go func() {
		b := make([]byte, 64<<10)
		for {
			if _, _, err := server.ReadFrom(b); err != nil {
				return
			}
			logged.Add(1)
		}
	}()
	run(t, m, fmt.Sprintf("gwctl config set METRICS=on SYSLOG=udp://10.0.2.2:%d FIREWALL=1 FIREWALL_ALLOW=tcp/%d netwatch.ENABLED=1",
		server.LocalAddr().(*net.UDPAddr).Port, metricsPort))
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

	// The log is full, as that of a gateway that runs for long: it grows to its limit,
	// which is as much as what is looked for.
	run(t, m, "for ((i = 0; i < 700; i++)); do echo $i, one of the lines that were logged within the months before this test, long ago; done >/proc/$(pidof core)/fd/2")
	awaitLog(t, m, "699, one of the lines")

	// As a gateway is most of the time: nobody types at its serial console, where
	// commands would grow the shell. What is asked is asked by SSH.
	ask := func(command string) string {
		return p.must(board.BridgePort, nil, "ssh", "root@127.0.0.1", command)
	}
	look := func() (s api.Status, kib uint64) {
		t.Helper()
		out := ask("gwctl status -json; grep RssAnon /proc/1/status; gwctl bridge >/dev/null; ls -lR /userdata /etc >/dev/null")
		line, rest, _ := strings.Cut(out, "\n")
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return s, anonOf(t, rest, s)
	}
	radio, client := wire(t, m), dial(t, m)
	hello := []byte{0x1a}
	if _, err := client.Write(hello); err != nil {
		t.Fatal(err)
	}
	if _, err := radio.Read(hello); err != nil {
		t.Fatal(err)
	}
	await(t, m, "the client", func(s api.Status) bool { return s.Bridge != nil && s.Bridge.Client != nil })
	m.Console().Mark()
	if err := m.Console().SendLine("exit"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Console().WaitFor("# ", time.Minute); err != nil {
		t.Fatal(err)
	}
	before, _ := look()
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
	noise := rand.NewChaCha8([32]byte{3})
	for {
		if len(samples)%upload == upload-1 {
			p.must(board.BridgePort, io.LimitReader(noise, update), "ssh", "root@127.0.0.1", "cat >/userdata/part && sync && rm /userdata/part")
		}
		scrape(t, m)
		time.Sleep(every)
		s, kib := look()
		one := sample{s.Uptime - before.Uptime, kib, s.Memory.Total - s.Memory.Available}
		samples = append(samples, one)
		var each strings.Builder
		for _, svc := range s.Services {
			if svc.Anon > 0 {
				fmt.Fprintf(&each, ", %s %d", svc.Name, svc.Anon)
			}
		}
		t.Logf("after %4.0f s: services %d KiB of their own%s; %d KiB of the board in use", one.at, one.anon, each.String(), one.unavailable)
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

	var w api.BridgeWatch
	var n api.Netwatch
	var f api.Firewall
	for command, v := range map[string]any{"bridge": &w, "netwatch": &n, "firewall": &f} {
		if out := ask("gwctl -json " + command); json.Unmarshal([]byte(out), v) != nil {
			t.Fatalf("gwctl %s: %s", command, out)
		}
	}
	for name, f := range map[string]api.BridgeFlow{"from the radio": w.FromRadio, "to the radio": w.ToRadio} {
		p99 := below(f.Latency, 0.99)
		t.Logf("%s: 99 %% below %v, longest held %.3f s", name, p99, f.HeldLongest)
		if soak && p99 > most {
			t.Errorf("%s: 99 %% of the bytes are below %v only, want %v", name, p99, most)
		}
	}
	if logged.Load() == 0 {
		t.Error("the log server has got nothing")
	}
	after, _ := look()
	if !n.Enabled || n.State != "reachable" {
		t.Errorf("netwatch %+v", n)
	}
	if f.State != "on" {
		t.Errorf("firewall %+v", f)
	}
	if b := after.Bridge; b.QueueDropped+b.Overruns+b.BufOverruns+b.TxDropped != 0 || b.Client == nil {
		t.Errorf("the bridge lost bytes or its client: %+v", b)
	}
	for _, svc := range after.Services {
		if svc.Restarts != service(t, before, svc.Name).Restarts && svc.Name != "sshd" && svc.Name != "console" {
			t.Errorf("%s was restarted", svc.Name)
		}
	}
	if out := ask("pidof hold; dmesg"); !('0' <= out[0] && out[0] <= '9') ||
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
