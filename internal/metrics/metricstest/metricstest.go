// Package metricstest reads Prometheus text as strictly as its format (0.0.4)
// and its naming conventions say, for tests. It knows no summaries and no times
// of samples.
package metricstest

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Family is a metric with its samples, by their name and labels as they are
// written.
type Family struct {
	Name, Type, Help string
	Samples          map[string]float64
	order            []string
}

var (
	nameForm   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	sampleForm = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelForm  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)`)
)

// Parse reads a whole text: families in one piece each, HELP and TYPE before
// the samples, no sample twice, counters that end in _total and are not
// negative, histograms whose buckets rise up to +Inf, which is their count.
func Parse(text string) ([]*Family, error) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		return nil, errors.New("the last line has no end")
	}
	var all []*Family
	seen := map[string]bool{}
	var f *Family
	n := 0
	for l := range strings.Lines(text) {
		n++
		l = strings.TrimSuffix(l, "\n")
		bad := func(format string, a ...any) error {
			return fmt.Errorf("line %d, %q: %s", n, l, fmt.Sprintf(format, a...))
		}
		if rest, is := strings.CutPrefix(l, "# HELP "); is {
			name, help, _ := strings.Cut(rest, " ")
			switch {
			case !nameForm.MatchString(name):
				return nil, bad("no name")
			case seen[name]:
				return nil, bad("the family is there twice, or in pieces")
			case help == "":
				return nil, bad("no help")
			}
			seen[name] = true
			f = &Family{Name: name, Help: help, Samples: map[string]float64{}}
			all = append(all, f)
			continue
		}
		if rest, is := strings.CutPrefix(l, "# TYPE "); is {
			name, kind, _ := strings.Cut(rest, " ")
			if f == nil || f.Name != name || f.Type != "" || len(f.Samples) > 0 {
				return nil, bad("TYPE is not behind its HELP")
			}
			switch kind {
			case "counter", "gauge", "histogram", "untyped":
			default:
				return nil, bad("no such type")
			}
			if (kind == "counter") != strings.HasSuffix(name, "_total") {
				return nil, bad("counters, and nothing else, end in _total")
			}
			f.Type = kind
			continue
		}
		m := sampleForm.FindStringSubmatch(l)
		if m == nil {
			return nil, bad("neither HELP, TYPE nor a sample")
		}
		name := m[1]
		if f == nil || f.Type == "" {
			return nil, bad("no TYPE before it")
		}
		if f.Type == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if name == f.Name+suffix {
					name = f.Name
				}
			}
		}
		if name != f.Name {
			return nil, bad("it is none of %s", f.Name)
		}
		labels := map[string]bool{}
		for rest := m[2]; rest != ""; {
			one := labelForm.FindStringSubmatch(rest)
			if one == nil || labels[one[1]] {
				return nil, bad("its labels are malformed at %q", rest)
			}
			labels[one[1]] = true
			rest = rest[len(one[0]):]
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil || f.Type == "counter" && (v < 0 || math.IsNaN(v)) {
			return nil, bad("no value")
		}
		series := strings.TrimSuffix(l, " "+m[3])
		if _, twice := f.Samples[series]; twice {
			return nil, bad("it is there twice")
		}
		f.Samples[series] = v
		f.order = append(f.order, series)
	}
	for _, f := range all {
		if len(f.Samples) == 0 {
			return nil, fmt.Errorf("%s has no samples", f.Name)
		}
		if f.Type == "histogram" {
			if err := f.histogram(); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// histogram looks at the buckets, by their other labels.
func (f *Family) histogram() error {
	type state struct{ le, n float64 }
	last := map[string]state{}
	for _, series := range f.order {
		labels, is := strings.CutPrefix(series, f.Name+"_bucket{")
		if !is {
			continue
		}
		others, le, ok := strings.Cut(strings.TrimSuffix(labels, "}"), `le="`)
		bound, err := strconv.ParseFloat(strings.TrimSuffix(le, `"`), 64)
		if !ok || err != nil {
			return fmt.Errorf("%s: le is not the last label, or no number", series)
		}
		s, begun := last[others]
		if n := f.Samples[series]; begun && (bound <= s.le || n < s.n) {
			return fmt.Errorf("%s: bounds and counts do not rise", series)
		}
		last[others] = state{bound, f.Samples[series]}
	}
	for others, s := range last {
		labels := ""
		if o := strings.TrimSuffix(others, ","); o != "" {
			labels = "{" + o + "}"
		}
		count, counted := f.Samples[f.Name+"_count"+labels]
		_, summed := f.Samples[f.Name+"_sum"+labels]
		if !math.IsInf(s.le, 1) || !counted || !summed || count != s.n {
			return fmt.Errorf("%s{%s}: no +Inf, sum or count, or the count is another", f.Name, others)
		}
	}
	if len(last) == 0 {
		return fmt.Errorf("%s has no buckets", f.Name)
	}
	return nil
}
