package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s %v, want %v", what, got, want)
	}
}

// TX repetitions of the RTL8196E's driver, as they were published. The bench that
// they are from prints the population's sd, 0.47.
var published = []float64{68.7, 70.1, 69.0, 68.8, 69.0, 69.0, 69.9, 68.8, 69.1, 68.7}

func TestSummarize(t *testing.T) {
	s, err := Summarize(published)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "median", s.Median, 69.0, 1e-9)
	near(t, "spread", s.Spread, 1.4, 1e-9)
	near(t, "sample sd", s.SD, 0.49, 0.005)
	near(t, "population sd", s.PopulationSD, 0.47, 0.005)
	near(t, "mean", s.Mean, 69.11, 1e-9)
	near(t, "min", s.Min, 68.7, 0)
	near(t, "max", s.Max, 70.1, 0)
	// qt(.975, 9) = 2.262157; qchisq(c(.975, .025), 9) = 19.02277, 2.700389.
	near(t, "low", s.MeanIn.Low, 69.11-2.262157*s.SD/math.Sqrt(10), 1e-6)
	near(t, "high", s.MeanIn.High, 69.11+2.262157*s.SD/math.Sqrt(10), 1e-6)
	near(t, "sd low", s.SDIn.Low, s.SD*math.Sqrt(9/19.02277), 1e-6)
	near(t, "sd high", s.SDIn.High, s.SD*math.Sqrt(9/2.700389), 1e-6)
	if !slices.Equal(s.Outliers, []int{1}) || s.N != 10 {
		t.Errorf("outliers %v of %d", s.Outliers, s.N)
	}

	if s, err = Summarize([]float64{5}); err != nil || s.Median != 5 || s.SD != 0 || s.MeanIn != nil || s.SDIn != nil {
		t.Errorf("one value: %+v, %v", s, err)
	}
	if _, err = Summarize(nil); !errors.Is(err, ErrFew) {
		t.Errorf("no value: %v", err)
	}
	if m := Median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median of four %v", m)
	}
}

func TestOutliers(t *testing.T) {
	for name, tt := range map[string]struct {
		values []float64
		want   []int
	}{
		"a login in the third run": {[]float64{69.1, 68.9, 52.0, 69.3, 68.7, 69.0, 69.2}, []int{2}},
		"none":                     {[]float64{69.1, 68.9, 69.3, 68.7, 69.0, 69.2}, nil},
		"all the same":             {[]float64{93.3, 93.3, 93.3, 93.3}, nil},
		"most the same":            {[]float64{93.3, 93.3, 93.3, 80, 93.3, 93.3, 93.3}, []int{3}},
		"two":                      {[]float64{1, 2}, nil},
		"both sides":               {[]float64{50, 69.1, 68.9, 69.3, 68.7, 69.0, 69.2, 90}, []int{0, 7}},
	} {
		if got := Outliers(tt.values); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// differences of pairs, second less first.
func differences(pairs ...[2]float64) (d []float64) {
	for _, p := range pairs {
		d = append(d, p[1]-p[0])
	}
	return d
}

func TestPublishedPairs(t *testing.T) {
	rx := differences([2]float64{89.1, 91.1}, [2]float64{89.9, 90.8}, [2]float64{89.5, 90.7}, [2]float64{88.9, 90.2}, [2]float64{89.7, 90.4})
	tx := differences([2]float64{69.1, 69.4}, [2]float64{68.5, 69.4}, [2]float64{68.2, 69.7}, [2]float64{68.3, 69.8}, [2]float64{68.6, 69.3})
	for _, tt := range []struct {
		name           string
		d              []float64
		mean, sign, sd float64
		in             Interval
	}{
		// The intervals by qt(.975, 4) = 2.776445 and qt(.975, 3) = 3.182446.
		{"RX", rx, 1.22, 0.031, 0.497, Interval{0.603, 1.837}},
		{"TX", tx, 0.98, 0.031, 0.522, Interval{0.332, 1.628}},
		{"RX of four", []float64{0.6, 0.5, 0.4, 1.3}, 0.70, 0.0625, 0.408, Interval{0.050, 1.350}},
	} {
		p, err := Pairs(tt.d, 0)
		if err != nil {
			t.Fatal(err)
		}
		near(t, tt.name+" mean", p.Mean, tt.mean, 1e-9)
		near(t, tt.name+" sign test", p.Sign.Greater, tt.sign, 0.0005)
		near(t, tt.name+" sd", p.SD, tt.sd, 0.0005)
		near(t, tt.name+" low", p.In.Low, tt.in.Low, 0.001)
		near(t, tt.name+" high", p.In.High, tt.in.High, 0.001)
		// All are gains: of all assignments of signs this is the one that is
		// furthest, with its mirror.
		all := math.Pow(2, float64(len(tt.d)))
		near(t, tt.name+" permutations", p.Permutation.Greater, 1/all, 1e-12)
		near(t, tt.name+" permutations, two-sided", p.Permutation.TwoSided, 2/all, 1e-12)
		if p.N != len(tt.d) || p.Sign.Up != len(tt.d) || p.Sign.Down != 0 || !p.Permutation.Exact {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
}

// More losses than gains are as far from half as more gains.
func TestSignsOfLosses(t *testing.T) {
	s := Signs([]float64{-1, -1, -1, 0, -1, 1})
	if s.Up != 1 || s.Down != 4 {
		t.Errorf("%+v", s)
	}
	near(t, "greater", s.Greater, 31.0/32, 1e-12)
	near(t, "two-sided", s.TwoSided, 2*6.0/32, 1e-12)
}

// Several intervals that all hold in 95 %: by the tables of Dunn's t, which is
// t(1 - .05/2k), 2.776 for one of 5 pairs, 3.495 for two and 3.961 for three.
func TestTogether(t *testing.T) {
	p, err := Pairs([]float64{2, 0.9, 1.2, 1.3, 0.7}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for several, quantile := range map[int]float64{0: 2.776, 1: 2.776, 2: 3.495, 3: 3.961} {
		in := p.Together(several)
		half := quantile * p.SD / math.Sqrt(5)
		near(t, "low", in.Low, p.Mean-half, 0.001)
		near(t, "high", in.High, p.Mean+half, 0.001)
	}
	noisy, err := Pairs([]float64{2, 0.9, 1.2, 1.3, 0.7}, 2)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "with noise", noisy.Together(3).High-noisy.Mean, 3.961*2/math.Sqrt(5), 0.001)
}

func TestPublishedVerdict(t *testing.T) {
	if v := Judge(Interval{0.63, 2.15}, 0.70); v != NotCleared {
		t.Errorf("1.387 [0.63, 2.15] against 0.70 is %s", v)
	}
	// The sd that such an interval of eight pairs comes from.
	sd := (2.15 - 0.63) / 2 * math.Sqrt(8) / quantile(7)
	in := meanInterval(1.387, sd, 8)
	near(t, "low", in.Low, 0.63, 0.005)
	near(t, "high", in.High, 2.15, 0.005)
	// More than the eight that did not.
	if n := PairsFor(1.387-0.70, sd); n != 16 {
		t.Errorf("%d pairs would decide", n)
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		in   Interval
		bar  float64
		want Verdict
	}{
		{Interval{0.71, 2}, 0.70, Cleared},
		{Interval{0.70, 2}, 0.70, NotCleared},
		{Interval{-0.1, 0.69}, 0.70, NotCleared},
		{Interval{0.1, 0.69}, 0.70, NotCleared},
		{Interval{-0.1, 0.71}, 0.70, NotDecided},
		{Interval{-2, -0.1}, 0.70, NotCleared},
		{Interval{0.01, 1}, 0, Cleared},
		{Interval{0, 0}, 0, NotDecided},
		{Interval{-1, 1}, 0, NotDecided},
		{Interval{-1, -0.1}, 0, NotCleared},
		// A loss of 0.5 is accepted.
		{Interval{-0.4, 0.3}, -0.5, Cleared},
		{Interval{-0.6, 0.3}, -0.5, NotDecided},
		{Interval{-0.6, -0.1}, -0.5, NotCleared},
		{Interval{-0.9, -0.6}, -0.5, NotCleared},
	} {
		if got := Judge(tt.in, tt.bar); got != tt.want {
			t.Errorf("%v against %v is %s, want %s", tt.in, tt.bar, got, tt.want)
		}
	}
}

// The example of a textbook: sleep gained by ten patients on two drugs (Student,
// 1908), whose p and interval R's t.test(paired=TRUE) gives, and whose permutations
// Fisher's exact count.
func TestStudentsSleep(t *testing.T) {
	p, err := Pairs([]float64{1.2, 2.4, 1.3, 1.3, 0, 1.0, 1.8, 0.8, 4.6, 1.4}, 0)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean", p.Mean, 1.58, 1e-9)
	near(t, "low", p.In.Low, 0.7001142, 1e-6)
	near(t, "high", p.In.High, 2.4598858, 1e-6)
	near(t, "p", p.P, 0.00283289, 1e-7)
	// One is 0: both its signs give the same sum.
	near(t, "permutations", p.Permutation.Greater, 2.0/1024, 1e-12)
	near(t, "two-sided", p.Permutation.TwoSided, 4.0/1024, 1e-12)
	if p.Sign.Up != 9 || p.Sign.Down != 0 {
		t.Errorf("signs %+v", p.Sign)
	}
	near(t, "sign test", p.Sign.Greater, 1.0/512, 1e-12)
	near(t, "two-sided", p.Sign.TwoSided, 2.0/512, 1e-12)
}

func TestPairs(t *testing.T) {
	if _, err := Pairs([]float64{1}, 0); !errors.Is(err, ErrFew) {
		t.Errorf("one pair: %v", err)
	}
	p, err := Pairs([]float64{2, 2, 2, 2}, 0)
	if err != nil || p.In != (Interval{2, 2}) || p.P != 0 || p.Detectable != 0 {
		t.Errorf("without any spread: %+v, %v", p, err)
	}
	if p, _ = Pairs(make([]float64, 4), 0); p.P != 1 || p.Sign.Greater != 1 || p.Sign.TwoSided != 1 || p.Permutation.TwoSided != 1 {
		t.Errorf("nothing but zeros: %+v", p)
	}
	// Four pairs that agree by luck, where the noise is known to be 1.
	lucky := []float64{1.0, 1.1, 1.0, 1.1}
	p, _ = Pairs(lucky, 1)
	near(t, "low", p.In.Low, 1.05-3.182446/2, 1e-6)
	near(t, "P", p.P, 0.12657, 1e-5)
	if p.Noise != 1 {
		t.Errorf("noise %v", p.Noise)
	}
	if q, _ := Pairs(lucky, 0.01); q.Noise != 0 || q.In.Low < 0.9 {
		t.Errorf("less noise than is seen changes %+v", q)
	}
	// A mean of 0, in both of its tests.
	p, _ = Pairs([]float64{1, -1, 2, -2}, 0)
	near(t, "p", p.P, 1, 1e-12)
	near(t, "sign", p.Sign.TwoSided, 1, 1e-12)
	near(t, "permutations", p.Permutation.TwoSided, 1, 1e-12)
	// More pairs than all signs are tried for.
	many := make([]float64, 24)
	for i := range many {
		many[i] = 1 - 2.4*float64(i%2) // 12 of 1, 12 of -1.4
	}
	p, _ = Pairs(many, 0)
	// Exactly: with k and l of each kind turned, |(12-2k) - 1.4 (12-2l)| >= 4.8.
	exact := 0.0
	ways := distuv.Binomial{N: 12, P: 0.5}
	for k := range 13 {
		for l := range 13 {
			if math.Abs(float64(12-2*k)-1.4*float64(12-2*l)) >= 4.8-1e-9 {
				exact += ways.Prob(float64(k)) * ways.Prob(float64(l))
			}
		}
	}
	near(t, "drawn", p.Permutation.TwoSided, exact, 0.006)
	if p.Permutation.Exact || p.Permutation.Greater < 0.5 {
		t.Errorf("drawn: %+v", p.Permutation)
	}
}

func TestRatios(t *testing.T) {
	mean, in, err := Ratios([]float64{101, 102, 103}, []float64{100, 100, 100})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean", mean, 0.02, 1e-12)
	near(t, "low", in.Low, 0.02-4.302653*0.01/math.Sqrt(3), 1e-6)
	if _, _, err := Ratios([]float64{1}, []float64{1}); !errors.Is(err, ErrFew) {
		t.Errorf("one round: %v", err)
	}
}

// The two drugs as if they had been given to different people: R's t.test.
func TestWelch(t *testing.T) {
	d, err := Welch([]float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0}, []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "difference", d.Difference, 1.58, 1e-9)
	near(t, "low", d.In.Low, -0.2054832, 1e-6)
	near(t, "high", d.In.High, 3.3654832, 1e-6)
	if d, err := Welch([]float64{1, 1}, []float64{2, 2}); err != nil || d.In != (Interval{1, 1}) {
		t.Errorf("no spread: %+v, %v", d, err)
	}
	if _, err := Welch([]float64{1}, []float64{1, 2}); !errors.Is(err, ErrFew) {
		t.Errorf("one value: %v", err)
	}
}

func TestDrift(t *testing.T) {
	// R: confint(lm(c(1,2,1.3,3.75,2.25) ~ c(1,2,3,4,5))): slope 0.425,
	// -0.5914 to 1.4414.
	d, err := Drift([]float64{1, 2, 3, 4, 5}, []float64{1, 2, 1.3, 3.75, 2.25})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "slope", d.Slope, 0.425, 1e-9)
	// Residual sum of squares 2.79175, 3 degrees of freedom: half is
	// 3.182446 * sqrt(2.79175/3/10).
	near(t, "low", d.SlopeIn.Low, 0.425-3.182446*math.Sqrt(2.79175/30), 1e-3)
	if d.Drifts() {
		t.Error("that is no drift")
	}
	if d, _ = Drift([]float64{0, 1, 2, 3}, []float64{70, 69.1, 68.0, 66.9}); !d.Drifts() || d.Slope > -1 {
		t.Errorf("a session that loses 1 Mbit/s an hour: %+v", d)
	}
	for _, at := range [][]float64{{1, 2}, {1, 1, 1}, {1, 2, 3, 4}} {
		if _, err := Drift(at, []float64{1, 2, 3}); !errors.Is(err, ErrFew) {
			t.Errorf("times %v: %v", at, err)
		}
	}
}

func TestSuccessive(t *testing.T) {
	// A ramp of 1 a step has no noise but the step itself, and a large sd.
	s, err := Successive([]float64{1, 2, 3, 4, 5, 6, 7, 8})
	if err != nil || s != 1 {
		t.Errorf("%v, %v", s, err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	v := make([]float64, 20000)
	for i := range v {
		v[i] = random.NormFloat64() * 0.5
	}
	s, _ = Successive(v)
	near(t, "of independent values", s/stat.StdDev(v, nil), math.Sqrt2, 0.03)
	if _, err := Successive(v[:1]); !errors.Is(err, ErrFew) {
		t.Error(err)
	}
}

// power.t.test of R, type "paired" with 10 pairs, sd 1, power .8 and two tails in
// strict order gives delta 0.99549 (one tail of 2.5 %).
func TestDetectable(t *testing.T) {
	near(t, "10 pairs", Detectable(1, 10), 0.9955, 0.002)
	near(t, "scales", Detectable(3, 10), 3*Detectable(1, 10), 1e-9)
	// Many: (1.959964 + 0.841621) / sqrt(n).
	near(t, "1000 pairs", Detectable(1, 1000), 2.801585/math.Sqrt(1000), 1e-3)
	if !math.IsInf(Detectable(1, 1), 1) {
		t.Error("one pair detects something")
	}
	for _, n := range []int{2, 3, 5, 8, 16, 40} {
		if got := PairsFor(Detectable(1, n)*1.0001, 1); got != n {
			t.Errorf("%d pairs find what %d find", got, n)
		}
	}
	for _, tt := range []struct {
		away, sd float64
		want     int
	}{{0, 1, 0}, {1e-9, 1, 0}, {1, 0, 2}, {-0.9955, 1, 10}, {0, 0, 0}} {
		if got := PairsFor(tt.away, tt.sd); got != tt.want && !(tt.want == 10 && got == 11) {
			t.Errorf("%v away at sd %v: %d pairs, want %d", tt.away, tt.sd, got, tt.want)
		}
	}
}
