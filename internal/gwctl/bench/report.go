package bench

import (
	"fmt"
	"strings"

	"gwinit/internal/gwctl/bench/stats"
)

// verdict is a release's in a word.
func (r *Release) verdict() string {
	switch {
	case r.Aborted != "":
		return "aborted"
	case len(r.Flags) > 0:
		return "flagged"
	}
	return "pass"
}

// report is RESULTS.md of a release.
func (r *Release) report() []byte {
	p := &page{}
	p.line("# Release bench: %s", plain(r.Label))
	p.line("")
	p.line("**%s**, %s to %s.", strings.ToUpper(r.verdict()), stamp(r.Started), stamp(r.Ended))
	for i, f := range r.Flags {
		if i == 0 {
			p.line("")
		}
		p.line("- **%s**: %s", f.Name, plain(f.Text))
	}
	p.line("")
	p.line("## Throughput")
	p.line("")
	p.line("10^6 bit/s of payload, at the receiver. RX is what the gateway receives.")
	p.head("", "runs", "median", "mean", "95 %", "spread", "sample sd (n-1)", "population sd (n)", "sent again", "lost", "ns a packet", "busy")
	for _, f := range r.Phases {
		if f.Summary == nil {
			p.row(f.Title, fmt.Sprint(len(f.Runs)), "-", "-", "-", "-", "-", "-", "-", "-", "-", "-")
			continue
		}
		s := f.Summary
		in, sent, lost := "-", fmt.Sprint(f.Retransmits), "-"
		if s.MeanIn != nil {
			in = span(*s.MeanIn)
		}
		if f.Load.UDP {
			sent, lost = "-", fmt.Sprintf("%.1f %%", f.LostPercent)
		}
		p.row(f.Title, fmt.Sprint(s.N), fmt.Sprintf("**%s**", num(s.Median)), num(s.Mean), in, num(s.Spread), num(s.SD), num(s.PopulationSD),
			sent, lost, fmt.Sprintf("%.0f", f.NsPerPacket), fmt.Sprintf("%.0f %%", 100*f.Busy))
	}
	p.line("")
	p.line("\"ns a packet\" is the time of the gateway's processor: busy fraction × time / packets of the interface.")
	for _, f := range r.Phases {
		for _, n := range f.outliers() {
			p.line("\nOutlier: **%s, run %d**, %s Mbit/s (modified z-score above 3.5). It is in all figures above.", plain(f.Title), n, num(f.Runs[n-1].Mbit))
		}
		if f.Drift != nil && f.Drift.Drifts() {
			p.line("\n%s drifted by %s Mbit/s an hour, 95 %% %s.", plain(f.Title), signed(f.Drift.Slope), span(f.Drift.SlopeIn))
		}
	}
	p.line("")
	p.line("## Counters of the gateway")
	for _, w := range r.Windows {
		p.line("")
		p.line("### %s window, %.0f s", w.Name, w.Delta.Seconds)
		p.head("counter", "grew by")
		shown := []string{"rx packets", "tx packets", "rx bytes", "tx bytes"}
		for _, name := range append(shown, errorsOf...) {
			if w.Name == windowTCP || w.Delta.Device[name] > 0 {
				p.row(name, fmt.Sprint(w.Delta.Device[name]))
			}
		}
		for _, name := range []string{"Tcp.RetransSegs", "Tcp.InErrs", "Tcp.InCsumErrors", "Tcp.OutSegs", "Udp.InDatagrams", "Udp.OutDatagrams", "Udp.InErrors", "Udp.RcvbufErrors", "Udp.SndbufErrors"} {
			if strings.HasPrefix(name, "Tcp") == (w.Name == windowTCP) {
				p.row(name, fmt.Sprint(w.Delta.SNMP[name]))
			}
		}
		if len(w.Delta.Driver) > 0 {
			p.head("driver's counter", "grew by", "a packet")
			for _, name := range sorted(w.Delta.Driver) {
				p.row(name, fmt.Sprint(w.Delta.Driver[name]), fmt.Sprintf("%.6f", w.DriverPerPacket[name]))
			}
		}
	}
	p.line("")
	p.line("## Where it was measured")
	p.head("", "")
	environment(p, r.Host, r.Gateway)
	if l := r.Mode.Load; l != nil {
		p.row("at rest", fmt.Sprintf("%.3f %% CPU of user space, %.1f wakeups, %.1f packets in and %.1f out a second", l.CPU, l.Wakeups, l.Rx, l.Tx))
	}
	p.row("stopped", strings.Join(r.Mode.Stopped, ", "))
	p.row("door", r.Mode.Door)
	p.row("driver's profile", r.Mode.Profile)
	for _, n := range r.Mode.Notes {
		p.row("note", n)
	}
	for _, f := range r.Phases {
		p.row(f.Title, fmt.Sprintf("%d × iperf3 %s", f.Repeat, strings.Join(f.Load.Args("GATEWAY", r.Mode.Port), " ")))
	}
	p.line("")
	p.line("## Pictures")
	for _, f := range r.Phases {
		if f.Summary != nil {
			p.line("\n![%s over time](plots/%s.svg)", plain(f.Title), f.Name)
		}
	}
	p.line("\n![distribution](plots/distribution.svg)")
	p.line("\nOne session is no evidence of a cause: what differs between two of them may be the day's (docs/bench.md). `gwctl bench ab` compares.")
	return p.Bytes()
}

// environment are the rows that every report has.
func environment(p *page, h Host, g Facts) {
	p.row("gateway", fmt.Sprintf("%s, board %s, firmware %s, kernel %s, %s %s, %d Mbit/s", g.Hostname, g.Board, g.Version, g.Kernel, g.Interface, g.Driver, g.SpeedMbit))
	p.row("this computer", fmt.Sprintf("%s, %s, iperf3 %s, gwctl %s", h.Name, h.OS, h.IPerf3, h.Gwctl))
	path := fmt.Sprintf("%s, %s to %s", h.Path.Kind, h.Path.Interface, h.Path.Address)
	if h.Path.SpeedMbit > 0 {
		path += fmt.Sprintf(", %d Mbit/s", h.Path.SpeedMbit)
	}
	if h.Path.Routed {
		path += ", routed"
	}
	p.row("path", path)
}

// title is what a plan is called.
func (p *Plan) title() string {
	if p.Kind == kindNull {
		return "Noise of " + p.Points[0]
	}
	return strings.Join(p.Points[1:], ", ") + " beside " + p.Points[0]
}

// report is RESULTS.md of ab, sweep and null.
func (r *Result) report() []byte {
	p := &page{}
	plan := &r.Plan
	p.line("# %s", plain(plan.title()))
	p.line("")
	p.line("Registered %s, before the first run. %d of %d rounds count; %d were measured again because their environment was not valid, %d because the bench was interrupted.",
		stamp(plan.Registered), r.Rounds, plan.Rounds, r.Replayed, r.Interrupted)
	if r.Rounds < plan.Rounds {
		p.line("\n**It is not whole: there is no verdict before the last round that was planned.**")
	}
	if plan.Kind != kindNull {
		p.line("\nBar, set then: a gain of **%s Mbit/s** in %s.", signed(plan.Bar), plan.Measures[0].Title)
	}
	for _, c := range r.Comparisons {
		p.line("")
		p.line("## %s, %s", plain(c.Point), measureTitle(plan, c.Measure))
		p.line("")
		if c.Verdict != "" {
			p.line("**%s**", judged(c.Verdict, plan.Bar, *c.JudgedIn, c.Decide))
			if len(plan.Points) > 2 {
				p.line("(by %s, which holds for all %d points together in 95 %%)", span(*c.JudgedIn), len(plan.Points)-1)
			}
			p.line("")
		}
		for _, text := range describePaired(c.Paired) {
			p.line("- %s", text)
		}
		p.line("- ratio to %s within the round %+.2f %%, 95 %% [%.2f, %.2f]", plain(plan.Points[0]), 100*c.Ratio, 100*c.RatioIn.Low, 100*c.RatioIn.High)
		p.head("round", plan.Points[0], c.Point, "difference")
		for i := range c.Values {
			p.row(fmt.Sprint(i+1), num(c.Reference[i]), num(c.Values[i]), signed(c.Values[i]-c.Reference[i]))
		}
		p.line("\n![differences](plots/%s)", plotName(plan, c))
	}
	for _, n := range r.Noise {
		p.line("")
		p.line("## %s", measureTitle(plan, n.Measure))
		p.line("")
		for _, text := range describe(n.Summary, func(i int) int { return i + 1 }) {
			p.line("- %s", text)
		}
		p.line("- sd of the difference between one run and the next: **%.2f**. That is the noise floor: `gwctl bench ab -noise DIR` makes no interval narrower than it allows", n.Difference)
		drifting(p, n.Drift)
		p.head("pairs", "find a gain of, with a chance of 80 %")
		for _, pairs := range []int{4, 6, 8, 12, 16, 24, 32} {
			p.row(fmt.Sprint(pairs), fmt.Sprintf("%.2f Mbit/s", stats.Detectable(n.Difference, pairs)))
		}
		p.line("\n![runs](plots/null-%s.svg)", n.Measure)
	}
	if len(r.Placed) > 0 {
		p.line("")
		p.line("## The place in a round")
		for _, q := range r.Placed {
			p.line("")
			p.line("%s: %s", measureTitle(plan, q.Measure), placed(q))
			drifting(p, q.Drift)
		}
	}
	p.line("")
	p.line("## How it was measured")
	p.head("", "")
	environment(p, r.Host, r.Gateway)
	p.row("order", orderWords(plan))
	for _, m := range plan.Measures {
		p.row(m.Title, fmt.Sprintf("%d × iperf3 %s, %.0f s before each", plan.Repeat, strings.Join(m.Load.Args("GATEWAY", 5201), " "), plan.GapSeconds))
	}
	p.row("hook", plan.Hook)
	p.row("driver's profile", plan.Profile)
	if plan.NoiseFrom != "" {
		p.row("noise floor", fmt.Sprintf("%.2f Mbit/s a difference, from %s", plan.Noise[plan.Measures[0].Name], plan.NoiseFrom))
	}
	for i, a := range r.Attempts {
		switch {
		case a.Invalid != "":
			p.row(fmt.Sprintf("attempt %d", i+1), fmt.Sprintf("round %d does not count: %s", a.Round+1, a.Invalid))
		case a.Interrupted:
			p.row(fmt.Sprintf("attempt %d", i+1), fmt.Sprintf("round %d was interrupted", a.Round+1))
		}
	}
	return p.Bytes()
}

func measureTitle(p *Plan, name string) string {
	for _, m := range p.Measures {
		if m.Name == name {
			return m.Title
		}
	}
	return name
}

// placed puts an effect of the position into words.
func placed(q Placed) string {
	var means []string
	for _, m := range q.Position.Means {
		means = append(means, signed(m))
	}
	text := fmt.Sprintf("by place %s Mbit/s, p %s", strings.Join(means, ", "), probability(q.Position.P))
	if q.Position.Matters() {
		return text + ". **It matters when in a round a point is measured.** The order is balanced, so that is in no mean, but it widens the intervals"
	}
	return text + ": no effect of the place is seen"
}

func drifting(p *page, d *stats.Trend) {
	if d == nil {
		return
	}
	text := "none is seen"
	if d.Drifts() {
		text = "**the session drifts**"
	}
	p.line("- drift over the session: %s (%s Mbit/s an hour, 95 %% %s)", text, signed(d.Slope), span(d.SlopeIn))
}

// orderWords is the order as letters.
func orderWords(p *Plan) string {
	var all []string
	for _, row := range p.Order {
		text := ""
		for _, point := range row {
			text += string(rune('A' + point))
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}
