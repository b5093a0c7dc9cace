package live

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// What serves is ended before it runs anew, runs on when nothing changed, and ends
// with Run's context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		setting, r := 1, New()
		var events []int // what began; negative: what ended
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx, r, func() int { return setting }, func(a, b int) bool { return a == b }, func(ctx context.Context, n int) {
				events = append(events, n)
				<-ctx.Done()
				events = append(events, -n)
			})
		}()
		want := func(all ...int) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(events, all) {
				t.Errorf("%v, want %v", events, all)
			}
		}
		want(1)
		r.Raise()
		r.Raise()
		want(1)
		setting = 2
		want(1)
		r.Raise()
		want(1, -1, 2)
		cancel()
		<-done
		want(1, -1, 2, -2)
	})
}
