// Package exporter serves the figures of many gateways to Prometheus from a
// workstation (gwctl exporter, docs/metrics.md). It asks gateways only when it is
// asked itself, keeps its connections for the next time, and asks no others than those
// it was made with.
package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/metrics"
)

const (
	// atOnce is how many gateways are asked at a time.
	atOnce = 32
	// defaultTime is for who names no scrape timeout; margin is what an answer
	// takes on its way, and leastTime what is left at least.
	defaultTime = 10 * time.Second
	margin      = 500 * time.Millisecond
	leastTime   = 200 * time.Millisecond
	// idleTime is after how long a connection that nobody needed is closed: it
	// has one of the gateway's four places.
	idleTime = 5 * time.Minute
)

// timeoutHeader is how Prometheus says how long it waits.
const timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// Conn is a login at a gateway. Ask sends one request of the control protocol.
type Conn interface {
	Ask(ctx context.Context, op string, args any) (json.RawMessage, error)
	Close() error
}

// Gateway is one to be asked. Dial's context is for the connection's whole life.
type Gateway struct {
	Name string
	Dial func(ctx context.Context) (Conn, error)
}

// Exporter is an http.Handler.
type Exporter struct {
	all   []*gateway
	slots chan struct{}
	log   func(string)
}

// New returns an exporter of these gateways. log takes a change of whether one
// answers, one line. Close must be called when it is not needed any more.
func New(all []Gateway, log func(string)) *Exporter {
	e := &Exporter{slots: make(chan struct{}, atOnce), log: log}
	for _, g := range all {
		e.all = append(e.all, &gateway{Gateway: g, mine: make(chan struct{}, 1)})
	}
	return e
}

// Close closes the connections.
func (e *Exporter) Close() {
	for _, g := range e.all {
		g.mine <- struct{}{}
		g.drop()
		<-g.mine
	}
}

// gateway is one and the login there.
type gateway struct {
	Gateway
	mine chan struct{} // holds a token of who uses the rest

	conn   Conn
	end    context.CancelFunc // of conn
	idle   *time.Timer
	failed bool // the last time
}

// ServeHTTP implements http.Handler.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		http.Error(w, "There are /metrics and /metrics?target=NAME here.", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Only GET and HEAD.", http.StatusMethodNotAllowed)
		return
	}
	targets := e.all
	if r.URL.Query().Has("target") {
		name := r.URL.Query().Get("target")
		i := slices.IndexFunc(e.all, func(g *gateway) bool { return g.Name == name })
		if i < 0 {
			http.Error(w, fmt.Sprintf("There is no gateway %q here; it was started with %s.", name, strings.Join(e.names(), ", ")), http.StatusNotFound)
			return
		}
		targets = e.all[i : i+1]
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience(r.Header.Get(timeoutHeader)))
	defer cancel()
	w.Header().Set("Content-Type", metrics.ContentType)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(e.scrape(ctx, targets)) // who asked is gone
}

func (e *Exporter) names() (all []string) {
	for _, g := range e.all {
		all = append(all, g.Name)
	}
	return all
}

// patience is how long the gateways may take for a scrape.
func patience(header string) time.Duration {
	d := defaultTime
	if s, err := strconv.ParseFloat(header, 64); err == nil && s > 0 && s < 3600 {
		d = time.Duration(s * float64(time.Second))
	}
	return max(d-margin, leastTime)
}

// result is what came of one gateway.
type result struct {
	text    []byte // nil: it did not answer
	seconds float64
}

// scrape asks the targets and returns the text of all.
func (e *Exporter) scrape(ctx context.Context, targets []*gateway) []byte {
	results := make([]result, len(targets))
	var all sync.WaitGroup
	for i, g := range targets {
		all.Go(func() {
			begin := time.Now()
			text, err := e.ask(ctx, g)
			if err != nil {
				text = nil
			}
			results[i] = result{text, time.Since(begin).Seconds()}
		})
	}
	all.Wait()
	var m merger
	for i, g := range targets {
		m.add(g.Name, results[i])
	}
	return m.text()
}

// ask asks one gateway, when it is its turn.
func (e *Exporter) ask(ctx context.Context, g *gateway) ([]byte, error) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case g.mine <- struct{}{}:
		defer func() { <-g.mine }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	text, err := g.figures(ctx)
	if failed := err != nil; failed != g.failed {
		g.failed = failed
		if failed {
			e.log(g.Name + " does not answer: " + err.Error())
		} else {
			e.log(g.Name + " answers again")
		}
	}
	return text, err
}

// figures are those of a gateway. A login that was kept may be broken, and is
// made anew then.
func (g *gateway) figures(ctx context.Context) ([]byte, error) {
	for kept := g.conn != nil; ; kept = false {
		if err := g.login(ctx); err != nil {
			return nil, err
		}
		s, err := metrics.Collect(ctx, g.conn.Ask)
		if err == nil {
			g.rest()
			return metrics.Append(nil, s), nil
		}
		var refused *api.Error
		if errors.As(err, &refused) {
			g.rest()
			return nil, err // by who answers
		}
		g.drop()
		if !kept || ctx.Err() != nil {
			return nil, err
		}
	}
}

// login makes a connection, if there is none. It outlives ctx, unless ctx ends
// before there is one.
func (g *gateway) login(ctx context.Context) error {
	if g.conn != nil {
		g.idle.Stop()
		return nil
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	c, err := g.Dial(life)
	if err == nil && !stop() {
		c.Close()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		end()
		if ctx.Err() != nil {
			err = fmt.Errorf("no login in time: %w", ctx.Err())
		}
		return err
	}
	g.conn, g.end = c, end
	return nil
}

// rest keeps the connection for the next time.
func (g *gateway) rest() {
	if g.idle == nil {
		g.idle = time.AfterFunc(idleTime, func() {
			select {
			case g.mine <- struct{}{}:
				g.drop()
				<-g.mine
			default: // it is in use
			}
		})
		return
	}
	g.idle.Reset(idleTime)
}

func (g *gateway) drop() {
	if g.idle != nil {
		g.idle.Stop()
	}
	if g.conn != nil {
		g.conn.Close()
		g.end()
		g.conn = nil
	}
}
