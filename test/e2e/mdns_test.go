//go:build e2e

package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/dnssd"
	"gwinit/test/board"
)

// lan is the other end of the gateway's cable: Ethernet frames in datagrams,
// which need no rights on the host.
type lan struct {
	t    *testing.T
	conn *net.UnixConn
	gate *net.UnixAddr
	// heard has one line for each record of each mDNS packet.
	heard chan string
}

// cable returns QEMU's -netdev for a lan.
func cable(t *testing.T) (*lan, string) {
	t.Helper()
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: ours, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	w := &lan{t: t, conn: conn, gate: &net.UnixAddr{Name: theirs, Net: "unixgram"}, heard: make(chan string, 4096)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.listen()
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return w, fmt.Sprintf("dgram,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", theirs, ours)
}

// listen takes IPv4 mDNS out of the frames until the socket is closed.
func (w *lan) listen() {
	buf := make([]byte, 2048)
	for {
		n, err := w.conn.Read(buf)
		if err != nil {
			return
		}
		// Ethernet, IPv4 without options, UDP.
		f := buf[:n]
		if n < 42 || binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[14] != 0x45 || f[23] != 17 ||
			binary.BigEndian.Uint16(f[36:]) != dnssd.Port || f[22] != 255 {
			continue
		}
		m, ok := dnssd.Read(f[42:])
		var it dnssd.Item
		for ok && m.Response() && m.Next(&it) {
			name, _ := m.AppendName(nil, &it)
			data, _ := m.AppendData(nil, &it)
			w.heard <- fmt.Sprintf("%s %d %d %q", dnssd.Name(name), it.Type, it.TTL, data)
		}
	}
}

// ask multicasts a question from 10.9.0.1.
func (w *lan) ask(name string, typ uint16) {
	w.t.Helper()
	n, err := dnssd.NewName("", name)
	if err != nil {
		w.t.Fatal(err)
	}
	var b dnssd.Builder
	b.Begin(0, 0, false)
	b.Question(n, typ, dnssd.ClassIN)
	udp := binary.BigEndian.AppendUint16(nil, dnssd.Port)
	udp = binary.BigEndian.AppendUint16(udp, dnssd.Port)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(b.Bytes())))
	udp = append(append(udp, 0, 0), b.Bytes()...) // no sum, as IPv4 allows
	ip := []byte{0x45, 0, 0, 0, 0, 1, 0, 0, 255, 17, 0, 0, 10, 9, 0, 1, 224, 0, 0, 251}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	frame := append([]byte{0x01, 0, 0x5e, 0, 0, 0xfb, 0x02, 0, 0, 0, 0, 0x99, 0x08, 0}, ip...)
	if _, err := w.conn.WriteTo(append(frame, udp...), w.gate); err != nil {
		w.t.Fatal(err)
	}
}

// until waits for a line that begins so, and returns it.
func (w *lan) until(prefix string) string {
	w.t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		select {
		case line := <-w.heard:
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-limit.C:
			w.t.Fatalf("never heard %q", prefix)
		}
	}
}

// The gateway announces itself, answers, and takes the coordinator back when its
// mode changes and everything when core ends, as seen on its cable.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	w, netdev := cable(t)
	m := start(t, func(c *board.Config) { c.Forward, c.Netdev = nil, netdev })
	shell(t, m)
	await(t, m, "core running", func(s api.Status) bool { return service(t, s, "core").State == "running" })
	run(t, m, "gwctl config set hostname=attic eth0.IPADDR=10.9.0.2 eth0.NETMASK=255.255.255.0 eth0.GATEWAY=10.9.0.1")
	addr := netip.MustParseAddr("10.9.0.2").As4()
	w.until(fmt.Sprintf("attic.local 1 120 %q", addr[:]))

	w.ask("_zigbee-coordinator._tcp.local", dnssd.TypePTR)
	instance := w.until("_zigbee-coordinator._tcp.local 12 4500 ")
	if !strings.Contains(instance, "attic-") {
		t.Errorf("the instance is %s", instance)
	}
	w.ask("attic.local", dnssd.TypeA)
	w.until(fmt.Sprintf("attic.local 1 120 %q", addr[:]))

	run(t, m, "gwctl config set radio.MODE=otbr || true") // without an agent
	w.until("_zigbee-coordinator._tcp.local 12 0 ")
	w.until("_ssh._tcp.local 12 4500 ")
	run(t, m, "gwctl stop core")
	w.until("_ssh._tcp.local 12 0 ")
}
