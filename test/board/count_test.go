package board

import (
	"slices"
	"strings"
	"testing"
)

func TestReadTouched(t *testing.T) {
	t.Parallel()
	got, err := readTouched(strings.NewReader("11000 3 1\n11004 1 6\nfffffc 2 3\n"))
	want := []Touch{
		{Addr: 0x11004, Order: 1, Data: true, Late: true},
		{Addr: 0xfffffc, Order: 2, Run: true, Data: true},
		{Addr: 0x11000, Order: 3, Run: true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("readTouched = %v, %v, want %v", got, err, want)
	}
	for name, in := range map[string]string{"empty line": "\n", "half a line": "11000 3", "no number": "11000 x 1"} {
		if got, err := readTouched(strings.NewReader(in)); err == nil {
			t.Errorf("%s: %v and no error", name, got)
		}
	}
}
