package files

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

func spaceApplets() []applet.Applet {
	return []applet.Applet{
		{
			Name: "df", Group: applet.Files, Summary: "space on the file systems", OwnH: true, Run: mounts{"/proc/mounts"}.df,
			Usage: "df [-ahk] [PATH...]\n\n  -h  in K, M, G\n  -k  in KiB (the default)\n  -a  with those that have no size\n  PATH  only the file systems that hold these",
		},
		{
			Name: "du", Group: applet.Files, Summary: "space that folders take", OwnH: true, Run: du,
			Usage: "du [-ahks] [PATH...]\n\n  -s  only the sum\n  -a  files too\n  -h  in K, M, G\n  -k  in KiB (the default)",
		},
	}
}

func amount(bytes uint64, humanly bool) string {
	if humanly {
		return human(bytes)
	}
	return strconv.FormatUint((bytes+1023)/1024, 10)
}

func du(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "ahksx")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{"."}
	}
	out := bufio.NewWriter(std.Out)
	rep := report{std: std, name: "du"}
	type inode struct{ dev, ino uint64 }
	seen := map[inode]bool{} // of files with several links
	var sum func(path string, top bool) uint64
	sum = func(path string, top bool) uint64 {
		fi, err := os.Lstat(path)
		if err != nil {
			rep.add(err)
			return 0
		}
		st := fi.Sys().(*syscall.Stat_t)
		total := uint64(st.Blocks) * 512
		if !fi.IsDir() && st.Nlink > 1 {
			id := inode{deviceOf(fi), st.Ino}
			if seen[id] {
				return 0
			}
			seen[id] = true
		}
		if fi.IsDir() {
			entries, err := os.ReadDir(path)
			rep.add(err)
			for _, e := range entries {
				total += sum(filepath.Join(path, e.Name()), false)
			}
		}
		if top || !o.Has('s') && (fi.IsDir() || o.Has('a')) {
			fmt.Fprintf(out, "%s\t%s\n", amount(total, o.Has('h')), path)
		}
		return total
	}
	for _, n := range names {
		sum(n, true)
	}
	rep.add(out.Flush())
	return rep.result()
}

// mounts is the path of the kernel's list of mounts.
type mounts struct{ path string }

type mount struct{ device, dir string }

// parseMounts reads the lines of /proc/mounts (fstab(5)).
func parseMounts(r io.Reader) ([]mount, error) {
	var list []mount
	s := bufio.NewScanner(r)
	for s.Scan() {
		if f := strings.Fields(s.Text()); len(f) >= 2 {
			list = append(list, mount{unescape(f[0]), unescape(f[1])})
		}
	}
	return list, s.Err()
}

// unescape turns the \040 of /proc/mounts back into what they stand for.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (m mounts) df(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "ahk")
	if err != nil {
		return err
	}
	f, err := os.Open(m.path)
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := parseMounts(f)
	if err != nil {
		return err
	}
	rep := report{std: std, name: "df"}
	if len(names) > 0 {
		var only []mount
		for _, n := range names {
			mnt, err := holding(list, n)
			if err != nil {
				rep.add(err)
				continue
			}
			only = append(only, mnt)
		}
		list = only
	}
	unit := "1K-blocks"
	if o.Has('h') {
		unit = "Size"
	}
	fmt.Fprintf(std.Out, "%-20s %10s %10s %10s %4s %s\n", "Filesystem", unit, "Used", "Available", "Use%", "Mounted on")
	for _, mnt := range list {
		var st unix.Statfs_t
		if err := unix.Statfs(mnt.dir, &st); err != nil {
			rep.add(pathErr("statfs", mnt.dir, err))
			continue
		}
		if st.Blocks == 0 && !o.Has('a') && len(names) == 0 {
			continue
		}
		size, bs := st.Blocks, uint64(st.Bsize)
		used := size - st.Bfree
		percent := "-"
		if used+st.Bavail > 0 {
			percent = fmt.Sprintf("%d%%", (used*100+used+st.Bavail-1)/(used+st.Bavail))
		}
		fmt.Fprintf(std.Out, "%-20s %10s %10s %10s %4s %s\n", mnt.device,
			amount(size*bs, o.Has('h')), amount(used*bs, o.Has('h')), amount(st.Bavail*bs, o.Has('h')), percent, mnt.dir)
	}
	return rep.result()
}

// holding finds the mount that path is on: the one with its device number and
// the longest name that leads to it; the last of equals hides the others.
func holding(list []mount, path string) (mount, error) {
	full, err := filepath.EvalSymlinks(path)
	if err == nil {
		full, err = filepath.Abs(full)
	}
	if err != nil {
		return mount{}, err
	}
	best := -1
	for i, m := range list {
		if dir := strings.TrimSuffix(m.dir, "/") + "/"; strings.HasPrefix(full+"/", dir) && (best < 0 || len(m.dir) >= len(list[best].dir)) {
			best = i
		}
	}
	if best < 0 {
		return mount{}, &fs.PathError{Op: "df", Path: path, Err: fs.ErrNotExist}
	}
	return list[best], nil
}
