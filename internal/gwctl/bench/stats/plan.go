package stats

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// mostPairs is where looking for a number of pairs ends: nobody measures more.
const mostPairs = 100_000

// chance is the probability that the interval of n pairs lies on the right side
// of a bar from which the true difference is away, in units of the sd: the power
// of a t test at 2.5 % one-sided, by the noncentral t distribution. With
// y = sd seen / sd, which is distributed as sqrt(chi²(n-1)/(n-1)), it is the mean
// of Φ(away √n - t y).
func chance(away float64, n int) float64 { return chanceBeyond(away, n, quantile(n-1)) }

// chanceBeyond is chance with the quantile t.
func chanceBeyond(away float64, n int, t float64) float64 {
	nu := float64(n - 1)
	// log of y's density, for its normalisation not to overflow.
	g, _ := math.Lgamma(nu / 2)
	base := math.Ln2 + nu/2*math.Log(nu/2) - g
	normal := distuv.UnitNormal
	f := func(y float64) float64 {
		if y <= 0 {
			return 0
		}
		return math.Exp(base+(nu-1)*math.Log(y)-nu*y*y/2) * normal.CDF(away*math.Sqrt(float64(n))-t*y)
	}
	// The density is 1 wide at most, and its sd is near sqrt(1/2nu).
	half := 8 / math.Sqrt(2*nu)
	return quad.Fixed(f, max(0, 1-half), 1+half, 200, nil, 0)
}

// Detectable is the difference that n pairs, at least two, whose differences have
// this sd find with a chance of 80 %.
func Detectable(sd float64, n int) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	low, high, t := 0.0, 1.0, quantile(n-1)
	for chanceBeyond(high, n, t) < Power {
		high *= 2
	}
	for range 40 { // to 12 digits
		mid := (low + high) / 2
		if chanceBeyond(mid, n, t) < Power {
			low = mid
		} else {
			high = mid
		}
	}
	return high * sd
}

// PairsFor is how many pairs find, with a chance of 80 %, a difference that is away
// from the bar by so much, if the differences have this sd. It is 0 if more than
// 100000 were needed, as for a difference that is the bar.
func PairsFor(away, sd float64) int {
	away = math.Abs(away)
	if sd == 0 && away > 0 {
		return 2
	}
	if away == 0 || sd/away > 100 {
		return 0
	}
	low, high := 1, 2
	for chance(away/sd, high) < Power {
		if low, high = high, high*2; high > mostPairs {
			return 0
		}
	}
	for high-low > 1 {
		mid := (low + high) / 2
		if chance(away/sd, mid) < Power {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// Verdict is what an interval says about a bar that was set before.
type Verdict string

// The verdicts.
const (
	// Cleared: the whole interval is above the bar.
	Cleared Verdict = "cleared"
	// NotCleared: it is below, or it contains the bar but not 0: there is a
	// difference, and it is not shown to be as large as was asked for.
	NotCleared Verdict = "not cleared"
	// NotDecided: it contains both, so it tells neither from the other.
	NotDecided Verdict = "not decided"
)

// Judge compares an interval with a bar; a difference above it is wanted. A bar
// below 0 is a loss that is accepted.
func Judge(in Interval, bar float64) Verdict {
	switch {
	case in.Low > bar:
		return Cleared
	case in.High < bar:
		return NotCleared
	case bar != 0 && !in.Contains(0):
		return NotCleared
	}
	return NotDecided
}
