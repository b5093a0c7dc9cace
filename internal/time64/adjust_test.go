package time64

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The layout of the kernel's header, on 32 bits too.
func TestTimexLayout(t *testing.T) {
	var x timex
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"size", unsafe.Sizeof(x), 208},
		{"offset", unsafe.Offsetof(x.offset), 8},
		{"maxError", unsafe.Offsetof(x.maxError), 24},
		{"status", unsafe.Offsetof(x.status), 40},
		{"constant", unsafe.Offsetof(x.constant), 48},
		{"sec", unsafe.Offsetof(x.sec), 72},
		{"tick", unsafe.Offsetof(x.tick), 88},
		{"shift", unsafe.Offsetof(x.shift), 112},
		{"tai", unsafe.Offsetof(x.tai), 160},
	} {
		if f.got != f.want {
			t.Errorf("%s is %d, want %d", f.name, f.got, f.want)
		}
	}
}

// A read changes no clock. Its seconds are those of the wall clock, so the
// call is the right one and the structure arrives.
func TestAdjtimeReads(t *testing.T) {
	var x timex
	before := time.Now().Unix()
	if err := adjtime(&x); err != nil {
		t.Fatal(err)
	}
	if after := time.Now().Unix(); x.sec < before-1 || x.sec > after+1 || x.tick < 9000 || x.tick > 11000 {
		t.Errorf("sec %d between %d and %d, tick %d", x.sec, before, after, x.tick)
	}
	got, err := Synchronised()
	if want := x.status&staUnsync == 0; got != want || err != nil {
		t.Errorf("Synchronised = %v, %v; want %v", got, err, want)
	}
	x = timex{modes: 1 << 14, tick: 1} // ADJ_TICK of 1 us is refused before anything else
	if err := adjtime(&x); err != unix.EINVAL && err != unix.EPERM {
		t.Errorf("a tick of 1 us: %v, want EINVAL or EPERM", err)
	}
}
