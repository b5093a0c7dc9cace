package wait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if !For(t.Context(), time.Minute) || time.Since(begin) != time.Minute {
			t.Errorf("came back after %v, want 1m", time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if For(ctx, time.Minute) || time.Since(begin) != time.Second {
			t.Errorf("came back after %v, want the end after 1s", time.Since(begin))
		}
	})
}
