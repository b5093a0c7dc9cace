//go:build e2e

package e2e

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/mtdimage"
	"gwinit/services/otbr-supervisor/otbrtest"
	"gwinit/services/otbr-supervisor/threaddata"
	"gwinit/test/board"
)

// fakeAgent is the fake otbr-agent for the emulated gateway, by our toolchain.
var fakeAgent = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../build")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "otbr-agent")
	cmd := exec.Command(filepath.Join(dir, "rlx"), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./services/otbr-supervisor/otbrtest/otbr-agent")
	cmd.Dir = "../.."
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the fake agent: %w\n%s", err, text)
	}
	return out, nil
})

// threadUserdata is a /userdata as the firmware of before leaves it in Thread
// mode: radio.conf without a word about REST, an agent, a network.
func threadUserdata(t *testing.T) string {
	t.Helper()
	agent, err := fakeAgent()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := threaddata.Parse(otbrtest.Settings(5000), binary.NativeEndian)
	if err != nil {
		t.Fatal(err)
	}
	return userdataWith(t, map[string][]byte{
		"etc/radio.conf":          []byte("FIRMWARE=otrcp\nFIRMWARE_BAUD=460800\nMODE=otbr\n"),
		"thread/" + otbrtest.Name: settings.Append(nil, binary.BigEndian), "usr/bin/otbr-agent": program,
	})
}

// userdataWith makes an image of /userdata that has nothing but these files, each
// of which may be run.
func userdataWith(t *testing.T, files map[string][]byte) (image string) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for name, data := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image = filepath.Join(dir, "userdata")
	command(t, ".", "mkfs.jffs2", "--root", root, "--output", image, "--big-endian", "--eraseblock=0x10000", "--no-cleanmarkers", "--squash",
		fmt.Sprintf("--pad=%#x", mtdimage.UserdataSize), "--disable-compressor=lzo", "--disable-compressor=rtime")
	return image
}

// thread is what gwctl thread says.
type thread struct {
	State    string `json:"state"`
	Role     string `json:"role"`
	AgentPID int    `json:"agentPid"`
	Network  string `json:"network"`
	Starts   int    `json:"starts"`
	LastEnd  string `json:"lastEnd"`
}

func awaitThread(t *testing.T, m *board.Machine, what string, ok func(thread) bool) thread {
	t.Helper()
	var last string
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		out, status, err := m.Console().RunCommand("gwctl thread -json", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if last = out; status != 0 || !strings.Contains(out, "{") {
			continue
		}
		if st := answer[thread](t, m, "gwctl thread -json"); ok(st) {
			return st
		}
	}
	t.Fatalf("never seen: %s; the last answer: %s\n%s", what, last, run(t, m, "gwctl logs -n 30 otbr"))
	panic("unreachable")
}

func ready(st thread) bool { return st.State == "ready" && st.Role == "leader" }

// counter is the MAC frame counter of a settings file on the box.
func counter(t *testing.T, m *board.Machine, path string) uint32 {
	t.Helper()
	for range 3 {
		out := run(t, m, "hexdump -C "+path)
		var b []byte
		for line := range strings.Lines(out) {
			if len(line) < 60 || line[8] != ' ' {
				continue
			}
			part, err := hex.DecodeString(strings.ReplaceAll(line[10:58], " ", ""))
			if err != nil {
				b = nil
				break // a line of the kernel's is in between
			}
			b = append(b, part...)
		}
		s, err := threaddata.Parse(b, binary.BigEndian)
		if err != nil {
			continue
		}
		if i, ok, err := s.Info(); ok && err == nil {
			return i.MAC
		}
	}
	t.Fatalf("%s is no settings file", path)
	panic("unreachable")
}

// A gateway that comes from the firmware of before in Thread mode: its network
// comes up, REST stays open until somebody closes it, whoever is killed or hangs
// comes back, and the radio goes to the bridge and back.
func TestThread(t *testing.T) {
	t.Parallel()
	m := start(t, func(c *board.Config) { c.Userdata = threadUserdata(t) })
	shell(t, m)
	st := awaitThread(t, m, "a leader", ready)
	if st.Network != "fake" || st.Starts != 1 {
		t.Errorf("%+v", st)
	}
	s := await(t, m, "the radio with the border router", func(s api.Status) bool {
		return s.Radio.Owner == "otbr" && s.Panel != nil && s.Panel.Pattern == "client"
	})
	if svc := service(t, s, "otbr"); svc.State != "running" {
		t.Errorf("the service is %+v", svc)
	}
	if got := counter(t, m, "/userdata/thread/"+otbrtest.Name); got < 5000+threaddata.Margin {
		t.Errorf("flash has the counter %d", got)
	}
	for name, want := range map[string]string{"all/forwarding": "1", "eth0/accept_ra": "2"} {
		if got := strings.TrimSpace(run(t, m, "cat /proc/sys/net/ipv6/conf/"+name)); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
	// REST is open as it was, doctor says so and how to close it, and that works.
	out, _, err := m.Console().RunCommand("gwctl doctor", time.Minute)
	if err != nil || !strings.Contains(out, "port 8081 is open to the network") || !strings.Contains(out, "gwctl config set radio.OTBR_REST_BIND=127.0.0.1") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	if out := run(t, m, "netstat -ltn"); !strings.Contains(out, ":::8081") {
		t.Errorf("REST is not open:\n%s", out)
	}
	run(t, m, "gwctl config set radio.OTBR_REST_BIND=127.0.0.1")
	st = awaitThread(t, m, "the agent with a closed REST", ready)
	if out := run(t, m, "netstat -ltn"); !strings.Contains(out, "127.0.0.1:8081") || strings.Contains(out, ":::8081") {
		t.Errorf("REST is not closed:\n%s", out)
	}
	// What people ask for.
	if out := run(t, m, "gwctl thread dataset"); !strings.Contains(out, hex.EncodeToString(otbrtest.Dataset)) || !strings.Contains(out, "network's key") {
		t.Errorf("dataset: %s", out)
	}
	if out := run(t, m, "gwctl thread children; gwctl thread routing; gwctl thread"); !strings.Contains(out, "RLOC16") || !strings.Contains(out, "br state:") || !strings.Contains(out, "fake, channel 15") {
		t.Errorf("thread: %s", out)
	}
	// The agent is killed.
	run(t, m, "kill -9 "+strconv.Itoa(st.AgentPID))
	next := awaitThread(t, m, "another agent", func(n thread) bool { return ready(n) && n.AgentPID != st.AgentPID })
	if !strings.Contains(next.LastEnd, "killed") {
		t.Errorf("%+v", next)
	}
	// The supervisor is killed: its agent goes with it.
	run(t, m, "kill -9 "+strconv.Itoa(service(t, status(t, m), "otbr").PID))
	st = awaitThread(t, m, "another supervisor", func(n thread) bool { return ready(n) && n.Starts == 1 && n.AgentPID != next.AgentPID })
	if out := run(t, m, "ps"); strings.Count(out, "otbr-agent") != 1 {
		t.Errorf("agents:\n%s", out)
	}
	// It hangs.
	run(t, m, `echo '{"mute":true}' >/tmp/otbr-agent.json`)
	awaitThread(t, m, "another agent for one that hangs", func(n thread) bool { return n.Starts >= 2 })
	run(t, m, "rm /tmp/otbr-agent.json")
	st = awaitThread(t, m, "an agent that answers", func(n thread) bool { return ready(n) && n.AgentPID != st.AgentPID })
	if !strings.Contains(st.LastEnd, "the agent hangs: no answer for 1m0s") && !strings.Contains(st.LastEnd, "not ready within 1m0s: REST: ") {
		t.Errorf("%+v", st)
	}
	// A backup, and back.
	run(t, m, "gwctl thread backup /tmp/network && gwctl thread restore /tmp/network")
	awaitThread(t, m, "the network from its backup", ready)
	// To the bridge and back.
	before := counter(t, m, "/tmp/thread/"+otbrtest.Name)
	run(t, m, "gwctl radio mode zigbee")
	await(t, m, "the radio with the bridge", func(s api.Status) bool {
		return s.Radio.Owner == "bridge" && service(t, s, "otbr").State == "stopped"
	})
	if out := run(t, m, "ps"); strings.Contains(out, "otbr-agent") {
		t.Errorf("an agent in Zigbee mode:\n%s", out)
	}
	run(t, m, "gwctl radio mode otbr")
	awaitThread(t, m, "a leader again", ready)
	if after := counter(t, m, "/tmp/thread/"+otbrtest.Name); after < before {
		t.Errorf("the counter went back from %d to %d", before, after)
	}
	// An agent that does not start at all, until it is failed.
	run(t, m, `echo '{"exit":3,"words":"no radio"}' >/tmp/otbr-agent.json; gwctl restart otbr || true`)
	s = await(t, m, "failed", func(s api.Status) bool { return service(t, s, "otbr").State == "failed" })
	if svc := service(t, s, "otbr"); !strings.Contains(svc.LastExit, "exit status 3; no radio") {
		t.Errorf("%+v", svc)
	}
	if out := run(t, m, "gwctl incidents"); !strings.Contains(out, "cold reset") || !strings.Contains(out, "has failed") {
		t.Errorf("incidents:\n%s", out)
	}
	run(t, m, "rm /tmp/otbr-agent.json; gwctl start otbr")
	awaitThread(t, m, "a leader after all", ready)
}

// The power is cut at any moment, also while the network is saved: no counter is
// used twice, and the network is there after each.
func TestThreadPowerCuts(t *testing.T) {
	t.Parallel()
	cuts := 4
	if soak {
		cuts = 40
	}
	m := start(t, func(c *board.Config) { c.Userdata = threadUserdata(t) })
	last := uint32(0)
	for cut := range cuts {
		shell(t, m)
		awaitThread(t, m, "a leader", ready)
		now := counter(t, m, "/tmp/thread/"+otbrtest.Name)
		if now < last {
			t.Fatalf("after cut %d the counter is %d, and %d was stored before", cut, now, last)
		}
		// A save every few seconds: more than a radio can send, and less than half
		// a margin between two looks.
		run(t, m, `echo '{"frames":10000}' >/tmp/otbr-agent.json`)
		time.Sleep(time.Duration(5000+rand.IntN(15000)) * time.Millisecond)
		last = counter(t, m, "/tmp/thread/"+otbrtest.Name)
		if last <= now {
			t.Fatalf("the counter stays at %d", last)
		}
		if err := m.PowerCut(); err != nil {
			t.Fatal(err)
		}
		if err := m.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, m)
	awaitThread(t, m, "a leader", ready)
	if now := counter(t, m, "/tmp/thread/"+otbrtest.Name); now < last {
		t.Errorf("after the last cut the counter is %d, and %d was stored before", now, last)
	}
}
