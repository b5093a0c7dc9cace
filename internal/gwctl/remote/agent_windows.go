package remote

import (
	"context"
	"io"
	"os"
)

// openAgent connects to the agent of Windows' OpenSSH; nil: there is none.
func openAgent(context.Context) io.ReadWriteCloser {
	f, err := os.OpenFile(`\\.\pipe\openssh-ssh-agent`, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}
