//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// The button of the simulated bank, which is line 9 as on the Lidl: a press that
// means nothing, the radio's reset, and a factory reset over its reboot.
func TestButtonAndLED(t *testing.T) {
	t.Parallel()
	onEachKernel(t, buttonAndLED)
}

func buttonAndLED(t *testing.T, on func(*board.Config)) {
	m := start(t, on)
	shell(t, m)
	const brightness = "cat /sys/class/leds/status/brightness"
	s := await(t, m, "everything running", settled)
	if s.Panel == nil || !strings.HasPrefix(s.Panel.Button, "/dev/gpiochip0 line 9, looked at ") || len(s.Panel.LEDs) == 0 || s.Panel.LEDs[0] != "status" {
		t.Fatalf("panel %+v", s.Panel)
	}
	t.Logf("panel %+v", *s.Panel)
	pull := run(t, m, "echo /sys/devices/platform/gpio-sim*/gpiochip*/sim_gpio9/pull")
	// In the background: the console answers meanwhile.
	press := func(seconds string) {
		t.Helper()
		run(t, m, fmt.Sprintf("(echo pull-down >%[1]s; sleep %[2]s; echo pull-up >%[1]s) & true", pull, seconds))
	}

	press("4")
	awaitLog(t, m, "which means nothing")
	press("7")
	awaitLog(t, m, "let go now to reset the radio")
	awaitLog(t, m, "panel: the radio was reset")
	if log := run(t, m, "gwctl logs bridge"); !strings.Contains(log, "the radio is released") || !strings.Contains(log, "the radio is taken back") {
		t.Errorf("the bridge says:\n%s", log)
	}
	await(t, m, "the bridge having the radio again", func(s api.Status) bool { return s.Bridge != nil && s.Bridge.UARTOpen })

	// The LED says that a key can be enrolled. It is one without steps, so that
	// its brightness reads 1.
	run(t, m, "gwctl config set leds.MODE=dim hostname=cellar")
	awaitLog(t, m, "this is cellar.local") // by core's next process: a press that meets it does not count
	// By the guest's clock, which a busy host holds back.
	run(t, m, fmt.Sprintf("(for i in 1 2 3; do echo pull-down >%[1]s; sleep 2; echo pull-up >%[1]s; sleep 2; done) & true", pull))
	awaitLog(t, m, "pressed three times")
	await(t, m, "enrolment", func(s api.Status) bool {
		return s.Panel != nil && s.Panel.Pattern == "enrolment" && s.Panel.Enrol > 100
	})
	for end := time.Now().Add(time.Minute); ; wait(100 * time.Millisecond) {
		if run(t, m, brightness) != "0" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the LED is never lit")
		}
	}

	press("22")
	awaitLog(t, m, "makes the factory reset")
	if run(t, m, "gwctl config get hostname") != "cellar" {
		t.Error("the settings are gone without a confirmation")
	}
	press("2")
	if err := m.Console().WaitBoot(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
	if log := run(t, m, "gwctl logs userdata"); !strings.Contains(log, "factory reset: removed ") || strings.Contains(log, "NOT DONE") {
		t.Errorf("userdata says:\n%s", log)
	}
	if name, led := run(t, m, "gwctl config get hostname"), run(t, m, "gwctl config get leds.MODE"); name != "rtl8196e-gw" || led != "bright" {
		t.Errorf("host name %s, LEDs %s", name, led)
	}
	if s := status(t, m); s.BootMode != "normal" {
		t.Errorf("boot mode %s", s.BootMode)
	}
}

// A bridge that runs and does nothing is restarted, and the box stays up.
func TestServiceThatHangs(t *testing.T) {
	t.Parallel()
	onEachKernel(t, serviceThatHangs)
}

func serviceThatHangs(t *testing.T, on func(*board.Config)) {
	m := start(t, on)
	shell(t, m)
	s := await(t, m, "everything running", settled)
	pid := service(t, s, "bridge").PID
	run(t, m, fmt.Sprintf("kill -STOP %d", pid))
	s = await(t, m, "another bridge", func(s api.Status) bool {
		b := service(t, s, "bridge")
		return b.State == "running" && b.PID != pid
	})
	if log := run(t, m, "gwctl logs init"); !strings.Contains(log, "bridge: no sign of life for 1m0s: it is restarted") {
		t.Errorf("the log says:\n%s", log)
	}
	if s.Uptime < 60 || service(t, s, "core").Restarts != 0 {
		t.Errorf("up %v s, core %+v", s.Uptime, service(t, s, "core"))
	}
}
