package board

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"time"
)

// forward is a line of QEMU's "info usernet" about TCP: a forwarded port, or a
// connection through one.
type forward struct {
	state string // HOST_FORWARD, SYN_SENT, ESTABLISHED, ...
	host  int    // port on the host
	guest int
}

var usernetLine = regexp.MustCompile(`(?m)^\s*TCP\[(\w+)\]\s+\d+\s+\S+\s+(\d+)\s+\S+\s+(\d+)`)

func parseUsernet(text string) []forward {
	var all []forward
	for _, match := range usernetLine.FindAllStringSubmatch(text, -1) {
		host, err1 := strconv.Atoi(match[2])
		guest, err2 := strconv.Atoi(match[3])
		if err1 == nil && err2 == nil {
			all = append(all, forward{match[1], host, guest})
		}
	}
	return all
}

// Addr returns where on the host the guest's TCP port is reached, or "" when
// it is not forwarded. It stays the same over all boots.
func (m *Machine) Addr(guest int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ports[guest] == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.ports[guest]))
}

const (
	portPoll = 50 * time.Millisecond
	// redial is how long a connection may wait for a guest that answers
	// nothing, not even ARP. QEMU tries again after 6 s, which is too slow
	// for a boot; each connection given up reaches the guest later, and is
	// closed by then.
	redial = 2 * time.Second
)

// WaitPort blocks until the guest accepts a connection on its TCP port, which
// must be forwarded. QEMU itself accepts on the host's side at once, so that a
// connection there says nothing yet. The one that is made here is closed
// without a byte.
func (m *Machine) WaitPort(ctx context.Context, guest int) error {
	addr := m.Addr(guest)
	if addr == "" {
		return fmt.Errorf("board: port %d is not forwarded", guest)
	}
	for {
		accepted, err := m.tryPort(ctx, addr, guest)
		if accepted {
			return nil
		}
		if err == nil {
			err = pause(ctx)
		}
		if err != nil {
			return fmt.Errorf("board: the guest does not accept on port %d: %w", guest, err)
		}
	}
}

// tryPort makes one connection and looks whether the guest has taken it.
func (m *Machine) tryPort(ctx context.Context, addr string, guest int) (accepted bool, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	for began := time.Now(); time.Since(began) < redial; {
		text, err := m.Monitor("info usernet")
		if err != nil {
			return false, err
		}
		if closed, err := isClosed(conn); err != nil || closed {
			return false, err
		}
		// Which of the lines is ours QEMU does not tell; another client's
		// connection says as much about the guest.
		for _, f := range parseUsernet(text) {
			if f.guest == guest && (f.state == "ESTABLISHED" || f.state == "CLOSE_WAIT") {
				return true, nil
			}
		}
		if err := pause(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}

// isClosed tells whether the other side has closed; data is a sign that it has
// not.
func isClosed(conn net.Conn) (bool, error) {
	if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return false, err
	}
	_, err := conn.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded), nil
}

// pause waits one step of a poll.
func pause(ctx context.Context) error {
	t := time.NewTimer(portPoll)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
