package core

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"gwinit/internal/api"
)

// sshCount is what the SSH service has counted, also while it does not run.
func sshCount(path string) ([]byte, error) {
	var n api.SSH
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return json.Marshal(n)
}
