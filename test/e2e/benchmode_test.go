//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// benchPort is the guest's.
const benchPort = api.BenchPort

// benchBoard starts a board whose iperf3 port can be reached by TCP and UDP.
func benchBoard(t *testing.T, icount int) *board.Machine {
	t.Helper()
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Fatalf("%v: apt-get install iperf3", err)
	}
	m := start(t, func(c *board.Config) { c.Forward[board.SSHPort], c.Forward[benchPort], c.Icount = 0, 0, icount })
	shell(t, m)
	_, port, err := net.SplitHostPort(m.Addr(benchPort))
	if err != nil {
		t.Fatal(err)
	}
	monitor(t, m, fmt.Sprintf("hostfwd_add udp:127.0.0.1:%s-:%d", port, benchPort))
	return m
}

// bench asks for a state of bench mode on the console.
func bench(t *testing.T, m *board.Machine, verb string) api.Bench {
	t.Helper()
	return answer[api.Bench](t, m, "gwctl -json bench-mode "+verb)
}

// iperf3 runs the real client, and returns its JSON.
func iperf3(t *testing.T, m *board.Machine, args ...string) (out struct {
	Error string
	End   struct {
		Sent     iperfSum `json:"sum_sent"`
		Received iperfSum `json:"sum_received"`
		Sum      iperfSum
	}
}, err error,
) {
	t.Helper()
	host, port, err := net.SplitHostPort(m.Addr(benchPort))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, "iperf3", append([]string{"-J", "-c", host, "-p", port}, args...)...).Output()
	if jerr := json.Unmarshal(text, &out); jerr != nil {
		return out, errors.Join(err, jerr)
	}
	if out.Error != "" {
		err = errors.New(out.Error)
	}
	return out, err
}

// iperfSum is a sum of a run.
type iperfSum struct {
	Bytes         float64
	BitsPerSecond float64 `json:"bits_per_second"`
	Lost          float64 `json:"lost_packets"`
	Packets       float64
	Jitter        float64 `json:"jitter_ms"`
}

// shut wants that nobody answers at a port: QEMU accepts for the guest, and closes
// when that refuses.
func shut(t *testing.T, m *board.Machine, guest int) {
	t.Helper()
	c, err := net.Dial("tcp", m.Addr(guest))
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "SSH-2.0-test\r\n")
	if b, err := io.ReadAll(c); len(b) > 0 || isTimeout(err) {
		t.Errorf("port %d answers %q, %v", guest, b, err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// before is what bench mode must leave as it was.
func before(s api.Status) string {
	text := ""
	for _, svc := range s.Services {
		if svc.Name != "bench" {
			text += svc.Name + " " + svc.State + "\n"
		}
	}
	text += s.Radio.Mode + " " + s.Network.Method
	for _, a := range s.Network.Addresses {
		if !strings.Contains(a, ":") { // a router's come some seconds later
			text += " " + a
		}
	}
	return text
}

func TestBenchMode(t *testing.T) {
	t.Parallel()
	m := benchBoard(t, 0)
	was := before(await(t, m, "everything running", settled))
	run(t, m, "gwctl eth -json profile latency -try")
	knobs := ethernet(t, m, "").All

	// A client of the radio is asked for, and told by FIN.
	client := dial(t, m)
	defer client.Close()
	if _, err := client.Write([]byte{0x1a, 0xc0, 0x38, 0xbc, 0x7e}); err != nil {
		t.Fatal(err)
	}
	await(t, m, "the client", func(s api.Status) bool { return s.Bridge != nil && s.Bridge.Client != nil })
	out, code, err := m.Console().RunCommand("gwctl -json bench-mode on </dev/null", time.Minute)
	if err != nil || code == 0 || !strings.Contains(out, `"code":"confirm"`) || !strings.Contains(out, "10.0.2.2:") {
		t.Fatalf("with a client: %d, %v\n%s", code, err, out)
	}
	b := bench(t, m, "on -y -for 20m -peer 10.0.2.2")
	_ = client.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadAll(client); err != nil {
		t.Errorf("the client was not told by FIN: %v", err)
	}
	t.Logf("%+v load %+v", b, b.Load)
	if b.State != api.BenchIsOn || b.Left < 1000 || len(b.Stopped) < 2 || b.Profile != "bench" || len(b.Notes) > 0 {
		t.Errorf("on: %+v", b)
	}
	for _, guest := range []int{board.BridgePort, board.SSHPort} {
		shut(t, m, guest)
	}
	s := status(t, m)
	if s.Bench == nil || s.Network == nil || s.Network.State != "bound" || service(t, s, "bridge").PID != 0 || service(t, s, "core").PID != 0 {
		t.Errorf("the status in bench mode: %+v", s)
	}
	for _, refused := range []string{"gwctl start core", "gwctl restart bridge", "gwctl -json bench-mode on"} {
		if out, code, err := m.Console().RunCommand(refused, time.Minute); err != nil || code == 0 || !strings.Contains(out, "bench mode is on") {
			t.Errorf("%s: %d, %v\n%s", refused, code, err, out)
		}
	}

	// A run of the real client, in which somebody tries to log in and somebody
	// else wants to measure, too.
	done := make(chan error, 1)
	go func() {
		r, err := iperf3(t, m, "-t", "12")
		if err == nil && (r.End.Received.Bytes < 1e6 || r.End.Received.Bytes > r.End.Sent.Bytes) {
			err = fmt.Errorf("received %+v of %+v", r.End.Received, r.End.Sent)
		}
		t.Logf("TCP to the gateway: %.1f Mbit/s", r.End.Received.BitsPerSecond/1e6)
		done <- err
	}()
	for end := time.Now().Add(time.Minute); bench(t, m, "status").Run == nil; {
		if time.Now().After(end) {
			t.Fatal("the run is not seen")
		}
	}
	shut(t, m, board.SSHPort)
	if _, err := iperf3(t, m, "-t", "1"); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("a second client: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("the run: %v", err)
	}
	for _, args := range [][]string{{"-t", "3", "-R"}, {"-t", "3", "--bidir"}, {"-u", "-t", "3", "-b", "2M", "-l", "1400"}, {"-u", "-R", "-t", "3", "-b", "2M", "-l", "1400"}} {
		r, err := iperf3(t, m, args...)
		if err != nil {
			t.Errorf("%q: %v", args, err)
		}
		t.Logf("%q: %+v", args, r.End)
		if args[0] == "-u" && (r.End.Sum.Packets < 400 || r.End.Sum.Lost > r.End.Sum.Packets/2) {
			t.Errorf("%q: %v of %v datagrams were lost", args, r.End.Sum.Lost, r.End.Sum.Packets)
		}
	}
	if b := bench(t, m, "status"); b.Run != nil || b.Runs != 5 || b.Refused != 1 {
		t.Errorf("after the runs: %+v", b)
	}
	c := answer[api.BenchCount](t, m, "gwctl -json bench-mode counters")
	if c.Total == 0 || c.Busy == 0 || !strings.Contains(c.Device, "eth0:") || !strings.Contains(c.SNMP, "Tcp:") || c.Kernel == "" || len(c.Faults) > 0 {
		t.Errorf("counters: %+v", c)
	}

	if b := bench(t, m, "off"); b.State != api.BenchIsOff || b.Why != "it was turned off" {
		t.Errorf("off: %+v", b)
	}
	if now := before(await(t, m, "everything running again", settled)); now != was {
		t.Errorf("afterwards\n%s\nbefore\n%s", now, was)
	}
	e := ethernet(t, m, "")
	if e.Profile != "latency" || e.Kept {
		t.Errorf("the driver's profile is %s, kept %v", e.Profile, e.Kept)
	}
	for i, k := range e.All {
		if k.Actual != knobs[i].Actual {
			t.Errorf("%s is %s, and was %s", k.Name, k.Actual, knobs[i].Actual)
		}
	}
	again := dial(t, m)
	again.Close()
	if out, _, _ := m.Console().RunCommand("ls /run/bench-mode", time.Minute); !strings.Contains(out, "no such file") {
		t.Errorf("left behind: %s", out)
	}
}

// The whole user space at rest, on a board whose time is that of the instructions
// it executes, 125 million a second: a busy host changes nothing.
func TestBenchModeIsQuiet(t *testing.T) {
	t.Parallel()
	m := benchBoard(t, 3)
	await(t, m, "everything running", settled)
	b := bench(t, m, "on")
	if t.Logf("at rest: %+v", b.Load); b.Load == nil || !b.Load.Quiet {
		t.Error("it is not quiet")
	}
	out, code, err := m.Console().RunCommand("gwctl bench-mode verify", 10*time.Minute)
	if t.Logf("verify: %s", out); err != nil || code != 0 {
		t.Errorf("verify: exit status %d, %v", code, err)
	}
	if out, code, err = m.Console().RunCommand("gwctl bench-mode verify -for 5m", 30*time.Minute); err != nil || code != 0 {
		t.Errorf("verify for 5 minutes: exit status %d, %v\n%s", code, err, out)
	}
	t.Logf("verify for 5 minutes: %s", out)
}

// However bench mode ends, everything is as it was.
func TestBenchModeEnds(t *testing.T) {
	t.Parallel()
	m := benchBoard(t, 0)
	was := before(await(t, m, "everything running", settled))
	restored := func(how, why string) {
		t.Helper()
		await(t, m, "what was before, after "+how+", which was\n"+was, func(s api.Status) bool { return s.Bench == nil && settled(s) && before(s) == was })
		if b := bench(t, m, "status"); b.State != api.BenchIsOff || !strings.Contains(b.Why, why) {
			t.Errorf("after %s: %+v", how, b)
		}
	}

	bench(t, m, "on -for 30s")
	restored("its deadline", "its time was over")

	bench(t, m, "on")
	run(t, m, "kill -9 $(pidof bench || ps | grep '[g]w bench' | sed 's/^ *//; s/ .*//')")
	restored("a crash", "signal 9")

	bench(t, m, "on")
	pull := run(t, m, "echo /sys/devices/platform/gpio-sim*/gpiochip*/sim_gpio9/pull")
	run(t, m, fmt.Sprintf("echo pull-down >%[1]s; sleep 2; echo pull-up >%[1]s", pull))
	restored("a press of the button", "button")

	// Something of somebody else's runs, which is named; nothing is changed.
	run(t, m, "iperf3 -s -p 7777 </dev/null >/dev/null 2>&1 & true")
	out, code, err := m.Console().RunCommand("gwctl -json bench-mode on", time.Minute)
	if err != nil || code == 0 || !strings.Contains(out, "a listener on tcp/7777") {
		t.Errorf("with a listener: %d, %v\n%s", code, err, out)
	}
	restored("a refusal", "tcp/7777")
	run(t, m, "kill $(pidof iperf3)")

	bench(t, m, "on")
	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
	restored("a power cut", "")
}

// From afar the control connection is the only way in, and keeps the mode: without
// it, it ends.
func TestBenchModeFromAfar(t *testing.T) {
	t.Parallel()
	m := benchBoard(t, 0)
	await(t, m, "everything running", settled)
	g := &manager{person: newPerson(t, m), key: "id"}
	g.gwctl = g.file("gwctl")
	if out, err := exec.Command("go", "build", "-o", g.gwctl, "../../cmd/gwctl").CombinedOutput(); err != nil {
		t.Fatalf("build gwctl: %v\n%s", err, out)
	}
	g.letIn()
	g.do("version") // the first login makes keys

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := g.command(ctx, "bench-mode", "on", "-for", "2m")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for end := time.Now().Add(3 * time.Minute); bench(t, m, "status").State != api.BenchIsOn; wait(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("it is never on:\n%s", said.String())
		}
	}
	shut(t, m, board.SSHPort)
	if b := bench(t, m, "status"); b.Lost != 0 || b.Load == nil {
		t.Errorf("with the control connection: %+v", b)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	for end := time.Now().Add(time.Minute); bench(t, m, "status").Lost == 0; wait(time.Second) {
		if time.Now().After(end) {
			t.Fatal("the loss of the control connection is not seen")
		}
	}
	s := await(t, m, "everything running after the deadline", func(s api.Status) bool { return s.Bench == nil && settled(s) })
	if service(t, s, "bridge").State != "running" {
		t.Errorf("%+v", s)
	}
	g.do("version")
}
