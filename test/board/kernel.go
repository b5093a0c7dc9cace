package board

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// root is the folder of this package's sources: the kernel's recipe and the
// plugin's are beside them.
func root() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", fmt.Errorf("board: built with -trimpath: its folder is not known")
	}
	return filepath.Dir(file), nil
}

// The emulated gateway's kernels.
const (
	// KernelFull has what the firmware can use and what tests need.
	KernelFull = "full"
	// KernelIncumbent has what the kernel of today's firmware has, and no more.
	KernelIncumbent = "incumbent"
)

// Kernel returns the path of that vmlinux, which it builds when the cache has
// none; that takes minutes and says so on stderr.
func Kernel(ctx context.Context, name string) (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "kernel", "build.sh"), name)
	// With SIGTERM the script removes what it has begun.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("board: build the kernel %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// The boothold page of the built-in device tree, as node name and as reg of
// one page, and where the 64 MiB board has it. The names are of one length.
var (
	boothold32 = [][]byte{[]byte("boothold@1ffe000\x00"), {0x01, 0xff, 0xe0, 0x00, 0x00, 0x00, 0x10, 0x00}}
	boothold64 = [][]byte{[]byte("boothold@3ffe000\x00"), {0x03, 0xff, 0xe0, 0x00, 0x00, 0x00, 0x10, 0x00}}
)

// kernel64 writes a copy of kernel to dir that is one of the 64 MiB board:
// malta takes no device tree from outside.
func kernel64(kernel, dir string) (string, error) {
	b, err := os.ReadFile(kernel)
	if err != nil {
		return "", fmt.Errorf("board: %w", err)
	}
	b, err = moveBoothold(b)
	if err != nil {
		return "", fmt.Errorf("board: %s: %w", kernel, err)
	}
	out := filepath.Join(dir, "vmlinux-64")
	if err := os.WriteFile(out, b, 0o644); err != nil {
		return "", fmt.Errorf("board: %w", err)
	}
	return out, nil
}

// moveBoothold returns vmlinux with the boothold page where the 64 MiB board
// has it.
func moveBoothold(vmlinux []byte) ([]byte, error) {
	for i, from := range boothold32 {
		if n := bytes.Count(vmlinux, from); n != 1 {
			return nil, fmt.Errorf("%q is in the kernel %d times, not once: not a kernel of this board", from, n)
		}
		vmlinux = bytes.Replace(vmlinux, from, boothold64[i], 1)
	}
	return vmlinux, nil
}

// CacheDir is where what takes long to build is kept: $GW_CACHE, or gwinit in
// the user's cache. kernel/build.sh goes by the same rule.
func CacheDir() (string, error) {
	if dir := os.Getenv("GW_CACHE"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("board: cache: %w", err)
	}
	return filepath.Join(home, ".cache", "gwinit"), nil
}
