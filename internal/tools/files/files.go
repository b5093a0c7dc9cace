// Package files is the tools that name, list, copy and remove files.
//
// They are our own where u-root has the same: its cat, cp, mv, rm, mkdir,
// chmod, find, touch, mktemp, xargs, base64 and ls cost 110 KiB of the rootfs
// together (docs/size.md), cp loses write errors, and ls compiles a
// regular expression in every process of the box.
package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/time64"
	"gwinit/internal/tools/opt"
	"gwinit/internal/tools/zone"
)

// Applets returns the tools.
func Applets() []applet.Applet {
	file := func(name, summary, usage string, run func(context.Context, applet.IO, []string) error) applet.Applet {
		return applet.Applet{Name: name, Group: applet.Files, Summary: summary, Usage: usage, Run: run}
	}
	list := []applet.Applet{
		file("cat", "print files", "cat [FILE...]\n\n  -  standard input (also: no FILE)", cat),
		file("chmod", "change file modes", "chmod [-R] MODE FILE...\n\n  MODE  octal, or [ugoa][+-=][rwxst],...\n  -R    folders and what is in them", chmod),
		file("chown", "change owners, by number", "chown [-R] UID[:GID] FILE...\n\n  -R  folders and what is in them", chown),
		file("cp", "copy files and folders", "cp [-afpr] SOURCE... DEST\n\n  -r, -R  folders and what is in them; links stay links\n  -p      keep modes, owners and times\n  -a      -rp\n  -f      replace what cannot be written to", cp),
		file("dd", "copy blocks", "dd [if=FILE] [of=FILE] [bs=N] [count=N] [skip=N] [seek=N] [conv=notrunc,fsync]\n\n  N may end in k or M; skip and seek count blocks", dd),
		file("find", "search a folder", "find [PATH...] [-name PATTERN] [-type fdlbcps] [-mtime [+-]DAYS] [-size [+-]N[ckM]]\n     [-maxdepth N] [-xdev] [-print0] [-delete] [-exec COMMAND... ;]\n\n  All tests must hold. {} in COMMAND is the path.", find),
		file("ln", "make links", "ln [-sfn] TARGET... LINK|FOLDER\n\n  -s  symbolic\n  -f  replace LINK\n  -n  LINK to a folder is replaced itself", ln),
		file("ls", "list files", "ls [-1aAdFhlnrtSR] [PATH...]\n\n  -l -n  long\n  -a -A  with those that start with a dot (-A: without . and ..)\n  -d     a folder itself, not what is in it\n  -h     sizes in K, M, G\n  -t -S  newest, largest first\n  -r     in reverse\n  -R     with all sub-folders\n  -F     mark folders, links and programs\n  -1     one per line (which it always is)", ls),
		file("mkdir", "make folders", "mkdir [-p] [-m MODE] FOLDER...\n\n  -p  with its parents; no error if it is there\n  -m  octal mode", mkdir),
		file("mktemp", "make a file with a new name", "mktemp [-d] [-p FOLDER] [TEMPLATE]\n\n  -d  a folder\n  -p  in FOLDER ($TMPDIR or /tmp)\n  TEMPLATE ends in XXXXXX", mktemp),
		file("mknod", "make a device file", "mknod [-m MODE] NAME b|c MAJOR MINOR\nmknod [-m MODE] NAME p", mknod),
		file("mv", "move or rename", "mv [-fn] SOURCE... DEST\n\n  -n  never replace\n\nAcross file systems it copies, then removes.", mv),
		file("readlink", "where a link points to", "readlink [-f] FILE...\n\n  -f  the full path, with every link followed", readlink),
		file("rm", "remove files", "rm [-fr] FILE...\n\n  -r, -R  folders and what is in them\n  -f      no error for what is not there", rm),
		file("rmdir", "remove empty folders", "rmdir FOLDER...", rmdir),
		file("stat", "what is known about a file", "stat FILE...", stat),
		file("tee", "copy input to files and on", "tee [-a] [FILE...]\n\n  -a  append", tee),
		file("touch", "make files, set their times to now", "touch [-c] FILE...\n\n  -c  only those that exist", touch),
	}
	for i := range list {
		list[i].OwnH = list[i].Name == "ls"
	}
	return append(append(list, archiveApplets()...), spaceApplets()...)
}

// report prints err as this applet's and remembers that there was one; the
// other operands still get their turn.
type report struct {
	std  applet.IO
	name string
	bad  bool
}

func (r *report) add(err error) {
	if err != nil {
		fmt.Fprintf(r.std.Err, "%s: %v\n", r.name, err)
		r.bad = true
	}
}

func (r *report) result() error {
	if r.bad {
		return applet.Exit(1)
	}
	return nil
}

// each runs do for every operand.
func each(std applet.IO, name string, operands []string, do func(string) error) error {
	if len(operands) == 0 {
		return applet.Usagef("nothing to do: no file named")
	}
	r := report{std: std, name: name}
	for _, o := range operands {
		r.add(do(o))
	}
	return r.result()
}

func cat(_ context.Context, std applet.IO, args []string) error {
	_, names, err := opt.Parse(args, "u")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{"-"}
	}
	return each(std, "cat", names, func(name string) error {
		in := std.In
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		_, err := io.Copy(std.Out, in)
		return err
	})
}

// parseMode applies a chmod mode to old, which is permission bits.
func parseMode(mode string, old uint32, dir bool) (uint32, error) {
	if n, err := strconv.ParseUint(mode, 8, 12); err == nil {
		return uint32(n), nil
	}
	bad := applet.Usagef("bad mode %q", mode)
	for _, clause := range strings.Split(mode, ",") {
		i := strings.IndexAny(clause, "+-=")
		if i < 0 {
			return 0, bad
		}
		var who uint32
		for _, c := range clause[:i] {
			switch c {
			case 'u':
				who |= 0o4700
			case 'g':
				who |= 0o2070
			case 'o':
				who |= 0o1007
			case 'a':
				who |= 0o7777
			default:
				return 0, bad
			}
		}
		if who == 0 {
			who = 0o7777
		}
		var bits uint32
		for _, c := range clause[i+1:] {
			switch c {
			case 'r':
				bits |= 0o444
			case 'w':
				bits |= 0o222
			case 'x':
				bits |= 0o111
			case 'X':
				if dir || old&0o111 != 0 {
					bits |= 0o111
				}
			case 's':
				bits |= 0o6000
			case 't':
				bits |= 0o1000
				who |= 0o1000
			default:
				return 0, bad
			}
		}
		switch clause[i] {
		case '+':
			old |= bits & who
		case '-':
			old &^= bits & who
		case '=':
			old = old&^who | bits&who
		}
	}
	return old, nil
}

// walk calls do for each path, and with recursive for what is below it, not
// following links.
func walk(r *report, paths []string, recursive bool, do func(path string, fi fs.FileInfo) error) {
	for _, p := range paths {
		if !recursive {
			fi, err := os.Stat(p)
			if err == nil {
				err = do(p, fi)
			}
			r.add(err)
			continue
		}
		_ = filepath.Walk(p, func(path string, fi fs.FileInfo, err error) error {
			if err == nil {
				err = do(path, fi)
			}
			r.add(err)
			return nil
		})
	}
}

func chmod(_ context.Context, std applet.IO, args []string) error {
	recursive := len(args) > 0 && args[0] == "-R"
	if recursive {
		args = args[1:]
	}
	if len(args) < 2 {
		return applet.Usagef("needs a mode and a file")
	}
	mode := args[0]
	if _, err := parseMode(mode, 0, false); err != nil {
		return err
	}
	r := report{std: std, name: "chmod"}
	walk(&r, args[1:], recursive, func(path string, fi fs.FileInfo) error {
		if fi.Mode()&fs.ModeSymlink != 0 {
			return nil
		}
		st := fi.Sys().(*syscall.Stat_t)
		m, _ := parseMode(mode, st.Mode&0o7777, fi.IsDir())
		return pathErr("chmod", path, unix.Chmod(path, m))
	})
	return r.result()
}

func pathErr(op, path string, err error) error {
	if err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

func chown(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "R")
	if err != nil {
		return err
	}
	if len(rest) < 2 {
		return applet.Usagef("needs an owner and a file")
	}
	user, group, both := strings.Cut(rest[0], ":")
	id := func(s string) (int, error) {
		switch s {
		case "":
			return -1, nil
		case "root":
			return 0, nil
		}
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return 0, applet.Usagef("%q is no user or group number", s)
		}
		return int(n), nil
	}
	uid, err := id(user)
	if err != nil {
		return err
	}
	gid := -1
	if both {
		if gid, err = id(group); err != nil {
			return err
		}
	}
	r := report{std: std, name: "chown"}
	walk(&r, rest[1:], o.Has('R'), func(path string, _ fs.FileInfo) error { return os.Lchown(path, uid, gid) })
	return r.result()
}

// copier is one cp or the copying half of one mv.
type copier struct {
	recursive, preserve, force bool
}

func (c *copier) copy(src, dst string) error {
	lstat := os.Stat
	if c.recursive {
		lstat = os.Lstat
	}
	fi, err := lstat(src)
	if err != nil {
		return err
	}
	if to, err := os.Stat(dst); err == nil && os.SameFile(fi, to) {
		return fmt.Errorf("%s and %s are the same file", src, dst)
	}
	switch mode := fi.Mode(); {
	case mode.IsDir():
		if !c.recursive {
			return fmt.Errorf("%s is a folder: use -r", src)
		}
		err = c.copyDir(src, dst)
	case mode.IsRegular() || !c.recursive:
		err = c.copyRegular(src, dst, fi)
	case mode&fs.ModeSymlink != 0:
		var target string
		if target, err = os.Readlink(src); err == nil {
			_ = os.Remove(dst)
			err = os.Symlink(target, dst)
		}
	default:
		st := fi.Sys().(*syscall.Stat_t)
		_ = os.Remove(dst)
		err = pathErr("mknod", dst, unix.Mknod(dst, st.Mode, int(st.Rdev)))
	}
	if err != nil || !c.preserve {
		return err
	}
	return keep(dst, fi)
}

// keep gives dst the owner, mode and times of fi.
func keep(dst string, fi fs.FileInfo) error {
	st := fi.Sys().(*syscall.Stat_t)
	if err := os.Lchown(dst, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if fi.Mode()&fs.ModeSymlink == 0 {
		if err := unix.Chmod(dst, st.Mode&0o7777); err != nil {
			return pathErr("chmod", dst, err)
		}
	}
	return pathErr("utimes", dst, time64.SetFileTimes(dst, fi.ModTime(), fi.ModTime()))
}

func (c *copier) copyDir(src, dst string) error {
	abs, err := filepath.Abs(src)
	if err != nil {
		return err
	}
	if to, err := filepath.Abs(dst); err != nil || strings.HasPrefix(to+"/", abs+"/") {
		return fmt.Errorf("%s cannot be copied into itself", src)
	}
	entries, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	fi, err := os.Stat(src)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dst, fi.Mode().Perm()|0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, c.copy(filepath.Join(src, e.Name()), filepath.Join(dst, e.Name())))
	}
	return errors.Join(errs...)
}

func (c *copier) copyRegular(src, dst string, fi fs.FileInfo) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	open := func() (*os.File, error) {
		return os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fi.Mode().Perm())
	}
	out, err := open()
	if err != nil && c.force && os.Remove(dst) == nil {
		out, err = open()
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// into returns the path that src gets in dst: below it if it is a folder.
func into(src, dst string) string {
	if fi, err := os.Stat(dst); err == nil && fi.IsDir() {
		return filepath.Join(dst, filepath.Base(src))
	}
	return dst
}

// sources checks the operands of cp, mv and ln.
func sources(operands []string) (from []string, to string, err error) {
	n := len(operands)
	if n < 2 {
		return nil, "", applet.Usagef("needs a source and a destination")
	}
	from, to = operands[:n-1], operands[n-1]
	if fi, err := os.Stat(to); len(from) > 1 && (err != nil || !fi.IsDir()) {
		return nil, "", fmt.Errorf("%s is no folder", to)
	}
	return from, to, nil
}

func cp(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "afprRPd")
	if err != nil {
		return err
	}
	from, to, err := sources(rest)
	if err != nil {
		return err
	}
	c := copier{
		recursive: o.Has('a') || o.Has('r') || o.Has('R'),
		preserve:  o.Has('a') || o.Has('p'),
		force:     o.Has('f'),
	}
	return each(std, "cp", from, func(src string) error { return c.copy(src, into(src, to)) })
}

func mv(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "fn")
	if err != nil {
		return err
	}
	from, to, err := sources(rest)
	if err != nil {
		return err
	}
	return each(std, "mv", from, func(src string) error {
		dst := into(src, to)
		if _, err := os.Lstat(dst); err == nil && o.Has('n') {
			return nil
		}
		err := os.Rename(src, dst)
		if !errors.Is(err, syscall.EXDEV) {
			return err
		}
		c := copier{recursive: true, preserve: true, force: true}
		if err := c.copy(src, dst); err != nil {
			return err
		}
		return os.RemoveAll(src)
	})
}

func rm(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "frRi")
	if err != nil {
		return err
	}
	if len(names) == 0 && o.Has('f') {
		return nil
	}
	return each(std, "rm", names, func(name string) error {
		if base := filepath.Base(name); base == "." || base == ".." || base == "/" {
			return fmt.Errorf("will not remove %s", name)
		}
		fi, err := os.Lstat(name)
		switch {
		case err != nil && o.Has('f') && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !fi.IsDir():
			return os.Remove(name)
		case !o.Has('r') && !o.Has('R'):
			return fmt.Errorf("%s is a folder: use -r", name)
		}
		return os.RemoveAll(name)
	})
}

func rmdir(_ context.Context, std applet.IO, args []string) error {
	_, names, err := opt.Parse(args, "")
	if err != nil {
		return err
	}
	return each(std, "rmdir", names, func(name string) error { return pathErr("rmdir", name, unix.Rmdir(name)) })
}

func mkdir(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "pm:")
	if err != nil {
		return err
	}
	mode := uint32(0o777)
	if o.Has('m') {
		if mode, err = parseMode(o.Val('m'), mode, true); err != nil {
			return err
		}
	}
	return each(std, "mkdir", names, func(name string) error {
		make := os.Mkdir
		if o.Has('p') {
			make = os.MkdirAll
		}
		if err := make(name, fs.FileMode(mode&0o777)); err != nil || !o.Has('m') {
			return err
		}
		return pathErr("chmod", name, unix.Chmod(name, mode)) // past the umask
	})
}

func touch(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "c")
	if err != nil {
		return err
	}
	return each(std, "touch", names, func(name string) error {
		err := unix.UtimesNanoAt(unix.AT_FDCWD, name, nil, 0)
		switch {
		case err == unix.ENOENT && o.Has('c'):
			return nil
		case err == unix.ENOENT:
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return pathErr("touch", name, err)
	})
}

func ln(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "sfn")
	if err != nil {
		return err
	}
	if len(rest) == 1 {
		rest = append(rest, filepath.Base(rest[0]))
	}
	from, to, err := sources(rest)
	if err != nil {
		return err
	}
	return each(std, "ln", from, func(target string) error {
		link := into(target, to)
		if fi, err := os.Lstat(to); err == nil && o.Has('n') && fi.Mode()&fs.ModeSymlink != 0 {
			link = to
		}
		if o.Has('f') {
			if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if o.Has('s') {
			return os.Symlink(target, link)
		}
		return os.Link(target, link)
	})
}

func readlink(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "fn")
	if err != nil {
		return err
	}
	return each(std, "readlink", names, func(name string) error {
		target, err := os.Readlink(name)
		if o.Has('f') {
			if target, err = filepath.EvalSymlinks(name); err == nil {
				target, err = filepath.Abs(target)
			}
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(std.Out, target)
		return err
	})
}

func mktemp(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "dp:t")
	if err != nil {
		return err
	}
	template := "tmp.XXXXXX"
	dir := os.TempDir()
	switch len(rest) {
	case 0:
	case 1:
		template = rest[0]
		if !o.Has('p') && !o.Has('t') {
			dir = filepath.Dir(template)
		}
	default:
		return applet.Usagef("one template, not %d", len(rest))
	}
	if o.Has('p') {
		dir = o.Val('p')
	}
	stem, ok := strings.CutSuffix(filepath.Base(template), "XXXXXX")
	if !ok {
		return applet.Usagef("%s does not end in XXXXXX", template)
	}
	var name string
	if o.Has('d') {
		name, err = os.MkdirTemp(dir, stem+"*")
	} else {
		var f *os.File
		if f, err = os.CreateTemp(dir, stem+"*"); err == nil {
			name, err = f.Name(), f.Close()
		}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.Out, name)
	return err
}

func mknod(_ context.Context, _ applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "m:")
	if err != nil {
		return err
	}
	mode := uint32(0o666)
	if o.Has('m') {
		if mode, err = parseMode(o.Val('m'), mode, false); err != nil {
			return err
		}
	}
	if len(rest) == 2 && rest[1] == "p" {
		return pathErr("mkfifo", rest[0], unix.Mknod(rest[0], unix.S_IFIFO|mode, 0))
	}
	if len(rest) != 4 || rest[1] != "b" && rest[1] != "c" && rest[1] != "u" {
		return applet.Usagef("needs NAME, b or c, MAJOR and MINOR")
	}
	major, err1 := strconv.ParseUint(rest[2], 0, 12)
	minor, err2 := strconv.ParseUint(rest[3], 0, 20)
	if err1 != nil || err2 != nil {
		return applet.Usagef("%s %s is no device number", rest[2], rest[3])
	}
	kind := uint32(unix.S_IFCHR)
	if rest[1] == "b" {
		kind = unix.S_IFBLK
	}
	return pathErr("mknod", rest[0], unix.Mknod(rest[0], kind|mode, int(unix.Mkdev(uint32(major), uint32(minor)))))
}

func tee(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "a")
	if err != nil {
		return err
	}
	mode := os.O_TRUNC
	if o.Has('a') {
		mode = os.O_APPEND
	}
	r := report{std: std, name: "tee"}
	out := []io.Writer{std.Out}
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|mode, 0o666)
		if err != nil {
			r.add(err)
			continue
		}
		defer f.Close()
		out = append(out, f)
	}
	_, err = io.Copy(io.MultiWriter(out...), std.In)
	r.add(err)
	return r.result()
}

func stat(_ context.Context, std applet.IO, args []string) error {
	_, names, err := opt.Parse(args, "")
	if err != nil {
		return err
	}
	loc := zone.Load("")
	return each(std, "stat", names, func(name string) error {
		fi, err := os.Lstat(name)
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		link := ""
		if target, err := os.Readlink(name); err == nil {
			link = " -> " + target
		}
		_, err = fmt.Fprintf(std.Out, "  File: %s%s\n  Size: %d\tBlocks: %d\tIO block: %d\t%s\nDevice: %d,%d\tInode: %d\tLinks: %d\n  Mode: %04o (%s)\tUid: %d\tGid: %d\nModify: %s\nChange: %s\n",
			name, link, fi.Size(), st.Blocks, st.Blksize, kindOf(fi.Mode()),
			unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino, st.Nlink,
			st.Mode&0o7777, modeString(fi.Mode()), st.Uid, st.Gid,
			fi.ModTime().In(loc).Format(time.DateTime), time.Unix(int64(st.Ctim.Sec), 0).In(loc).Format(time.DateTime))
		return err
	})
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeCharDevice != 0:
		return "character device"
	case m&fs.ModeDevice != 0:
		return "block device"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "file"
}

// modeString is the ten letters of ls -l.
func modeString(m fs.FileMode) string {
	b := []byte("----------")
	switch {
	case m.IsDir():
		b[0] = 'd'
	case m&fs.ModeSymlink != 0:
		b[0] = 'l'
	case m&fs.ModeCharDevice != 0:
		b[0] = 'c'
	case m&fs.ModeDevice != 0:
		b[0] = 'b'
	case m&fs.ModeNamedPipe != 0:
		b[0] = 'p'
	case m&fs.ModeSocket != 0:
		b[0] = 's'
	}
	for i, c := range []byte("rwxrwxrwx") {
		if m&(1<<(8-i)) != 0 {
			b[1+i] = c
		}
	}
	for _, s := range []struct {
		bit     fs.FileMode
		at      int
		set, no byte
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		if m&s.bit != 0 {
			if b[s.at] == 'x' {
				b[s.at] = s.set
			} else {
				b[s.at] = s.no
			}
		}
	}
	return string(b)
}

// human is a size in bytes with at most one decimal: 999, 1.5K, 12M.
func human(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10)
	}
	v, unit := float64(n), 0
	for v >= 1023.5 && unit < 4 {
		v /= 1024
		unit++
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f%c", v, " KMGT"[unit])
	}
	return fmt.Sprintf("%.0f%c", v, " KMGT"[unit])
}

type entry struct {
	name string
	fi   fs.FileInfo
	path string
}

// lister is one ls.
type lister struct {
	o   *opt.Set
	out *bufio.Writer
	rep report
}

func ls(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "1aAdFhlnrtSRCsi")
	if err != nil {
		return err
	}
	l := lister{o: o, out: bufio.NewWriter(std.Out), rep: report{std: std, name: "ls"}}
	if len(names) == 0 {
		names = []string{"."}
	}
	var files, dirs []entry
	for _, n := range names {
		fi, err := os.Lstat(n)
		if err == nil && fi.Mode()&fs.ModeSymlink != 0 && !l.long() && !o.Has('d') {
			if to, err := os.Stat(n); err == nil {
				fi = to
			}
		}
		switch {
		case err != nil:
			l.rep.add(err)
		case fi.IsDir() && !o.Has('d'):
			dirs = append(dirs, entry{n, fi, n})
		default:
			files = append(files, entry{n, fi, n})
		}
	}
	l.sort(files)
	l.print(files)
	l.sort(dirs)
	for i, d := range dirs {
		if i > 0 || len(files) > 0 {
			fmt.Fprintln(l.out)
		}
		if len(dirs)+len(files) > 1 {
			fmt.Fprintf(l.out, "%s:\n", d.name)
		}
		l.dir(d.path)
	}
	l.rep.add(l.out.Flush())
	return l.rep.result()
}

func (l *lister) long() bool { return l.o.Has('l') || l.o.Has('n') }

func (l *lister) dir(path string) {
	all, err := os.ReadDir(path)
	l.rep.add(err)
	var list []entry
	if l.o.Has('a') {
		for _, n := range []string{".", ".."} {
			if fi, err := os.Lstat(filepath.Join(path, n)); err == nil {
				list = append(list, entry{n, fi, filepath.Join(path, n)})
			}
		}
	}
	for _, e := range all {
		if e.Name()[0] == '.' && !l.o.Has('a') && !l.o.Has('A') {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		list = append(list, entry{e.Name(), fi, filepath.Join(path, e.Name())})
	}
	l.sort(list)
	l.print(list)
	if !l.o.Has('R') {
		return
	}
	for _, e := range list {
		if e.fi.IsDir() && e.name != "." && e.name != ".." {
			fmt.Fprintf(l.out, "\n%s:\n", e.path)
			l.dir(e.path)
		}
	}
}

func (l *lister) sort(list []entry) {
	slices.SortStableFunc(list, func(a, b entry) int {
		c := strings.Compare(a.name, b.name)
		switch {
		case l.o.Has('t') && !a.fi.ModTime().Equal(b.fi.ModTime()):
			c = b.fi.ModTime().Compare(a.fi.ModTime())
		case l.o.Has('S') && a.fi.Size() != b.fi.Size():
			c = 1
			if a.fi.Size() > b.fi.Size() {
				c = -1
			}
		}
		if l.o.Has('r') {
			c = -c
		}
		return c
	})
}

func (l *lister) print(list []entry) {
	if !l.long() {
		for _, e := range list {
			fmt.Fprintln(l.out, printable(e.name)+l.mark(e.fi))
		}
		return
	}
	loc := zone.Load("")
	rows := make([][5]string, len(list))
	var width [5]int
	for i, e := range list {
		st := e.fi.Sys().(*syscall.Stat_t)
		size := strconv.FormatInt(e.fi.Size(), 10)
		if l.o.Has('h') {
			size = human(uint64(e.fi.Size()))
		}
		if e.fi.Mode()&fs.ModeDevice != 0 {
			size = fmt.Sprintf("%d,%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
		}
		rows[i] = [5]string{
			strconv.FormatUint(uint64(st.Nlink), 10), l.user(st.Uid), l.user(st.Gid), size,
			e.fi.ModTime().In(loc).Format("2006-01-02 15:04"),
		}
		for c, v := range rows[i] {
			width[c] = max(width[c], len(v))
		}
	}
	for i, e := range list {
		r := rows[i]
		link := ""
		if target, err := os.Readlink(e.path); err == nil && e.fi.Mode()&fs.ModeSymlink != 0 {
			link = " -> " + printable(target)
		}
		fmt.Fprintf(l.out, "%s %*s %-*s %-*s %*s %s %s%s%s\n", modeString(e.fi.Mode()),
			width[0], r[0], width[1], r[1], width[2], r[2], width[3], r[3], r[4], printable(e.name), l.mark(e.fi), link)
	}
}

func (l *lister) user(id uint32) string {
	if id == 0 && !l.o.Has('n') {
		return "root"
	}
	return strconv.FormatUint(uint64(id), 10)
}

func (l *lister) mark(fi fs.FileInfo) string {
	switch m := fi.Mode(); {
	case !l.o.Has('F'):
	case m.IsDir():
		return "/"
	case m&fs.ModeSymlink != 0:
		return "@"
	case m.IsRegular() && m&0o111 != 0:
		return "*"
	}
	return ""
}

// printable shows the control characters that a name may hold as question
// marks: they are the terminal's, not the reader's.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, name)
}
