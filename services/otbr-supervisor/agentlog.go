package otbr

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
)

// devLog is where syslog(3) sends lines. Nobody else listens there on this box;
// without a listener the agent would write on the serial console (LOG_CONS).
const devLog = "/dev/log"

// lastLines is how many of the agent's lines are kept for the reason of its end.
const lastLines = 8

// maxLogLine bounds one, in bytes.
const maxLogLine = 300

// tail are the agent's last lines.
type tail struct {
	mu    sync.Mutex // guards the following
	lines []string
	rcp   string // the last one about the radio
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == lastLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
	// OpenThread's words for it, in its logs and its reasons to exit.
	for _, word := range []string{"RCP", "radio", "Radio", "spinel", "Spinel"} {
		if strings.Contains(line, word) {
			t.rcp = line
		}
	}
}

func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines, t.rcp = nil, ""
}

// last returns the last line of all, and the last one about the radio.
func (t *tail) last() (line, rcp string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.lines); n > 0 {
		line = t.lines[n-1]
	}
	return line, t.rcp
}

func (t *tail) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.lines...)
}

// syslogText is what is said in a datagram of syslog(3): without priority, time
// and the program's name.
func syslogText(b []byte) string {
	s := string(b)
	if rest, ok := strings.CutPrefix(s, "<"); ok {
		if _, text, ok := strings.Cut(rest, ">"); ok {
			s = text
			if len(s) > 16 && s[3] == ' ' && s[6] == ' ' && s[9] == ':' && s[12] == ':' && s[15] == ' ' {
				s = s[16:]
			}
			if head, text, ok := strings.Cut(s, ": "); ok && !strings.ContainsAny(head, " \t") {
				s = text
			}
		}
	}
	return clean(s)
}

// clean makes one line of it, without what a terminal would obey.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F {
			return ' '
		}
		return r
	}, strings.TrimRight(s, "\r\n\x00"))
	return strings.ToValidUTF8(s[:min(len(s), maxLogLine)], "")
}

// listenLog takes the lines that the agent sends by syslog until ctx ends. A
// socket that somebody else serves stays theirs.
func (s *Service) listenLog(ctx context.Context, done func()) {
	path := s.path(devLog)
	if c, err := net.Dial("unixgram", path); err == nil {
		c.Close()
		done()
		return
	}
	_ = os.Remove(path) // of a process that was killed
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		s.log("%s: %v: the agent's own lines are not in the log", devLog, err)
		done()
		return
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	go func() {
		defer done()
		defer stop()
		b := make([]byte, 2<<10)
		for {
			n, err := c.Read(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				s.said(syslogText(b[:n]))
			}
		}
	}()
}

// said takes a line of the agent's.
func (s *Service) said(line string) {
	if line != "" {
		s.tail.add(line)
		s.log("agent: %s", line)
	}
}

// lines is a Writer that says each line.
type lines struct {
	say  func(string)
	left []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.left = append(l.left, p...)
	for {
		line, rest, ok := bytes.Cut(l.left, []byte{'\n'})
		if !ok {
			if len(l.left) < maxLogLine {
				return len(p), nil
			}
			line, rest = l.left, nil
		}
		l.say(clean(string(line)))
		l.left = append(l.left[:0], rest...)
	}
}
