package sysadm

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
)

// modeFlag is a setting of stty; word tells in which of the flag words it is.
type modeFlag struct {
	name string
	word func(*unix.Termios) *uint32
	bit  uint32
}

func iflag(t *unix.Termios) *uint32 { return &t.Iflag }
func oflag(t *unix.Termios) *uint32 { return &t.Oflag }
func cflag(t *unix.Termios) *uint32 { return &t.Cflag }
func lflag(t *unix.Termios) *uint32 { return &t.Lflag }

// modeFlags is a function: as a variable it would be filled in at every start
// of the binary.
func modeFlags() []modeFlag {
	return []modeFlag{
		{"icrnl", iflag, unix.ICRNL},
		{"ixon", iflag, unix.IXON},
		{"ixoff", iflag, unix.IXOFF},
		{"opost", oflag, unix.OPOST},
		{"onlcr", oflag, unix.ONLCR},
		{"crtscts", cflag, unix.CRTSCTS},
		{"cstopb", cflag, unix.CSTOPB},
		{"parenb", cflag, unix.PARENB},
		{"parodd", cflag, unix.PARODD},
		{"clocal", cflag, unix.CLOCAL},
		{"hupcl", cflag, unix.HUPCL},
		{"isig", lflag, unix.ISIG},
		{"icanon", lflag, unix.ICANON},
		{"echo", lflag, unix.ECHO},
		{"iexten", lflag, unix.IEXTEN},
	}
}

func (s system) stty(_ context.Context, std applet.IO, args []string) error {
	f, _ := std.In.(*os.File)
	if len(args) > 0 && strings.HasPrefix(args[0], "-F") {
		name := args[0][2:]
		args = args[1:]
		if name == "" {
			if len(args) == 0 {
				return applet.Usagef("-F needs a device")
			}
			name, args = args[0], args[1:]
		}
		dev, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer dev.Close()
		f = dev
	}
	if f == nil {
		return fmt.Errorf("standard input: %w", unix.ENOTTY)
	}
	fd := int(f.Fd())
	// TCGETS2: the speed as a number, also one that has no Bxxx (892857).
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS2)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if len(args) == 0 || len(args) == 1 && args[0] == "-a" {
		return showModes(std, fd, t)
	}
	ws, wserr := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if len(args) == 1 && args[0] == "size" {
		if wserr != nil {
			return fmt.Errorf("%s: %w", f.Name(), wserr)
		}
		_, err := fmt.Fprintln(std.Out, ws.Row, ws.Col)
		return err
	}
	if wserr != nil {
		ws = &unix.Winsize{}
	}
	resize, err := applySettings(t, ws, args)
	if err != nil {
		return err
	}
	if resize {
		if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, ws); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	if err := unix.IoctlSetTermios(fd, unix.TCSETS2, t); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

func applySettings(t *unix.Termios, ws *unix.Winsize, args []string) (resize bool, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		if baud, err := strconv.ParseUint(word, 10, 24); err == nil && baud > 0 {
			t.Cflag = t.Cflag&^unix.CBAUD | unix.BOTHER
			t.Ispeed, t.Ospeed = uint32(baud), uint32(baud)
			continue
		}
		switch word {
		case "sane":
			t.Iflag = t.Iflag&^(unix.INLCR|unix.IGNCR|unix.IXOFF|unix.ISTRIP) | unix.ICRNL | unix.IXON | unix.BRKINT
			t.Oflag |= unix.OPOST | unix.ONLCR
			t.Cflag |= unix.CREAD
			t.Lflag |= unix.ISIG | unix.ICANON | unix.IEXTEN | unix.ECHO | unix.ECHOE | unix.ECHOK
			continue
		case "raw":
			t.Iflag = 0
			t.Oflag &^= unix.OPOST
			t.Lflag &^= unix.ISIG | unix.ICANON | unix.IEXTEN
			t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
			continue
		case "cs7", "cs8":
			t.Cflag &^= unix.CSIZE
			if word == "cs7" {
				t.Cflag |= unix.CS7
			} else {
				t.Cflag |= unix.CS8
			}
			continue
		case "rows", "cols", "columns":
			if i++; i == len(args) {
				return false, applet.Usagef("%s needs a number", word)
			}
			n, err := strconv.ParseUint(args[i], 10, 16)
			if err != nil {
				return false, applet.Usagef("%s takes a number, not %q", word, args[i])
			}
			if word == "rows" {
				ws.Row = uint16(n)
			} else {
				ws.Col = uint16(n)
			}
			resize = true
			continue
		}
		name, off := strings.CutPrefix(word, "-")
		known := false
		for _, m := range modeFlags() {
			if m.name == name {
				known = true
				if off {
					*m.word(t) &^= m.bit
				} else {
					*m.word(t) |= m.bit
				}
			}
		}
		if !known {
			return false, applet.Usagef("unknown setting %s", word)
		}
	}
	return resize, nil
}

func showModes(std applet.IO, fd int, t *unix.Termios) error {
	size := ""
	if ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
		size = fmt.Sprintf("; rows %d; cols %d", ws.Row, ws.Col)
	}
	words := []string{"cs8"}
	if t.Cflag&unix.CSIZE == unix.CS7 {
		words[0] = "cs7"
	}
	for _, m := range modeFlags() {
		if *m.word(t)&m.bit != 0 {
			words = append(words, m.name)
		} else {
			words = append(words, "-"+m.name)
		}
	}
	_, err := fmt.Fprintf(std.Out, "speed %d baud%s\n%s\n", t.Ospeed, size, strings.Join(words, " "))
	return err
}
