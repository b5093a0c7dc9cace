package board

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotSeen is what waiting for console text ends in when it does not come,
// be it for the deadline or because the machine is gone.
var ErrNotSeen = errors.New("not seen on the console")

// Console is the machine's serial console. Waiting goes through the output
// once: what one call has matched is behind the next. It is for one user at a
// time; Transcript is for everybody.
type Console struct {
	in    io.Writer
	copy  io.Writer // also gets every byte; may be nil
	nonce atomic.Uint64

	mu     sync.Mutex // guards what follows
	out    bytes.Buffer
	seen   int           // what is before has been matched
	boot   int           // where this boot's output begins
	more   chan struct{} // closed and replaced when out grows
	closed bool          // nothing more will come from this boot
}

// attach connects the console to a newly started QEMU's input.
func (c *Console) attach(in io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in, c.closed = in, false
	c.seen = c.out.Len()
	c.boot = c.seen
}

// Write takes what the guest prints.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.out.Write(p)
	c.wake()
	c.mu.Unlock()
	if c.copy != nil {
		// A copy that fails is the copy's loss: the guest must go on.
		_, _ = c.copy.Write(p)
	}
	return len(p), nil
}

// end says that the guest is gone.
func (c *Console) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wake()
}

func (c *Console) wake() {
	close(c.more)
	c.more = make(chan struct{})
}

// Transcript returns everything that the guest has printed, over all boots.
func (c *Console) Transcript() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

// Mark makes the next wait begin at the end of what there is now.
func (c *Console) Mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = c.out.Len()
}

// WaitFor blocks until text appears and returns what was printed before it.
func (c *Console) WaitFor(text string, timeout time.Duration) (string, error) {
	before, _, err := c.wait(strconv.Quote(text), timeout, func(b []byte) []int {
		if i := bytes.Index(b, []byte(text)); i >= 0 {
			return []int{i, i + len(text)}
		}
		return nil
	})
	return before, err
}

// WaitMatch blocks until re matches and returns the match and its groups.
func (c *Console) WaitMatch(re *regexp.Regexp, timeout time.Duration) ([]string, error) {
	_, match, err := c.wait(re.String(), timeout, re.FindSubmatchIndex)
	return match, err
}

func (c *Console) wait(what string, timeout time.Duration, find func([]byte) []int) (before string, match []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waitLocked(what, timeout, find)
}

// waitLocked is wait for a caller that holds mu; it lets go of it meanwhile.
func (c *Console) waitLocked(what string, timeout time.Duration, find func([]byte) []int) (before string, match []string, err error) {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		rest := c.out.Bytes()[c.seen:]
		if at := find(rest); at != nil {
			before = string(rest[:at[0]])
			for i := 0; i < len(at); i += 2 {
				group := ""
				if at[i] >= 0 {
					group = string(rest[at[i]:at[i+1]])
				}
				match = append(match, group)
			}
			c.seen += at[1]
			return before, match, nil
		}
		if c.closed {
			return "", nil, fmt.Errorf("%s: %w: the machine is gone; it last said:\n%s", what, ErrNotSeen, lastLines(rest, 30))
		}
		more, late := c.more, false
		c.mu.Unlock()
		select {
		case <-more:
		case <-deadline.C:
			late = true
		}
		c.mu.Lock()
		if late {
			tail := lastLines(c.out.Bytes()[c.seen:], 30)
			return "", nil, fmt.Errorf("%s: %w within %v; since the last match it said:\n%s", what, ErrNotSeen, timeout, tail)
		}
	}
}

// lastLines returns at most n lines from the end of b.
func lastLines(b []byte, n int) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(string(b), "\r", ""), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// Send types text as it is.
func (c *Console) Send(text string) error {
	c.mu.Lock()
	in := c.in
	c.mu.Unlock()
	if in == nil {
		return errors.New("console: the machine is off")
	}
	if _, err := io.WriteString(in, text); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// SendLine types text and the Enter key.
func (c *Console) SendLine(text string) error { return c.Send(text + "\r") }

// shellTry is how long one attempt of WaitShell waits for its answer.
const shellTry = 5 * time.Second

// prompt is a shell's prompt: a word that ends in # or $, and a space.
var prompt = regexp.MustCompile(`(?m)^\S*[#$] `)

// banner is how a kernel's first line begins.
const banner = "Linux version "

// WaitBoot blocks until a kernel has begun to boot: after a reset, what waits
// for a prompt must not take the one before it.
func (c *Console) WaitBoot(timeout time.Duration) error {
	_, err := c.WaitFor(banner, timeout)
	return err
}

// WaitShell blocks until a shell answers on the console. It types nothing
// before a prompt has been seen in this boot: a key that is pressed early means
// something to the firmware.
func (c *Console) WaitShell(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	c.mu.Lock()
	seen := c.seen
	c.seen = c.boot
	if i := bytes.LastIndex(c.out.Bytes(), []byte(banner)); i > c.boot {
		c.seen = i
	}
	_, _, err := c.waitLocked("a prompt", timeout, prompt.FindSubmatchIndex)
	c.seen = max(c.seen, seen)
	c.mu.Unlock()
	for err == nil {
		_, _, err = c.RunCommand("true", min(shellTry, time.Until(deadline)))
		if err == nil {
			return nil
		}
		c.mu.Lock()
		again := !c.closed && time.Now().Before(deadline)
		c.mu.Unlock()
		if again {
			err = nil
		}
	}
	return fmt.Errorf("shell on the console: %w", err)
}

// RunCommand types a shell command and returns what it printed, with line ends
// as \n and the last one cut off, and its exit status. The shell must be at
// its prompt; see WaitShell.
func (c *Console) RunCommand(command string, timeout time.Duration) (output string, status int, err error) {
	// The quotes keep the typed line, which the terminal echoes, from
	// looking like what the shell prints.
	n := c.nonce.Add(1)
	if err := c.SendLine(fmt.Sprintf(`echo gw-"begin%d"; %s; echo gw-"end%d"-$?`, n, command, n)); err != nil {
		return "", 0, err
	}
	deadline := time.Now().Add(timeout)
	if _, err := c.WaitFor(fmt.Sprintf("gw-begin%d\r\n", n), timeout); err != nil {
		return "", 0, fmt.Errorf("%s: %w", command, err)
	}
	output, match, err := c.wait("end of "+command, time.Until(deadline), regexp.MustCompile(fmt.Sprintf(`gw-end%d-(\d+)\r\n`, n)).FindSubmatchIndex)
	if err != nil {
		return "", 0, err
	}
	status, err = strconv.Atoi(match[1])
	if err != nil {
		return "", 0, fmt.Errorf("%s: exit status: %w", command, err)
	}
	return strings.TrimSuffix(strings.ReplaceAll(output, "\r\n", "\n"), "\n"), status, nil
}
