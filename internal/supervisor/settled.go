package supervisor

import (
	"context"
	"fmt"
)

// AwaitSettled waits until a service has had its chance, as After means it:
// it runs, is done, or has ended in some other way once. It returns an error
// when ctx ends first or there is no such service.
func (s *Supervisor) AwaitSettled(ctx context.Context, name string) error {
	if s.find(name) == nil {
		return fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	return s.await(ctx, name, func(sv *service) (bool, error) { return sv.settled, nil })
}
