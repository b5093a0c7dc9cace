package remote

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// nobody is asked: a program runs this.
type nobody struct{ w io.Writer }

func (nobody) there() bool                   { return false }
func (nobody) yes(string) (bool, error)      { return false, errNobody }
func (nobody) line(string) (string, error)   { return "", errNobody }
func (nobody) secret(string) (string, error) { return "", errNobody }
func (n nobody) say(text string)             { fmt.Fprint(n.w, plain(text)) }

// human is the person at a terminal, who is asked one thing at a time.
type human struct {
	mu  sync.Mutex // guards the terminal
	in  *os.File
	buf *bufio.Reader
	w   io.Writer
}

// person returns who sits at in, or nobody when it is no terminal.
func person(in *os.File, w io.Writer) asker {
	if !term.IsTerminal(int(in.Fd())) {
		return nobody{w}
	}
	return &human{in: in, buf: bufio.NewReader(in), w: w}
}

func (h *human) there() bool { return true }

func (h *human) say(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprint(h.w, plain(text))
}

func (h *human) read(prompt string) (string, error) {
	fmt.Fprint(h.w, prompt)
	s, err := h.buf.ReadString('\n')
	return strings.TrimRight(s, "\r\n"), err
}

func (h *human) line(prompt string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.read(prompt)
}

func (h *human) yes(question string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		s, err := h.read(question + " (yes/no) ")
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(s)) {
		case "yes", "y":
			return true, nil
		case "no", "n":
			return false, nil
		}
		question = "Please answer yes or no:"
	}
}

func (h *human) secret(prompt string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprint(h.w, prompt)
	b, err := term.ReadPassword(int(h.in.Fd()))
	fmt.Fprintln(h.w)
	return string(b), err
}
