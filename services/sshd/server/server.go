//go:build linux

package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/onlink"
	"gwinit/services/sshd/sftp"
)

// version is the identification line, without its end.
const version = "SSH-2.0-gwinit"

const openNonblock = unix.O_NONBLOCK

// Keepalive: a peer that is gone is found after 15 + 3*5 s by TCP, and one that
// hangs after keepAsked unanswered requests of the protocol's own.
const (
	keepEvery = 60 * time.Second
	keepTCP   = 15 * time.Second
	keepProbe = 5 * time.Second
	keepCount = 3
)

// MaxConnections is how many connections Session serves at a time: those that
// log in, those that have, and as many that are on their way out.
const MaxConnections = maxPending + 2*maxOpen

// maxReason bounds what is logged of why a login did not come about, in bytes.
const maxReason = 200

// maxChannels bounds the channels of one connection, in each of which the
// library of the gateway's Go holds up to 128 KiB for a program that does not read
// (docs/toolchain-edits.md; 2 MiB in any other build).
const maxChannels = 8

// Options are what a Server works with.
type Options struct {
	Root    string    // of the file system; empty: /
	Program string    // what has the shell, as sh; empty: /proc/self/exe
	Control string    // the control socket's path
	Random  io.Reader // nil: the kernel's
	// OnLink returns the networks of the interfaces, which may be forwarded to.
	OnLink func() ([]netip.Prefix, error)
	// Log takes an event, one line; Noise one that strangers can cause.
	Log, Noise func(string)

	// available is what memory there is, in KiB; nil: the kernel's word.
	available func() (int, error)

	// delay is what a delay of a failed login becomes; nil: itself.
	delay func(time.Duration) time.Duration
}

// Server has the host's keys and the state that sessions share.
type Server struct {
	o    Options
	keys []ssh.Signer
	gate gate

	count tally

	programs programs

	verifying sync.Mutex // held during a check of a password
	known     judged
}

// New reads the host's keys, or makes one, for which it waits until the kernel
// has entropy.
func New(o Options) (*Server, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Program == "" {
		o.Program = "/proc/self/exe"
	}
	if o.Random == nil {
		o.Random = systemRandom()
	}
	if o.available == nil {
		o.available = sftp.AvailableKiB
	}
	if o.delay == nil {
		o.delay = func(d time.Duration) time.Duration { return d }
	}
	keys, err := hostKeys(o.Root, o.Random, o.Log)
	if err != nil {
		return nil, err
	}
	return &Server{o: o, keys: keys, count: newTally(o.Root)}, nil
}

// Sessions is the sshd.Sessions of this package.
func Sessions(log, noise func(string)) (func(ctx context.Context, c net.Conn), int, error) {
	s, err := New(Options{Control: control.SocketPath, OnLink: onlink.Prefixes, Log: log, Noise: noise})
	if err != nil {
		return nil, 0, err
	}
	return s.Session, MaxConnections, nil
}

// Session serves a connection to its end and closes it. It ends soon when ctx
// does; programs of the session get a hang-up then.
func (s *Server) Session(ctx context.Context, c net.Conn) {
	defer c.Close()
	from := address(c)
	peer := c.RemoteAddr().String()
	if t, ok := c.(*net.TCPConn); ok {
		// If it fails, the connection is broken, which the first read says.
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepTCP, Interval: keepProbe, Count: keepCount})
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()

	if s.gate.tooOften(from) {
		s.count.add(func(n *api.SSH) { n.Aborted++ })
		s.o.Noise("connection from " + peer + " closed: more than " + strconv.Itoa(freeVisits) + " from there, and none of them logged in; one more is taken every " + visitEvery.String())
		return
	}
	v, evicted := s.gate.enter(c, from)
	if evicted != nil {
		s.o.Noise("more than " + strconv.Itoa(maxPending) + " connections are logging in: closed the oldest one from " + evicted.from.String())
	}
	_ = c.SetDeadline(time.Now().Add(loginTime)) // as above
	l := &login{s: s, ctx: ctx, from: from, v: v}
	conn, channels, requests, err := ssh.NewServerConn(c, l.config())
	if err != nil {
		s.gate.leave(v)
		if l.tried {
			s.gate.fail(from)
			s.count.add(func(n *api.SSH) { n.Failed++ })
		} else {
			s.count.add(func(n *api.SSH) { n.Aborted++ })
		}
		why := err.Error()
		if len(why) > maxReason { // it may quote what the peer sent
			why = strings.ToValidUTF8(why[:maxReason], "") + "..."
		}
		s.o.Noise("connection from " + peer + " ended before a login: " + why)
		return
	}
	defer conn.Close()
	_ = c.SetDeadline(time.Time{}) // as above
	room := s.gate.admit(v)
	g, _ := conn.Permissions.ExtraData[grantKey{}].(*grant)
	if g == nil { // no callback of ours
		s.o.Log("connection from " + peer + " has no permissions and is closed")
		return
	}
	go ssh.DiscardRequests(requests)
	if !room {
		s.count.add(func(n *api.SSH) { n.Failed++ })
		s.o.Log("login from " + peer + " refused: there are " + strconv.Itoa(maxOpen) + " already")
		refuseAll(c, channels, "this gateway has "+strconv.Itoa(maxOpen)+" SSH connections open already, and that is as many as it takes")
		return
	}
	s.count.add(func(n *api.SSH) { n.Open++; n.Logins++ })
	defer s.count.add(func(n *api.SSH) { n.Open-- })
	defer s.gate.forget()
	how, _ := conn.Permissions.ExtraData[fingerprint{}].(string)
	switch {
	case g.setup:
		how = "setup"
	case how == "":
		how = "password"
	}
	began := time.Now()
	s.o.Log("login from " + peer + " by " + how)
	k := &connection{s: s, ssh: conn, grant: g, peer: c.RemoteAddr(), local: c.LocalAddr()}
	k.serve(ctx, channels)
	s.o.Log("connection from " + peer + " ended after " + time.Since(began).Round(time.Second).String())
}

// refuseAll answers the first request for a channel.
func refuseAll(c net.Conn, channels <-chan ssh.NewChannel, why string) {
	_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // a failure is an end, too
	if n, ok := <-channels; ok {
		_ = n.Reject(ssh.ResourceShortage, why) // as above
	}
}

// connection is one that has logged in.
type connection struct {
	s           *Server
	ssh         *ssh.ServerConn
	grant       *grant
	peer, local net.Addr
}

// serve serves channels until the connection ends, and then waits for what
// runs in them.
func (k *connection) serve(ctx context.Context, channels <-chan ssh.NewChannel) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { k.keepAlive(ctx) })

	free := make(chan struct{}, maxChannels)
	for range maxChannels {
		free <- struct{}{}
	}
	for n := range channels {
		select {
		case <-free:
		default:
			_ = n.Reject(ssh.ResourceShortage, "at most "+strconv.Itoa(maxChannels)+" sessions and forwardings at a time") // the connection is gone, if it fails
			continue
		}
		running.Go(func() {
			defer func() { free <- struct{}{} }()
			k.channel(ctx, n)
		})
	}
}

func (k *connection) channel(ctx context.Context, n ssh.NewChannel) {
	var err error
	switch n.ChannelType() {
	case "session":
		err = k.session(ctx, n)
	case "direct-tcpip":
		err = k.forward(ctx, n)
	default:
		err = n.Reject(ssh.UnknownChannelType, "there are sessions and forwardings to the gateway's networks only")
	}
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		k.s.o.Log(k.peer.String() + ": " + err.Error())
	}
}

// keepAlive closes the connection when the peer does not answer any more.
func (k *connection) keepAlive(ctx context.Context) {
	answered := make(chan struct{}, 1)
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	unanswered := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-answered:
			unanswered = 0
			continue
		case <-t.C:
		}
		if unanswered++; unanswered > keepCount {
			k.s.o.Log(k.peer.String() + " does not answer any more, and is closed")
			k.ssh.Close()
			return
		}
		if unanswered == 1 {
			go func() {
				// Every answer is one, also that it is not known.
				if _, _, err := k.ssh.SendRequest("keepalive@openssh.com", true, nil); err == nil {
					answered <- struct{}{}
				}
			}()
		}
	}
}
