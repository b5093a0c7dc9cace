//go:build no_sshd

package core

import (
	"context"

	"gwinit/internal/notify"
)

// newSSHPort accepts nothing where there is no SSH.
func newSSHPort(*notify.Conn, func(string)) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
}
