package main

import "testing"

func TestFramesOfEverySize(t *testing.T) {
	for _, size := range sizes {
		frame, err := ashFrame(size)
		if err != nil || len(frame) != size || frame[size-1] != 0x7E {
			t.Errorf("%d bytes: %x, %v", size, frame, err)
		}
	}
}

func TestPaired(t *testing.T) {
	r := paired("n", "u", []float64{10, 30, 200}, "p", []float64{5, 10, 400})
	if r.Value != 30 || r.PeerValue != 10 || r.Ratio != 2 || r.N != 3 {
		t.Errorf("%+v; want medians 30 and 10, and 2, the median of 2, 3 and 0.5", r)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median of four is %v, want 2.5", m)
	}
}
