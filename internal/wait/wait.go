// Package wait waits for a time or an end.
package wait

import (
	"context"
	"time"
)

// For waits for d; false: ctx has ended first.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
