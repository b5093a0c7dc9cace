//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/test/board"
)

// What somebody does who works on the Ethernet driver, from another computer, with
// the commands of docs/bench.md in a short form: a release, and whether a setting is
// better than another. What is faster is the machine's matter; that the gateway is
// measured in bench mode, and is as it was before when it is over, is not.
func TestBenchFromAfar(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Fatalf("%v: apt-get install iperf3", err)
	}
	m := start(t, func(c *board.Config) { c.Forward[board.BenchPort], c.UDP = 0, []int{board.BenchPort} })
	shell(t, m)
	await(t, m, "everything running", settled)
	_, port, err := net.SplitHostPort(m.Addr(board.BenchPort))
	if err != nil {
		t.Fatal(err)
	}
	g := &manager{person: newPerson(t, m), key: "id"}
	g.gwctl = g.file("gwctl")
	if out, err := exec.Command("go", "build", "-o", g.gwctl, "../../cmd/gwctl").CombinedOutput(); err != nil {
		t.Fatalf("build gwctl: %v\n%s", err, out)
	}
	if err := os.Mkdir(g.file(".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.letIn()
	g.do("version") // the first login waits for entropy, and knows the key after that

	services := func() string {
		text := ""
		for _, s := range status(t, m).Services {
			if s.Name != "bench" && s.Name != "sshd" {
				text += s.Name + " " + s.State + "\n"
			}
		}
		return text
	}
	before := services()
	bench := func(args ...string) (code int, text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
		defer cancel()
		var out bytes.Buffer
		cmd := g.command(ctx, append([]string{"bench"}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		t.Logf("gwctl bench %s\n%s", strings.Join(args, " "), out.String())
		return cmd.ProcessState.ExitCode(), out.String()
	}
	read := func(to any, path ...string) {
		t.Helper()
		b, err := os.ReadFile(g.file(filepath.Join(path...)))
		if err == nil {
			err = json.Unmarshal(b, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	back := func() {
		t.Helper()
		await(t, m, "everything running again", settled)
		if after := services(); after != before {
			t.Errorf("services before\n%s\nafter\n%s", before, after)
		}
	}

	code, said := bench("release", "-out", "v1", "-port", port, "-runs", "3", "-time", "2s", "-stress", "0s", "-udp-runs", "1", "-udp-time", "2s", "-udp-rx-rate", "2M", "-udp-tx-rate", "2M", "-udp-length", "1400",
		"-gap", "1s", "-floor-tx", "0.1", "-floor-rx", "0.1", "first")
	// A loaded machine may make the gateway busy, or lose a segment: that is a flag.
	if code != 0 && code != 3 {
		t.Fatalf("exit status %d", code)
	}
	var r struct {
		Mode struct {
			Stopped []string
			Profile string
		} `json:"benchMode"`
		Gateway struct{ Kernel, Interface string }
		Phases  []struct {
			Name    string
			Summary struct {
				N      int
				Median float64
			}
			NsPerPacket float64
			Runs        []struct {
				Delta struct{ Device map[string]uint64 }
			}
		}
		Windows []struct {
			Name  string
			Delta struct{ SNMP, Driver map[string]uint64 }
		}
		Flags []struct{ Name string }
	}
	read(&r, "v1", "results.json")
	if len(r.Phases) != 4 || len(r.Windows) != 2 || len(r.Mode.Stopped) == 0 || r.Mode.Profile != "bench" || r.Gateway.Interface != "eth0" || r.Gateway.Kernel == "" {
		t.Fatalf("results %+v", r)
	}
	for i, p := range r.Phases {
		if want := []int{3, 3, 1, 1}[i]; p.Summary.N != want || p.Summary.Median <= 0 || p.NsPerPacket <= 0 || p.Runs[0].Delta.Device["rx packets"] == 0 {
			t.Errorf("phase %+v", p)
		}
	}
	if w := r.Windows; w[0].Name != "TCP" || w[0].Delta.SNMP["Tcp.InSegs"] == 0 || w[1].Name != "UDP" || w[1].Delta.SNMP["Udp.InDatagrams"] == 0 {
		t.Errorf("windows %+v", w)
	}
	for _, f := range r.Flags {
		if f.Name != "noise" && f.Name != "retransmits" {
			t.Errorf("flag %s", f.Name)
		}
	}
	if !strings.Contains(said, "bench mode: on") || !strings.Contains(said, "TCP TX") {
		t.Error("it does not tell how it goes")
	}
	back()

	// The hook is a gwctl of its own, which has to be let in between the points.
	hook := fmt.Sprintf("%s -H %s -i %s eth set {} -try >/dev/null", g.gwctl, m.Addr(board.BridgePort), g.file(g.key))
	code, said = bench("ab", "-out", "ab", "-port", port, "-pairs", "2", "-time", "1s", "-gap", "1s", "-any-load", "-bar", "1000", "-replays", "5", "-point", hook, "tx_queue_len=100", "tx_queue_len=1000")
	// Nobody gains 1000 Mbit/s here; two pairs may be too few to say so.
	if code != 3 && code != 4 || !strings.Contains(said, "registered ") || !strings.Contains(said, "bar +1000.00: not ") {
		t.Errorf("exit status %d", code)
	}
	var ab struct {
		Rounds, Replayed int
		Plan             struct{ Points []string }
		Comparisons      []struct {
			Point, Verdict string
			Values         []float64
			Paired         struct{ N int }
		}
	}
	read(&ab, "ab", "results.json")
	if ab.Rounds != 2 || len(ab.Comparisons) != 1 || ab.Comparisons[0].Paired.N != 2 || ab.Comparisons[0].Values[0] <= 0 || ab.Comparisons[0].Point != "tx_queue_len=1000" {
		t.Errorf("results %+v", ab)
	}
	for _, name := range []string{"v1/RESULTS.md", "v1/plots/tcp-tx.svg", "v1/plots/distribution.svg", "v1/raw/tcp-rx-01.json", "ab/RESULTS.md", "ab/plan.json", "ab/state.json", "ab/plots/B-tcp-tx.svg"} {
		if info, err := os.Stat(g.file(name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	back()
}
