package main

import (
	"bytes"
	"fmt"
	"math"
	"time"
)

// The picture's size and margins.
const (
	width, height = 720, 340
	left, right   = 56, 20
	top, bottom   = 64, 48
	// The horizontal axis is logarithmic.
	shortest, longest = time.Millisecond, 3 * time.Second
)

// across and down are the places of a time and of a share.
func across(d time.Duration) float64 {
	d = min(max(d, shortest), longest)
	return left + (width-left-right)*math.Log(float64(d)/float64(shortest))/math.Log(float64(longest)/float64(shortest))
}

func down(share float64) float64 { return top + (height-top-bottom)*(1-share) }

// picture draws which share of the round trips is below a time, as SVG.
func picture(turns map[string][]beside) []byte {
	var b bytes.Buffer
	add := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`, width, height)
	add(`<rect width="%d" height="%d" fill="#fff"/>`, width, height)
	add(`<text x="%d" y="22" font-size="15" fill="#111">Round trips of a radio frame through the bridge, beside bulk TCP at %d Mbit/s</text>`, left, qdiscRate*8/1_000_000)
	for i, share := range []float64{0, .25, .5, .75, 1} {
		y := down(share)
		add(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, left, width-right, y, y)
		add(`<text x="%d" y="%.1f" text-anchor="end" fill="#555">%d %%</text>`, left-8, y+4, i*25)
	}
	for _, d := range []time.Duration{1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9} {
		x := across(d)
		add(`<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`, x, x, top, height-bottom)
		add(`<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%v</text>`, x, height-bottom+18, d)
	}
	add(`<text x="%d" y="%d" text-anchor="middle" fill="#555">there and back takes less than</text>`, (left+width-right)/2, height-10)
	for i, line := range []struct{ name, words, colour string }{
		{leafNone, "without it", "#767676"},
		{leafFQ, "fq_codel", "#1d4ed8"},
		{leafFIFO, "pfifo", "#c2410c"},
	} {
		trips := all(turns[line.name])
		if len(trips) == 0 {
			continue
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, line.colour)
		const points = 200
		for p := range points + 1 {
			share := float64(p) / points
			d := trips[min(len(trips)-1, int(share*float64(len(trips))))]
			fmt.Fprintf(&b, "%.1f,%.1f ", across(d), down(share))
		}
		add(`"/>`)
		x := left + i*220
		add(`<line x1="%d" x2="%d" y1="44" y2="44" stroke="%s" stroke-width="3"/>`, x, x+22, line.colour)
		add(`<text x="%d" y="48" fill="#111">%s: half below %.0f ms</text>`, x+28, line.words, percentile(trips, .5)/1e3)
	}
	add(`</svg>`)
	return b.Bytes()
}
