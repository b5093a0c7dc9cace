// Package live runs what depends on settings that change while it runs.
package live

import "context"

// Reload tells Run that the settings may have changed. The zero value is not
// ready, see New.
type Reload struct{ c chan struct{} }

// New returns a Reload.
func New() Reload { return Reload{make(chan struct{}, 1)} }

// Raise has the settings read again. It does not wait.
func (r Reload) Raise() {
	select {
	case r.c <- struct{}{}:
	default: // it will be
	}
}

// Run has serve run with the settings until ctx ends. When they are others after
// a Reload, serve's context ends, and when it is back it runs anew with them.
func Run[T any](ctx context.Context, r Reload, settings func() T, same func(a, b T) bool, serve func(context.Context, T)) {
	for now := settings(); ctx.Err() == nil; {
		inner, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func(with T) {
			defer close(done)
			serve(inner, with)
		}(now)
		next := now
		for same(next, now) && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-r.c:
				next = settings()
			}
		}
		cancel()
		<-done
		now = next
	}
}
