package goroot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"gwinit/toolchain/rlx/edits"
)

// What Modules writes, below the main module's folder. The copies are there and
// not in the cache because their paths are part of what the go command links.
const (
	moduleCopies = "build"
	moduleFile   = "build/rlx.mod"
	moduleLock   = "build/rlx.lock"
)

// Modules edits those modules of package edits that the main module of the
// current folder requires, and returns the flag by which a go command uses
// the edited copies: a go.mod of its own, whose replacements lead to the copies
// in the main module's folder build. The flag is empty if there is nothing to do.
func Modules(ctx context.Context, o Options) (flag string, err error) {
	out, err := stock(ctx, "env", "GOMOD")
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", nil
	}
	versions, err := required(ctx, mod)
	if err != nil {
		return "", err
	}
	var copies []moduleSource
	for _, m := range edits.SelectModules(o.Without) {
		if version := versions[m.Path]; version != "" {
			c, err := editedModule(ctx, m, version)
			if err != nil {
				return "", err
			}
			copies = append(copies, c)
		}
	}
	if len(copies) == 0 {
		return "", nil
	}
	return "-modfile=" + filepath.Join(filepath.Dir(mod), moduleFile), copyModules(filepath.Dir(mod), copies)
}

// moduleSource is a module with its edits.
type moduleSource struct {
	path  string // of imports
	dir   string // in the module cache
	key   string // tells versions and edits apart
	files map[string][]byte
}

// editedModule carries a module's edits out in memory.
func editedModule(ctx context.Context, m edits.Module, version string) (moduleSource, error) {
	s := moduleSource{path: m.Path, files: map[string][]byte{}}
	out, err := stock(ctx, "mod", "download", "-json", m.Path+"@"+version)
	if err != nil {
		return s, err
	}
	var source struct{ Dir string }
	if err := json.Unmarshal(out, &source); err != nil {
		return s, fmt.Errorf("go mod download: %w", err)
	}
	s.dir = source.Dir
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n", recipe, version)
	for _, name := range edits.Files(m.Subjects) {
		b, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
		if err != nil {
			return s, fmt.Errorf("an edit is for a file that %s %s does not have: %w", m.Path, version, err)
		}
		if s.files[name], err = edits.Apply(m.Subjects, name, b); err != nil {
			return s, err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(s.files[name]), s.files[name])
	}
	s.key = hex.EncodeToString(sum.Sum(nil))
	return s, nil
}

// required is the versions that a go.mod asks for, by module.
func required(ctx context.Context, mod string) (map[string]string, error) {
	out, err := stock(ctx, "mod", "edit", "-json", mod)
	if err != nil {
		return nil, err
	}
	var list struct {
		Require []struct{ Path, Version string }
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("go mod edit: %w", err)
	}
	for _, r := range list.Replace {
		for _, m := range edits.Modules() {
			if r.Old.Path == m.Path {
				return nil, fmt.Errorf("%s replaces %s, which has edits for the gateway: without a replacement they are made", mod, m.Path)
			}
		}
	}
	versions := map[string]string{}
	for _, r := range list.Require {
		versions[r.Path] = r.Version
	}
	return versions, nil
}

// copyModules makes what Modules promises, as far as it is not there.
func copyModules(root string, modules []moduleSource) error {
	lock := filepath.Join(root, moduleLock)
	if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
		return err
	}
	l, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := syscall.Flock(int(l.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock, err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := m.copy(filepath.Join(root, moduleCopies, filepath.FromSlash(m.path))); err != nil {
			return err
		}
		mod = append(mod, "\nreplace "+m.path+" => ./"+moduleCopies+"/"+m.path+"\n"...)
	}
	if err := refresh(filepath.Join(root, moduleFile), mod); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return refresh(filepath.Join(root, strings.TrimSuffix(moduleFile, ".mod")+".sum"), sums)
}

// copy makes the edited copy, unless it is there.
func (m moduleSource) copy(to string) error {
	done := filepath.Join(to, "rlx.ready")
	if b, err := os.ReadFile(done); err == nil && string(b) == m.key {
		return nil
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := copyTree(m.dir, to); err != nil {
		return err
	}
	for name, b := range m.files {
		if err := os.WriteFile(filepath.Join(to, filepath.FromSlash(name)), b, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(done, []byte(m.key), 0o644)
}

// refresh writes a file that has other contents. A go command may be reading
// the file, so it is replaced.
func refresh(name string, b []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, b) {
		return nil
	}
	if err := os.WriteFile(name+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// stock runs the installed go command.
func stock(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = hostEnv()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, out, said.Bytes())
	}
	return out, nil
}
