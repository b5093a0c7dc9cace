package bench

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"gwinit/internal/gwctl/bench/stats"
)

// stamp is a time in reports.
func stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05 -0700") }

// page is a report that is written.
type page struct{ bytes.Buffer }

func (p *page) line(form string, args ...any) { fmt.Fprintf(p, form+"\n", args...) }

// row is one of a table.
func (p *page) row(cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(plain(c), "|", "\\|")
	}
	p.line("| %s |", strings.Join(cells, " | "))
}

// head begins a table.
func (p *page) head(cells ...string) {
	p.line("")
	p.row(cells...)
	p.line("|%s", strings.Repeat("---|", len(cells)))
}

// plain is text of others without what a terminal or a page would obey.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

func num(v float64) string         { return fmt.Sprintf("%.2f", v) }
func signed(v float64) string      { return fmt.Sprintf("%+.2f", v) }
func span(i stats.Interval) string { return fmt.Sprintf("[%.2f, %.2f]", i.Low, i.High) }
func probability(p float64) string {
	if p < 0.0001 {
		return "below 0.0001"
	}
	return fmt.Sprintf("%.4g", round(p))
}

// round keeps two digits that count.
func round(p float64) float64 {
	var v float64
	_, _ = fmt.Sscanf(fmt.Sprintf("%.3g", p), "%g", &v) // it was made a line before
	return v
}

// describe puts a series into words, a line each.
func describe(s stats.Summary, number func(i int) int) []string {
	all := []string{
		fmt.Sprintf("n %d, median %.2f, mean %.2f, %.2f to %.2f (spread %.2f)", s.N, s.Median, s.Mean, s.Min, s.Max, s.Spread),
	}
	if s.MeanIn != nil {
		all = append(all,
			fmt.Sprintf("sample sd (n-1) %.2f, population sd (n) %.2f", s.SD, s.PopulationSD),
			fmt.Sprintf("95 %%: mean %s, sample sd %s", span(*s.MeanIn), span(*s.SDIn)))
	}
	for _, i := range s.Outliers {
		all = append(all, fmt.Sprintf("outlier: number %d (it counts all the same)", number(i)))
	}
	return all
}

// describePaired puts differences into words.
func describePaired(p stats.Paired) []string {
	all := []string{fmt.Sprintf("%d pairs: mean difference %+.2f, 95 %% (t) %s, sample sd %.2f", p.N, p.Mean, span(p.In), p.SD)}
	if p.Noise > 0 {
		all = append(all, fmt.Sprintf("the interval is from the noise floor, an sd of %.2f", p.Noise))
	}
	how := "exact"
	if !p.Permutation.Exact {
		how = "drawn"
	}
	return append(all,
		fmt.Sprintf("t test %s (two-sided)", probability(p.P)),
		fmt.Sprintf("sign test %s one-sided, %s two-sided (%d up, %d down)", probability(p.Sign.Greater), probability(p.Sign.TwoSided), p.Sign.Up, p.Sign.Down),
		fmt.Sprintf("permutation test %s one-sided, %s two-sided (%s)", probability(p.Permutation.Greater), probability(p.Permutation.TwoSided), how),
		fmt.Sprintf("so many pairs find a gain of %.2f with a chance of 80 %%", p.Detectable))
}

// judged puts a verdict into words.
func judged(v stats.Verdict, bar float64, in stats.Interval, decide int) string {
	text := fmt.Sprintf("bar %+.2f: %s", bar, v)
	switch {
	case v == stats.NotCleared && in.High < bar:
		text += ", the gain is below it"
	case v == stats.NotCleared:
		text += ": there is a difference, but it is not shown to be that large"
	case v == stats.NotDecided:
		text += ": these pairs tell neither a gain like that from none, nor none from it"
	}
	if decide > 0 {
		text += fmt.Sprintf("; if mean and sd stay as they are, %d pairs in a new plan decide with a chance of 80 %%", decide)
	} else if in.Contains(bar) {
		text += "; no number of pairs that anybody measures would decide"
	}
	return text
}
