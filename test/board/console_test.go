package board

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newConsole(copy io.Writer) *Console {
	return &Console{copy: copy, more: make(chan struct{})}
}

// shell answers typed lines as a shell behind an echoing terminal does.
type shell struct {
	c     *Console
	typed string
	does  map[string]string // command to output and status
}

func (s *shell) Write(p []byte) (int, error) {
	s.typed += string(p)
	for {
		line, rest, ok := strings.Cut(s.typed, "\r")
		if !ok {
			return len(p), nil
		}
		s.typed = rest
		fmt.Fprintf(s.c, "%s\r\n", line)
		for command := range strings.SplitSeq(line, "; ") {
			if word, ok := strings.CutPrefix(command, "echo "); ok {
				fmt.Fprintf(s.c, "%s\r\n", strings.ReplaceAll(strings.ReplaceAll(word, `"`, ""), "$?", "3"))
			} else {
				io.WriteString(s.c, s.does[command])
			}
		}
		io.WriteString(s.c, "root@gw:/# ")
	}
}

func TestConsoleWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var copied strings.Builder
		c := newConsole(&copied)
		c.attach(io.Discard)
		go func() {
			time.Sleep(time.Second)
			io.WriteString(c, "one t")
			time.Sleep(time.Second)
			io.WriteString(c, "wo three42")
		}()
		if before, err := c.WaitFor("two", 3*time.Second); err != nil || before != "one " {
			t.Errorf("two: %q %v", before, err)
		}
		if m, err := c.WaitMatch(regexp.MustCompile(`e(\d)(x)?`), time.Second); err != nil || m[1] != "4" || m[2] != "" {
			t.Errorf("match: %q %v", m, err)
		}
		began := time.Now()
		_, err := c.WaitFor("one", 5*time.Second)
		if !errors.Is(err, ErrNotSeen) || time.Since(began) != 5*time.Second || !strings.Contains(err.Error(), "\n2") {
			t.Errorf("what was matched is seen again: %v after %v", err, time.Since(began))
		}
		c.Mark()
		time.AfterFunc(time.Second, c.end)
		began = time.Now()
		if _, err := c.WaitFor("2", time.Minute); !errors.Is(err, ErrNotSeen) || time.Since(began) != time.Second {
			t.Errorf("a machine that is gone: %v after %v", err, time.Since(began))
		}
		if copied.String() != "one two three42" || c.Transcript() != copied.String() {
			t.Errorf("copy %q, transcript %q", copied.String(), c.Transcript())
		}
	})
}

func TestRunCommand(t *testing.T) {
	c := newConsole(nil)
	s := &shell{c: c, does: map[string]string{"ls": "a\r\nb\r\n", "printf x": "x", "true": ""}}
	c.attach(s)
	for _, tt := range []struct{ command, want string }{{"ls", "a\nb"}, {"printf x", "x"}, {"true", ""}, {"ls", "a\nb"}} {
		if out, status, err := c.RunCommand(tt.command, time.Second); err != nil || out != tt.want || status != 3 {
			t.Errorf("%s: %q %d %v", tt.command, out, status, err)
		}
	}
}

func TestWaitShellTypesNothingEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(nil)
		s := &shell{c: c}
		c.attach(s)
		io.WriteString(c, "old# Linux version 6 #1 SMP\r\n[ 0.1] cost: 5# of it\r\n")
		if err := c.WaitShell(time.Second); !errors.Is(err, ErrNotSeen) {
			t.Errorf("no prompt: %v", err)
		}
		if c.Transcript() != "old# Linux version 6 #1 SMP\r\n[ 0.1] cost: 5# of it\r\n" {
			t.Errorf("typed before a prompt: %q", c.Transcript())
		}
		time.AfterFunc(time.Second, func() { io.WriteString(c, "root@gw:/# ") })
		if err := c.WaitShell(2 * time.Second); err != nil {
			t.Errorf("with a prompt: %v", err)
		}
		if err := c.WaitShell(time.Second); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

func TestSendWhenOff(t *testing.T) {
	if err := newConsole(nil).Send("x"); err == nil {
		t.Error("no error")
	}
}
