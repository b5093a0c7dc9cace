// Sizes uses what the edits for size make less of, and says what it does.
package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime/trace"
	"slices"
)

type pair struct{ key, place int }

func main() {
	sorts()
	for _, expr := range []string{`^\pL+$`, `\p{Greek}`, `\P{^Lu}`, `[\p{Any}]`, `\p{ASCII}`, `(?i)stra\x{df}e [[:alpha:]]\d`} {
		re, err := regexp.Compile(expr)
		fmt.Println(expr, err, err == nil && re.MatchString("STRA\u1e9eE a7"))
	}
	fmt.Println(trace.Start(io.Discard), trace.IsEnabled())
}

func sorts() {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		var ints []int
		var pairs []pair
		for i := range n {
			ints = append(ints, rng.IntN(n))
			pairs = append(pairs, pair{rng.IntN(n/2 + 1), i})
		}
		want := slices.Clone(ints)
		for i := range want { // the plainest sort
			for j := range want[:i] {
				if want[i] < want[j] {
					want[i], want[j] = want[j], want[i]
				}
			}
		}
		byKey := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
		stable := slices.Clone(pairs)
		slices.SortStableFunc(stable, byKey)
		whole := slices.Clone(pairs)
		slices.SortFunc(whole, func(a, b pair) int { return cmp.Or(byKey(a, b), cmp.Compare(a.place, b.place)) })
		slices.Sort(ints)
		slices.SortFunc(pairs, byKey)
		if !slices.Equal(ints, want) || !slices.Equal(stable, whole) || !slices.IsSortedFunc(pairs, byKey) {
			fmt.Println("not sorted:", n)
		}
		if n <= 12 && !slices.Equal(pairs, whole) {
			fmt.Println("equal ones changed places:", n)
		}
	}
	floats := []float64{3, math.NaN(), -1, math.Inf(-1), 7}
	slices.Sort(floats)
	fmt.Println(floats)
}
