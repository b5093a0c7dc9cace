//go:build linux

package iperf3

import (
	"context"
	"io"
	"net/netip"
	"strconv"

	"gwinit/internal/applet"
)

const usage = `iperf3 -s [-p PORT] [-peer ADDR]

  -s          the server, which is all that there is: the client is on your computer
  -p PORT     TCP and UDP (5201)
  -peer ADDR  refuse everybody else

Serves tests of iperf3 clients: TCP and UDP, in either direction, one test at a
time. Nobody has to log in, so end it (ctrl-c) when you are done. For figures that
can be compared, gwctl bench-mode on runs it, on a gateway that does nothing else.`

// Applet returns the command.
func Applet() applet.Applet {
	return applet.Applet{
		Name: "iperf3", Group: applet.Network, Summary: "server for iperf3 clients", Usage: usage, Run: run,
	}
}

func run(_ context.Context, std applet.IO, args []string) error {
	o := Options{Port: Port, Log: func(line string) { say(std.Err, line) }}
	serve := false
	for len(args) > 0 {
		name, value := args[0], ""
		if args = args[1:]; len(args) > 0 {
			value = args[0]
		}
		var err error
		switch name {
		case "-s":
			serve = true
			continue
		case "-events": // for bench mode
			o.Event = func(kind EventKind, peer netip.Addr) { say(std.Out, string(rune(kind))+" "+peer.String()) }
			continue
		case "-p":
			var n uint64
			n, err = strconv.ParseUint(value, 10, 16)
			o.Port = uint16(n)
		case "-peer":
			o.Peer, err = netip.ParseAddr(value)
		default:
			return applet.Usagef("unexpected argument %q", name)
		}
		if err != nil {
			return applet.Usagef("%s %q: %v", name, value, err)
		}
		args = args[1:]
	}
	if !serve {
		return applet.Usagef("iperf3 -s is all there is; the client is iperf3 -c on your computer")
	}
	s, err := Listen(o)
	if err != nil {
		return err
	}
	return s.Run()
}

func say(w io.Writer, line string) { _, _ = io.WriteString(w, line+"\n") }
