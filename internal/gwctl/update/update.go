// Package update brings updates (package bundle) from a workstation to gateways
// and tells what came of them. The gateway verifies, writes and tries them; what
// this package looks at before it sends is only for a mistake to be told early.
package update

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/blake2b"

	"gwinit/internal/api"
	"gwinit/internal/bundle"
	"gwinit/internal/minisign"
	"gwinit/internal/wait"
)

// Box is a gateway, as this package needs it.
type Box interface {
	// Command has the gateway's own gwctl carry args out, with stdin for its
	// standard input (nil: none), and returns what it wrote to standard output.
	// The error has what it wrote to standard error. Each call is by a login of
	// its own, or by one that lasts: it works before and after a restart.
	Command(ctx context.Context, stdin io.Reader, args ...string) (stdout []byte, err error)
}

// Options are how an update is sent.
type Options struct {
	Force    bool // also an older one, and one for another board
	DryRun   bool // have the gateway read and verify it, and change nothing
	NoReboot bool // it is tried when the gateway restarts for another reason
	// Progress is told how many bytes are sent, as they are; nil: nobody is.
	Progress func(sent, total int64)
}

// maxBundle bounds an update's file, in bytes: the binary and what is in front of it.
const maxBundle = bundle.MaxSize + 64<<10

// Load reads an update from a file, or from where an address that begins with
// http:// or https:// leads, and looks it through: the error says if it is none,
// or damaged. Who signed it only a gateway knows, which has the keys.
func Load(ctx context.Context, from string) ([]byte, *bundle.Manifest, error) {
	b, err := read(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	m, err := Inspect(bytes.NewReader(b))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from, err)
	}
	return b, m, nil
}

func read(ctx context.Context, from string) (_ []byte, err error) {
	var in io.ReadCloser
	if strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://") {
		in, err = get(ctx, from)
	} else {
		in, err = os.Open(from)
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, maxBundle+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", from, err)
	case len(b) > maxBundle:
		return nil, fmt.Errorf("%s is larger than any update (%d bytes)", from, maxBundle)
	}
	return b, nil
}

func get(ctx context.Context, url string) (io.ReadCloser, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		a.Body.Close()
		return nil, fmt.Errorf("%s: the server says %s", url, a.Status)
	}
	return a.Body, nil
}

// Inspect reads an update to its end and returns what it says of itself. The
// error tells if it is none, not whole, or not what its manifest says; the
// signature is for the gateway to verify.
func Inspect(r io.Reader) (*bundle.Manifest, error) {
	hash, err := blake2b.New512(nil)
	if err != nil {
		return nil, err
	}
	b, err := bundle.Open(r, hash)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	// No key is given, so one that is whole is refused for that: the hash is
	// what counts here.
	if err := b.Copy(io.Discard, nil, sum); err != nil && !errors.Is(err, minisign.ErrKey) {
		return nil, err
	}
	if !bytes.Equal(sum.Sum(nil), b.Manifest.SHA256[:]) {
		return nil, fmt.Errorf("%w: the binary is not the manifest's", bundle.ErrFormat)
	}
	return b.Manifest, nil
}

// Send has a gateway read an update of size bytes, which it verifies, writes, and
// restarts into unless an option says otherwise. It returns when the gateway has
// it on its flash and is about to restart; Wait waits for what comes of it. A
// refusal is an *api.Error with the gateway's words, and then nothing changed but
// that the older of two updates may be gone.
func Send(ctx context.Context, box Box, update io.Reader, size int64, o Options) error {
	_, err := send(ctx, box, update, size, o)
	return err
}

func send(ctx context.Context, box Box, update io.Reader, size int64, o Options) (done api.UpdateDone, err error) {
	args := []string{"update", "-json"}
	for option, given := range map[string]bool{"-force": o.Force, "-n": o.DryRun, "-no-reboot": o.NoReboot} {
		if given {
			args = append(args, option)
		}
	}
	if o.Progress != nil {
		update = &counted{r: update, total: size, tell: o.Progress}
	}
	err = ask(ctx, box, update, &done, append(args, "-")...)
	return done, err
}

// counted tells how much of a stream was read.
type counted struct {
	r           io.Reader
	done, total int64
	tell        func(done, total int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done += int64(n)
	c.tell(c.done, c.total)
	return n, err
}

// ask has the gateway's gwctl answer in JSON. What it refuses is an *api.Error.
func ask(ctx context.Context, box Box, stdin io.Reader, to any, args ...string) error {
	out, err := box.Command(ctx, stdin, args...)
	var refused struct {
		Error *api.Error `json:"error"`
	}
	if json.Unmarshal(out, &refused) == nil && refused.Error != nil {
		return refused.Error
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, to); err != nil {
		return fmt.Errorf("the gateway's answer to %s is not understood; is its firmware older than updates? %w", strings.Join(args, " "), err)
	}
	return nil
}

// Status asks a gateway what it runs, and what became of updates.
func Status(ctx context.Context, box Box) (s api.UpdateStatus, err error) {
	err = ask(ctx, box, nil, &s, "update", "status", "-json")
	return s, err
}

// Outcome is what became of an update.
type Outcome struct {
	Committed bool
	Reason    string // why not; with Committed empty
	Running   string // the version that runs now
	Seconds   float64
}

// Timing of Wait. An attempt ends by itself, at the latest when its deadline is
// over; a gateway makes three of them.
const (
	askEvery = 5 * time.Second
	askFor   = 30 * time.Second // of one login on a slow CPU
	// WaitAtMost is longer than three attempts with their restarts take.
	WaitAtMost = time.Hour
)

// ErrGone: the gateway was not heard of any more.
var ErrGone = errors.New("the gateway does not answer: is it on another address now? gwctl discover finds it")

// Wait waits until a gateway has kept an update that was sent, or has given it up,
// across the restarts that this takes. A gateway that is out of reach meanwhile is
// waited for, until ctx ends or WaitAtMost is over: the error is ErrGone then.
func Wait(ctx context.Context, box Box, version string) (Outcome, error) {
	return waitEvery(ctx, box, version, askEvery)
}

func waitEvery(ctx context.Context, box Box, version string, every time.Duration) (o Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, WaitAtMost)
	defer cancel()
	begin := time.Now()
	for {
		one, done := context.WithTimeout(ctx, askFor)
		s, asked := Status(one, box)
		done()
		if asked == nil {
			if o, ok := outcome(s, version); ok {
				o.Seconds = time.Since(begin).Seconds()
				return o, nil
			}
			err = nil
		} else {
			err = asked
		}
		if !wait.For(ctx, every) {
			if err == nil {
				return o, fmt.Errorf("%s is still tried after %v; gwctl update status tells how it goes", version, time.Since(begin).Round(time.Second))
			}
			return o, errors.Join(ErrGone, err)
		}
	}
}

// outcome tells what became of a version, if it is decided.
func outcome(s api.UpdateStatus, version string) (o Outcome, ok bool) {
	o.Running = s.Version
	switch {
	case s.Try != "":
		return o, false
	case s.Failed == version:
		o.Reason = s.Reason
		return o, true
	}
	for _, slot := range s.Slots {
		if slot.Name == s.Next && slot.Version == version {
			o.Committed = true
			return o, true
		}
	}
	o.Reason = "it was taken back: " + s.Next + " is what runs from the next start on"
	return o, true
}
