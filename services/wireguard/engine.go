package wireguard

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/device"

	"gwinit/services/wireguard/nl"
)

// Engines, as people see them.
const (
	EngineUser   = "user"   // this process
	EngineKernel = "kernel" // the kernel's own device
)

// engine carries a tunnel: the kernel's device or this process.
type engine interface {
	name() string
	link() nl.Link
	// set changes the device; peers that d does not name stay.
	set(d nl.Device) error
	// up begins to carry packets, after the first set.
	up() error
	// setMTU tells about an MTU that the link has already.
	setMTU(mtu int)
	state() (nl.Device, error)
	// ended is closed when the tunnel ended by itself; nil: it never does.
	ended() <-chan struct{}
	// close ends the tunnel and its link.
	close() error
}

// openEngine makes a tunnel of that name: the kernel's, where it has one.
func openEngine(name string, mtu int, logf func(string, ...any)) (engine, error) {
	e, err := openKernel(name)
	if err == nil {
		return e, nil
	}
	// Both mean that there is no WireGuard in the kernel.
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOENT) {
		logf("the kernel's own tunnel cannot be used: %v", err)
	}
	return openUser(name, mtu, logf)
}

// kernelEngine is the kernel's device.
type kernelEngine struct {
	family uint16
	l      nl.Link
}

func openKernel(name string) (engine, error) {
	const kind = "wireguard"
	l, err := nl.AddLink(name, kind)
	made := err == nil
	if errors.Is(err, unix.EEXIST) {
		l, err = nl.FindLink(name)
	}
	if err != nil {
		return nil, err
	}
	family, err := nl.Family()
	if err == nil {
		_, err = nl.Get(family, l.Index)
	}
	switch {
	case err != nil && made:
		return nil, errors.Join(err, l.Delete())
	case err != nil:
		return nil, fmt.Errorf("the interface %s is there and no tunnel: name another one by INTERFACE in wireguard.conf: %w", name, err)
	case !made: // of a process before this one, which was killed
		if err := l.Delete(); err != nil {
			return nil, err
		}
		if l, err = nl.AddLink(name, kind); err != nil {
			return nil, err
		}
	}
	return &kernelEngine{family, l}, nil
}

func (k *kernelEngine) name() string              { return EngineKernel }
func (k *kernelEngine) link() nl.Link             { return k.l }
func (k *kernelEngine) up() error                 { return nil }
func (k *kernelEngine) setMTU(int)                {}
func (k *kernelEngine) ended() <-chan struct{}    { return nil }
func (k *kernelEngine) close() error              { return k.l.Delete() }
func (k *kernelEngine) state() (nl.Device, error) { return nl.Get(k.family, k.l.Index) }
func (k *kernelEngine) set(d nl.Device) error {
	d.Index = k.l.Index
	return nl.Set(k.family, d)
}

// userEngine is the module's device in this process.
type userEngine struct {
	tun *tunnel
	dev *device.Device
	l   nl.Link
}

func openUser(name string, mtu int, logf func(string, ...any)) (engine, error) {
	t, err := openTunnel(name, mtu)
	if err != nil {
		return nil, err
	}
	l, err := nl.FindLink(name)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	logger := &device.Logger{Verbosef: device.DiscardLogf, Errorf: logf}
	return &userEngine{t, device.NewDevice(t, &bind{logf: logf}, logger), l}, nil
}

func (u *userEngine) name() string           { return EngineUser }
func (u *userEngine) link() nl.Link          { return u.l }
func (u *userEngine) up() error              { return u.dev.Up() }
func (u *userEngine) setMTU(mtu int)         { u.tun.setMTU(mtu) }
func (u *userEngine) ended() <-chan struct{} { return u.dev.Wait() }
func (u *userEngine) set(d nl.Device) error  { return u.dev.IpcSet(ipcText(d)) }

func (u *userEngine) close() error {
	u.dev.Close()
	<-u.dev.Wait()
	return nil
}

func (u *userEngine) state() (nl.Device, error) {
	text, err := u.dev.IpcGet()
	if err != nil {
		return nl.Device{}, fmt.Errorf("ask the tunnel: %w", err)
	}
	return parseIPC(text), nil
}

// ipcText is a change in the words of the cross-platform interface
// (www.wireguard.com/xplatform).
func ipcText(d nl.Device) string {
	var b strings.Builder
	line := func(key, value string) { b.WriteString(key + "=" + value + "\n") }
	if d.PrivateKey != ([32]byte{}) {
		line("private_key", hex.EncodeToString(d.PrivateKey[:]))
	}
	if d.SetPort {
		line("listen_port", strconv.Itoa(int(d.ListenPort)))
	}
	for _, p := range d.Peers {
		line("public_key", hex.EncodeToString(p.PublicKey[:]))
		if p.Remove {
			line("remove", "true")
			continue
		}
		line("preshared_key", hex.EncodeToString(p.PresharedKey[:]))
		if p.Endpoint.IsValid() {
			line("endpoint", p.Endpoint.String())
		}
		line("persistent_keepalive_interval", strconv.Itoa(int(p.Keepalive)))
		line("replace_allowed_ips", "true")
		for _, a := range p.AllowedIPs {
			line("allowed_ip", a.String())
		}
	}
	return b.String()
}

// parseIPC reads the answer, but for its secrets.
func parseIPC(text string) (d nl.Device) {
	p := &nl.Peer{}
	var seconds int64
	scan := bufio.NewScanner(strings.NewReader(text))
	for scan.Scan() {
		key, value, _ := strings.Cut(scan.Text(), "=")
		n, _ := strconv.ParseUint(value, 10, 64) // 0 where it is no number
		switch key {
		case "listen_port":
			d.ListenPort = uint16(n)
		case "public_key":
			d.Peers = append(d.Peers, nl.Peer{})
			p = &d.Peers[len(d.Peers)-1]
			_, _ = hex.Decode(p.PublicKey[:], []byte(value))
		case "endpoint":
			p.Endpoint, _ = netip.ParseAddrPort(value)
		case "last_handshake_time_sec":
			seconds = int64(n)
		case "last_handshake_time_nsec":
			if seconds != 0 || n != 0 {
				p.LastHandshake = time.Unix(seconds, int64(n))
			}
		case "tx_bytes":
			p.TxBytes = n
		case "rx_bytes":
			p.RxBytes = n
		case "persistent_keepalive_interval":
			p.Keepalive = uint16(n)
		case "allowed_ip":
			if a, err := netip.ParsePrefix(value); err == nil {
				p.AllowedIPs = append(p.AllowedIPs, a)
			}
		}
	}
	return d
}
