// Package stats is the statistics of gwctl bench: what repetitions of a
// measurement say about a value, and what pairs of them say about a change
// (docs/bench.md). It measures nothing and prints nothing.
//
// Everywhere a value is a float64 in a unit of the caller's, and more is better
// only where a function says so.
package stats

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// Confidence is that of every interval.
	Confidence = 0.95
	// Power is the chance with which a plan shall find what it looks for.
	Power = 0.80
	// outlierScore is the modified z-score above which a value is named
	// (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
	outlierScore = 3.5
)

// ErrFew says that there are fewer values than the statistic needs.
var ErrFew = errors.New("too few values")

// Interval is one of 95 %.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Contains tells whether v is in it, the ends included.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// Summary describes repetitions of one measurement.
type Summary struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Mean   float64 `json:"mean"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Spread float64 `json:"spread"` // Max - Min
	// SD divides by n-1: it is that of the values to come, of which these are a
	// sample. PopulationSD divides by n. Both are 0 for one value.
	SD           float64 `json:"sampleSD"`
	PopulationSD float64 `json:"populationSD"`
	// MeanIn is where the mean of more of the same would be (t), and SDIn where
	// their SD (chi squared); absent with one value.
	MeanIn *Interval `json:"meanIn,omitempty"`
	SDIn   *Interval `json:"sdIn,omitempty"`
	// Outliers are indices, from 0, of values that do not look like the others.
	// They are in all of the above.
	Outliers []int `json:"outliers,omitempty"`
}

// Summarize describes values, of which there must be one.
func Summarize(values []float64) (Summary, error) {
	n := len(values)
	if n == 0 {
		return Summary{}, ErrFew
	}
	s := Summary{N: n, Median: Median(values), Min: slices.Min(values), Max: slices.Max(values), Outliers: Outliers(values)}
	s.Spread = s.Max - s.Min
	s.Mean = stat.Mean(values, nil)
	if n == 1 {
		return s, nil
	}
	s.SD = stat.StdDev(values, nil)
	s.PopulationSD = stat.PopStdDev(values, nil)
	in := meanInterval(s.Mean, s.SD, n)
	s.MeanIn = &in
	chi := distuv.ChiSquared{K: float64(n - 1)}
	tail := (1 - Confidence) / 2
	s.SDIn = &Interval{
		Low:  s.SD * math.Sqrt(float64(n-1)/chi.Quantile(1-tail)),
		High: s.SD * math.Sqrt(float64(n-1)/chi.Quantile(tail)),
	}
	return s, nil
}

// Median is the middle value, or the mean of the two in the middle; NaN of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Outliers returns the indices of values whose modified z-score, from the median
// and the median absolute deviation, is above 3.5. Where more than half of the
// values are the same, the mean absolute deviation is used instead.
func Outliers(values []float64) (all []int) {
	if len(values) < 3 {
		return nil
	}
	m := Median(values)
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - m)
	}
	// The factors make both the sd of values that are normally distributed.
	scale := Median(away) * 1.4826
	if scale == 0 {
		scale = stat.Mean(away, nil) * 1.2533
	}
	for i, d := range away {
		if scale > 0 && d/scale > outlierScore {
			all = append(all, i)
		}
	}
	return all
}

// Successive is the sd of the difference between one value and the next, by the
// mean square of successive differences: what drifts slowly is hardly in it.
// Without drift it is √2 times the sample sd.
func Successive(values []float64) (float64, error) {
	if len(values) < 2 {
		return 0, ErrFew
	}
	sum := 0.0
	for i := 1; i < len(values); i++ {
		d := values[i] - values[i-1]
		sum += d * d
	}
	return math.Sqrt(sum / float64(len(values)-1)), nil
}

// Trend is a straight line through values over time.
type Trend struct {
	Slope   float64  `json:"slope"` // per unit of time
	SlopeIn Interval `json:"slopeIn"`
}

// Drifts tells whether the slope is not 0, as far as 95 % go.
func (t Trend) Drifts() bool { return !t.SlopeIn.Contains(0) }

// Drift fits a line by least squares. There must be three values, and at least
// two times.
func Drift(at, values []float64) (Trend, error) {
	n := len(values)
	if n < 3 || len(at) != n || slices.Min(at) == slices.Max(at) {
		return Trend{}, ErrFew
	}
	base, slope := stat.LinearRegression(at, values, nil, false)
	mean, rest, wide := stat.Mean(at, nil), 0.0, 0.0
	for i := range at {
		e := values[i] - base - slope*at[i]
		rest += e * e
		wide += (at[i] - mean) * (at[i] - mean)
	}
	half := quantile(n-2) * math.Sqrt(rest/float64(n-2)/wide)
	return Trend{slope, Interval{slope - half, slope + half}}, nil
}

// quantile is the one of Student's t that an interval of 95 % reaches to.
func quantile(freedom int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(freedom)}.Quantile(1 - (1-Confidence)/2)
}

func meanInterval(mean, sd float64, n int) Interval {
	half := quantile(n-1) * sd / math.Sqrt(float64(n))
	return Interval{mean - half, mean + half}
}
