package otbr

import (
	"testing"
	"time"
)

func TestMachine(t *testing.T) {
	t.Parallel()
	var m machine
	want := []verdict{
		{delay: 1 * time.Second},
		{delay: 2 * time.Second},
		{delay: 4 * time.Second},
		{delay: 8 * time.Second},
		{reset: resetCold, delay: time.Second},
		{delay: 1 * time.Second},
		{delay: 2 * time.Second},
		{delay: 4 * time.Second},
		{delay: 8 * time.Second},
		{failed: true},
	}
	for i, w := range want {
		if got := m.ended(0); got != w {
			t.Errorf("end %d: %+v, want %+v", i+1, got, w)
		}
	}
	// A time of health begins anew, a shorter one does not.
	m = machine{}
	for i := range 40 {
		if got := m.ended(healthyAfter); got != (verdict{delay: time.Second}) {
			t.Fatalf("end %d of a healthy agent: %+v", i, got)
		}
	}
	m = machine{}
	ends := 0
	for !m.ended(healthyAfter - 1).failed {
		if ends++; ends > 100 {
			t.Fatal("one that is never healthy for long goes on for ever")
		}
	}
	if ends != 2*budget-1 {
		t.Errorf("failed after %d ends", ends+1)
	}
}
