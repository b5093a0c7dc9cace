package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// exactPairs is up to how many pairs every assignment of signs is looked at;
	// beyond, drawn ones.
	exactPairs = 20
	// drawn is how many permutations are drawn where there are too many.
	drawn = 100_000
)

// Paired is what the differences within pairs say about the one that there is.
// Positive is a gain.
type Paired struct {
	N    int      `json:"n"`
	Mean float64  `json:"mean"`
	SD   float64  `json:"sampleSD"` // of the differences
	In   Interval `json:"in"`       // the mean, Student's t
	P    float64  `json:"p"`        // that of the t test, two-sided

	Sign        SignTest    `json:"sign"`
	Permutation Permutation `json:"permutation"`

	// Detectable is the gain that as many pairs with this SD find with a chance
	// of 80 %, in that its interval is above 0.
	Detectable float64 `json:"detectable"`
	// Noise is the sd of a difference as it was measured before, if it was and
	// if it is above SD: In, P and Detectable are from it, then.
	Noise float64 `json:"noise,omitempty"`
}

// Together is the interval of the mean, one of several that are all right in 95 %
// (Bonferroni).
func (p Paired) Together(several int) Interval {
	if several < 2 {
		return p.In
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(p.N - 1)}.Quantile(1 - (1-Confidence)/2/float64(several))
	half := t * max(p.SD, p.Noise) / math.Sqrt(float64(p.N))
	return Interval{p.Mean - half, p.Mean + half}
}

// SignTest counts gains. A difference of 0 is neither.
type SignTest struct {
	Up   int `json:"up"`
	Down int `json:"down"`
	// Greater is the probability of so many gains or more if there is none, and
	// TwoSided that of a count so far from half.
	Greater  float64 `json:"greater"`
	TwoSided float64 `json:"twoSided"`
}

// Permutation is the probability of such a mean if each difference could as well
// have had the other sign.
type Permutation struct {
	Greater  float64 `json:"greater"`
	TwoSided float64 `json:"twoSided"`
	// Exact: every assignment of signs was looked at, not 100000 drawn ones.
	Exact bool `json:"exact"`
}

// Pairs looks at differences, of which there must be two. noise is the sd of a
// difference as `bench null` found it, or 0: intervals are not made narrower than it
// allows by a few pairs that happen to agree.
func Pairs(differences []float64, noise float64) (Paired, error) {
	n := len(differences)
	if n < 2 {
		return Paired{}, ErrFew
	}
	p := Paired{N: n, Mean: stat.Mean(differences, nil), SD: stat.StdDev(differences, nil), Sign: Signs(differences), Permutation: permute(differences)}
	var sd float64
	if p.In, sd = pairedInterval(p.Mean, p.SD, noise, n); sd > p.SD {
		p.Noise = noise
	}
	switch {
	case sd > 0:
		t := math.Abs(p.Mean) / sd * math.Sqrt(float64(n))
		p.P = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Survival(t)
	case p.Mean == 0:
		p.P = 1
	}
	p.Detectable = Detectable(sd, n)
	return p, nil
}

// pairedInterval is that of a mean difference, and the sd that it is from.
func pairedInterval(mean, sd, noise float64, n int) (Interval, float64) {
	sd = max(sd, noise)
	return meanInterval(mean, sd, n), sd
}

// Signs is the sign test of differences.
func Signs(differences []float64) SignTest {
	var s SignTest
	for _, d := range differences {
		switch {
		case d > 0:
			s.Up++
		case d < 0:
			s.Down++
		}
	}
	atLeast := func(k int) float64 {
		if k == 0 {
			return 1
		}
		return distuv.Binomial{N: float64(s.Up + s.Down), P: 0.5}.Survival(float64(k) - 1)
	}
	s.Greater = atLeast(s.Up)
	s.TwoSided = min(1, 2*atLeast(max(s.Up, s.Down)))
	return s
}

// permute is the permutation test of the mean of differences.
func permute(differences []float64) Permutation {
	seen, size := 0.0, 0.0
	for _, d := range differences {
		seen += d
		size += math.Abs(d)
	}
	// Sums of the same numbers in another order are not the same bits.
	slack := size * 1e-9
	greater, far, all := 0, 0, 0
	look := func(sum float64) {
		all++
		if sum >= seen-slack {
			greater++
		}
		if math.Abs(sum) >= math.Abs(seen)-slack {
			far++
		}
	}
	n := len(differences)
	if n <= exactPairs {
		sum := -size
		look(sum)
		// In the order of a Gray code one sign changes at a time.
		up := make([]bool, n)
		for k := uint(1); k < 1<<n; k++ {
			i := bits.TrailingZeros(k)
			up[i] = !up[i]
			if up[i] {
				sum += 2 * math.Abs(differences[i])
			} else {
				sum -= 2 * math.Abs(differences[i])
			}
			look(sum)
		}
		return Permutation{float64(greater) / float64(all), float64(far) / float64(all), true}
	}
	look(seen) // the one that is there is one of those that there can be
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for range drawn {
		sum := 0.0
		for _, d := range differences {
			if random.Uint64()&1 == 0 {
				d = -d
			}
			sum += d
		}
		look(sum)
	}
	return Permutation{float64(greater) / float64(all), float64(far) / float64(all), false}
}

// Ratios is the mean of ratios of a value to the reference of its round, less
// 1, with its interval: +0.012 is 1.2 % more. There must be two.
func Ratios(values, reference []float64) (mean float64, in Interval, err error) {
	if len(values) < 2 || len(values) != len(reference) {
		return 0, Interval{}, ErrFew
	}
	r := make([]float64, len(values))
	for i := range r {
		r[i] = values[i]/reference[i] - 1
	}
	mean = stat.Mean(r, nil)
	return mean, meanInterval(mean, stat.StdDev(r, nil), len(r)), nil
}

// Position is whether it matters when in a round something is measured.
type Position struct {
	// Means are by position, as differences from the mean of the round, once
	// what each point differs by is taken out.
	Means []float64 `json:"means"`
	// P is the probability of means that differ so much if positions were drawn.
	P float64 `json:"p"`
}

// Matters tells whether P is below 5 %.
func (p Position) Matters() bool { return p.P < 1-Confidence }

// Positions looks for an effect of the position within rounds. values[r][i] is what
// was measured in round r at position i, points[r][i] which point that was, from 0.
// Every round has each point once, and there must be two rounds of two.
func Positions(values [][]float64, points [][]int) (Position, error) {
	if len(values) < 2 || len(points) != len(values) || len(values[0]) < 2 {
		return Position{}, ErrFew
	}
	k := len(values[0])
	rest := make([][]float64, len(values))
	ofPoint := make([]float64, k)
	for r, round := range values {
		if len(round) != k || len(points[r]) != k {
			return Position{}, ErrFew
		}
		mean := stat.Mean(round, nil)
		rest[r] = make([]float64, k)
		for i, v := range round {
			rest[r][i] = v - mean
			ofPoint[points[r][i]] += (v - mean) / float64(len(values))
		}
	}
	means := make([]float64, k)
	size := 0.0
	for r := range rest {
		for i := range rest[r] {
			rest[r][i] -= ofPoint[points[r][i]]
			means[i] += rest[r][i] / float64(len(rest))
			size += math.Abs(rest[r][i])
		}
	}
	squares := func(sums []float64) (total float64) {
		for _, s := range sums {
			total += s * s
		}
		return total
	}
	seen := squares(means) * float64(len(rest)*len(rest))
	random := rand.New(rand.NewPCG(2, uint64(len(rest))))
	const draws = 10_000
	far := 1
	sums := make([]float64, k)
	for range draws {
		clear(sums)
		for _, round := range rest {
			random.Shuffle(k, func(i, j int) { round[i], round[j] = round[j], round[i] })
			for i, v := range round {
				sums[i] += v
			}
		}
		if squares(sums) >= seen-size*size*1e-9 {
			far++
		}
	}
	return Position{means, float64(far) / (draws + 1)}, nil
}
