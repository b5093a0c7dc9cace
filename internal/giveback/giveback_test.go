package giveback

import (
	"context"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int32
		ended := make(chan bool)
		go func() { defer close(ended); run(ctx, every, func() { n.Add(1) }) }()
		time.Sleep(every - time.Nanosecond)
		synctest.Wait()
		if n := n.Load(); n != 0 {
			t.Errorf("%d times before it is time", n)
		}
		time.Sleep(3*every + time.Nanosecond)
		synctest.Wait()
		if n := n.Load(); n != 4 {
			t.Errorf("%d times in four periods", n)
		}
		cancel()
		<-ended
	})
}

func TestNotInBenchMode(t *testing.T) {
	t.Parallel()
	n := 0
	unless(t.TempDir(), func() { n++ })
	if n != 0 {
		t.Error("a box that is measured collects")
	}
	if unless(filepath.Join(t.TempDir(), "none"), func() { n++ }); n != 1 {
		t.Errorf("%d times out of bench mode", n)
	}
}

// held is what the heap has of the kernel, in KiB. (What the process has is not
// asked for: the race detector's own memory is in it.)
func held() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapSys-m.HeapReleased) >> 10
}

var sink []byte

// What the heap took is the kernel's again, and not only Go's to use.
func TestGivesBack(t *testing.T) {
	const size = 64 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // what else would collect
	before := held()
	sink = make([]byte, size)
	for i := 0; i < size; i += 4096 {
		sink[i] = 1
	}
	full := held()
	sink = nil
	ctx, cancel := context.WithCancel(t.Context())
	run(ctx, time.Millisecond, func() { debug.FreeOSMemory(); cancel() })
	after := held()
	if full-before < size>>10*9/10 || after-before > size>>10/10 {
		t.Errorf("%d KiB, then %d, then %d", before, full, after)
	}
}
