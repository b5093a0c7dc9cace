package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

const ncUsage = `nc [-46uz] [-w SECONDS] HOST PORT

  -4, -6      only that family
  -u          UDP
  -z          only connect: exit status 0 if the port is open
  -w SECONDS  how long to wait for the connection (10)

Input's end closes the sending side; nc ends when the peer closes.`

func nc(ctx context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "46uzw:")
	if err != nil {
		return err
	}
	if len(rest) != 2 {
		return applet.Usagef("HOST and PORT")
	}
	port, err := strconv.ParseUint(rest[1], 10, 16)
	if err != nil || port == 0 {
		return applet.Usagef("%q is no port", rest[1])
	}
	wait := 10 * time.Second
	if o.Has('w') {
		if wait, err = seconds(o.Val('w')); err != nil {
			return applet.Usagef("-w %v", err)
		}
	}
	family := 0
	if o.Has('4') {
		family = 4
	} else if o.Has('6') {
		family = 6
	}
	network := "tcp"
	if o.Has('u') {
		network = "udp"
	}
	a, err := lookup(ctx, rest[0], family)
	if err != nil {
		return err
	}
	d := net.Dialer{Timeout: wait}
	conn, err := d.DialContext(ctx, network, netip.AddrPortFrom(a, uint16(port)).String())
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return fmt.Errorf("connect to %s port %d: %w", rest[0], port, err)
	}
	defer conn.Close()
	if o.Has('z') {
		fmt.Fprintf(std.Err, "%s port %d is open\n", rest[0], port)
		return nil
	}
	return relay(ctx, std, conn)
}

// relay copies both ways until the peer closes or ctx ends. The goroutine that
// reads standard input may outlive it: a terminal's read cannot be interrupted,
// and the process ends with the applet.
func relay(ctx context.Context, std applet.IO, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, std.In)
		if c, ok := conn.(*net.TCPConn); ok && err == nil {
			err = c.CloseWrite()
		}
		sent <- err
	}()
	_, err := io.Copy(std.Out, conn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	select {
	case err := <-sent:
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
	default:
	}
	return nil
}
