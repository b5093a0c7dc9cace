// Package herdsman holds the real client of the end-to-end tests:
// zigbee-herdsman, the library inside Zigbee2MQTT (e2e.mjs, install.sh). Its Go
// test runs the client against the simulated radio with nothing in between, so
// that what fails behind a gateway is the gateway's.
package herdsman

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// result is the line that e2e.mjs prints.
type result struct {
	OK      bool
	Error   string
	Resumed struct{ Firmware string }
	Join    struct{ IEEE string }
	Reports struct{ Received int }
	Cut     struct{ Before, After, InFlight int }
}

func TestClientAgainstSimulator(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Second)
	defer cancel()
	// Missing tools fail this test and are not a reason to skip it: without it
	// nothing says that the simulator is like a radio.
	dir, err := exec.CommandContext(ctx, "./install.sh").Output()
	if err != nil {
		t.Fatalf("install the client (needs node 20, npm and once the network): %v", err)
	}
	tmp := t.TempDir()
	sim := filepath.Join(tmp, "sim")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", sim, "gwinit/test/radio/sim").CombinedOutput(); err != nil {
		t.Fatalf("build the simulator: %v\n%s", err, out)
	}

	for _, tt := range []struct {
		name  string
		sim   []string
		e2e   []string
		count int
	}{
		{"all steps at 115200 baud", nil, []string{"--reports", "300", "--cut-reports", "150"}, 300},
		{
			"1000 messages at 892857 baud",
			[]string{"-baud", "892857"},
			[]string{"--steps", "resumed,join,reports", "--reports", "1000"},
			1000,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctl := filepath.Join(t.TempDir(), "ctl")
			radio := exec.CommandContext(ctx, sim, append(tt.sim, "-listen", "tcp:127.0.0.1:0", "-control", "unix:"+ctl, "-form")...)
			radio.Stderr = os.Stderr
			radio.Cancel = func() error { return radio.Process.Signal(syscall.SIGTERM) }
			out, err := radio.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := radio.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = radio.Process.Signal(syscall.SIGTERM)
				if err := radio.Wait(); err != nil {
					t.Errorf("simulator: %v", err)
				}
			}()
			line, err := bufio.NewReader(out).ReadString('\n')
			addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
			if !ok {
				t.Fatalf("simulator said %q: %v", line, err)
			}

			args := append([]string{"--url", "tcp://" + addr, "--control", ctl, "--dir", strings.TrimSpace(string(dir)), "--timeout", "60"}, tt.e2e...)
			client := exec.CommandContext(ctx, "./run.sh", args...)
			var said, log bytes.Buffer
			client.Stdout, client.Stderr = &said, &log
			err = client.Run()
			var r result
			if jerr := json.Unmarshal(said.Bytes(), &r); jerr != nil || err != nil || !r.OK {
				t.Fatalf("client: %v, %v: %s\n%s", err, jerr, said.String(), log.String())
			}
			if r.Reports.Received != tt.count || r.Join.IEEE != "0x00124b00cafe0001" || r.Resumed.Firmware != "7.5.1 [GA]" {
				t.Errorf("client found %+v, want %d reports", r, tt.count)
			}
			t.Logf("%s", said.String())
		})
	}
}
