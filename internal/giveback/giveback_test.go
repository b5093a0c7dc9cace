package giveback

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n, ended := 0, make(chan bool)
		go func() { defer close(ended); run(ctx, func() { n++ }) }()
		time.Sleep(every - time.Nanosecond)
		synctest.Wait()
		if n != 0 {
			t.Errorf("%d times before it is time", n)
		}
		time.Sleep(3*every + time.Nanosecond)
		synctest.Wait()
		if n != 4 {
			t.Errorf("%d times in four periods", n)
		}
		cancel()
		<-ended
	})
}

// anonymous is this process's memory of its own, in KiB.
func anonymous(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "RssAnon:")
	kib, err := strconv.Atoi(strings.Fields(text)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

var sink []byte

// What the heap took is the kernel's again, and not only Go's to use.
func TestGivesBack(t *testing.T) {
	const size = 64 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // what else would collect
	before := anonymous(t)
	sink = make([]byte, size)
	for i := 0; i < size; i += 4096 {
		sink[i] = 1
	}
	full := anonymous(t)
	sink = nil
	ctx, cancel := context.WithCancel(t.Context())
	run(ctx, func() { debug.FreeOSMemory(); cancel() })
	after := anonymous(t)
	if full-before < size>>10*9/10 || after-before > size>>10/10 {
		t.Errorf("%d KiB, then %d, then %d", before, full, after)
	}
}
