// Package bench is gwctl's subcommand bench, on a workstation: it measures a
// gateway's Ethernet with this computer's iperf3 while the gateway is in bench mode, and
// says what the figures show and what they do not (docs/bench.md). Only cmd/gwctl
// has it.
//
// The statistics are package stats, iperf3 is package iperf; here is what is measured
// in which order (release.go, paired.go), what is kept of it (folder.go), and how it
// is told (report.go, plots.go).
package bench

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/wire"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/bench/iperf"
	"gwinit/internal/gwctl/bench/stats"
	"gwinit/internal/gwctl/remote"
)

// Exit statuses beside 0, 1 (it could not be done) and 2 (a wrong command line).
const (
	exitFlagged    = 3 // of release: measured, with flags; of ab: not cleared
	exitNotDecided = 4
)

const usageBench = `usage: gwctl -H HOST bench VERB ...
measure the gateway's Ethernet so that the figures can be trusted

  release LABEL      the standard suite, with floors
  ab A B             is B better than A, by pairs in turns
  sweep A B C ...    the same for more, each beside A
  null NAME          one image again and again: the noise floor
  resume DIR         go on with an ab, sweep or null that was interrupted

without -H:
  compare OLD NEW    two folders of results
  stats FILE         the statistics of numbers

gwctl bench VERB -h tells more; docs/bench.md says how it is done, and why.
`

const usageCommon = `
the gateway, and the way to it:
  -out DIR       the folder for results; it must be empty or not there
  -profile NAME  of the Ethernet driver in bench mode; leave: as it is
  -y             drop a radio client that is connected
  -address HOST  where iperf3 reaches the gateway, if that is not where -H leads
  -port N        and by which port, if it is not the server's own
  -peer ADDRESS  who may use the gateway's bench port; any: everybody (this computer)
  -iperf3 PATH   this computer's iperf3
  -any-path      measure over Wi-Fi, routers and tunnels, too; the results are flagged
`

const usageRelease = `usage: gwctl -H HOST bench release [OPTIONS] LABEL
measure the standard suite and compare it with floors

11 x 30 s TCP to the gateway (RX) and from it (TX), 300 s of RX, 3 x 20 s UDP from
it without a limit and to it at 100 Mbit/s; 10 s before each. It takes about 23
minutes, in bench mode. The folder gets RESULTS.md, results.json, iperf3's reports and
plots. The exit status is 0 if no flag was raised, 3 if one was.

  -runs N           of TCP each way (11)       -time TIME         of each (30s)
  -stress TIME      one long run (300s; 0: none)
  -udp-runs N       each way (3)               -udp-time TIME     of each (20s)
  -udp-tx-rate RATE as iperf3 -b takes it (0)  -udp-rx-rate RATE  (100M)
  -udp-length BYTES of a datagram (what fits a packet)
  -gap TIME         before each run (10s)
  -floor-tx MBIT    flag a median below (69)   -floor-rx MBIT     (88)
  -max-retransmits N, -max-errors N  that the gateway may count during TCP (0)
` + usageCommon

const usagePoints = `
What is measured, and how often:
  -point 'CMD {}'  puts a point in place: {} becomes its name. The gateway is not in bench
                   mode then; CMD returns when it is to be measured
  -pairs N         rounds, each of which has each point once (8)
  -measure LIST    of tx, rx, udp-tx, udp-rx (tx); the bar is for the first
  -time TIME       of a run (20s)            -repeat N   runs of a point in a round (1)
  -gap TIME        before each run (10s)
  -bar MBIT        the gain that is asked for (0). It is written down before the
                   first run, and so is the number of rounds
  -noise DIR       of a bench null: no interval is narrower than its noise allows
  -replays N       how often a round is measured again whose environment was not
                   valid (2)                 -least MBIT  that one point must reach (0)
  -any-load        a gateway that is not at rest is no reason for that
  -udp-tx-rate, -udp-rx-rate, -udp-length   as for release
`

const usageAB = `usage: gwctl -H HOST bench ab [OPTIONS] -point 'CMD {}' A B
is B better than A

A and B are measured in turns (AB BA AB BA ...), so neither drift nor the place in a
round makes a difference. The exit status is 0 if the gain is above the bar (cleared), 3
if not (not cleared), 4 if these pairs cannot tell (not decided).
` + usagePoints + usageCommon

const usageSweep = `usage: gwctl -H HOST bench sweep [OPTIONS] -point 'CMD {}' A B C ...
which of B, C, ... is better than A

As bench ab, in Latin squares: -pairs is a multiple of the number of points. The verdicts
hold together. The exit status is 0 when all was measured.
` + usagePoints + usageCommon

const usageNull = `usage: gwctl -H HOST bench null [OPTIONS] NAME
measure one image again and again: the noise floor

-pairs is the number of runs (10). With -point, NAME is put in place before each, so what
a boot or a flash changes is in the noise, too.
` + usagePoints + usageCommon

const usageResume = `usage: gwctl -H HOST bench resume [OPTIONS] DIR
go on with an ab, sweep or null that was interrupted

Plan and bar are those of DIR and cannot be changed. The round that was interrupted is
measured again.
` + usageCommon

const usageCompare = `usage: gwctl bench compare OLD NEW
put the results of two folders side by side

The exit status is 1 if they may not be compared, which is told why.
`

const usageStats = `usage: gwctl bench stats [OPTIONS] FILE
the statistics of numbers in FILE (-: standard input)

One number a line, or all in one: a series. Two a line, or (A B)(A B)...: pairs, before
and after. Behind # is a remark.

  -differences  the numbers are differences within pairs
  -bar VALUE    the gain that was asked for before it was measured
  -noise SD     of a difference, as it is known
`

// Commands are the subcommands. version is that of this program.
func Commands(version string) []gwctl.Local {
	steered := func(verb, args, summary, usage string, run func(*command, []string) error) gwctl.Local {
		return gwctl.Local{
			Name: "bench " + verb, Args: args, Summary: summary, Usage: usage, Workstation: true,
			Steer: func(ctx context.Context, std applet.IO, args []string, asJSON bool, _ gwctl.Asker) error {
				ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
				defer stop()
				return run(&command{ctx: ctx, std: std, json: asJSON, version: version, verb: verb}, args)
			},
		}
	}
	local := func(verb, args, summary, usage string, run func(*command, []string) error) gwctl.Local {
		return gwctl.Local{
			Name: "bench " + verb, Args: args, Summary: summary, Usage: usage, Workstation: true,
			Run: func(std applet.IO, args []string, asJSON bool, _ func(string, bool) (string, error)) error {
				return run(&command{ctx: context.Background(), std: std, json: asJSON, version: version, verb: verb}, args)
			},
		}
	}
	return []gwctl.Local{
		steered(kindRelease, "LABEL", "the standard suite of throughput", usageRelease, (*command).release),
		steered(kindAB, "A B", "is B better than A", usageAB, (*command).points),
		steered(kindSweep, "A B C ...", "which is better than A", usageSweep, (*command).points),
		steered(kindNull, "NAME", "the noise of one image", usageNull, (*command).points),
		steered("resume", "DIR", "go on with one of those", usageResume, (*command).resume),
		local("compare", "OLD NEW", "two folders of results", usageCompare, (*command).compare),
		local("stats", "FILE", "statistics of numbers in a file", usageStats, (*command).stats),
		{
			Name: "bench", Args: "VERB ...", Summary: "measure the Ethernet", Usage: usageBench, Workstation: true,
			Steer: func(context.Context, applet.IO, []string, bool, gwctl.Asker) error {
				return applet.Usagef("bench takes a verb: release, ab, sweep, null, resume, compare or stats")
			},
		},
	}
}

// command is one run of the subcommand.
type command struct {
	ctx     context.Context
	std     applet.IO
	json    bool
	version string
	verb    string

	out, profile, address, peer, iperf string
	port                               int
	drop, anyPath                      bool
}

// say tells how it goes. With -json that goes to standard error.
func (c *command) say(form string, args ...any) {
	w := c.std.Out
	if c.json {
		w = c.std.Err
	}
	_, _ = io.WriteString(w, plainLine(fmt.Sprintf(form, args...))) // nobody reads it
}

// plainLine is a line without what a terminal would obey.
func plainLine(s string) string {
	line, ended := strings.CutSuffix(s, "\n")
	if line = plain(line); ended {
		line += "\n"
	}
	return line
}

func (c *command) print(v any) error {
	b, err := wire.Marshal(v)
	if err == nil {
		_, err = c.std.Out.Write(append(b, '\n'))
	}
	return err
}

func (c *command) flags(profile string) *flag.FlagSet {
	f := flag.NewFlagSet("gwctl bench "+c.verb, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.StringVar(&c.out, "out", "", "")
	f.StringVar(&c.profile, "profile", profile, "")
	f.StringVar(&c.address, "address", "", "")
	f.StringVar(&c.peer, "peer", "", "")
	f.StringVar(&c.iperf, "iperf3", "", "")
	f.IntVar(&c.port, "port", 0, "")
	f.BoolVar(&c.drop, "y", false, "")
	f.BoolVar(&c.anyPath, "any-path", false, "")
	return f
}

// parse reads options wherever they stand.
func parse(f *flag.FlagSet, args []string) (rest []string, err error) {
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return nil, applet.Usagef("%v", err)
		}
		left := f.Args()
		if n := len(args) - len(left); n > 0 && args[n-1] == "--" {
			return append(rest, left...), nil
		}
		if args = left; len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	return rest, nil
}

// seconds is a time option in whole seconds.
func seconds(name string, d time.Duration, least int) (int, error) {
	n := int(d / time.Second)
	if time.Duration(n)*time.Second != d || n < least || n > 3600 {
		return 0, applet.Usagef("-%s is %d to 3600 whole seconds, such as 30s", name, least)
	}
	return n, nil
}

// open prepares a session that takes so many seconds. The path is fit, or that was not
// asked for.
func (c *command) open(dir string, takes float64) (*session, *gateway, Host, Facts, error) {
	var h Host
	g, ok := remote.Steered(c.ctx)
	if !ok {
		return nil, nil, h, Facts{}, applet.Usagef("bench %s measures a gateway over the network: gwctl -H HOST bench %s", c.verb, c.verb)
	}
	client := iperf.Client{Path: c.iperf}
	version, err := client.Version(c.ctx)
	if err != nil {
		return nil, nil, h, Facts{}, err
	}
	if c.address == "" {
		c.address = g.Host
	}
	path, err := findPath(c.ctx, "/", c.address)
	if err != nil {
		return nil, nil, h, Facts{}, err
	}
	if err := path.fit(); err != nil {
		if !c.anyPath {
			return nil, nil, h, Facts{}, err
		}
		c.say("%v\n", err)
	}
	args := api.BenchArgs{Profile: c.profile, Drop: c.drop, Seconds: int(takes) + 600}
	if args.Seconds > api.BenchMaxSeconds {
		args.Seconds = api.BenchMaxSeconds
	}
	switch {
	case c.peer != "" && c.peer != "any":
		args.Peer = c.peer
	case c.peer == "" && path.Kind != loopback: // what is behind a loopback address sees another
		to, err := netip.ParseAddr(path.Address)
		if err != nil {
			return nil, nil, h, Facts{}, err
		}
		mine, err := localAddress(to)
		if err != nil {
			return nil, nil, h, Facts{}, err
		}
		args.Peer = mine.WithZone("").String()
	}
	box := &gateway{dial: g.Dial, args: args, say: c.say}
	facts, err := box.Facts(c.ctx)
	if err != nil {
		return nil, nil, h, facts, err
	}
	s := &session{box: box, load: client, host: path.Address, port: c.port, dir: dir, say: c.say}
	return s, box, thisHost(c.version, version, path), facts, nil
}

// folder is where results go.
func (c *command) folder(name string) string {
	if c.out != "" {
		return c.out
	}
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, name)
	return "bench-" + safe + time.Now().Format("-20060102-150405")
}

// rates are the options about UDP.
type rates struct {
	tx, rx string
	length int // bytes of a datagram; 0: as many as fit a packet, iperf3 finds
}

func (r *rates) flags(f *flag.FlagSet) {
	f.StringVar(&r.tx, "udp-tx-rate", "0", "")
	f.StringVar(&r.rx, "udp-rx-rate", "100M", "")
	f.IntVar(&r.length, "udp-length", 0, "")
}

// measures are the kinds of run, of the gateway's point of view.
func measures(r rates, tcp, udp int) map[string]Measure {
	var extra []string
	if r.length > 0 {
		extra = []string{"-l", strconv.Itoa(r.length)}
	}
	return map[string]Measure{
		"rx":     {"tcp-rx", "TCP RX", iperf.Load{Seconds: tcp}},
		"tx":     {"tcp-tx", "TCP TX", iperf.Load{Seconds: tcp, Reverse: true}},
		"udp-tx": {"udp-tx", "UDP TX", iperf.Load{Seconds: udp, UDP: true, Reverse: true, Bitrate: r.tx, Extra: extra}},
		"udp-rx": {"udp-rx", "UDP RX", iperf.Load{Seconds: udp, UDP: true, Bitrate: r.rx, Extra: extra}},
	}
}

func (c *command) release(args []string) error {
	f := c.flags("")
	var rate rates
	rate.flags(f)
	runs, udpRuns := f.Int("runs", 11, ""), f.Int("udp-runs", 3, "")
	long, udpLong, stress := f.Duration("time", 30*time.Second, ""), f.Duration("udp-time", 20*time.Second, ""), f.Duration("stress", 300*time.Second, "")
	gap := f.Duration("gap", 10*time.Second, "")
	floorTX, floorRX := f.Float64("floor-tx", 69, ""), f.Float64("floor-rx", 88, "")
	retransmits, faults := f.Uint64("max-retransmits", 0, ""), f.Uint64("max-errors", 0, "")
	rest, err := parse(f, args)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return applet.Usagef("bench release takes one LABEL, such as a version")
	}
	tcp, err1 := seconds("time", *long, 1)
	udp, err2 := seconds("udp-time", *udpLong, 1)
	most, err3 := seconds("stress", *stress, 0)
	if err := errors.Join(err1, err2, err3); err != nil {
		return applet.Usagef("%v", err)
	}
	if *runs < 0 || *udpRuns < 0 || *runs > 1000 || *udpRuns > 1000 || *gap < 0 || *gap > time.Hour {
		return applet.Usagef("-runs and -udp-runs are 0 to 1000, -gap is 0s to 1h")
	}
	m := measures(rate, tcp, udp)
	phase := func(name string, repeat int, floor float64) Phase {
		return Phase{Name: m[name].Name, Title: m[name].Title, Load: m[name].Load, Repeat: repeat, Floor: floor}
	}
	suite := Suite{GapSeconds: gap.Seconds(), MaxRetransmits: *retransmits, MaxErrors: *faults, Phases: []Phase{
		phase("rx", *runs, *floorRX), phase("tx", *runs, *floorTX),
		{Name: "tcp-stress", Title: "TCP RX, stress", Load: iperf.Load{Seconds: most}},
		phase("udp-tx", *udpRuns, 0), phase("udp-rx", *udpRuns, 0),
	}}
	if most > 0 {
		suite.Phases[2].Repeat = 1
	}
	takes, n := 0.0, 0
	for _, p := range suite.Phases {
		n += p.Repeat
		takes += float64(p.Repeat) * (float64(p.Load.Seconds) + suite.GapSeconds + 5)
	}
	if n == 0 {
		return applet.Usagef("nothing is measured")
	}
	dir := c.folder(rest[0])
	s, _, host, facts, err := c.open(dir, takes)
	if err != nil {
		return err
	}
	if err := newFolder(dir); err != nil {
		return err
	}
	c.say("%d runs, about %.0f minutes; results in %s\n", n, takes/60+1, dir)
	r := &Release{Label: rest[0], Host: host, Gateway: facts, Suite: suite, Phases: []PhaseResult{}, Windows: []Window{}}
	err = s.release(c.ctx, r)
	if len(r.Phases) > 0 {
		err = errors.Join(err, writeRelease(dir, r))
	}
	if err != nil {
		return err
	}
	if c.json {
		if err := c.print(r); err != nil {
			return err
		}
	} else if err := c.tell(r); err != nil {
		return err
	}
	if len(r.Flags) > 0 {
		return applet.Exit(exitFlagged)
	}
	return nil
}

// tell prints a release in short.
func (c *command) tell(r *Release) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%-16s %5s %8s %8s %10s  %s\n", "Mbit/s", "runs", "median", "spread", "sample sd", "ns a packet")
	for _, p := range r.Phases {
		if p.Summary == nil {
			continue
		}
		fmt.Fprintf(&b, "%-16s %5d %8.1f %8.1f %10.2f  %.0f\n", p.Title, p.Summary.N, p.Summary.Median, p.Summary.Spread, p.Summary.SD, p.NsPerPacket)
		for _, n := range p.outliers() {
			fmt.Fprintf(&b, "  outlier: run %d, %.1f\n", n, p.Runs[n-1].Mbit)
		}
	}
	for _, f := range r.Flags {
		fmt.Fprintf(&b, "flag %s: %s\n", f.Name, plain(f.Text))
	}
	fmt.Fprintf(&b, "%s\n", r.verdict())
	_, err := c.std.Out.Write(b.Bytes())
	return err
}

// points carries out ab, sweep and null.
func (c *command) points(args []string) error {
	f := c.flags(api.BenchLeave)
	p := &Plan{Format: format, Kind: c.verb}
	var rate rates
	rate.flags(f)
	rounds := 8
	if c.verb == kindNull {
		rounds = 10
	}
	f.IntVar(&p.Rounds, "pairs", rounds, "")
	f.IntVar(&p.Repeat, "repeat", 1, "")
	f.IntVar(&p.Replays, "replays", 2, "")
	f.Float64Var(&p.Bar, "bar", 0, "")
	f.Float64Var(&p.Least, "least", 0, "")
	f.StringVar(&p.Hook, "point", "", "")
	f.StringVar(&p.NoiseFrom, "noise", "", "")
	f.BoolVar(&p.AnyLoad, "any-load", false, "")
	long, gap := f.Duration("time", 20*time.Second, ""), f.Duration("gap", 10*time.Second, "")
	what := f.String("measure", "tx", "")
	rest, err := parse(f, args)
	if err != nil {
		return err
	}
	tcp, err := seconds("time", *long, 1)
	if err != nil {
		return err
	}
	known := measures(rate, tcp, tcp)
	for name := range strings.SplitSeq(*what, ",") {
		m, ok := known[strings.TrimSpace(name)]
		if !ok {
			return applet.Usagef("-measure takes tx, rx, udp-tx, udp-rx, with commas between them; not %q", name)
		}
		p.Measures = append(p.Measures, m)
	}
	p.Points, p.GapSeconds, p.Profile = rest, gap.Seconds(), c.profile
	switch n := len(rest); {
	case c.verb == kindAB && n != 2:
		return applet.Usagef("bench ab takes two points, A and B; bench sweep takes more")
	case c.verb == kindSweep && n < 3:
		return applet.Usagef("bench sweep takes three points or more; bench ab takes two")
	case c.verb == kindNull && n != 1:
		return applet.Usagef("bench null takes one name, of what is measured")
	case c.verb != kindNull && !strings.Contains(p.Hook, "{}"):
		return applet.Usagef("what makes %s of the gateway? -point 'CMD {}' names a command, {} becomes the point's name", rest[0])
	case *gap < 0 || *gap > time.Hour || p.Replays < 0 || p.Replays > 100 || p.Least < 0:
		return applet.Usagef("-gap is 0s to 1h, -replays 0 to 100, -least is not below 0")
	}
	if err := p.check(); err != nil {
		return applet.Usagef("%v", err)
	}
	if p.NoiseFrom != "" {
		if p.Noise, err = noiseOf(p.NoiseFrom, p); err != nil {
			return err
		}
	}
	p.Order = order(len(p.Points), p.Rounds)
	dir := c.folder(c.verb + "-" + strings.Join(p.Points, "-"))
	return c.carry(dir, p, func(host Host, facts Facts) (*State, error) {
		if err := newFolder(dir); err != nil {
			return nil, err
		}
		p.Registered = time.Now()
		if err := keep(dir, planFile, p); err != nil {
			return nil, err
		}
		c.say("registered %s: bar %+.2f, %d rounds; results in %s\n", stamp(p.Registered), p.Bar, p.Rounds, dir)
		return &State{Format: format, Host: host, Gateway: facts}, nil
	})
}

// noiseOf reads the folder of a null.
func noiseOf(dir string, p *Plan) (map[string]float64, error) {
	var r Result
	if err := load(dir, resultsFile, &r); err != nil {
		return nil, err
	}
	if r.Kind != kindNull || r.Format != format {
		return nil, fmt.Errorf("%s is no folder of bench null", dir)
	}
	noise := map[string]float64{}
	for _, n := range r.Noise {
		for i, m := range r.Plan.Measures {
			if m.Name != n.Measure || !(n.Difference >= 0) {
				continue
			}
			for _, mine := range p.Measures {
				if mine.Name != m.Name {
					continue
				}
				if mine.Load.Seconds != m.Load.Seconds || mine.Load.Bitrate != m.Load.Bitrate || r.Plan.Repeat != p.Repeat {
					return nil, fmt.Errorf("%s has the noise of %d × %d s of %s, and not of what is to be measured", dir, r.Plan.Repeat, m.Load.Seconds, r.Plan.Measures[i].Title)
				}
				noise[n.Measure] = n.Difference
			}
		}
	}
	if len(noise) == 0 {
		return nil, fmt.Errorf("%s has no noise of what is to be measured", dir)
	}
	return noise, nil
}

func (c *command) resume(args []string) error {
	f := c.flags("")
	rest, err := parse(f, args)
	if err != nil {
		return err
	}
	if len(rest) != 1 || c.out != "" || c.profile != "" {
		return applet.Usagef("bench resume takes one DIR, and no -out or -profile: they are the plan's")
	}
	p, st, err := stored(rest[0])
	if err != nil {
		return err
	}
	c.profile = p.Profile
	return c.carry(rest[0], &p, func(host Host, facts Facts) (*State, error) {
		if len(st.Attempts) == 0 {
			st.Host, st.Gateway = host, facts
			return &st, nil
		}
		other := Compared{}
		other.sameGround(st.Host, host, st.Gateway, facts)
		if len(other.Obstacles) > 0 {
			return nil, fmt.Errorf("it was begun elsewhere: %s", strings.Join(other.Obstacles, "; "))
		}
		return &st, nil
	})
}

// carry carries a plan out and shows what came of it. ready is called when the
// gateway can be measured.
func (c *command) carry(dir string, p *Plan, ready func(Host, Facts) (*State, error)) error {
	cell := 60.0
	for _, m := range p.Measures {
		cell += float64(p.Repeat) * (float64(m.Load.Seconds) + p.GapSeconds + 5)
	}
	takes := cell * float64(len(p.Points)*p.Rounds)
	inMode := takes
	if p.Hook != "" {
		inMode = cell
	}
	s, box, host, facts, err := c.open(dir, inMode)
	if err != nil {
		return err
	}
	defer box.close()
	if p.Hook != "" {
		box.wait = 5 * time.Minute
	}
	st, err := ready(host, facts)
	if err != nil {
		return err
	}
	put := func(ctx context.Context, point string) error {
		c.say("%s\n", strings.ReplaceAll(p.Hook, "{}", point))
		// A hook may restart the gateway, or be the fifth login there.
		box.close()
		return hook(ctx, c.std.Err, p.Hook, point)
	}
	err = s.paired(c.ctx, p, st, put, func() error { return keep(dir, stateFile, st) })
	r := evaluate(p, st)
	if err = errors.Join(err, writeResult(dir, &r)); err != nil {
		if errors.Is(err, context.Canceled) {
			err = fmt.Errorf("interrupted: gwctl -H HOST bench resume %s goes on", dir)
		}
		return err
	}
	if c.json {
		err = c.print(r)
	} else {
		err = c.tellResult(&r)
	}
	if err != nil || p.Kind != kindAB || len(r.Comparisons) == 0 {
		return err
	}
	switch r.Comparisons[0].Verdict {
	case stats.NotCleared:
		return applet.Exit(exitFlagged)
	case stats.NotDecided:
		return applet.Exit(exitNotDecided)
	}
	return nil
}

// hook runs the command that puts a point in place. Its name is one word of a shell's.
func hook(ctx context.Context, out io.Writer, command, point string) error {
	var cmd *exec.Cmd
	if runtime.GOOS == "windows" {
		if strings.ContainsAny(point, `"%^&|<>`) {
			return fmt.Errorf("%q has characters that the command processor would obey", point)
		}
		cmd = exec.CommandContext(ctx, "cmd", "/c", strings.ReplaceAll(command, "{}", `"`+point+`"`))
	} else {
		quoted := "'" + strings.ReplaceAll(point, "'", `'\''`) + "'"
		cmd = exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(command, "{}", quoted))
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second
	return cmd.Run()
}

// tellResult prints the verdicts.
func (c *command) tellResult(r *Result) error {
	var b bytes.Buffer
	for _, x := range r.Comparisons {
		fmt.Fprintf(&b, "\n%s beside %s, %s\n", x.Point, r.Plan.Points[0], measureTitle(&r.Plan, x.Measure))
		for _, text := range describePaired(x.Paired) {
			fmt.Fprintf(&b, "  %s\n", text)
		}
		fmt.Fprintf(&b, "  ratio %+.2f %%, 95 %% [%.2f, %.2f]\n", 100*x.Ratio, 100*x.RatioIn.Low, 100*x.RatioIn.High)
		if x.Verdict != "" {
			fmt.Fprintf(&b, "  %s\n", judged(x.Verdict, r.Plan.Bar, *x.JudgedIn, x.Decide))
		}
	}
	for _, n := range r.Noise {
		fmt.Fprintf(&b, "\n%s, %s\n", r.Plan.Points[0], measureTitle(&r.Plan, n.Measure))
		for _, text := range describe(n.Summary, func(i int) int { return i + 1 }) {
			fmt.Fprintf(&b, "  %s\n", text)
		}
		fmt.Fprintf(&b, "  sd of a difference %.2f; 8 pairs find a gain of %.2f with a chance of 80 %%\n", n.Difference, stats.Detectable(n.Difference, 8))
	}
	for _, q := range r.Placed {
		fmt.Fprintf(&b, "%s, place in a round: %s\n", measureTitle(&r.Plan, q.Measure), strings.ReplaceAll(placed(q), "**", ""))
	}
	if r.Replayed+r.Interrupted > 0 {
		fmt.Fprintf(&b, "%d rounds were measured again for their environment, %d after an interruption\n", r.Replayed, r.Interrupted)
	}
	_, err := c.std.Out.Write(b.Bytes())
	return err
}

func (c *command) compare(args []string) error {
	if len(args) != 2 {
		return applet.Usagef("bench compare takes two folders, OLD and NEW")
	}
	r, err := compareFolders(args[0], args[1])
	if err != nil {
		return err
	}
	if c.json {
		if r.Obstacles == nil {
			r.Obstacles = []string{}
		}
		if r.Notes == nil {
			r.Notes = []string{}
		}
		err = c.print(r)
	} else {
		_, err = io.WriteString(c.std.Out, r.text())
	}
	if err == nil && len(r.Obstacles) > 0 {
		return applet.Exit(1)
	}
	return err
}

func (c *command) stats(args []string) error {
	f := flag.NewFlagSet("gwctl bench stats", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	differences := f.Bool("differences", false, "")
	noise := f.Float64("noise", 0, "")
	var bar *float64
	f.Func("bar", "", func(s string) error {
		v, err := strconv.ParseFloat(s, 64)
		bar = &v
		return err
	})
	rest, err := parse(f, args)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return applet.Usagef("bench stats takes one FILE, or - for standard input")
	}
	var b []byte
	if rest[0] == "-" {
		b, err = io.ReadAll(io.LimitReader(c.std.In, mostFile))
	} else {
		b, err = os.ReadFile(filepath.Clean(rest[0]))
	}
	if err != nil {
		return err
	}
	series, pairs, err := parseNumbers(b)
	if err != nil {
		return fmt.Errorf("%s: %w", rest[0], err)
	}
	n, err := figure(series, pairs, *differences, *noise, bar)
	if err != nil {
		return fmt.Errorf("%s: %w", rest[0], err)
	}
	if c.json {
		return c.print(n)
	}
	var out bytes.Buffer
	if n.Series != nil {
		for _, text := range describe(*n.Series, func(i int) int { return i + 1 }) {
			fmt.Fprintln(&out, text)
		}
	}
	if n.Paired != nil {
		for _, text := range describePaired(*n.Paired) {
			fmt.Fprintln(&out, text)
		}
	}
	if n.Bar != nil {
		fmt.Fprintln(&out, judged(n.Verdict, *n.Bar, n.Paired.In, n.Decide))
	}
	_, err = c.std.Out.Write(out.Bytes())
	return err
}
