package files

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gwinit/internal/applet"
)

// finder is one find: its tests, all of which must hold, and its actions.
type finder struct {
	std      applet.IO
	tests    []func(path string, fi fs.FileInfo) bool
	actions  []func(ctx context.Context, path string, fi fs.FileInfo) error
	maxDepth int
	oneDev   bool
	rep      report
	out      *bufio.Writer
}

func find(ctx context.Context, std applet.IO, args []string) error {
	f := finder{std: std, maxDepth: -1, rep: report{std: std, name: "find"}, out: bufio.NewWriter(std.Out)}
	var paths []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "!" {
		paths, args = append(paths, args[0]), args[1:]
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	if err := f.parse(args); err != nil {
		return err
	}
	for _, p := range paths {
		fi, err := os.Lstat(p)
		if err != nil {
			f.rep.add(err)
			continue
		}
		f.visit(ctx, p, fi, deviceOf(fi), 0)
	}
	f.rep.add(f.out.Flush())
	return f.rep.result()
}

// parse turns the expression into tests and actions.
func (f *finder) parse(args []string) error {
	value := func() (string, error) {
		if len(args) == 0 {
			return "", applet.Usagef("an argument is missing at the end")
		}
		v := args[0]
		args = args[1:]
		return v, nil
	}
	negate := false
	test := func(t func(string, fs.FileInfo) bool) {
		if negate {
			positive := t
			t = func(p string, fi fs.FileInfo) bool { return !positive(p, fi) }
		}
		negate = false
		f.tests = append(f.tests, t)
	}
	for len(args) > 0 {
		word, _ := value()
		switch word {
		case "!", "-not":
			negate = !negate
		case "-a", "-and":
		case "-name", "-iname":
			pattern, err := value()
			if err != nil {
				return err
			}
			fold := func(s string) string { return s }
			if word == "-iname" {
				fold = strings.ToLower
			}
			if _, err := filepath.Match(pattern, ""); err != nil {
				return applet.Usagef("bad pattern %q", pattern)
			}
			test(func(p string, _ fs.FileInfo) bool {
				ok, _ := filepath.Match(fold(pattern), fold(filepath.Base(p)))
				return ok
			})
		case "-type":
			kinds, err := value()
			if err != nil {
				return err
			}
			test(func(_ string, fi fs.FileInfo) bool {
				c := modeString(fi.Mode())[:1]
				if c == "-" {
					c = "f"
				}
				return strings.Contains(kinds, c)
			})
		case "-mtime", "-size":
			v, err := value()
			if err != nil {
				return err
			}
			cmp, n, unit, err := quantity(v, word == "-size")
			if err != nil {
				return err
			}
			if word == "-size" {
				test(func(_ string, fi fs.FileInfo) bool { return cmp((fi.Size()+unit-1)/unit, n) })
			} else {
				now := time.Now()
				test(func(_ string, fi fs.FileInfo) bool {
					return cmp(int64(now.Sub(fi.ModTime())/(24*time.Hour)), n)
				})
			}
		case "-maxdepth":
			v, err := value()
			if err != nil {
				return err
			}
			if f.maxDepth, err = strconv.Atoi(v); err != nil || f.maxDepth < 0 {
				return applet.Usagef("-maxdepth takes a number, not %q", v)
			}
		case "-xdev", "-mount":
			f.oneDev = true
		case "-print", "-print0":
			end := "\n"
			if word == "-print0" {
				end = "\x00"
			}
			f.actions = append(f.actions, func(_ context.Context, p string, _ fs.FileInfo) error {
				_, err := f.out.WriteString(p + end)
				return err
			})
		case "-delete":
			f.actions = append(f.actions, func(_ context.Context, p string, _ fs.FileInfo) error { return os.Remove(p) })
		case "-exec":
			var command []string
			for {
				w, err := value()
				if err != nil {
					return applet.Usagef("-exec ends in ;")
				}
				if w == ";" {
					break
				}
				command = append(command, w)
			}
			if len(command) == 0 {
				return applet.Usagef("-exec needs a command")
			}
			f.actions = append(f.actions, func(ctx context.Context, p string, _ fs.FileInfo) error {
				return f.exec(ctx, command, p)
			})
		default:
			return applet.Usagef("unknown test %s", word)
		}
	}
	if len(f.actions) == 0 {
		f.actions = append(f.actions, func(_ context.Context, p string, _ fs.FileInfo) error {
			_, err := f.out.WriteString(p + "\n")
			return err
		})
	}
	return nil
}

// quantity reads +N (more), -N (less) or N (just), with a unit for sizes.
func quantity(s string, size bool) (cmp func(have, want int64) bool, n, unit int64, err error) {
	cmp = func(a, b int64) bool { return a == b }
	digits := s
	switch {
	case strings.HasPrefix(s, "+"):
		cmp, digits = func(a, b int64) bool { return a > b }, s[1:]
	case strings.HasPrefix(s, "-"):
		cmp, digits = func(a, b int64) bool { return a < b }, s[1:]
	}
	unit = 1
	if size {
		unit = 512
		if digits != "" {
			if i := strings.IndexByte("ckM", digits[len(digits)-1]); i >= 0 {
				unit = []int64{1, 1 << 10, 1 << 20}[i]
				digits = digits[:len(digits)-1]
			}
		}
	}
	if n, err = strconv.ParseInt(digits, 10, 64); err != nil || n < 0 {
		return nil, 0, 0, applet.Usagef("%q is no number", s)
	}
	return cmp, n, unit, nil
}

// visit is depth first when something is removed, so that folders are empty
// when their turn comes; it always is, which find(1) calls -depth.
func (f *finder) visit(ctx context.Context, path string, fi fs.FileInfo, dev uint64, depth int) {
	if ctx.Err() != nil {
		return
	}
	if fi.IsDir() && (f.maxDepth < 0 || depth < f.maxDepth) && (!f.oneDev || deviceOf(fi) == dev) {
		entries, err := os.ReadDir(path)
		f.rep.add(err)
		for _, e := range entries {
			child, err := e.Info()
			if err != nil {
				continue // gone meanwhile
			}
			f.visit(ctx, join(path, e.Name()), child, dev, depth+1)
		}
	}
	for _, t := range f.tests {
		if !t(path, fi) {
			return
		}
	}
	for _, do := range f.actions {
		f.rep.add(do(ctx, path, fi))
	}
}

// join keeps the leading ./ of the path that was asked for.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

func (f *finder) exec(ctx context.Context, command []string, path string) error {
	argv := make([]string, len(command))
	for i, w := range command {
		argv[i] = strings.ReplaceAll(w, "{}", path)
	}
	if err := f.out.Flush(); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f.std.In, f.std.Out, f.std.Err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}

func deviceOf(fi fs.FileInfo) uint64 { return uint64(fi.Sys().(*syscall.Stat_t).Dev) }
