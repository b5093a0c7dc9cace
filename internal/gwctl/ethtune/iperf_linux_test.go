package ethtune

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/netdev/netlab"
	driver "gwinit/services/eth/tune"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// The command with real iperf3 at both ends of a cable and a real tuner at the one
// that is the gateway. What is better is the machine's matter; that what is said,
// what is in force and what is kept agree is not.
func TestIperf(t *testing.T) {
	root := netlab.Root(t)
	pc := netlab.Cable(t, "eth0", "pc0")
	netlab.Run(t, "ip", "addr", "add", "10.7.0.1/24", "dev", "eth0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	pc.Run("ip", "addr", "add", "10.7.0.2/24", "dev", "pc0")

	gateway := driver.New(driver.Options{Root: root, Log: func(line string) { t.Log(line) }})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- gateway.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	eventually := func(what string, ok func() bool) {
		t.Helper()
		poll := time.NewTicker(20 * time.Millisecond)
		defer poll.Stop()
		for began := time.Now(); !ok(); <-poll.C {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("never: %s", what)
			}
		}
	}
	eventually("the tuner has found eth0", func() bool { return gateway.Status().Driver == "veth" })
	server := netlab.Start(t, "iperf3", "-s", "-B", "10.7.0.1")
	eventually("iperf3 listens", func() bool { return strings.Contains(netlab.Run(t, "ss", "-nlt"), ":5201") })

	var out bytes.Buffer
	tuned := func(args ...string) error {
		out.Reset()
		tu := &tuner{
			ctx: t.Context(), std: applet.IO{Out: &out},
			ask: func(_ context.Context, _ string, args any) (json.RawMessage, error) {
				call := args.(api.CallArgs)
				return gateway.Call(call.Method, call.Params)
			},
			run: func(ctx context.Context, argv ...string) ([]byte, error) {
				return shell(ctx, append([]string{"nsenter", "-t", pc.PID(), "-n", "--"}, argv...)...)
			},
		}
		changes, err := tu.options(args)
		if err != nil {
			t.Fatal(err)
		}
		return tu.all(changes)
	}
	for _, reverse := range []string{"-reverse=false", "-reverse"} {
		before := gateway.Status().Knobs
		change := map[string]string{"-reverse=false": "tcp_slow_start_after_idle=0", "-reverse": "tx_checksum=off"}[reverse]
		if err := tuned("-peer", "10.7.0.1", "-time", "1s", "-pairs", "4", reverse, change); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", out.String())
		var after, without, gain, low, high float64
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		verdict := lines[len(lines)-1]
		if _, err := fmt.Sscanf(verdict, change+": %f instead of %f, %f (95 %%: %f to %f, 4 pairs);", &after, &without, &gain, &low, &high); err != nil {
			t.Fatalf("%q: %v", verdict, err)
		}
		if len(lines) != 5 || after <= 0 || without <= 0 || low > gain || gain > high {
			t.Errorf("output\n%s", out.String())
		}
		now := gateway.Status()
		stored, _ := os.ReadFile(filepath.Join(root, "userdata/etc/gateway.conf"))
		kept := strings.HasSuffix(verdict, "; kept")
		if kept != (low > 0) || kept != strings.Contains(string(stored), change) || kept != (now.Knobs == strings.TrimSpace(before+" "+change)) || !kept && now.Knobs != before || !now.Kept {
			t.Errorf("%s: in force %q, stored %q", verdict, now.Knobs, stored)
		}
	}

	// Nobody listens.
	server()
	before := gateway.Status().Knobs
	if err := tuned("-peer", "10.7.0.1", "-time", "1s", "-pairs", "4", "tx_queue_len=500"); err == nil || !strings.Contains(err.Error(), "tx_queue_len=500: iperf3: ") || !strings.Contains(err.Error(), "Connection refused") {
		t.Errorf("%v", err)
	}
	if now := gateway.Status(); now.Knobs != before || now.Profile != "stock" {
		t.Errorf("left as %s %q", now.Profile, now.Knobs)
	}
}
