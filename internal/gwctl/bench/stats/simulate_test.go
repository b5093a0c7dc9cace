package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// bench is a gateway whose speed is known: it drifts over the session, each place in
// a round has its own effect, the box has its noise, and the second point is
// better by gain.
type bench struct {
	random                    *rand.Rand
	gain, noise, drift, place float64
}

// pairs measures n of them in the order ABBA and returns the differences, and all
// values with their points by round.
func (b bench) pairs(n int) (d []float64, values [][]float64, points [][]int) {
	for r := range n {
		v, order := make([]float64, 2), []int{r % 2, 1 - r%2}
		by := make([]float64, 2)
		for i, p := range order {
			v[i] = 69 + b.gain*float64(p) + b.drift*float64(2*r+i) + b.place*float64(i) + b.noise*b.random.NormFloat64()
			by[p] = v[i]
		}
		d = append(d, by[1]-by[0])
		values, points = append(values, v), append(points, order)
	}
	return d, values, points
}

// rate repeats a trial and returns how often it is true, with what is within three
// standard errors of want.
func rate(t *testing.T, what string, trials int, want float64, trial func() bool) {
	t.Helper()
	n := 0
	for range trials {
		if trial() {
			n++
		}
	}
	got := float64(n) / float64(trials)
	limit := 3 * math.Sqrt(want*(1-want)/float64(trials))
	t.Logf("%s: %.2f %%, want %.0f %% ± %.2f", what, 100*got, 100*want, 100*limit)
	if math.Abs(got-want) > limit {
		t.Errorf("%s: %.2f %%, want %.0f %% ± %.2f", what, 100*got, 100*want, 100*limit)
	}
}

// interval is that of Pairs, which also looks at permutations.
func interval(d []float64, noise float64) Interval {
	in, _ := pairedInterval(stat.Mean(d, nil), stat.StdDev(d, nil), noise, len(d))
	return in
}

// Where there is no gain, one in twenty intervals leaves 0 out, half of them above
// it; and 19 in 20 hold a gain that there is.
func TestVerdictsOfNothing(t *testing.T) {
	for _, pairs := range []int{4, 8, 16} {
		b := bench{random: rand.New(rand.NewPCG(1, uint64(pairs))), noise: 0.5}
		rate(t, "an interval without 0", 3000, 0.05, func() bool {
			d, _, _ := b.pairs(pairs)
			return !interval(d, 0).Contains(0)
		})
		rate(t, "a bar of 0 cleared", 3000, 0.025, func() bool {
			d, _, _ := b.pairs(pairs)
			return Judge(interval(d, 0), 0) == Cleared
		})
		b.gain = 1.3
		rate(t, "an interval with the gain", 3000, 0.95, func() bool {
			d, _, _ := b.pairs(pairs)
			return interval(d, 0).Contains(1.3)
		})
		// A gain that is just the bar.
		rate(t, "a bar of the gain cleared", 3000, 0.025, func() bool {
			d, _, _ := b.pairs(pairs)
			return Judge(interval(d, 0), 1.3) == Cleared
		})
	}
}

// A session that drifts, with an effect of the position, makes no gain: the order
// is balanced. Without that it would make one nearly always.
func TestBalanceAgainstDriftAndOrder(t *testing.T) {
	b := bench{random: rand.New(rand.NewPCG(3, 3)), noise: 0.3, drift: 0.05, place: 0.6}
	cleared := func(d []float64) bool {
		return Judge(interval(d, 0), 0) == Cleared
	}
	fooled, balanced := 0, 0
	const trials = 1000
	for range trials {
		d, values, _ := b.pairs(8)
		if cleared(d) {
			balanced++
		}
		for i, v := range values { // as if B had always been second
			d[i] = v[1] - v[0]
		}
		if cleared(d) {
			fooled++
		}
	}
	t.Logf("balanced %d, in one order %d of %d", balanced, fooled, trials)
	if balanced > trials*25/1000 || fooled < trials*3/4 {
		t.Errorf("a gain of nothing: balanced %d, in one order %d of %d", balanced, fooled, trials)
	}
}

// The power is what the plan says.
func TestPowerAsPlanned(t *testing.T) {
	for _, pairs := range []int{3, 4, 8, 20} {
		b := bench{random: rand.New(rand.NewPCG(4, uint64(pairs))), noise: 0.5}
		bar := 0.7
		b.gain = bar + Detectable(0.5*math.Sqrt2, pairs)
		rate(t, "a detectable gain cleared", 3000, Power, func() bool {
			d, _, _ := b.pairs(pairs)
			return Judge(interval(d, 0), bar) == Cleared
		})
	}
}

// The permutation test, too, is wrong once in twenty, and where position does not
// matter the check of it.
func TestPermutationsOfNothing(t *testing.T) {
	b := bench{random: rand.New(rand.NewPCG(5, 5)), noise: 0.5, gain: 0}
	rate(t, "permutations below 5 %", 2000, 0.05, func() bool {
		d, _, _ := b.pairs(10)
		return permute(d).TwoSided <= 0.05
	})
}

func TestPositions(t *testing.T) {
	// A gain is no effect of the position.
	b := bench{random: rand.New(rand.NewPCG(6, 6)), noise: 0.5, gain: 3}
	wrong, found := 0, 0
	const trials = 60
	for range trials {
		b.place = 0
		_, values, points := b.pairs(10)
		p, err := Positions(values, points)
		if err != nil {
			t.Fatal(err)
		}
		if p.Matters() {
			wrong++
		}
		b.place = 1
		_, values, points = b.pairs(10)
		if p, _ = Positions(values, points); p.Matters() {
			found++
		}
	}
	// 5 % of 60 are 3, with an sd of 1.7.
	if wrong > 9 || found < trials*3/4 {
		t.Errorf("found where there is none %d times, where there is %d, of %d", wrong, found, trials)
	}
	// Three points in a Latin square, and no noise: the last place loses 0.3.
	square := [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}
	var values [][]float64
	for r, order := range square {
		var v []float64
		for i, p := range order {
			loss := 0.0
			if i == 2 {
				loss = 0.3
			}
			v = append(v, 60+5*float64(p)+float64(r)-loss)
		}
		values = append(values, v)
	}
	p, err := Positions(values, square)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "first", p.Means[0], 0.1, 1e-9)
	near(t, "third", p.Means[2], -0.2, 1e-9)
	if _, err := Positions(values[:1], square[:1]); err == nil {
		t.Error("one round is enough")
	}
	if _, err := Positions([][]float64{{1, 2}, {1}}, [][]int{{0, 1}, {0}}); err == nil {
		t.Error("a round that is not whole")
	}
}

// A known noise keeps a few pairs that agree by luck from deciding.
func TestNoiseFloor(t *testing.T) {
	b := bench{random: rand.New(rand.NewPCG(8, 8)), noise: 0.5}
	with, without := 0, 0
	for range 2000 {
		d, _, _ := b.pairs(3)
		if !interval(d, 0).Contains(0) {
			without++
		}
		if !interval(d, 0.5*math.Sqrt2).Contains(0) {
			with++
		}
	}
	if with >= without/2 {
		t.Errorf("wrong %d times with the noise known, %d without, of 2000", with, without)
	}
}
