package netwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/incident"
	"gwinit/internal/logring"
)

// Of a snapshot a file of /proc or a log takes maxPart at most.
const (
	maxIncident  = incident.MaxBytes
	maxPart      = 2 << 10
	maxKernelLog = 4 << 10
	logLines     = 25
	maxSummary   = 400
)

// snapshot writes down how things are, for people who come later. A failure to
// write is logged, and no reason not to go on.
func (s *Service) snapshot(ctx context.Context, summary string) {
	at := "the clock is not set"
	if now := s.opt.Wall(); now.UnixNano() >= logring.WallKnown {
		at = now.UTC().Format(time.DateTime) + " UTC"
	}
	r := report(at + ", " + summary[:min(len(summary), maxSummary)] + "\nboot " + s.budget.boot + ", up " + s.m.last.String() + "\n")
	st, net := s.Status(), s.opt.Network()
	r.json("netwatch", &st, nil)
	r.json("network", &net, nil)
	bridge, err := s.opt.Box.Bridge(ctx)
	r.json("bridge", bridge, err)
	for _, name := range [...]string{"net/dev", "net/route", "net/ipv6_route", "net/arp", "net/snmp", "loadavg"} {
		text, err := head(filepath.Join("/", s.opt.Root, "proc", name), maxPart)
		r.part("/proc/"+name, text, err)
	}
	lines, err := s.opt.Box.Log(ctx, logLines)
	var text []byte
	for i := range lines {
		l := &lines[i]
		text = append(text, time.Duration(l.Mono).String()+" "+l.Service+": "+l.Text+"\n"...)
	}
	r.part("log", text[max(0, len(text)-maxPart):], err)
	kernel := make([]byte, maxKernelLog)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, kernel)
	r.part("kernel log", kernel[:max(0, n)], err)
	if err := s.keep(r[:min(len(r), maxIncident)]); err != nil {
		s.log("the snapshot is not kept: " + err.Error())
	}
}

// report is a snapshot in the making.
type report []byte

// part appends what there is under a name, or why there is nothing.
func (r *report) part(name string, text []byte, err error) {
	if err != nil {
		text = []byte(err.Error())
	}
	*r = append(*r, "\n== "+name+"\n"+string(text)+"\n"...)
}

// json appends v, which can be marshalled: it is a type of ours.
func (r *report) json(name string, v any, err error) {
	text, _ := json.Marshal(v)
	r.part(name, text[:min(len(text), maxPart)], err)
}

// keep stores a snapshot.
func (s *Service) keep(text []byte) error {
	if err := s.opt.Writable(); err != nil {
		return err
	}
	return incident.Keep(s.opt.Root, text)
}

// incident is the path of one.
func (s *Service) incident(number int) string { return incident.Path(s.opt.Root, number) }

// numbers are those that there are, in their order.
func (s *Service) numbers() []int { return incident.Numbers(s.opt.Root) }

// Incidents returns the snapshots that are kept, the newest first, or one with
// its text. It reads flash.
func (s *Service) Incidents(p api.IncidentParams) ([]api.Incident, error) {
	all := s.numbers()
	slices.Reverse(all)
	if p.Number != 0 {
		if !slices.Contains(all, p.Number) {
			return nil, fmt.Errorf("no incident %d; gwctl incidents lists them", p.Number)
		}
		all = []int{p.Number}
	}
	out := []api.Incident{}
	for _, n := range all {
		text, err := head(s.incident(n), maxIncident)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was the oldest
		}
		if err != nil {
			return nil, err
		}
		i := api.Incident{Number: n}
		i.Summary, _, _ = strings.Cut(string(text[:min(len(text), 2*maxSummary)]), "\n")
		if p.Number != 0 {
			i.Text = string(text)
		}
		out = append(out, i)
	}
	return out, nil
}

// head reads the beginning of a file.
func head(path string, bytes int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, bytes))
}
