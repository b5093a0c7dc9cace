package fleet

import (
	"os"
	"path/filepath"
)

// StateDir is where gwctl keeps what has to last of a program: in
// $XDG_STATE_HOME/gwctl, else ~/.local/state/gwctl; on Windows in the user's local
// application data.
func StateDir(program string) (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "gwctl", program), nil
	}
	if os.PathSeparator == '\\' {
		dir, err := os.UserCacheDir()
		return filepath.Join(dir, "gwctl", program), err
	}
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".local", "state", "gwctl", program), err
}
