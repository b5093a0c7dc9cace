package text

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

// more shows its input screen by screen. It reads keys from the terminal
// itself, since standard input may be the text.
func more(_ context.Context, std applet.IO, args []string) error {
	_, names, err := opt.Parse(args, "RSFX")
	if err != nil {
		return err
	}
	out, ok := std.Out.(*os.File)
	var ws *unix.Winsize
	if ok {
		ws, err = unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
		ok = err == nil
	}
	var keys *os.File
	if ok {
		keys, err = os.OpenFile("/dev/tty", os.O_RDWR, 0)
		ok = err == nil
	}
	if !ok {
		return inputs(std, "more", names, func(_ string, r io.Reader) error {
			_, err := io.Copy(std.Out, r)
			return err
		})
	}
	defer keys.Close()
	rows, cols := int(ws.Row), int(ws.Col)
	if rows < 2 || cols < 2 {
		rows, cols = 24, 80
	}
	fd := int(keys.Fd())
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	raw := *modes
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return err
	}
	defer func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, modes) }()
	p := pager{keys: keys, out: std.Out, rows: rows - 1, cols: cols, left: rows - 1}
	return inputs(std, "more", names, func(_ string, r io.Reader) error {
		return enough(lines(r, p.line))
	})
}

type pager struct {
	keys       io.Reader
	out        io.Writer
	rows, cols int
	left       int    // rows until the next question
	search     string // not yet found
	quit       bool
}

// line prints one line, after asking if the screen is full.
func (p *pager) line(line []byte) error {
	if p.quit {
		return errEnough
	}
	if p.search != "" {
		if !bytes.Contains(line, []byte(p.search)) {
			return nil
		}
		p.search, p.left = "", p.rows
	}
	if p.left <= 0 {
		if err := p.ask(); err != nil || p.quit {
			p.quit = true
			return errEnough
		}
		if p.search != "" {
			return p.line(line)
		}
	}
	p.left -= max(1, (utf8.RuneCount(line)+p.cols-1)/p.cols)
	_, err := p.out.Write(append(line, '\n'))
	return err
}

// ask waits for a key that says how to go on.
func (p *pager) ask() error {
	const erase = "\r\x1b[K"
	fmt.Fprint(p.out, "\x1b[7m--More--\x1b[0m")
	defer fmt.Fprint(p.out, erase)
	var b [1]byte
	for {
		if _, err := p.keys.Read(b[:]); err != nil {
			return err
		}
		switch b[0] {
		case 'q', 'Q', 3, 4:
			p.quit = true
			return nil
		case ' ', 'f':
			p.left = p.rows
			return nil
		case '\r', '\n', 'j':
			p.left = 1
			return nil
		case 'd':
			p.left = max(1, p.rows/2)
			return nil
		case '/':
			fmt.Fprint(p.out, erase+"/")
			r := bufio.NewReaderSize(p.keys, 16)
			text, err := r.ReadString('\n')
			p.search = strings.TrimRight(text, "\r\n")
			p.left = p.rows
			return err
		}
	}
}
