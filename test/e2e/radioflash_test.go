//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/radioproto/xmodem"
	"gwinit/test/board"
	"gwinit/test/radio/gecko"
)

// tell has the simulated radio carry out a command.
func tell(t *testing.T, control, command string) {
	t.Helper()
	c, err := net.Dial("unix", control)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(command + "\n")); err != nil {
		t.Fatal(err)
	}
	if answer, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(answer, `"ok":true`) {
		t.Fatalf("%s: %s, %v", command, answer, err)
	}
}

// The radio of an emulated gateway is switched from Zigbee to Thread and back by
// flashing images from another computer, over faults at several steps, a session
// that breaks in the middle, and uploads that fail and are done again.
func TestRadioFlash(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	control := simulator(t, m, "-form", "-baud", "115200")
	shell(t, m)
	run(t, m, `printf 'FIRMWARE=ncp\nFIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=none\n' > /userdata/etc/radio.conf`)
	run(t, m, "gwctl restart bridge")
	await(t, m, "everything running", settled)
	g := &manager{person: newPerson(t, m), key: "id"}
	g.gwctl = g.file("gwctl")
	if out, err := exec.Command("go", "build", "-o", g.gwctl, "../../cmd/gwctl").CombinedOutput(); err != nil {
		t.Fatalf("build gwctl: %v\n%s", err, out)
	}
	if err := os.Mkdir(g.file(".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.letIn()
	for name, app := range map[string]gecko.App{
		"thread.gbl": {Kind: "otrcp", Baud: 460800, Flow: "none"},
		"zigbee.gbl": {Kind: "ncp", Baud: 115200, Flow: "none"},
	} {
		meta := `{"baudrate":115200}`
		if app.Kind == "otrcp" {
			meta = `{"baudrate":460800}`
		}
		if err := os.WriteFile(g.file(name), gecko.Build(gecko.Image{App: &app, Bytes: 20000, Metadata: meta}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(g.file("long"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	is := func(what, mode, firmware, version string, baud int) {
		t.Helper()
		s := await(t, m, what, func(s api.Status) bool {
			r := s.Radio
			return r.Mode == mode && r.Firmware == firmware && r.Answer != nil && r.Answer.Firmware == firmware && r.Owner != "flash"
		})
		r := s.Radio
		if r.FirmwareVersion != version || r.BootloaderVersion != "2.4.2" || r.Answer.Baud != baud {
			t.Errorf("%s: the radio is %+v, it answered %+v", what, r, r.Answer)
		}
		if mode == "zigbee" && r.Owner != "bridge" {
			t.Errorf("%s: %q has the radio", what, r.Owner)
		}
	}
	// fails wants a command to fail with that in its words.
	fails := func(word string, args ...string) {
		t.Helper()
		for try := 1; ; try++ {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			out, err := g.command(ctx, args...).CombinedOutput()
			cancel()
			said := string(out)
			if err != nil && try < 6 && (strings.Contains(said, "no SSH server answered within") || strings.Contains(said, "handshake failed")) {
				wait(5 * time.Second)
				continue
			}
			if err == nil || !strings.Contains(said, word) {
				t.Errorf("gwctl %q: %v, want %q in\n%s", args, err, word, said)
			}
			return
		}
	}

	if out := g.do("radio", "flash", "thread.gbl"); !strings.Contains(out, "sent 100 %") || !strings.Contains(out, "a Thread co-processor (Spinel)") {
		t.Errorf("flashed:\n%s", out)
	}
	is("Thread", "otbr", "otrcp", "2.4.4", 460800)

	// The upload is cancelled, and then the power fails in the middle: it is sent
	// again by itself.
	tell(t, control, "loader cancel 9")
	tell(t, control, "loader power 20")
	g.do("radio", "flash", "zigbee.gbl")
	is("Zigbee", "zigbee", "ncp", "7.5.1", 115200)

	// It fails for good, and the same command again is the way back.
	tell(t, control, "loader refuse 100")
	fails("the way back", "radio", "flash", "thread.gbl")
	if r := answer[api.Radio](t, m, "gwctl radio -json"); r.Mode != "zigbee" || r.Firmware != "ncp" || r.Owner != "bridge" {
		t.Errorf("after the failure the radio is %+v", r)
	}
	tell(t, control, "loader refuse 0")
	if a := answer[api.RadioAnswer](t, m, "gwctl radio probe -json"); a.Kind != "bootloader" || a.Version != "2.4.2" {
		t.Errorf("after the failure %+v answers", a)
	}
	g.do("radio", "flash", "thread.gbl")
	is("Thread again", "otbr", "otrcp", "2.4.4", 460800)

	// The computer is gone in the middle of it: the gateway goes on.
	for try := 1; ; try++ {
		var out bytes.Buffer
		cmd := g.command(t.Context(), "radio", "flash", "zigbee.gbl")
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		sending := false
		for in := bufio.NewScanner(pipe); !sending && in.Scan(); {
			sending = strings.HasPrefix(in.Text(), "sent  1")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if sending {
			break
		}
		if try == 6 {
			t.Fatalf("it does not begin:\n%s", out.String())
		}
		wait(5 * time.Second)
	}
	is("Zigbee, with nobody watching", "zigbee", "ncp", "7.5.1", 115200)

	// A flasher elsewhere, on port 8888 at the bootloader's rate.
	if a := answer[api.RadioAnswer](t, m, "gwctl radio bootloader -json"); a.Kind != "bootloader" {
		t.Errorf("the bootloader: %+v", a)
	}
	run(t, m, "gwctl radio passthrough -for 20m >/tmp/passthrough 2>&1 & echo $! >/tmp/pid")
	image, err := os.ReadFile(g.file("zigbee.gbl"))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(run(t, m, "cat /tmp/passthrough"), "listening on"); wait(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("port 8888 is not served:\n%s", run(t, m, "cat /tmp/passthrough"))
		}
	}
	// It has one connection for each thing that it asks, and leaves the one before,
	// by which it has had the firmware start the bootloader, open.
	before := dial(t, m)
	defer before.Close()
	if _, err := before.Write([]byte{0x1a, 0xc0, 0x38, 0xbc, 0x7e}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(run(t, m, "cat /tmp/passthrough"), " connected"); wait(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("nobody is connected:\n%s", run(t, m, "cat /tmp/passthrough"))
		}
	}
	c, err := net.Dial("tcp", m.Addr(board.BridgePort))
	if err != nil {
		t.Fatal(err)
	}
	flashElsewhere(t, c, image)
	_ = c.Close()
	run(t, m, "kill -INT $(cat /tmp/pid)")
	await(t, m, "the bridge of before", func(s api.Status) bool {
		return service(t, s, "bridge").State == "running" && s.Radio.Owner == "bridge" && s.Bridge != nil && s.Bridge.UARTOpen
	})

	// An image that is none, and one for another chip, on the box.
	fails("Nothing was changed", "radio", "flash", "id")
	fails("too long", "radio", "flash", "long")
	if _, status, err := m.Console().RunCommand("echo no image | gwctl radio flash -", time.Minute); err != nil || status != 1 {
		t.Errorf("flash of a text: status %d, %v", status, err)
	}
	if a := answer[api.RadioAnswer](t, m, "gwctl radio probe -json"); a.Kind != "ezsp" || a.Protocol != 13 {
		t.Errorf("at the end %+v answers", a)
	}
	await(t, m, "the bridge having the radio", func(s api.Status) bool { return s.Radio.Owner == "bridge" && s.Bridge != nil && s.Bridge.UARTOpen })
}

// flashElsewhere is what universal-silabs-flasher does on a socket with a radio that
// is in its bootloader: menu, upload, run.
func flashElsewhere(t *testing.T, c net.Conn, image []byte) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	send := func(p []byte) {
		t.Helper()
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	until := func(end string) {
		t.Helper()
		for said := ""; !strings.HasSuffix(said, end); {
			b, err := in.ReadByte()
			if err != nil {
				t.Fatalf("%v, before %q, behind %q", err, end, said)
			}
			said += string(rune(b))
		}
	}
	acked := func(what []byte) {
		t.Helper()
		send(what)
		for {
			b, err := in.ReadByte()
			if err != nil {
				t.Fatal(err)
			}
			switch b {
			case xmodem.ACK:
				return
			case xmodem.CRC, 0:
			default:
				t.Fatalf("the bootloader answers %#x", b)
			}
		}
	}
	send([]byte("\n"))
	until("BL > ")
	send([]byte("3"))
	until("BL > ")
	send([]byte("1"))
	until("begin upload\r\n")
	until("C")
	for i := range xmodem.Blocks(len(image)) {
		acked(xmodem.AppendBlock(nil, image, i))
	}
	acked([]byte{xmodem.EOT})
	until("Serial upload complete\r\n")
	until("BL > ")
	send([]byte("2"))
	// It is not there when the connection ends.
	wait(time.Second)
}
