// Package goroot makes the Go that builds for the RLX4181: a copy of the
// installed Go in a cache, with package edits carried out and its compiler,
// assembler and linker built anew. The installed Go is not touched.
package goroot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"gwinit/toolchain/rlx/edits"
)

// recipe is changed when what is done with the edits changes.
const recipe = "2"

// unusedFor is how long a copy (some 250 MB) that nobody asked for is kept.
const unusedFor = 14 * 24 * time.Hour

// Options say what is made and where.
type Options struct {
	// Base is the installed Go's folder; what `go env GOROOT` says if empty.
	Base string
	// Cache is the folder for the copies; $GW_CACHE/go, or gwinit/go in the
	// user's cache folder, if empty.
	Cache string
	// Without leaves out edits or whole subjects, for measurements and for
	// proving that a check sees what an edit is for.
	Without []string
	// Say gets a line for each long step; nil is silence.
	Say func(format string, a ...any)
}

// Env is what a go command needs to build for the gateway.
func Env() []string {
	return []string{"GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0", "GOTOOLCHAIN=local"}
}

// Command is the go command of a copy with its arguments; it builds for the
// gateway.
func Command(ctx context.Context, root string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "go"), args...)
	cmd.Env = append(hostEnv(), Env()...)
	return cmd
}

// hostEnv is the environment without what would turn a go command to another
// Go, or to another target.
func hostEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"GOROOT", "GOOS", "GOARCH", "GOMIPS", "GOEXPERIMENT", "GOFLAGS", "GOBIN", "GOTOOLDIR", "TOOLEXEC_IMPORTPATH"}, name)
	})
}

// Ready returns the folder of the edited Go, which it makes if it must: about
// a minute and a half on two cores. A second caller waits for the first.
func Ready(ctx context.Context, o Options) (string, error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	if o.Base == "" {
		b, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("go env GOROOT: %w", err)
		}
		o.Base = strings.TrimSpace(string(b))
	}
	if o.Cache == "" {
		dir := os.Getenv("GW_CACHE")
		if dir == "" {
			user, err := os.UserCacheDir()
			if err != nil {
				return "", err
			}
			dir = filepath.Join(user, "gwinit")
		}
		o.Cache = filepath.Join(dir, "go")
	}
	subjects, err := edits.Select(o.Without)
	if err != nil {
		return "", err
	}
	version, err := os.ReadFile(filepath.Join(o.Base, "VERSION"))
	if err != nil {
		return "", fmt.Errorf("%w: a released Go has this file; set PATH to one", err)
	}
	files, key, tools, err := plan(subjects, o.Base, version)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(o.Cache, key)
	done := filepath.Join(dir, "rlx.ready")
	if touch(done) == nil {
		return dir, nil
	}
	if err := os.MkdirAll(o.Cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(o.Cache, key+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if touch(done) == nil {
		return dir, nil
	}
	prune(o.Cache)
	if err := build(ctx, o, files, dir, tools, strings.Fields(string(version))[0]); err != nil {
		return "", err
	}
	return dir, os.WriteFile(done, []byte(tools), 0o644)
}

// plan returns the files to write into the copy, by their path below src, the
// key of what comes out, and that of its tools.
func plan(subjects []edits.Subject, base string, version []byte) (files map[string][]byte, key, tools string, err error) {
	files, err = edits.AddedFiles(subjects)
	if err != nil {
		return nil, "", "", err
	}
	for _, file := range edits.Files(subjects) {
		b, err := os.ReadFile(filepath.Join(base, "src", filepath.FromSlash(file)))
		if err != nil {
			return nil, "", "", fmt.Errorf("an edit is for a file that this Go does not have: %w", err)
		}
		if files[file], err = edits.Apply(subjects, file, b); err != nil {
			return nil, "", "", err
		}
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	hash := func(below string) string {
		sum := sha256.New()
		fmt.Fprintf(sum, "%s %s/%s %s\n", recipe, runtime.GOOS, runtime.GOARCH, version)
		for _, name := range names {
			if strings.HasPrefix(name, below) {
				fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
			}
		}
		return hex.EncodeToString(sum.Sum(nil))[:16]
	}
	// The tools are what is below cmd: what else is edited is for programs of
	// the gateway and changes nothing of what these make, and the go command
	// tells sources apart by their contents.
	key, tools = hash(""), hash("cmd/")
	files[toolsKey] = []byte(tools)
	return files, key, tools, nil
}

// toolsKey is the file by which the tools say their edits.
const toolsKey = "cmd/internal/objabi/rlx.key"

// touch tells whether a file is there, and that it was asked for.
func touch(name string) error {
	now := time.Now()
	return os.Chtimes(name, now, now)
}

// prune removes copies that nobody asked for in a long time, and what a build
// that was interrupted left.
func prune(cache string) {
	list, _ := os.ReadDir(cache)
	for _, e := range list {
		dir := filepath.Join(cache, e.Name())
		if !e.IsDir() {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, "rlx.ready"))
		if errors.Is(err, fs.ErrNotExist) {
			info, err = e.Info()
		}
		if err == nil && time.Since(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(dir)
		}
	}
}

// sameTools finds a copy whose tools have the same edits, "" if there is none.
func sameTools(cache, tools string) string {
	list, _ := filepath.Glob(filepath.Join(cache, "*", "rlx.ready"))
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil && string(b) == tools {
			return filepath.Dir(name)
		}
	}
	return ""
}

func build(ctx context.Context, o Options, files map[string][]byte, dir, tools, version string) error {
	start := time.Now()
	o.Say("toolchain: copying %s to %s", version, dir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	same := sameTools(o.Cache, tools)
	for _, part := range []string{"VERSION", "go.env", "bin", "lib", "src", "pkg/include"} {
		if err := copyTree(filepath.Join(o.Base, part), filepath.Join(dir, part)); err != nil {
			return err
		}
	}
	for name, b := range files {
		path := filepath.Join(dir, "src", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return err
		}
	}
	if same != "" {
		return copyTree(filepath.Join(same, "pkg/tool"), filepath.Join(dir, "pkg/tool"))
	}
	if err := copyTree(filepath.Join(o.Base, "pkg/tool"), filepath.Join(dir, "pkg/tool")); err != nil {
		return err
	}
	o.Say("toolchain: building the compiler, assembler and linker (once; about a minute)")
	install := exec.CommandContext(ctx, filepath.Join(dir, "bin", "go"), "install", "-trimpath", "cmd/compile", "cmd/asm", "cmd/link")
	install.Dir = filepath.Join(dir, "src")
	// The tools run here, whatever they build.
	install.Env = append(hostEnv(), "CGO_ENABLED=0", "GOTOOLCHAIN=local")
	if said, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("build the edited tools: %w\n%s", err, said)
	}
	o.Say("toolchain: ready after %d s", int(time.Since(start).Seconds()))
	return nil
}

// copyTree copies a file, or a folder with all in it; links become what they
// lead to.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(dest, 0o755)
		}
		if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
			return err
		}
		return copyFile(name, dest)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return out.Close()
}
