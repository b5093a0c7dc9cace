package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"gwinit/internal/wait"
)

// baud is the console's: 38400 8N1, no flow control.
const baud = 38400

const (
	prompt = "<RealTek>"
	esc    = 0x1B
	// charPause is between two characters: a loader without interrupts takes
	// them one by one.
	charPause = 3 * time.Millisecond
	quiet     = 700 * time.Millisecond // after which a question is a question
)

// Errors of a console.
var (
	errNoPrompt = errors.New("no " + prompt + " came on the serial console")
	errConsole  = errors.New("the serial console ended")
)

// console is the loader's serial console.
type console struct {
	port io.ReadWriter
	got  chan []byte // what came; closed when the port ends
	once sync.Once
	end  chan struct{}
}

// newConsole reads port until close. The caller closes port afterwards, which ends
// the reading.
func newConsole(port io.ReadWriter) *console {
	c := &console{port: port, got: make(chan []byte, 64), end: make(chan struct{})}
	go func() {
		defer close(c.got)
		for {
			buf := make([]byte, 512)
			n, err := port.Read(buf)
			if n > 0 {
				select {
				case c.got <- buf[:n]:
				case <-c.end:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *console) close() { c.once.Do(func() { close(c.end) }) }

// next returns what came within d, or nothing.
func (c *console) next(ctx context.Context, d time.Duration) ([]byte, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case b, ok := <-c.got:
		if !ok {
			return nil, errConsole
		}
		return b, nil
	case <-t.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *console) send(ctx context.Context, s string) error {
	for i := range len(s) {
		if _, err := c.port.Write([]byte{s[i]}); err != nil {
			return fmt.Errorf("serial console: %w", err)
		}
		if !wait.For(ctx, charPause) {
			return ctx.Err()
		}
	}
	return nil
}

func atPrompt(text []byte) bool {
	return bytes.HasSuffix(bytes.TrimRight(text, " \r\n"), []byte(prompt))
}

// catch sends ESC until the loader's prompt comes: it looks for one while it
// starts, and only then. One that is at its prompt already answers a new line, which
// comes between. waiting is called once when nothing came at first.
func (c *console) catch(ctx context.Context, within time.Duration, waiting func()) error {
	end := time.Now().Add(within)
	var text []byte
	begin := time.Now()
	for n := 1; time.Now().Before(end); n++ {
		key := string(rune(esc))
		if n%8 == 0 {
			key = "\r"
		}
		if err := c.send(ctx, key); err != nil {
			return err
		}
		b, err := c.next(ctx, 100*time.Millisecond)
		if err != nil {
			return err
		}
		if text = append(text, b...); len(text) > 4096 {
			text = text[len(text)-4096:]
		}
		if waiting != nil && time.Since(begin) > 2*time.Second {
			waiting()
			waiting = nil
		}
		if !bytes.Contains(text, []byte(prompt)) {
			continue
		}
		// What is left of the ESCs must not be the beginning of a command.
		if _, err := c.command(ctx, "", 5*time.Second); err != nil {
			return err
		}
		return nil
	}
	return fmt.Errorf("%w within %v. Wiring: TX of the adapter to pin 4, RX to pin 3, GND to pin 2, nothing to pin 1; 3.3 V levels", errNoPrompt, within)
}

// question is how a loader asks before it touches the flash.
var question = regexp.MustCompile(`(?i)\(y\)|\by\s*/\s*n\b|\byes\b.*\bno\b`)

// command types a line and returns what the loader printed up to its prompt. Where
// it asks, the answer is yes.
//
// The prompt is the one behind the line's echo: an earlier one may come late. A
// loader that echoes nothing is at its prompt when nothing follows for quiet.
func (c *console) command(ctx context.Context, line string, within time.Duration) (string, error) {
	for { // an earlier prompt is no answer
		b, err := c.next(ctx, 100*time.Millisecond)
		if err != nil {
			return "", err
		}
		if b == nil {
			break
		}
	}
	if err := c.send(ctx, line+"\r"); err != nil {
		return "", err
	}
	end := time.Now().Add(within)
	var text []byte
	answered := false
	for time.Now().Before(end) {
		b, err := c.next(ctx, quiet)
		if err != nil {
			return "", err
		}
		text = append(text, b...)
		echo := bytes.Index(text, []byte(line))
		switch {
		case atPrompt(text) && (b == nil || echo >= 0 && atPrompt(text[echo+len(line):])):
			return clean(string(text)), nil
		case b == nil && !answered && question.Match(text):
			answered = true
			if err := c.send(ctx, "Y\r"); err != nil {
				return "", err
			}
		}
		if len(text) > 1<<20 {
			text = text[len(text)-4096:]
		}
	}
	return "", fmt.Errorf("%q: %w within %v; it printed %q", line, errNoPrompt, within, clean(string(text)))
}

// clean leaves out what could steer a terminal.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return -1
		}
		return r
	}, s))
}

// Where the loader has room for a whole flash.
const ramAddr uint32 = 0x80500000

// setIP gives the loader an address.
func (c *console) setIP(ctx context.Context, a netip.Addr) error {
	_, err := c.command(ctx, "IPCONFIG "+a.String(), 5*time.Second)
	return err
}

// flashTime bounds reading or writing n bytes: 61 s for 16 MiB were measured for
// writing.
func flashTime(n int) time.Duration { return 30*time.Second + 20*time.Second*time.Duration(n>>20) }

// read has the loader read its flash to RAM, where a download takes it, and returns
// what it said.
func (c *console) read(ctx context.Context, offset, n int) (string, error) {
	return c.command(ctx, fmt.Sprintf("FLR %08X %08X %08X", ramAddr, offset, n), flashTime(n))
}

// write has it write RAM to its flash.
func (c *console) write(ctx context.Context, offset, n int) error {
	_, err := c.command(ctx, fmt.Sprintf("FLW %08X %08X %08X", offset, ramAddr, n), flashTime(n))
	return err
}
