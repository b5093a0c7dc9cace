//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/test/board"
)

// command runs a program and wants it to succeed; it returns its output.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", strings.Join(args, " "), err, tail(out.String()), tail(errs.String()))
	}
	return out.String()
}

// tail is the end of a long output.
func tail(s string) string {
	const most = 6000
	if len(s) > most {
		return "..." + s[len(s)-most:]
	}
	return s
}

// simulator starts the radio simulator on the board's UART and returns its
// control socket. The radio takes the rate that the gateway sets.
func simulator(t *testing.T, m *board.Machine, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "radiosim")
	command(t, "../..", "go", "build", "-o", bin, "./test/radio/sim")
	control := filepath.Join(dir, "control")
	cmd := exec.Command(bin, append([]string{"-connect", "unix:" + m.RadioPath(), "-control", "unix:" + control, "-network", filepath.Join(dir, "network.json")}, args...)...)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			if b, err := os.ReadFile(log.Name()); err == nil {
				t.Logf("the simulator said:\n%s", tail(string(b)))
			}
		}
	})
	return control
}

// A real Zigbee client on port 8888: zigbee-herdsman, the library inside
// Zigbee2MQTT, comes up on a network that is there and on one restored from a
// backup, interviews a device, and gets 1,000 messages in order over a restart
// of itself and a connection that is cut.
func TestZigbeeHerdsman(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	control := simulator(t, m, "-form", "-baud", "115200")
	shell(t, m)
	run(t, m, `printf 'FIRMWARE=ncp\nFIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=none\n' > /userdata/etc/radio.conf`)
	run(t, m, "gwctl restart bridge")
	await(t, m, "everything running", settled)
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	if err := m.WaitPort(ctx, board.BridgePort); err != nil {
		t.Fatal(err)
	}
	out := command(t, "../herdsman", "./run.sh", "--url", "tcp://"+m.Addr(board.BridgePort), "--control", control, "--timeout", "300")
	var result struct {
		OK    bool            `json:"ok"`
		Steps json.RawMessage `json:"steps"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(out)), &result); err != nil || !result.OK {
		t.Fatalf("the client says %s (%v)", out, err)
	}
	t.Logf("zigbee-herdsman: %s", strings.TrimSpace(out))
	b := status(t, m).Bridge
	if b == nil || b.Overruns+b.BufOverruns+b.FrameErrors+b.QueueDropped != 0 {
		t.Errorf("the bridge counts losses: %+v", b)
	}
	if b != nil && b.Connects < 3 {
		t.Errorf("%d connects; the client reconnects at least twice", b.Connects)
	}
}

// What the README tells a newcomer: make run, make status, make stop, with
// ports that are free here.
func TestMakeRun(t *testing.T) {
	const bridge, ssh = "18888", "12222"
	makeVars := []string{"HEADLESS=1", "BRIDGE_PORT=" + bridge, "SSH_PORT=" + ssh, "RESET=1", "ROOTFS=" + abs(t, rootfsBin), "KERNEL=" + kernel}
	mk := func(args ...string) string {
		return command(t, "../..", append([]string{"make", "--no-print-directory"}, args...)...)
	}
	mk(append([]string{"run"}, makeVars...)...)
	defer mk("stop")
	if out := mk("status"); !strings.Contains(out, "bridge") || !strings.Contains(out, "8888") {
		t.Errorf("make status shows\n%s", out)
	}
	if out, err := exec.Command("make", append([]string{"-C", "../..", "run"}, makeVars...)...).CombinedOutput(); err == nil {
		t.Errorf("a second make run beside the first did not say so:\n%s", out)
	}
	mk("stop")
	mk("stop") // safe to say twice
	if out, err := exec.Command("make", "-C", "../..", "image", "BOARD=tuya").CombinedOutput(); err == nil || !strings.Contains(string(out), "sengled-e39-g8c") {
		t.Errorf("make image of a board that is not there: %v\n%s", err, out)
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
