package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// sshPort is tried first, since a connection to the other one disturbs a
	// bridge that knows no SSH (the kernel's): any connection takes its radio
	// from its client.
	sshPort    = 22
	bridgePort = 8888

	// aliveEvery is how often a gateway is asked whether it is there; two
	// questions without an answer end the connection.
	aliveEvery = 15 * time.Second
)

// times bound a login. Zero is the defaults.
type times struct {
	connect   time.Duration // 4 s
	handshake time.Duration // 20 s: key exchange on a slow CPU; without what people type
}

func (t times) or() times {
	return times{cmp.Or(t.connect, 4*time.Second), cmp.Or(t.handshake, 20*time.Second)}
}

// conn is a login.
type conn struct {
	*ssh.Client
	stop context.CancelFunc
}

func (c *conn) Close() error {
	c.stop()
	return c.Client.Close()
}

// refused is a login that no other port would change.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// dial logs in. ctx is for the connection's whole life.
func (r *runner) dial(ctx context.Context, t target) (*conn, error) {
	if r.identity != "" {
		if _, err := r.key(r.identity, nil); err != nil {
			return nil, err
		}
	}
	ports := []int{t.port}
	if t.port == 0 {
		ports = []int{sshPort, bridgePort}
	}
	var errs []error
	for _, port := range ports {
		c, err := r.dialPort(ctx, t, port)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.As(err, new(refused)) {
			return nil, err
		}
		errs = append(errs, err)
		var dns *net.DNSError
		if errors.As(err, &dns) {
			break // of the host, whatever the port
		}
	}
	return nil, errors.Join(errs...)
}

func (r *runner) dialPort(ctx context.Context, t target, port int) (*conn, error) {
	addr := net.JoinHostPort(t.host, strconv.Itoa(port))
	limits := r.times.or()
	d := net.Dialer{Timeout: limits.connect}
	tcp, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Err != nil {
			err = op.Err // without the addresses, which are ours to tell
		}
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	ctx, stop := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { tcp.Close() })
	// Who is asked something has the time to answer.
	watch := newWatchdog(limits.handshake, func() { tcp.Close() })
	defer watch.stop()
	keys := r.known.forHost(t.host, port)
	var refusal error
	var tried offers
	auth, done := r.methods(ctx, t, watch, &tried)
	defer done()
	config := &ssh.ClientConfig{
		User: t.user, Auth: auth, ClientVersion: "SSH-2.0-gwctl",
		BannerCallback:    func(m string) error { r.ask.say(m); return nil },
		HostKeyAlgorithms: keys.algorithms(),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			watch.pause()
			defer watch.resume()
			refusal = r.known.check(r.ask, t, port, keys, key)
			return refusal
		},
	}
	c, chans, reqs, err := ssh.NewClientConn(&noHello{Conn: tcp}, addr, config)
	if err != nil {
		stop()
		switch {
		case refusal != nil:
			return nil, refused{refusal}
		case watch.fired():
			return nil, fmt.Errorf("%s: no SSH server answered within %v", addr, limits.handshake)
		case strings.Contains(err.Error(), "unable to authenticate") && t.user == setupUser:
			return nil, refused{fmt.Errorf("%s took no new key; it said why. One that is in its /userdata/ssh/authorized_keys already needs no setup", addr)}
		case strings.Contains(err.Error(), "unable to authenticate"):
			return nil, refused{fmt.Errorf("%s@%s: the gateway lets none of these in: %s. Its keys are in /userdata/ssh/authorized_keys; -i FILE offers another, gwctl -H %s setup brings in the first", t.user, addr, tried, t.name)}
		}
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	client := ssh.NewClient(c, chans, reqs)
	go keepAlive(ctx, client)
	return &conn{client, stop}, nil
}

// noHello gives the error of a peer that says something other than SSH, or
// nothing, more words than the library does.
type noHello struct {
	net.Conn
	got int
}

func (n *noHello) Read(p []byte) (int, error) {
	k, err := n.Conn.Read(p)
	n.got += k
	if err != nil && n.got == 0 {
		err = fmt.Errorf("what listens there closed the connection; is SSH served there? %w", err)
	}
	return k, err
}

// keepAlive closes a connection whose gateway is gone.
func keepAlive(ctx context.Context, c *ssh.Client) {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		answered := make(chan error, 1)
		go func() {
			_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		select {
		case <-ctx.Done():
			return
		case err := <-answered:
			if err != nil {
				return
			}
		case <-time.After(2 * aliveEvery):
			c.Close()
			return
		}
	}
}

// watchdog calls end once, when time has passed that was not paused.
type watchdog struct {
	mu    sync.Mutex // guards the rest
	t     *time.Timer
	left  time.Duration
	since time.Time
	end   func()
	done  bool
}

func newWatchdog(d time.Duration, end func()) *watchdog {
	w := &watchdog{left: d, since: time.Now(), end: end}
	w.t = time.AfterFunc(d, w.fire)
	return w
}

func (w *watchdog) fire() {
	w.mu.Lock()
	w.done = true
	w.mu.Unlock()
	w.end()
}

func (w *watchdog) fired() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

func (w *watchdog) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t.Stop() {
		w.left -= time.Since(w.since)
	}
}

func (w *watchdog) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.since = time.Now()
		w.t.Reset(max(w.left, time.Second))
	}
}

func (w *watchdog) stop() { w.t.Stop() }

// home is where ssh's files of this user are, or "".
func home() string {
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return dir
}
