package core

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"gwinit/internal/api"
)

// sshCount is what the SSH service has counted, also while it does not run.
func sshCount(path string) (n api.SSH, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return n, err
}
