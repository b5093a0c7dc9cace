package remote

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/control/client"
	"gwinit/internal/gwctl/exporter"
)

const exporterName = "exporter"

// defaultListen is the exporter's address: this machine's own Prometheus.
const defaultListen = "127.0.0.1:9643"

const exporterUsage = `usage: gwctl [-H HOST,... | -G GROUP,...] exporter [-listen [ADDRESS]:PORT]
serve the figures of gateways to Prometheus, until ctrl-c (docs/metrics.md)

  -listen [ADDRESS]:PORT  where (` + defaultListen + `)
Without -H and -G: every host of the hosts file. /metrics has all of them, each
series with the label gateway, /metrics?target=NAME has one. It logs in by SSH;
keys with a passphrase have to be in the agent.
`

// export serves the figures of the targets until ctx ends, or ctrl-c.
func (r *runner) export(ctx context.Context, targets []target, args []string) error {
	listen := defaultListen
	f := flag.NewFlagSet(exporterName, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&listen, "listen", listen, "")
	switch err := f.Parse(args[1:]); { // the first word is the command
	case errors.Is(err, flag.ErrHelp):
		_, err := io.WriteString(r.std.Out, exporterUsage)
		return err
	case err != nil:
		return applet.Usagef("%v; see gwctl exporter -h", err)
	case f.NArg() > 0 || args[0] != exporterName:
		return applet.Usagef("exporter takes -listen [ADDRESS]:PORT and nothing else; see gwctl exporter -h")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	r.ask = nobody{io.Discard}
	var all []exporter.Gateway
	for _, t := range targets {
		all = append(all, exporter.Gateway{Name: t.name, Dial: func(ctx context.Context) (exporter.Conn, error) {
			c, err := r.dial(ctx, t)
			if err != nil {
				return nil, err
			}
			return controlled{c}, nil
		}})
	}
	e := exporter.New(all, func(line string) { fmt.Fprintf(r.std.Err, "%s %s\n", time.Now().UTC().Format(time.RFC3339), line) })
	defer e.Close()
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(r.std.Err, "figures of %d gateways at http://%s/metrics\n", len(all), l.Addr())
	s := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	unhook := context.AfterFunc(ctx, func() { s.Close() })
	defer unhook()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// controlled is a login whose control protocol is asked.
type controlled struct{ c *conn }

// Ask implements exporter.Conn: a channel for each request, as the gateway ends
// those that rest.
func (c controlled) Ask(ctx context.Context, op string, args any) (json.RawMessage, error) {
	// Opening one waits for the gateway, which may be gone.
	type opened struct {
		ch  io.ReadWriteCloser
		err error
	}
	got := make(chan opened, 1)
	go func() {
		ch, err := openControl(c.c)
		got <- opened{ch, err}
	}()
	select {
	case o := <-got:
		if o.err != nil {
			return nil, o.err
		}
		k := client.New(o.ch)
		defer k.Close()
		return k.Do(ctx, op, args)
	case <-ctx.Done():
		c.c.Close() // which ends the other, too
		return nil, ctx.Err()
	}
}

// Close implements exporter.Conn.
func (c controlled) Close() error { return c.c.Close() }
