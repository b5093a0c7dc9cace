package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// orderFile is the file that the linker gets added.
const orderFile = "cmd/link/internal/ld/order.go"

//go:embed link/order.go
var orderSource []byte

// pageSize is the kernel's on the gateway. Segments begin at a page: Go's 64 KiB
// would put up to that much of nothing between two that are read together.
const pageSize = "4096"

// toolexec is what `go build -toolexec` runs: any tool but the linker as it is,
// the linker in its edited form.
func toolexec(args []string) error {
	fs := flag.NewFlagSet("rlx toolexec", flag.ContinueOnError)
	order := fs.String("order", os.Getenv("RLX_ORDER"), "lay out by the list in `file`")
	symbolMap := fs.String("map", os.Getenv("RLX_MAP"), "write where each symbol lies to `file`")
	if err := fs.Parse(args); err != nil {
		return err
	}
	args = fs.Args()
	if len(args) == 0 {
		return errors.New("usage: rlx toolexec [-order FILE] [-map FILE] TOOL [ARGUMENT ...]")
	}
	tool, args := args[0], args[1:]
	if strings.TrimSuffix(filepath.Base(tool), ".exe") != "link" {
		return become(tool, args)
	}
	// GOROOT/pkg/tool/OS_ARCH/link: of several installed Go, the one in use.
	goroot := filepath.Join(filepath.Dir(tool), "..", "..", "..")
	files, key, err := editedLinker(goroot)
	if err != nil {
		return err
	}
	if slices.Contains(args, "-V=full") {
		return identify(tool, args, key, *order)
	}
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	linker, err := buildLinker(goroot, files, filepath.Join(cache, "link", key))
	if err != nil {
		return err
	}
	ours := []string{"-R", pageSize}
	if *order != "" {
		ours = append(ours, "-order", *order)
	}
	if *symbolMap != "" {
		ours = append(ours, "-ordermap", *symbolMap)
	}
	return become(linker, append(ours, args...))
}

// become goes on as another program; it returns only if that cannot be.
func become(tool string, args []string) error {
	if err := syscall.Exec(tool, append([]string{tool}, args...), os.Environ()); err != nil {
		return fmt.Errorf("exec %s: %w", tool, err)
	}
	return nil
}

// identify prints what the go command tells linkers apart by: the installed
// one's line, and what ours and its list are.
func identify(tool string, args []string, key, order string) error {
	line, err := exec.Command(tool, args...).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	sum := fnv.New64a()
	if order != "" {
		list, err := os.ReadFile(order)
		if err != nil {
			return err
		}
		_, _ = sum.Write(list) // never fails
	}
	_, err = fmt.Printf("%s rlx-%s-%016x\n", bytes.TrimSpace(line), key, sum.Sum64())
	return err
}

// editedLinker returns the files of the linker that differ from the installed
// one's, by their path below GOROOT/src, and a key of them and of the Go they
// are of.
func editedLinker(goroot string) (edited map[string][]byte, key string, err error) {
	version, err := os.ReadFile(filepath.Join(goroot, "VERSION"))
	if err != nil {
		return nil, "", err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(version)
	edited = map[string][]byte{orderFile: orderSource}
	_, _ = sum.Write(orderSource)
	for _, file := range files(linkEdits) {
		b, err := os.ReadFile(filepath.Join(goroot, "src", filepath.FromSlash(file)))
		if err != nil {
			return nil, "", err
		}
		if b, err = apply(linkEdits, file, b); err != nil {
			return nil, "", err
		}
		edited[file] = b
		_, _ = sum.Write(b)
	}
	return edited, fmt.Sprintf("%016x", sum.Sum64()), nil
}

// buildLinker returns the linker in dir, which it builds there if it must. A
// second caller waits for the first.
func buildLinker(goroot string, edited map[string][]byte, dir string) (string, error) {
	linker := filepath.Join(dir, "link")
	if _, err := os.Stat(linker); err == nil {
		return linker, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(linker); err == nil {
		return linker, nil
	}
	overlay, err := writeFiles(goroot, edited, filepath.Join(dir, "src"))
	if err != nil {
		return "", err
	}
	aside := linker + ".new"
	build := exec.Command(filepath.Join(goroot, "bin", "go"), "build", "-trimpath", "-tags=rlx", "-overlay="+overlay, "-o", aside, "cmd/link")
	build.Dir = goroot
	// The linker runs here, whatever is being built.
	build.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"GOOS", "GOARCH", "GOMIPS", "GOFLAGS", "GOEXPERIMENT", "GOROOT", "TOOLEXEC_IMPORTPATH"}, name)
	})
	build.Env = append(build.Env, "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build cmd/link: %w\n%s", err, said)
	}
	return linker, os.Rename(aside, linker)
}

// cacheDir is where what takes long to build is kept.
func cacheDir() (string, error) {
	if dir := os.Getenv("GW_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "gwinit"), nil
}
