package netwatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/atomicfile"
	"gwinit/internal/logring"
)

// IncidentDir holds the snapshots, a text file each: N.txt, the newest with the
// highest N.
const IncidentDir = "/userdata/netwatch/incidents"

// The snapshots' quota: keepIncidents of maxIncident bytes each, of which a
// file of /proc or a log takes maxPart at most.
const (
	keepIncidents = 4
	maxIncident   = 16 << 10
	maxPart       = 2 << 10
	maxKernelLog  = 4 << 10
	logLines      = 25
	maxSummary    = 400
)

// snapshot writes down how things are. It is for people who come later: what
// cannot be read is left out, and a failure to write is logged and no reason
// not to go on.
func (s *Service) snapshot(ctx context.Context, summary string, m machine, seen []asked) {
	var b bytes.Buffer
	at := "the clock is not set"
	if now := s.opt.Wall(); now.UnixNano() >= logring.WallKnown {
		at = now.UTC().Format(time.DateTime) + " UTC"
	}
	fmt.Fprintf(&b, "%s, %.*s\n\nuptime %d s, boot %s\n", at, maxSummary, summary, m.last/time.Second, s.budget.boot)
	for _, a := range seen {
		fmt.Fprintf(&b, "target %s %v", a.spec, a.addr)
		if a.since > 0 {
			fmt.Fprintf(&b, ", answered %d s ago", (m.last-a.since)/time.Second)
		}
		if a.err != nil {
			fmt.Fprintf(&b, ", %s", oneLine(a.err))
		}
		b.WriteByte('\n')
	}
	for _, e := range slices.Concat(s.mild.entries, s.spent.entries) {
		if e.age < m.fail {
			fmt.Fprintf(&b, "%s %d s ago\n", e.what, e.age/time.Second)
		}
	}
	part := func(name string, text []byte) {
		fmt.Fprintf(&b, "\n== %s\n%s", name, text)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	asJSON := func(name string, v any) {
		if text, err := json.Marshal(v); err == nil {
			part(name, text[:min(len(text), maxPart)])
		}
	}
	asJSON("network", s.opt.Network())
	if bridge, err := s.opt.Box.Bridge(ctx); err == nil {
		asJSON("bridge", bridge)
	} else {
		part("bridge", []byte(err.Error()))
	}
	for _, name := range []string{"net/dev", "net/route", "net/ipv6_route", "net/arp", "net/snmp", "loadavg"} {
		if text, err := head(filepath.Join("/", s.opt.Root, "proc", name), maxPart); err == nil {
			part("/proc/"+name, text)
		}
	}
	if lines, err := s.opt.Box.Log(ctx, logLines); err == nil {
		var text []byte
		for _, l := range lines {
			text = fmt.Appendf(text, "%.3f %s: %s\n", float64(l.Mono)/1e9, l.Service, l.Text)
		}
		part("log", text[max(0, len(text)-maxPart):])
	}
	part("kernel log", kernelLog(maxKernelLog))
	if err := s.keep(b.Bytes()[:min(b.Len(), maxIncident)]); err != nil {
		s.opt.Log("netwatch: the snapshot is not kept: " + err.Error())
	}
}

// keep stores a snapshot under the next number, and removes the oldest ones
// first: at no time are there more than keepIncidents.
func (s *Service) keep(text []byte) error {
	if err := s.opt.Writable(); err != nil {
		return err
	}
	dir := filepath.Join("/", s.opt.Root, IncidentDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all := s.numbers()
	next := 1
	if n := len(all); n > 0 {
		next = all[n-1] + 1
	}
	for len(all) >= keepIncidents {
		if err := atomicfile.Remove(s.incident(all[0])); err != nil {
			return err
		}
		all = all[1:]
	}
	return atomicfile.Write(s.incident(next), text, 0o644)
}

// incident is the path of one.
func (s *Service) incident(number int) string {
	return filepath.Join("/", s.opt.Root, IncidentDir, strconv.Itoa(number)+".txt")
}

// numbers are those that there are, in their order.
func (s *Service) numbers() (all []int) {
	files, _ := os.ReadDir(filepath.Join("/", s.opt.Root, IncidentDir)) // none is what a box begins with
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".txt")
		n, err := strconv.Atoi(name)
		if ok && err == nil && n > 0 && n < 1<<30 && strconv.Itoa(n) == name {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// Incidents returns the snapshots that are kept, the newest first, or one with
// its text. It reads flash.
func (s *Service) Incidents(p api.IncidentParams) ([]api.Incident, error) {
	all := s.numbers()
	slices.Reverse(all)
	if p.Number != 0 {
		if !slices.Contains(all, p.Number) {
			return nil, fmt.Errorf("no incident %d; gwctl netwatch incidents lists them", p.Number)
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
