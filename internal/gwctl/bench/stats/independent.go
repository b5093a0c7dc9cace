package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Independent is the difference of the means of two series that are not paired.
type Independent struct {
	Difference float64  `json:"difference"` // second less first
	In         Interval `json:"in"`         // Welch's t
}

// Welch compares two series, of two values each at least.
func Welch(first, second []float64) (Independent, error) {
	if len(first) < 2 || len(second) < 2 {
		return Independent{}, ErrFew
	}
	m1, v1 := stat.MeanVariance(first, nil)
	m2, v2 := stat.MeanVariance(second, nil)
	n1, n2 := float64(len(first)), float64(len(second))
	a, b := v1/n1, v2/n2
	d := Independent{Difference: m2 - m1}
	half := 0.0
	if a+b > 0 {
		freedom := (a + b) * (a + b) / (a*a/(n1-1) + b*b/(n2-1))
		half = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(1-(1-Confidence)/2) * math.Sqrt(a+b)
	}
	d.In = Interval{d.Difference - half, d.Difference + half}
	return d, nil
}
