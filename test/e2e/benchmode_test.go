//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// benchBoard starts a board whose iperf3 port can be reached by TCP and UDP.
func benchBoard(t *testing.T, icount int) *board.Machine {
	t.Helper()
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Fatalf("%v: apt-get install iperf3", err)
	}
	m := start(t, func(c *board.Config) {
		c.Forward[board.SSHPort], c.Forward[board.BenchPort], c.UDP, c.Icount = 0, 0, []int{board.BenchPort}, icount
	})
	shell(t, m)
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
	host, port, err := net.SplitHostPort(m.Addr(board.BenchPort))
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
		if svc.Name != "bench" && svc.Name != "sshd" { // which is there while somebody is logged in
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

// A service that ignores that it is to end is killed. What it leaves behind in a
// session of its own nobody can end: it is named, bench mode does not begin, and
// everything is as it was.
func TestBenchModeStubborn(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "stubborn")
	command(t, "stubborn", "env", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	userdata := userdataWith(t, map[string][]byte{
		"system/addons/gw-wireguard":        content,
		"system/addons/gw-wireguard.sha256": fmt.Appendf(nil, "%x\n", sha256.Sum256(content)),
	})
	m := start(t, func(c *board.Config) { c.Userdata = userdata })
	shell(t, m)
	await(t, m, "everything running", settled)
	run(t, m, "gwctl start wireguard")
	was := before(await(t, m, "the add-on", func(s api.Status) bool { return settled(s) && service(t, s, "wireguard").State == "running" }))

	b := bench(t, m, "on")
	if !slices.Contains(b.Stopped, "wireguard") || b.State != api.BenchIsOn {
		t.Errorf("with a service that ignores SIGTERM: %+v", b)
	}
	if left := run(t, m, "ps"); strings.Contains(left, "wireguard") {
		t.Errorf("in bench mode there is\n%s", left)
	}
	bench(t, m, "off")
	await(t, m, "what was before, which was\n"+was, func(s api.Status) bool { return s.Bench == nil && settled(s) && before(s) == was })

	run(t, m, "touch /run/stubborn-child && gwctl restart wireguard")
	await(t, m, "the add-on with a child", func(s api.Status) bool { return settled(s) && before(s) == was })
	out, code, err := m.Console().RunCommand("gwctl -json bench-mode on", 2*time.Minute)
	if err != nil || code == 0 || !strings.Contains(out, "still there: ") || !strings.Contains(out, "child (process ") {
		t.Errorf("with a process that will not die: %d, %v\n%s", code, err, out)
	}
	await(t, m, "what was before the refusal, which was\n"+was, func(s api.Status) bool { return s.Bench == nil && settled(s) && before(s) == was })
	if b := bench(t, m, "status"); b.State != api.BenchIsOff || !strings.Contains(b.Why, "child (process ") {
		t.Errorf("after the refusal: %+v", b)
	}
	dial(t, m).Close()
}

// A second host in the network, whose bench is refused, and the first one's is not
// harmed: by the door where the kernel has nftables, else by the server. It needs
// root, for a network of its own.
func TestBenchModeSecondHost(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("a network of its own takes root")
	}
	onEachKernel(t, func(t *testing.T, on func(*board.Config)) {
		lan, netdev := newNetwork(t)
		lan.run("ip", "addr", "add", "10.9.0.2/24", "dev", "lan0")
		lan.dhcp()
		m := start(t, func(c *board.Config) {
			on(c)
			c.Forward, c.Netdev = nil, netdev
		})
		shell(t, m)
		s := await(t, m, "an address, and everything running", func(s api.Status) bool { return settled(s) && len(s.Network.Addresses) > 0 })
		address, _, _ := strings.Cut(s.Network.Addresses[0], "/")
		b := bench(t, m, "on -peer 10.9.0.1")
		t.Logf("the door: %s; notes %q", b.Door, b.Notes)
		measure := func(from string, args ...string) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			args = append([]string{"-t", lan.pid, "-n", "iperf3", "-J", "-c", address, "-B", from}, args...)
			out, err := exec.CommandContext(ctx, "nsenter", args...).Output()
			return string(out), err
		}
		type result struct {
			out string
			err error
		}
		done := make(chan result, 1)
		go func() {
			out, err := measure("10.9.0.1", "-t", "30")
			done <- result{out, err}
		}()
		for end := time.Now().Add(2 * time.Minute); bench(t, m, "status").Run == nil; {
			if time.Now().After(end) {
				t.Fatal("the run is not seen")
			}
		}
		// All that the other host may try: a run, a login, the radio.
		for range 3 {
			if out, err := measure("10.9.0.2", "-t", "1", "--connect-timeout", "2000"); !strings.Contains(out, "busy") && !strings.Contains(out, "unable to connect") {
				t.Errorf("a bench from another host: %v\n%s", err, out)
			}
		}
		for _, port := range []string{"22", "8888"} {
			if out, err := exec.Command("nsenter", "-t", lan.pid, "-n", "nmap", "-n", "-Pn", "-S", "10.9.0.2", "-e", "lan0", "-p", port, "-oG", "-", address).Output(); err != nil || openPort.Match(out) || !strings.Contains(string(out), port+"/") {
				t.Errorf("port %s for the other host: %v\n%s", port, err, out)
			}
		}
		if b := bench(t, m, "status"); b.Run == nil || b.Run.Peer != "10.9.0.1" {
			t.Errorf("after the other host's tries the run is %+v", b.Run)
		}
		r := <-done
		var first struct {
			Error string
			End   struct {
				Sent     iperfSum `json:"sum_sent"`
				Received iperfSum `json:"sum_received"`
			}
		}
		if err := json.Unmarshal([]byte(r.out), &first); r.err != nil || err != nil || first.Error != "" ||
			first.End.Received.Bytes < 1e6 || first.End.Received.Bytes > first.End.Sent.Bytes {
			t.Errorf("the first host's bench: %v, %v\n%s", r.err, err, tail(r.out))
		}
		t.Logf("the first host's: %.1f Mbit/s", first.End.Received.BitsPerSecond/1e6)
		if b := bench(t, m, "status"); b.Run != nil || b.Runs != 1 {
			t.Errorf("afterwards: %+v", b)
		}
		// It was refused for what it is, and not because the server was broken.
		if out, err := measure("10.9.0.1", "-t", "1"); err != nil || strings.Contains(out, `"error"`) {
			t.Errorf("the first host again: %v\n%s", err, out)
		}
		bench(t, m, "off")
	})
}
