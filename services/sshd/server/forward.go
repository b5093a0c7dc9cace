//go:build linux

package server

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialTime is how long a forwarding's connection may take.
const dialTime = 10 * time.Second

// forward serves a channel of type direct-tcpip (RFC 4254, 7.2): a connection
// to the gateway itself or to a host on one of its networks.
func (k *connection) forward(ctx context.Context, n ssh.NewChannel) error {
	p := wireReader{b: n.ExtraData()}
	host, port := string(p.string()), p.uint32()
	_, _ = p.string(), p.uint32() // who has connected to the client
	if !p.ended() || port == 0 || port > 1<<16-1 {
		return n.Reject(ssh.ConnectionFailed, "that is no address")
	}
	to, why := k.target(host, uint16(port))
	if why != "" {
		k.s.o.Log(k.peer.String() + ": forwarding to " + strconv.Quote(host) + " port " + strconv.Itoa(int(port)) + " refused: " + why)
		return n.Reject(ssh.Prohibited, why)
	}
	d := net.Dialer{Timeout: dialTime}
	out, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return n.Reject(ssh.ConnectionFailed, err.Error())
	}
	defer out.Close()
	ch, requests, err := n.Accept()
	if err != nil {
		return nil // the connection is gone
	}
	defer ch.Close()
	go ssh.DiscardRequests(requests)
	stop := context.AfterFunc(ctx, func() { out.Close() })
	defer stop()
	// Each direction ends for itself, and says so to the other side.
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.CopyBuffer(writer{ch}, reader{out}, make([]byte, copyBytes)) // an end of either side
		_ = ch.CloseWrite()                                                    // as above
	})
	_, _ = io.CopyBuffer(writer{out}, reader{ch}, make([]byte, copyBytes)) // as above
	if t, ok := out.(*net.TCPConn); ok {
		_ = t.CloseWrite() // as above
	}
	back.Wait()
	return nil
}

// target is where a forwarding goes, or why it does not.
func (k *connection) target(host string, port uint16) (to netip.AddrPort, why string) {
	if k.grant.setup || !k.grant.permits(host, port) {
		return to, "authorized_keys does not permit it for this key"
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return to, "the gateway looks no names up for others; give an address"
	}
	to = netip.AddrPortFrom(a, port)
	a = a.Unmap()
	if a.IsLoopback() || a.IsUnspecified() {
		return to, ""
	}
	if k.s.o.OnLink != nil {
		networks, err := k.s.o.OnLink()
		if err != nil {
			return to, "the gateway's networks are not known: " + err.Error()
		}
		for _, p := range networks {
			if p.Contains(a.WithZone("")) {
				return to, ""
			}
		}
	}
	return to, "it is on no network of this gateway"
}
