//go:build linux

// Package scp is the gateway's end of the protocol that scp spoke before SFTP
// (BSD's rcp), which `scp -O` and scripts for today's firmware still use. The
// client has the shell run `scp -t` to write and `scp -f` to read.
//
// Names that the client sends are those of one folder's entries and lead
// nowhere else. What is written into memory is bounded as by SFTP.
package scp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/applet"
	"gwinit/services/sshd/sftp"
)

const (
	// maxLine is the longest control line, in bytes, and maxDepth how deep
	// folders may be in each other.
	maxLine  = 4 << 10
	maxDepth = 32
	copied   = 16 << 10 // bytes at a time
)

// Applet returns the command.
func Applet() applet.Applet {
	return applet.Applet{
		Name: "scp", Group: applet.Network, Summary: "the gateway's end of scp -O",
		Usage: `scp -t|-f [-r] [-p] [-d] [-v] PATH...
What a client's scp -O runs here. It copies nothing by itself: call scp or sftp on
the other computer.

  -t  write to PATH what the client sends
  -f  send the PATHs to the client
  -r  folders, too   -p  with times and modes   -d  PATH must be a folder`,
		Run: func(_ context.Context, std applet.IO, args []string) error {
			p := peer{in: bufio.NewReaderSize(std.In, maxLine), out: std.Out}
			var to, from, folder bool
			for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
				a := args[0][1:]
				args = args[1:]
				if a == "-" {
					break
				}
				for _, c := range a {
					switch c {
					case 't':
						to = true
					case 'f':
						from = true
					case 'r':
						p.tree = true
					case 'p':
						p.keep = true
					case 'd':
						folder = true
					case 'v', 'q':
					default:
						return applet.Usagef("unknown option -%c", c)
					}
				}
			}
			switch {
			case to == from || len(args) == 0 || to && len(args) > 1:
				return applet.Usagef("it is for scp -O of another computer")
			case to:
				if info, err := os.Stat(args[0]); folder && (err != nil || !info.IsDir()) {
					return p.end(p.refuse(fmt.Errorf("%s: not a folder", args[0])))
				}
				return p.end(p.receiveAll(args[0]))
			}
			return p.end(p.sendAll(args))
		},
	}
}

// peer is the client, and what it wants.
type peer struct {
	in         *bufio.Reader
	out        io.Writer
	tree, keep bool
	failed     bool // something was told to the client, or by it
}

// errFatal is an end without another word.
var errFatal = errors.New("scp: the client does not keep to the protocol")

// end is the exit status: what went wrong was told to the client already.
func (p *peer) end(err error) error {
	if err == nil && p.failed {
		return applet.Exit(1)
	}
	return err
}

func (p *peer) ok() error {
	_, err := p.out.Write([]byte{0})
	return err
}

// refuse tells the client why something is not done; it goes on with the next.
func (p *peer) refuse(why error) error {
	p.failed = true
	_, err := io.WriteString(p.out, "\x01scp: "+strings.ReplaceAll(why.Error(), "\n", " ")+"\n")
	return err
}

// answer reads what the client says to what it was sent: nil, or its words.
func (p *peer) answer() (refused bool, err error) {
	c, err := p.in.ReadByte()
	switch {
	case err != nil:
		return false, err
	case c == 0:
		return false, nil
	case c == 1:
		p.failed = true
		_, err := p.line()
		return true, err
	}
	return false, errFatal
}

// line reads to the end of a line.
func (p *peer) line() (string, error) {
	b, err := p.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF) && len(b) > 0 {
		return "", errFatal
	}
	return strings.TrimSuffix(string(b), "\n"), err
}

// times are those of a T line.
type times struct {
	set          bool
	atime, mtime int64
}

// readTimes reads "MTIME 0 ATIME 0", seconds and microseconds.
func readTimes(s string) (times, error) {
	f := strings.Fields(s)
	if len(f) != 4 {
		return times{}, errFatal
	}
	mtime, err1 := strconv.ParseInt(f[0], 10, 64)
	atime, err2 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return times{}, errFatal
	}
	return times{set: true, mtime: mtime, atime: atime}, nil
}

func (t times) apply(path string) error {
	if !t.set {
		return nil
	}
	return os.Chtimes(path, time.Unix(t.atime, 0), time.Unix(t.mtime, 0))
}

// receiveAll writes what the client sends to path.
func (p *peer) receiveAll(path string) error {
	if err := p.ok(); err != nil {
		return err
	}
	return p.receive(path, 0)
}

func (p *peer) receive(path string, depth int) error {
	var t times
	for {
		line, err := p.line()
		switch {
		case errors.Is(err, io.EOF) && depth == 0:
			return nil
		case err != nil:
			return err
		case line == "":
			return errFatal
		}
		switch rest := line[1:]; line[0] {
		case 'T':
			if t, err = readTimes(rest); err == nil {
				err = p.ok()
			}
		case 'C', 'D':
			mode, size, name, ok := entry(rest)
			if !ok || line[0] == 'D' && (!p.tree || depth >= maxDepth) {
				return errFatal
			}
			to := path
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				to = filepath.Join(path, name)
			}
			if line[0] == 'C' {
				err = p.file(to, mode, size, t)
			} else {
				err = p.folder(to, mode, t, depth)
			}
			t = times{}
		case 'E':
			if depth == 0 {
				return errFatal
			}
			return p.ok()
		case 1:
			p.failed = true // the client's words are for its user
		default:
			return errFatal
		}
		if err != nil {
			return err
		}
	}
}

// entry reads "0644 123 name".
func entry(s string) (mode fs.FileMode, size int64, name string, ok bool) {
	f := strings.SplitN(s, " ", 3)
	if len(f) != 3 {
		return 0, 0, "", false
	}
	m, err1 := strconv.ParseUint(f[0], 8, 16)
	size, err2 := strconv.ParseInt(f[1], 10, 64)
	name = f[2]
	ok = err1 == nil && err2 == nil && size >= 0 && name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
	return fs.FileMode(m & 0o777), size, name, ok
}

func (p *peer) folder(path string, mode fs.FileMode, t times, depth int) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		if err := os.Mkdir(path, mode|0o700); err != nil {
			return p.refuse(err)
		}
	}
	if err := p.ok(); err != nil {
		return err
	}
	if err := p.receive(path, depth+1); err != nil {
		return err
	}
	return t.apply(path)
}

func (p *peer) file(path string, mode fs.FileMode, size int64, t times) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return p.refuse(err)
	}
	defer f.Close()
	if err := p.ok(); err != nil {
		return err
	}
	// What is not written is read all the same, so that both agree on what
	// comes next.
	w := sftp.Bounded(f)
	var failed error
	buf := make([]byte, copied)
	for size > 0 {
		n, err := p.in.Read(buf[:min(int64(len(buf)), size)])
		if err != nil {
			return errFatal
		}
		size -= int64(n)
		if failed == nil {
			_, failed = w.Write(buf[:n])
		}
	}
	if failed == nil && !w.InRAM() {
		failed = f.Sync()
	}
	if failed == nil && p.keep {
		failed = errors.Join(f.Chmod(mode), t.apply(path))
	}
	// The client's word on its own reading.
	if refused, err := p.answer(); err != nil || refused {
		return err
	}
	if failed != nil {
		return p.refuse(failed)
	}
	return p.ok()
}

// sendAll sends files and folders to the client.
func (p *peer) sendAll(paths []string) error {
	if _, err := p.answer(); err != nil {
		return err
	}
	for _, path := range paths {
		if err := p.send(path, 0); err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) send(path string, depth int) error {
	info, err := os.Stat(path)
	if err != nil {
		return p.refuse(err)
	}
	switch {
	case info.IsDir() && !p.tree:
		return p.refuse(fmt.Errorf("%s: a folder, and -r is not given", path))
	case info.IsDir() && depth >= maxDepth:
		return p.refuse(fmt.Errorf("%s: too deep", path))
	case !info.IsDir() && !info.Mode().IsRegular():
		return p.refuse(fmt.Errorf("%s: not a regular file", path))
	}
	if strings.Contains(info.Name(), "\n") {
		return p.refuse(errors.New("a name with a line end cannot be sent"))
	}
	if p.keep {
		if refused, err := p.say(fmt.Sprintf("T%d 0 %d 0\n", info.ModTime().Unix(), info.ModTime().Unix())); err != nil || refused {
			return err
		}
	}
	if info.IsDir() {
		return p.sendFolder(path, info, depth)
	}
	f, err := os.Open(path)
	if err != nil {
		return p.refuse(err)
	}
	defer f.Close()
	if refused, err := p.say(fmt.Sprintf("C%04o %d %s\n", info.Mode().Perm(), info.Size(), info.Name())); err != nil || refused {
		return err
	}
	// As many bytes as were announced, whatever happens to the file.
	sent, err := io.CopyBuffer(struct{ io.Writer }{p.out}, io.LimitReader(f, info.Size()), make([]byte, copied))
	if err == nil && sent < info.Size() {
		err = fmt.Errorf("%s: became shorter", path)
	}
	zeros := make([]byte, copied)
	for left := info.Size() - sent; left > 0; left -= int64(len(zeros)) {
		if _, err := p.out.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
			return err
		}
	}
	if err != nil {
		if err := p.refuse(err); err != nil {
			return err
		}
	} else if err := p.ok(); err != nil {
		return err
	}
	_, err = p.answer()
	return err
}

func (p *peer) sendFolder(path string, info fs.FileInfo, depth int) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return p.refuse(err)
	}
	if refused, err := p.say(fmt.Sprintf("D%04o 0 %s\n", info.Mode().Perm(), info.Name())); err != nil || refused {
		return err
	}
	for _, e := range entries {
		if err := p.send(filepath.Join(path, e.Name()), depth+1); err != nil {
			return err
		}
	}
	_, err = p.say("E\n")
	return err
}

// say sends a line and waits for the answer.
func (p *peer) say(line string) (refused bool, err error) {
	if _, err := io.WriteString(p.out, line); err != nil {
		return false, err
	}
	return p.answer()
}
