// Package otctl asks otbr-agent by its control socket: the command line of
// OpenThread, as ot-ctl types it.
//
// The agent serves one session. A new one ends that which there is, and with it
// the ot-ctl of somebody who types: so this is for what REST does not tell, and
// not for looking at the agent all the time.
package otctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Limits of an answer.
const (
	maxLine   = 1 << 10
	maxAnswer = 32 << 10
)

// Errors of this package.
var (
	ErrClosed  = errors.New("the agent ended the session within its answer")
	ErrTooLong = errors.New("the agent's answer is too long")
	ErrCommand = errors.New("not a command of one line")
)

// Refusal is what the agent answers instead of a result: "Error 7: InvalidArgs".
type Refusal struct {
	Code int
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("the agent refuses (%d): %s", r.Code, r.Text) }

// Paths are where agents have their socket for an interface: as upstream builds
// it, and as the firmware of before does.
func Paths(iface string) []string {
	return []string{"/tmp/openthread-" + iface + ".sock", "/run/openthread-" + iface + ".sock"}
}

// Client asks one agent.
type Client struct {
	// Paths are tried in turn.
	Paths []string
	// Timeout is for one command.
	Timeout time.Duration
}

// Do sends a command and returns the lines of its result, without line ends. The
// error is a *Refusal if the agent says no.
func (c Client) Do(ctx context.Context, command string) ([]string, error) {
	if command == "" || strings.ContainsFunc(command, func(r rune) bool { return r < ' ' || r > '~' }) || len(command) > maxLine-2 {
		return nil, ErrCommand
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return nil, fmt.Errorf("ask the agent for %q: %w", command, or(context.Cause(ctx), err))
	}
	lines, err := Parse(conn)
	if err != nil {
		return nil, fmt.Errorf("ask the agent for %q: %w", command, or(context.Cause(ctx), err))
	}
	return lines, nil
}

// or is why there was an end, if somebody wanted it.
func or(cause, err error) error {
	if cause != nil {
		return cause
	}
	return err
}

func (c Client) dial(ctx context.Context) (net.Conn, error) {
	var errs []error
	for _, p := range c.Paths {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", p)
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if errs == nil {
		return nil, fmt.Errorf("the agent has no control socket: %w", os.ErrNotExist)
	}
	return nil, fmt.Errorf("the agent's control socket: %w", errors.Join(errs...))
}

// prompt is written before and behind commands.
const prompt = "> "

// Parse reads the result of one command: lines, and then "Done" or an error.
func Parse(r io.Reader) (lines []string, err error) {
	limited := &io.LimitedReader{R: r, N: maxAnswer}
	b := bufio.NewReaderSize(limited, maxLine)
	for {
		text, err := b.ReadString('\n')
		switch {
		case err != nil && limited.N <= 0:
			return nil, ErrTooLong
		case errors.Is(err, io.EOF):
			return nil, ErrClosed
		case err != nil:
			return nil, err
		}
		line := strings.TrimRight(text, "\r\n")
		for strings.HasPrefix(line, prompt) {
			line = line[len(prompt):]
		}
		if line == "Done" {
			return lines, nil
		}
		if rest, ok := strings.CutPrefix(line, "Error "); ok {
			if number, words, ok := strings.Cut(rest, ": "); ok {
				if code, err := strconv.Atoi(number); err == nil {
					return nil, &Refusal{code, words}
				}
			}
		}
		if line != "" && line != strings.TrimSpace(prompt) {
			lines = append(lines, line)
		}
	}
}
