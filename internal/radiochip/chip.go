// Package radiochip talks to the radio's chip, an EFR32, whatever runs on it: it
// finds out which firmware answers and how fast, brings the chip into its Gecko
// bootloader, uploads an image there and starts it.
//
// The line and the chip's pins are the caller's, who owns the UART (INV 5): the
// package opens nothing, keeps nothing and decides nothing about settings. All of
// it blocks, until an answer, a time-out or the end of the context.
package radiochip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gwinit/internal/radioproto/gecko"
)

// Line is the UART.
type Line interface {
	// Read returns what has come, after wait at most; 0, nil when nothing has.
	Read(p []byte, wait time.Duration) (int, error)
	// Write hands p over. A far end that takes nothing for
	// a second is ErrStuck.
	Write(p []byte) error
	// Set changes the rate and the flow control: none, sw or hw, when all that was
	// written has left. What came before is thrown away, and so is what flow control
	// holds up.
	Set(baud int, flow string) error
}

// Pins are the chip's.
type Pins interface {
	// Reset restarts the chip.
	Reset(ctx context.Context) error
	// Bootloader restarts it into its bootloader. ErrNoPin where the board has no
	// way to.
	Bootloader(ctx context.Context) error
}

// Errors.
var (
	ErrStuck         = errors.New("the radio takes no bytes") // a Line's Write
	ErrNoPin         = errors.New("this board has no pin for the bootloader")
	ErrNoAnswer      = errors.New("the radio does not answer")
	ErrNoBootloader  = errors.New("the bootloader does not answer")
	ErrNoApplication = errors.New("there is no application that the bootloader starts")
	ErrRefused       = errors.New("the bootloader refuses the image")
	ErrUpload        = errors.New("the upload failed")
)

// Kind is what answers.
type Kind string

// The kinds.
const (
	Bootloader Kind = "bootloader"
	EZSP       Kind = "ezsp"   // Zigbee network co-processor
	CPC        Kind = "cpc"    // radio co-processor for zigbeed and others
	Spinel     Kind = "spinel" // Thread radio co-processor
	Router     Kind = "router" // Zigbee router with a command line
)

// Firmware is the name in radio.conf, "" of the bootloader.
func (k Kind) Firmware() string {
	switch k {
	case EZSP:
		return "ncp"
	case CPC:
		return "rcp"
	case Spinel:
		return "otrcp"
	case Router:
		return "router"
	}
	return ""
}

// Setting is how a firmware talks.
type Setting struct {
	Baud int
	Flow string // none, sw, hw
}

// Found is what answered.
type Found struct {
	Kind     Kind
	Version  string // as it says itself
	Protocol int    // version of EZSP; else 0
	Setting
}

// Baud rates that the firmwares for these gateways have, the commonest first.
func Bauds() []int { return []int{115200, 460800, 230400, 691200, 892857} }

// Chip is the radio.
type Chip struct {
	line Line
	log  func(string) // what a person wants to follow
	buf  [256]byte
}

// New returns the chip at the far end of line.
func New(line Line, log func(string)) *Chip { return &Chip{line: line, log: log} }

// slice is how long one read may wait: so long until the end of a context is seen.
const slice = 200 * time.Millisecond

// listen passes what comes to take, until that returns true, d is over, or the
// context ends.
func (c *Chip) listen(ctx context.Context, d time.Duration, take func(p []byte) bool) (bool, error) {
	for end := time.Now().Add(d); ; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		left := time.Until(end)
		if left <= 0 {
			return false, nil
		}
		n, err := c.line.Read(c.buf[:], min(left, slice))
		if err != nil {
			return false, err
		}
		if n > 0 && take(c.buf[:n]) {
			return true, nil
		}
	}
}

// settle throws away what comes until nothing has for quiet, for max at most.
func (c *Chip) settle(ctx context.Context, quiet, max time.Duration) error {
	for end := time.Now().Add(max); time.Now().Before(end); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := c.line.Read(c.buf[:], quiet)
		if n == 0 || err != nil {
			return err
		}
	}
	return nil
}

// ask sends what makes(i) returns, tries times, each time until take is content or
// every is over.
func (c *Chip) ask(ctx context.Context, tries int, every time.Duration, makes func(i int) []byte, take func(p []byte) bool) (bool, error) {
	for i := range tries {
		if err := c.line.Write(makes(i)); err != nil {
			return false, err
		}
		if ok, err := c.listen(ctx, every, take); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// said keeps the last of what somebody says.
type said []byte

func (s *said) add(p []byte) {
	const most = 2048
	if *s = append(*s, p...); len(*s) > most {
		*s = append((*s)[:0], (*s)[len(*s)-most/2:]...)
	}
}

// Probe finds out what answers: the bootloader, or an application at one of the
// settings, which are tried in their order. It resets a Zigbee co-processor, that
// does not answer otherwise. ErrNoAnswer when nothing does.
func (c *Chip) Probe(ctx context.Context, settings []Setting) (Found, error) {
	v, err := c.AskBootloader(ctx, bootloaderProbe)
	if errors.Is(err, ErrNoBootloader) {
		f, ferr := c.Application(ctx, settings)
		if !errors.Is(ferr, ErrNoAnswer) {
			return f, ferr
		}
		// In the middle of an upload that somebody left it says nothing for a while.
		if v, err = c.AskBootloader(ctx, uploadEnds); errors.Is(err, ErrNoBootloader) {
			return f, ferr
		}
	}
	if err != nil {
		return Found{}, err
	}
	return Found{Kind: Bootloader, Version: v.String(), Setting: Setting{gecko.Baud, "none"}}, nil
}

// Application is Probe without the bootloader.
func (c *Chip) Application(ctx context.Context, settings []Setting) (Found, error) {
	for _, s := range settings {
		for _, k := range []Kind{EZSP, Spinel, CPC, Router} {
			f, err := c.Check(ctx, k, s)
			if err == nil || !errors.Is(err, ErrNoAnswer) {
				return f, err
			}
		}
	}
	return Found{}, ErrNoAnswer
}

// Check asks one kind of firmware at one setting. ErrNoAnswer when there is none.
func (c *Chip) Check(ctx context.Context, k Kind, s Setting) (f Found, err error) {
	if err := c.line.Set(s.Baud, s.Flow); err != nil {
		return f, err
	}
	f = Found{Kind: k, Setting: s}
	switch k {
	case EZSP:
		_, err = c.ezsp(ctx, &f)
	case Spinel:
		err = c.spinel(ctx, &f)
	case CPC:
		err = c.cpc(ctx, &f)
	case Router:
		err = c.router(ctx, &f)
	default:
		err = ErrNoAnswer
	}
	if errors.Is(err, ErrStuck) {
		err = ErrNoAnswer // held up by flow control: not this one
	}
	return f, err
}

// FlowOf finds out whether a firmware that answers without flow control does so with
// the one that is wanted, and returns what it answers with. Only "none" is certain
// then: that a firmware heeds XOFF cannot be seen from outside.
func (c *Chip) FlowOf(ctx context.Context, f Found, want string) (Found, error) {
	if want == "" || want == f.Flow {
		return f, nil
	}
	g, err := c.Check(ctx, f.Kind, Setting{f.Baud, want})
	if errors.Is(err, ErrNoAnswer) {
		return f, nil
	}
	return g, err
}

// Enter brings the chip into its bootloader and returns its version: it may be
// there, or a pin does it, or the firmware's own command, found as Probe finds it.
// A chip that answers nothing is reset first.
func (c *Chip) Enter(ctx context.Context, pins Pins, settings []Setting) (gecko.Version, error) {
	v, err := c.AskBootloader(ctx, bootloaderProbe)
	if err == nil || !errors.Is(err, ErrNoBootloader) {
		return v, err
	}
	err = pins.Bootloader(ctx)
	switch {
	case err == nil:
		c.log("the pins ask for the bootloader")
		if v, err = c.AskBootloader(ctx, bootloaderStart); err == nil || !errors.Is(err, ErrNoBootloader) {
			return v, err
		}
	case !errors.Is(err, ErrNoPin):
		c.log("the bootloader's pin does not work: " + err.Error())
	}
	for again := false; ; again = true {
		var f Found
		if f, err = c.Application(ctx, settings); err == nil {
			c.log(fmt.Sprintf("%s %s answers at %d baud; it is told to start the bootloader", f.Kind, f.Version, f.Baud))
			if err = c.launch(ctx, f); err == nil {
				if v, err = c.AskBootloader(ctx, bootloaderStart); err == nil || !errors.Is(err, ErrNoBootloader) {
					return v, err
				}
			}
		} else if errors.Is(err, ErrNoAnswer) {
			// In the middle of an upload that somebody left.
			if v, e := c.AskBootloader(ctx, uploadEnds); e == nil || !errors.Is(e, ErrNoBootloader) {
				return v, e
			}
		}
		if again || ctx.Err() != nil {
			return v, err
		}
		c.log("the radio is reset (" + err.Error() + ")")
		if e := pins.Reset(ctx); e != nil {
			return v, fmt.Errorf("%w, and the reset failed: %w", err, e)
		}
		// One without an application is in its bootloader now.
		if v, err = c.AskBootloader(ctx, bootloaderStart); err == nil || !errors.Is(err, ErrNoBootloader) {
			return v, err
		}
	}
}

// launch has the firmware start the bootloader.
func (c *Chip) launch(ctx context.Context, f Found) error {
	err := c.line.Set(f.Baud, f.Flow)
	if err != nil {
		return err
	}
	switch f.Kind {
	case EZSP:
		err = c.launchEZSP(ctx, f)
	case Spinel:
		err = c.launchSpinel(ctx)
	case CPC:
		err = c.launchCPC(ctx)
	case Router:
		err = c.launchRouter(ctx)
	}
	// At the old rate it hears the last of it, and says its last words.
	return firstOf(err, c.settle(ctx, lastWords, time.Second))
}

// lastWords is how long a firmware may take from the command to its end.
const lastWords = 150 * time.Millisecond

// Short is a version as radio.conf has it: the numbers of the release, without
// name, build and a fourth number that is 0. 7.5.1.0 is 7.5.1, and
// SL-OPENTHREAD/2.5.3.0_GitHub-1fceb225b; EFR32; ... is 2.5.3.
func Short(version string) string {
	if i := strings.LastIndexByte(strings.SplitN(version, ";", 2)[0], '/'); i >= 0 {
		version = version[i+1:]
	}
	end := strings.IndexFunc(version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end > 0 {
		version = version[:end]
	}
	version = strings.Trim(version, ".")
	if strings.Count(version, ".") == 3 {
		version = strings.TrimSuffix(version, ".0")
	}
	if len(version) > 40 || end == 0 {
		return ""
	}
	return version
}
