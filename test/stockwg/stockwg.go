// Package stockwg is the other end of a gateway's tunnel in tests and
// benchmarks: golang.zx2c4.com/wireguard as it is, with its own sockets and an
// interface of the kernel. It needs root and /dev/net/tun, and stays in the
// network namespace of who makes it.
package stockwg

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"gwinit/services/wireguard"
	"gwinit/services/wireguard/conf"
)

// MTU is the interface's, wg-quick's default.
const MTU = 1420

// Peer is a stock device. Its methods may be called by several goroutines.
type Peer struct {
	Public conf.Key
	dev    *device.Device
}

// New makes a device with a new key that listens on a UDP port, and its
// interface with an address, such as 10.9.0.1/24. The caller must Close it.
func New(name, addr string, port int) (*Peer, error) {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return nil, fmt.Errorf("stock peer: %w: it needs a kernel with CONFIG_TUN", err)
	}
	t, err := tun.CreateTUN(name, MTU)
	if err != nil {
		return nil, fmt.Errorf("stock peer: interface %s: %w", name, err)
	}
	p, err := Over(t, port)
	if err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"addr", "add", addr, "dev", name}, {"link", "set", name, "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			p.Close()
			return nil, fmt.Errorf("stock peer: ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return p, nil
}

// Over is New over another kind of interface; port 0 is a free one.
func Over(t tun.Device, port int) (*Peer, error) {
	private := wireguard.NewKey()
	p := &Peer{
		Public: wireguard.PublicKey(private),
		dev:    device.NewDevice(t, conn.NewDefaultBind(), device.NewLogger(device.LogLevelSilent, "")),
	}
	err := p.Tell("private_key=%s\nlisten_port=%d\n", Hex(private), port)
	if err == nil {
		err = p.dev.Up()
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("stock peer: %w", err)
	}
	return p, nil
}

// Close ends the device and its interface.
func (p *Peer) Close() { p.dev.Close() }

// Tell changes the device, in the words of www.wireguard.com/xplatform.
func (p *Peer) Tell(format string, a ...any) error {
	return p.dev.IpcSet(fmt.Sprintf(format, a...))
}

// Says is a value of the device or of its only peer, "" without it.
func (p *Peer) Says(key string) (string, error) {
	text, err := p.dev.IpcGet()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), "="); k == key {
			return v, nil
		}
	}
	return "", nil
}

// Hex is a key as the device's words have it.
func Hex(k conf.Key) string { return hex.EncodeToString(k[:]) }
