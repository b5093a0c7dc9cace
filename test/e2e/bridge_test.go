//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
	"gwinit/test/radio/ash"
)

// ashHost is the host's end of an ASH link, as far as these tests need it. It
// keeps every byte, and counts.
type ashHost struct {
	conn           net.Conn
	dec            ash.Decoder
	sent, received []byte
	frmTx, frmRx   uint8
	seq            byte
	tx, rx         api.ASHCounter
}

func (h *ashHost) send(p []byte) error {
	h.sent = append(h.sent, p...)
	_, err := h.conn.Write(p)
	return err
}

// frame reads until a frame of that kind is complete.
func (h *ashHost) frame(kind ash.Kind) (ash.Frame, error) {
	var b [1]byte
	for {
		if _, err := h.conn.Read(b[:]); err != nil {
			return ash.Frame{}, fmt.Errorf("wait for %v: %w", kind, err)
		}
		h.received = append(h.received, b[0])
		f, done, err := h.dec.Write(b[0])
		if err != nil {
			return f, err
		}
		if !done {
			continue
		}
		switch f.Kind {
		case ash.Data:
			h.rx.Data++
			h.frmRx = (f.FrmNum + 1) & 7
			if f.ReTx { // we answer slower than the radio waits
				h.rx.Resent++
			}
		case ash.Ack:
			h.rx.Ack++
		case ash.RstAck:
			h.rx.RstAck++
		default:
			return f, fmt.Errorf("the radio says %v", f.Kind)
		}
		if f.Kind == kind {
			return f, nil
		}
	}
}

func (h *ashHost) begin() error {
	h.tx.Rst++
	if err := h.send(append([]byte{ash.Cancel}, ash.Frame{Kind: ash.Rst}.Append(nil)...)); err != nil {
		return err
	}
	f, err := h.frame(ash.RstAck)
	if err == nil && f.Code != ash.ResetSoftware {
		err = fmt.Errorf("reset code %#x", f.Code)
	}
	return err
}

// command sends an EZSP command and waits for its response.
func (h *ashHost) command(header ...byte) error {
	h.tx.Data++
	err := h.send(ash.Frame{Kind: ash.Data, FrmNum: h.frmTx, AckNum: h.frmRx, Payload: append([]byte{h.seq}, header...)}.Append(nil))
	h.frmTx = (h.frmTx + 1) & 7
	h.seq++
	if err != nil {
		return err
	}
	_, err = h.frame(ash.Data)
	return err
}

// gwctl bridge and its tap on the gateway itself: what they say of a session
// is what its two ends know of it.
func TestBridgeWatched(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	simulator(t, m, "-form", "-baud", "115200")
	shell(t, m)
	run(t, m, `printf 'FIRMWARE=ncp\nFIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=none\n' > /userdata/etc/radio.conf`)
	run(t, m, "gwctl restart bridge")
	await(t, m, "bridge and network", func(s api.Status) bool {
		return s.Bridge != nil && s.Bridge.UARTOpen && s.Network != nil && s.Network.State == "bound"
	})
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	if err := m.WaitPort(ctx, board.BridgePort); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", m.Addr(board.BridgePort))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	h := &ashHost{conn: conn}
	if err := h.begin(); err != nil {
		t.Fatal(err)
	}
	if err := h.command(0, 0, 13); err != nil { // version
		t.Fatal(err)
	}

	// While the tap is open: nop, one after the other.
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := h.command(0, 1, 5, 0); err != nil {
				ended <- err
				return
			}
		}
	}()
	tapped := run(t, m, "gwctl bridge tap -ash -json -for 3s")
	text := run(t, m, "gwctl bridge tap -ash -for 1s")
	run(t, m, "gwctl bridge tap -for 1s -pcap /tmp/tap.pcapng")
	head := run(t, m, "hexdump -C /tmp/tap.pcapng | head -n 1")
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	// One frame sent again: the radio only acknowledges it.
	h.tx.Data++
	h.tx.Resent++
	again := ash.Frame{Kind: ash.Data, FrmNum: (h.frmTx - 1) & 7, AckNum: h.frmRx, ReTx: true, Payload: []byte{h.seq - 1, 0, 1, 5, 0}}
	if err := h.send(again.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.frame(ash.Ack); err != nil {
		t.Fatal(err)
	}

	w := answer[api.BridgeWatch](t, m, "gwctl bridge -json")
	if w.Protocol != "ash" || w.ToRadio.ASH != h.tx || w.FromRadio.ASH != h.rx {
		t.Errorf("the bridge says %s: to the radio %+v, from it %+v; the host has %+v and %+v", w.Protocol, w.ToRadio.ASH, w.FromRadio.ASH, h.tx, h.rx)
	}
	if w.ToRadio.Bytes != uint64(len(h.sent)) || w.FromRadio.Bytes != uint64(len(h.received)) {
		t.Errorf("%d bytes to the radio and %d from it; the host has %d and %d", w.ToRadio.Bytes, w.FromRadio.Bytes, len(h.sent), len(h.received))
	}
	if w.Reset == nil || w.Reset.Frame != "RSTACK" || w.Reset.Code != ash.ResetSoftware {
		t.Errorf("last reset %+v", w.Reset)
	}
	if w.Client == nil || w.FrameErrors+w.Overruns+w.BufOverruns != 0 {
		t.Errorf("%+v", w.Bridge)
	}
	for name, f := range map[string]api.BridgeFlow{"from": w.FromRadio, "to": w.ToRadio} {
		samples := uint32(0)
		for _, n := range f.Latency {
			samples += n
		}
		if samples == 0 {
			t.Errorf("no latency %s the radio after %d bytes", name, f.Bytes)
		}
	}
	t.Logf("%d commands; from the radio %v, to it %v", h.tx.Data, w.FromRadio.Latency, w.ToRadio.Latency)

	// The tap is a part of what the host sent and got, without a gap.
	copied := map[string][]byte{}
	frames := 0
	for line := range strings.Lines(tapped) {
		var one struct {
			From, Frame, Data string
			Missed            uint64
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Missed != 0 {
			t.Fatalf("%v in %q", err, line)
		}
		p, err := hex.DecodeString(one.Data)
		if err != nil {
			t.Fatal(err)
		}
		copied[one.From] = append(copied[one.From], p...)
		if one.From == "radio" && strings.Contains(one.Frame, "EZSP response") && strings.HasSuffix(one.Frame, "ID 0x0005") {
			frames++
		}
	}
	if frames < 3 || !bytes.Contains(h.sent, copied["client"]) || !bytes.Contains(h.received, copied["radio"]) {
		t.Errorf("%d responses in the tap, which is not what passed:\n%s", frames, tail(tapped))
	}
	if !strings.Contains(text, "client  DATA frm ") || !strings.Contains(text, "EZSP command") {
		t.Errorf("the tap in words:\n%s", tail(text))
	}
	if !strings.Contains(head, "0a 0d 0d 0a") {
		t.Errorf("the capture file begins with %s", head)
	}
	if screen := run(t, m, "gwctl bridge"); !strings.Contains(screen, "ASH (EZSP, Zigbee)") || !strings.Contains(screen, "software reset (0x0b)") {
		t.Errorf("gwctl bridge shows\n%s", screen)
	}
}

// A setting of the bridge changes while its client stays: the same connection,
// the same process, another baud rate on the real driver. SSH on the port comes
// to an SSH service, and takes the radio from nobody.
func TestChangeKeepsTheClient(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	before := service(t, await(t, m, "everything running", settled), "bridge")
	radio := wire(t, m)
	c := dial(t, m)
	echo := func(text string) {
		t.Helper()
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		if err := radio.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(radio, got); err != nil || string(got) != text {
			t.Errorf("the radio heard %q, %v; want %q", got, err, text)
		}
	}
	echo("\x1abefore")
	out := run(t, m, "gwctl config set radio.FIRMWARE_BAUD=115200 radio.BRIDGE_TAKEOVER=never")
	if !strings.Contains(out, "bridge uses it from now on") {
		t.Errorf("config set said %q", out)
	}
	ssh := dial(t, m)
	if _, err := ssh.Write([]byte("SSH-2.0-test\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := ssh.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, len("SSH-2.0-gwinit\r\n"))
	if _, err := io.ReadFull(ssh, hello); err != nil || string(hello) != "SSH-2.0-gwinit\r\n" {
		t.Errorf("SSH on the port: %q, %v", hello, err)
	}
	echo("after")
	s := status(t, m)
	if b := s.Bridge; b == nil || b.Client == nil || b.Client.Addr == "" || b.Client.Tx != uint64(len("\x1abeforeafter")) || b.Baud != 115200 || b.SSH != 1 || b.Takeovers != 0 {
		t.Errorf("the bridge: %+v", b)
	}
	if after := service(t, s, "bridge"); after.PID != before.PID {
		t.Errorf("process %d, was %d", after.PID, before.PID)
	}
}
