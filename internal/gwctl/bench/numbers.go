package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gwinit/internal/gwctl/bench/stats"
)

// mostNumbers bounds what is read from a file.
const mostNumbers = 100_000

// parseNumbers reads a published series. Each line, and each pair of parentheses, is a
// row: numbers between spaces or commas, a decimal point, behind # a remark. Rows of
// two numbers are pairs, before and after; anything else is one series, or rows of
// one number.
func parseNumbers(b []byte) (series []float64, pairs [][2]float64, err error) {
	var rows [][]float64
	count := 0
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, 1<<20)
	for n := 1; in.Scan(); n++ {
		line, _, _ := strings.Cut(in.Text(), "#")
		line = strings.NewReplacer("(", "\n", ")", "\n", ",", " ", ";", " ").Replace(line)
		for part := range strings.SplitSeq(line, "\n") {
			var row []float64
			for _, word := range strings.Fields(part) {
				v, err := strconv.ParseFloat(word, 64)
				if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1e15 {
					return nil, nil, fmt.Errorf("line %d: %.40q is no number", n, word)
				}
				row = append(row, v)
			}
			if count += len(row); count > mostNumbers {
				return nil, nil, fmt.Errorf("there are more than %d numbers", mostNumbers)
			}
			if len(row) > 0 {
				rows = append(rows, row)
			}
		}
	}
	if err := in.Err(); err != nil {
		return nil, nil, err
	}
	two, one := len(rows) > 1, true
	for _, r := range rows {
		two = two && len(r) == 2
		one = one && len(r) == 1
	}
	switch {
	case len(rows) == 0:
		return nil, nil, fmt.Errorf("there are no numbers in it")
	case two:
		for _, r := range rows {
			pairs = append(pairs, [2]float64{r[0], r[1]})
		}
	case one || len(rows) == 1:
		for _, r := range rows {
			series = append(series, r...)
		}
	default:
		return nil, nil, fmt.Errorf("rows of one number, or of two, or one row: what there is, is neither a series nor pairs")
	}
	return series, pairs, nil
}

// Numbers are the statistics of a file, for -json.
type Numbers struct {
	Series *stats.Summary `json:"series,omitempty"`
	// Differences are of pairs, second less first.
	Differences []float64     `json:"differences,omitempty"`
	Paired      *stats.Paired `json:"paired,omitempty"`
	Verdict     stats.Verdict `json:"verdict,omitempty"`
	Bar         *float64      `json:"bar,omitempty"`
	Decide      int           `json:"pairsToDecide,omitempty"`
}

// figure makes the statistics. A series is one of differences if that is said.
func figure(series []float64, pairs [][2]float64, differences bool, noise float64, bar *float64) (n Numbers, err error) {
	switch {
	case pairs == nil && !differences:
		s, err := stats.Summarize(series)
		n.Series = &s
		return n, err
	case differences && pairs != nil:
		return n, fmt.Errorf("with -differences there is one number in a row, not a pair")
	case differences:
		n.Differences = series
	default:
		for _, p := range pairs {
			n.Differences = append(n.Differences, p[1]-p[0])
		}
	}
	p, err := stats.Pairs(n.Differences, noise)
	if err != nil {
		return n, fmt.Errorf("of one pair: %w", err)
	}
	n.Paired = &p
	if bar != nil {
		n.Bar, n.Verdict = bar, stats.Judge(p.In, *bar)
		if p.In.Contains(*bar) {
			n.Decide = stats.PairsFor(p.Mean-*bar, math.Max(p.SD, p.Noise))
		}
	}
	return n, nil
}
