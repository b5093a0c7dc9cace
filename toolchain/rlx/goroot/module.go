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

// What Module writes, below the main module's folder. The copy is there and
// not in the cache because its path is part of what the go command links.
const (
	moduleCopy = "build/" + edits.ModulePath
	moduleFile = "build/rlx.mod"
	moduleLock = "build/rlx.lock"
)

// Module edits the module that edits.Module is for, if the main module of the
// current folder requires it, and returns the flag by which a go command uses
// the edited copy: a go.mod of its own, whose replacement leads to the copy in
// the main module's folder build. The flag is empty if there is nothing to do.
func Module(ctx context.Context, o Options) (flag string, err error) {
	out, err := stock(ctx, "env", "GOMOD")
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", nil
	}
	version, err := required(ctx, mod)
	if version == "" || err != nil {
		return "", err
	}
	out, err = stock(ctx, "mod", "download", "-json", edits.ModulePath+"@"+version)
	if err != nil {
		return "", err
	}
	var source struct{ Dir string }
	if err := json.Unmarshal(out, &source); err != nil {
		return "", fmt.Errorf("go mod download: %w", err)
	}
	subjects := edits.SelectModule(o.Without)
	files := map[string][]byte{}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n", recipe, version)
	for _, name := range edits.Files(subjects) {
		b, err := os.ReadFile(filepath.Join(source.Dir, filepath.FromSlash(name)))
		if err != nil {
			return "", fmt.Errorf("an edit is for a file that %s %s does not have: %w", edits.ModulePath, version, err)
		}
		if files[name], err = edits.Apply(subjects, name, b); err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	return "-modfile=" + filepath.Join(filepath.Dir(mod), moduleFile), copyModule(filepath.Dir(mod), source.Dir, hex.EncodeToString(sum.Sum(nil)), files)
}

// required is the version that a go.mod asks for, "" if it does not.
func required(ctx context.Context, mod string) (string, error) {
	out, err := stock(ctx, "mod", "edit", "-json", mod)
	if err != nil {
		return "", err
	}
	var list struct {
		Require []struct{ Path, Version string }
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return "", fmt.Errorf("go mod edit: %w", err)
	}
	for _, r := range list.Replace {
		if r.Old.Path == edits.ModulePath {
			return "", fmt.Errorf("%s replaces %s, which has edits for the gateway: without a replacement they are made", mod, edits.ModulePath)
		}
	}
	for _, r := range list.Require {
		if r.Path == edits.ModulePath {
			return r.Version, nil
		}
	}
	return "", nil
}

// copyModule makes what Module promises, unless it is there.
func copyModule(root, from, key string, files map[string][]byte) error {
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
	to := filepath.Join(root, moduleCopy)
	done := filepath.Join(to, "rlx.ready")
	if b, err := os.ReadFile(done); err != nil || string(b) != key {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := copyTree(from, to); err != nil {
			return err
		}
		for name, b := range files {
			if err := os.WriteFile(filepath.Join(to, filepath.FromSlash(name)), b, 0o644); err != nil {
				return err
			}
		}
		if err := os.WriteFile(done, []byte(key), 0o644); err != nil {
			return err
		}
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	mod = append(mod, "\nreplace "+edits.ModulePath+" => ./"+moduleCopy+"\n"...)
	if err := refresh(filepath.Join(root, moduleFile), mod); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return refresh(filepath.Join(root, strings.TrimSuffix(moduleFile, ".mod")+".sum"), sums)
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
