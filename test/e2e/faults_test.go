//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// Killing any service, as often as one likes, never hurts PID 1, leaves no
// zombie, and the service comes back. In the short form `gwctl start` cuts the
// back-off short; the soak waits for it.
func TestKillEveryService(t *testing.T) {
	t.Parallel()
	const times = 20
	m := start(t, nil)
	shell(t, m)
	s := await(t, m, "everything running", settled)
	for _, svc := range s.Services {
		if svc.PID == 0 {
			continue
		}
		t.Run(svc.Name, func(t *testing.T) {
			before := service(t, status(t, m), svc.Name)
			pid := before.PID
			for range times {
				if svc.Name == "console" {
					m.Console().Mark()
					if err := m.Console().SendLine("kill -9 $$"); err != nil {
						t.Fatal(err)
					}
					shell(t, m)
				} else {
					run(t, m, fmt.Sprintf("kill -9 %d", pid))
					if !soak {
						run(t, m, "gwctl start "+svc.Name)
					}
				}
				now := await(t, m, svc.Name+" running again", func(s api.Status) bool {
					n := service(t, s, svc.Name)
					return n.State == "running" && n.PID != pid
				})
				pid = service(t, now, svc.Name).PID
			}
			if got := service(t, status(t, m), svc.Name).Restarts - before.Restarts; got != times {
				t.Errorf("%s restarted %d times, want %d", svc.Name, got, times)
			}
		})
	}
	if out, code, err := m.Console().RunCommand("grep -l 'State:.*Z' /proc/[0-9]*/status", time.Minute); err != nil || code != 1 {
		t.Errorf("zombies: %s, status %d, %v", out, code, err)
	}
	if comm := run(t, m, "cat /proc/1/cmdline"); !strings.Contains(comm, "init") {
		t.Errorf("process 1 is %q", comm)
	}
	s = await(t, m, "everything running in the end", settled)
	if s.Uptime < 1 || len(s.Warnings) != 0 {
		t.Errorf("uptime %v, warnings %q", s.Uptime, s.Warnings)
	}
}

// Ten power cuts in a row at random moments of a box that boots and writes:
// each boot comes up, the partition is mounted, and a file that was replaced
// holds one of the two versions whole (INV 6, INV 10).
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	cuts := 10
	if soak {
		cuts = 200
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	m := start(t, nil)
	set := func(n int) string { return fmt.Sprintf("gwctl config set GW_LOG_KIB %d", n) }
	next := func(n int) int { return max(16, (n+1)%257) } // the setting's range
	written := 64                                         // what the setting is known to be: its default, then what was confirmed
	for cut := range cuts {
		// A cut falls anywhere from the kernel's first instructions to some
		// seconds of a box that writes its settings all the time.
		if rnd.IntN(2) == 0 {
			wait(time.Duration(rnd.IntN(6000)) * time.Millisecond)
		} else {
			shell(t, m)
			n, err := strconv.Atoi(run(t, m, "gwctl config get GW_LOG_KIB"))
			if err != nil || n != written && n != next(written) {
				t.Fatalf("cut %d: GW_LOG_KIB is %d (%v) after %d was confirmed and %d begun", cut, n, err, written, next(written))
			}
			written = n
			for range rnd.IntN(6) {
				run(t, m, set(next(written)))
				written = next(written)
			}
			// One more that the cut does not wait for.
			if err := m.Console().SendLine(set(next(written))); err != nil {
				t.Fatal(err)
			}
			wait(time.Duration(rnd.IntN(400)) * time.Millisecond)
		}
		if err := m.PowerCut(); err != nil {
			t.Fatal(err)
		}
		if err := m.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, m)
	s := await(t, m, "everything running", settled)
	if s.Userdata.State != "mounted" || len(s.Warnings) != 0 {
		t.Errorf("after %d cuts: userdata %+v, warnings %q", cuts, s.Userdata, s.Warnings)
	}
}

// wait lets a random moment come: there is nothing to wait for.
func wait(d time.Duration) { <-time.After(d) }

// dial connects to the bridge and sees to it that it is the client: a byte
// through the radio's UART and back.
func dial(t *testing.T, m *board.Machine) *net.TCPConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	if err := m.WaitPort(ctx, board.BridgePort); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", m.Addr(board.BridgePort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// wire connects to the radio's end of the UART.
func wire(t *testing.T, m *board.Machine) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", m.RadioPath())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A client gets FIN, never RST, when the box reboots, although it writes all
// the time and has bytes unread.
func TestShutdownClosesWithFIN(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"reboot", "gwctl restart bridge"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			m := start(t, nil)
			shell(t, m)
			await(t, m, "everything running", settled)
			radio := wire(t, m)
			go func() { _ = discard(radio) }()
			c := dial(t, m)
			if _, err := c.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			await(t, m, "the client", func(s api.Status) bool { return s.Bridge != nil && s.Bridge.Client != nil })
			go func() {
				for {
					if _, err := c.Write(bytes.Repeat([]byte{0x55}, 512)); err != nil {
						return
					}
				}
			}()
			if err := m.Console().SendLine(command); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if err := discard(c); err != nil {
				t.Errorf("the client's connection ended with %v, want FIN", err)
			}
		})
	}
}

// The shutdown is bounded although a service ignores SIGTERM and the bridge's
// client does nothing.
func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	c := dial(t, m)
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	// A stopped process takes no SIGTERM.
	run(t, m, fmt.Sprintf("kill -STOP %d", service(t, status(t, m), "core").PID))
	if err := m.Console().SendLine("reboot"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Console().WaitFor("stopping services", 20*time.Second); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := m.Console().WaitBoot(time.Minute); err != nil {
		t.Fatal(err)
	}
	// 15 s of the box; its clock is the host's, give or take what QEMU and a
	// loaded machine add until the next kernel says something.
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("the shutdown took %v, want at most 15 s of the box", took)
	}
	shell(t, m)
}

// The listening socket outlives its process: a client that connects while the
// bridge is dead waits, and is served.
func TestConnectWhileTheBridgeIsDead(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	s := await(t, m, "everything running", settled)
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	if err := m.WaitPort(ctx, board.BridgePort); err != nil {
		t.Fatal(err)
	}
	radio := wire(t, m)
	run(t, m, fmt.Sprintf("kill -9 %d", service(t, s, "bridge").PID))
	c, err := net.Dial("tcp", m.Addr(board.BridgePort)) // within the second of the back-off
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("still here"))
	if err := radio.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(radio, got); err != nil || string(got) != "still here" {
		t.Errorf("the radio heard %q, %v", got, err)
	}
}

// 256 KiB of every byte value both ways through the emulated UART, exactly.
func TestBytesBothWays(t *testing.T) {
	t.Parallel()
	onEachKernel(t, bytesBothWays)
}

func bytesBothWays(t *testing.T, on func(*board.Config)) {
	m := start(t, on) // hardware flow control: with software's, two of the values mean something else
	shell(t, m)
	await(t, m, "everything running", settled)
	radio := wire(t, m)
	c := dial(t, m)
	const size = 256 << 10
	data := make([]byte, size)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	copy(data, "x") // not the start of an SSH greeting
	if _, err := c.Write(data[:1]); err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, from io.Reader, want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		if n, err := io.ReadFull(from, got); err != nil || !bytes.Equal(got, want) {
			at := 0
			for at < n && got[at] == want[at] {
				at++
			}
			t.Fatalf("after %d of %d bytes: %v; the first difference is at %d", n, len(want), err, at)
		}
	}
	deadline := time.Now().Add(3 * time.Minute)
	for _, conn := range []net.Conn{c, radio} {
		if err := conn.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
	}
	check(t, radio, data[:1])
	sent := make(chan error, 2)
	go func() { _, err := c.Write(data[1:]); sent <- err }()
	check(t, radio, data[1:])
	go func() { _, err := radio.Write(data); sent <- err }()
	check(t, c, data)
	if err := errors.Join(<-sent, <-sent); err != nil {
		t.Fatal(err)
	}
	b := status(t, m).Bridge
	if b == nil || b.TxBytes != size || b.RxBytes != size || b.Overruns+b.BufOverruns+b.QueueDropped != 0 {
		t.Errorf("the bridge counts %+v, want %d bytes each way and no loss", b, size)
	}
}

// A cable that is pulled and put back, and a boot without one (INV 10).
func TestCable(t *testing.T) {
	t.Parallel()
	m := start(t, func(c *board.Config) { c.Unplugged = true })
	shell(t, m)
	await(t, m, "the bridge, without a cable", func(s api.Status) bool {
		return s.Bridge != nil && s.Bridge.UARTOpen && s.Network != nil && !s.Network.Carrier && s.Network.State == "no-carrier"
	})
	for range 2 {
		if err := m.SetLink(true); err != nil {
			t.Fatal(err)
		}
		await(t, m, "an address", settled)
		if err := m.SetLink(false); err != nil {
			t.Fatal(err)
		}
		await(t, m, "no carrier", func(s api.Status) bool { return s.Network != nil && !s.Network.Carrier })
	}
}

// The incumbent's settings are the box's, and what is wrong in them is said.
func TestSettingsOfTheIncumbent(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	run(t, m, `printf 'IPADDR=10.0.2.77\nNETMASK=255.255.255.0\nGATEWAY=10.0.2.2\n' > /userdata/etc/eth0.conf`)
	run(t, m, `printf 'FIRMWARE=ncp\nFIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=sw\nFIRMWARE_COLOUR=red\n' > /userdata/etc/radio.conf`)
	run(t, m, `echo attic > /userdata/etc/hostname`)
	reboot(t, m, "reboot")
	s := await(t, m, "the static address", func(s api.Status) bool {
		return s.Network != nil && s.Network.State == "static" && s.Bridge != nil
	})
	if !strings.HasPrefix(strings.Join(s.Network.Addresses, " "), "10.0.2.77/24") || s.Hostname != "attic" {
		t.Errorf("host %s, network %+v", s.Hostname, s.Network)
	}
	if s.Bridge.Baud != 115200 || s.Bridge.Flow != "sw" {
		t.Errorf("the UART is at %d baud, flow %s; want 115200, sw", s.Bridge.Baud, s.Bridge.Flow)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "FIRMWARE_COLOUR") {
		t.Errorf("warnings %q, want one about FIRMWARE_COLOUR", s.Warnings)
	}
}

// The Sengled G4's data on the emulated board with 64 MiB.
func TestSengled(t *testing.T) {
	t.Parallel()
	m := start(t, func(c *board.Config) {
		c.RAMMiB = 64
		c.Append = append(c.Append, "gw.board=sengled-e39-g8c")
	})
	shell(t, m)
	s := await(t, m, "everything running", settled)
	if s.Board.ID != "sengled-e39-g8c" || !s.Board.Emulated || s.Memory.Total < 50<<10 {
		t.Errorf("board %+v, memory %+v", s.Board, s.Memory)
	}
	reboot(t, m, "gwctl reboot -safe")
	if mode := status(t, m).BootMode; mode != "safe" {
		t.Errorf("boot mode %s after reboot -safe", mode)
	}
}

// boothold leaves the loader's words where the loader looks for them, over a
// reset that keeps the RAM.
func TestBoothold(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	if out := run(t, m, "boothold 192.168.1.50"); !strings.Contains(out, "Boot hold set at 0x") {
		t.Errorf("boothold said %q", out)
	}
	for addr, want := range map[string]string{"0x01FFEFFC": "0x484F4C44", "0x01FFEFF8": "0x49505634", "0x01FFEFF4": "0xC0A80132"} {
		if got := run(t, m, "devmem "+addr+" 32"); !strings.EqualFold(got, want) {
			t.Errorf("the word at %s is %s, want %s", addr, got, want)
		}
	}
	reboot(t, m, "reboot")
	if got := run(t, m, "devmem 0x01FFEFFC 32"); !strings.EqualFold(got, "0x484F4C44") {
		t.Errorf("after the reset the word is %s: the emulated board has no loader that takes it", got)
	}
}

// Two builds of one commit are the same bytes.
func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	again := t.TempDir()
	command(t, "../..", "make", "--no-print-directory", "image", "OUT="+again)
	for _, name := range []string{"rootfs.bin", "userdata.bin"} {
		a, err := os.ReadFile(filepath.Join("../../build", name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(again, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs from one build to the next", name)
		}
	}
}

// In Thread mode the radio's port answers and refuses, and status says why.
func TestThreadMode(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	run(t, m, "gwctl config set radio.MODE otbr || true") // without an agent
	s := await(t, m, "the bridge without a radio", func(s api.Status) bool {
		return s.Radio.Mode == "otbr" && s.Bridge != nil && !s.Bridge.UARTOpen && s.Radio.Owner == ""
	})
	if b := service(t, s, "bridge"); b.State != "running" {
		t.Errorf("the bridge is %+v", b)
	}
	c := dial(t, m)
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := discard(c); err != nil {
		t.Errorf("a raw client in Thread mode: %v, want the end", err)
	}
	if logs := run(t, m, "gwctl logs bridge"); !strings.Contains(logs, "Thread") {
		t.Errorf("the log does not say why:\n%s", logs)
	}
	run(t, m, "gwctl config unset radio.MODE")
	await(t, m, "the bridge with the radio again", func(s api.Status) bool {
		return s.Bridge != nil && s.Bridge.UARTOpen && s.Radio.Owner == "bridge"
	})
}

// Whatever somebody sends to PID 1, it stays (INV 1). USR1, USR2, INT and TERM
// end the boot, in order; all others do nothing.
func TestSignalsToPID1(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	const usr1, usr2 = 16, 17 // MIPS numbers
	for sig := 1; sig <= 64; sig++ {
		if sig == 2 || sig == 15 || sig == usr1 || sig == usr2 {
			continue
		}
		run(t, m, fmt.Sprintf("kill -%d 1", sig))
	}
	s := status(t, m)
	if len(s.Warnings) != 0 || s.Uptime < 1 {
		t.Errorf("uptime %v, warnings %q", s.Uptime, s.Warnings)
	}
	if logs := run(t, m, "gwctl logs init"); !strings.Contains(logs, "not a signal that PID 1 acts on") {
		t.Errorf("the log does not tell of them:\n%s", logs)
	}
}

// The status follows what becomes of /userdata later.
func TestUserdataLater(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	run(t, m, "mount -o remount,ro /userdata")
	if u := status(t, m).Userdata; u.State != "mounted" || !strings.Contains(u.Reason, "read-only") {
		t.Errorf("after a remount: %+v", u)
	}
	run(t, m, "umount /userdata")
	if u := status(t, m).Userdata; u.State != "failed" {
		t.Errorf("after umount: %+v", u)
	}
	if out, code, err := m.Console().RunCommand("gwctl stop console", time.Minute); err != nil || code == 0 {
		t.Errorf("gwctl stop console: status %d, %v: %s", code, err, out)
	}
}
