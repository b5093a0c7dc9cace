package core

import "context"

// reloader is a service that reads its settings anew when it is told to.
type reloader interface {
	Run(ctx context.Context) error
	Reload()
}

// nothing stands for one that is left out.
type nothing struct{}

func (nothing) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (nothing) Reload() {}
