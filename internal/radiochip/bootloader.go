package radiochip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"gwinit/internal/radioproto/gecko"
	"gwinit/internal/radioproto/xmodem"
)

// How long the bootloader is waited for.
const (
	bootloaderProbe = 1200 * time.Millisecond // that runs, if it does
	bootloaderStart = 8 * time.Second         // that starts
	menuEvery       = 500 * time.Millisecond
	// uploadEnds is for one in the middle of an upload that somebody left: it waits
	// 3 s for the rest of a block before it looks at anything else.
	uploadEnds = 8 * time.Second
)

// Of an upload. The bootloader waits 3 s for a block to begin and 3 s for it to end,
// and then asks for it again: whoever sends it before that sends the rest of a block.
const (
	readyWait   = 10 * time.Second
	replyWait   = 10 * time.Second
	blockTries  = 10 // of a block that is asked for again
	silentTries = 3  // of one that is not answered at all
	uploadTries = 3
	outcomeWait = 5 * time.Second
	quiet       = 50 * time.Millisecond
)

// AskBootloader asks the bootloader for its menu, for d at most, and returns its
// version. ErrNoBootloader when it does not answer.
func (c *Chip) AskBootloader(ctx context.Context, d time.Duration) (gecko.Version, error) {
	if err := c.line.Set(gecko.Baud, "none"); err != nil {
		return gecko.Version{}, err
	}
	return c.menu(ctx, d)
}

func (c *Chip) menu(ctx context.Context, d time.Duration) (v gecko.Version, err error) {
	var text said
	for end, inUpload := time.Now().Add(d), false; time.Now().Before(end); {
		ok, err := c.ask(ctx, 1, min(menuEvery, time.Until(end)), func(int) []byte { return []byte{gecko.ShowMenu} }, func(p []byte) bool {
			text.add(p)
			_, _, ok := gecko.Menu(text)
			return ok
		})
		if err != nil {
			return v, err
		}
		if ok {
			// It is asked for twice when it was slow.
			if err := c.settle(ctx, quiet, time.Second); err != nil {
				return v, err
			}
			v, _, _ = gecko.Menu(text)
			return v, nil
		}
		if !inUpload && receives(text) {
			inUpload, end = true, time.Now().Add(uploadEnds)
		}
	}
	return v, ErrNoBootloader
}

// receives tells whether what was said is what a bootloader says in an upload.
func receives(said []byte) bool {
	return len(said) > 0 && len(bytes.Trim(said, string([]byte{xmodem.CRC, xmodem.NAK, xmodem.CAN}))) == 0
}

// Upload sends an image to the bootloader, whose menu must have answered, and returns
// when it has taken it: nothing of it runs yet. A damaged transfer is repeated.
// progress is called with the bytes that have arrived, first with 0 before any is sent. ErrRefused when no repetition
// can help, ErrUpload when none has. The chip stays in its bootloader.
func (c *Chip) Upload(ctx context.Context, image []byte, progress func(done, total int)) error {
	for try := 1; ; try++ {
		err := c.upload(ctx, image, progress)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrRefused) || try == uploadTries {
			return err
		}
		c.log(fmt.Sprintf("%v; it is sent again", err))
		if _, merr := c.menu(ctx, uploadEnds); merr != nil {
			return fmt.Errorf("%w; then %w", err, merr)
		}
	}
}

// errRestarted means that the chip was reset in the middle of it.
var errRestarted = fmt.Errorf("%w: the bootloader has restarted", ErrUpload)

// upload is one try.
func (c *Chip) upload(ctx context.Context, image []byte, progress func(done, total int)) (err error) {
	if err := c.settle(ctx, quiet, time.Second); err != nil {
		return err
	}
	// In this state it can be told to end the transfer, and then shows its menu.
	defer func() {
		if err != nil && !errors.Is(err, ErrRefused) {
			err = errors.Join(err, c.line.Write([]byte{xmodem.CAN}))
		}
	}()
	var text said
	ready, err := c.ask(ctx, 1, readyWait, func(int) []byte { return []byte{gecko.ChooseUpload} }, func(p []byte) bool {
		text.add(p)
		return bytes.HasSuffix(text, []byte{xmodem.CRC})
	})
	if err != nil {
		return err
	}
	if !ready {
		return fmt.Errorf("%w: the bootloader does not begin it", ErrUpload)
	}
	progress(0, len(image))
	block := make([]byte, 0, xmodem.BlockSize+5)
	for i := range xmodem.Blocks(len(image)) {
		block = xmodem.AppendBlock(block[:0], image, i)
		if _, err := c.send(ctx, block); err != nil {
			return fmt.Errorf("%w, at byte %d of %d", err, i*xmodem.BlockSize, len(image))
		}
		progress(min(len(image), (i+1)*xmodem.BlockSize), len(image))
	}
	if text, err = c.send(ctx, []byte{xmodem.EOT}); err != nil {
		return fmt.Errorf("%w, at its end", err)
	}
	return c.outcome(ctx, text)
}

// send sends a block, or the end, until it is acknowledged, and returns what was said
// with that.
func (c *Chip) send(ctx context.Context, block []byte) (text said, err error) {
	silent := 0
	for range blockTries {
		text = text[:0]
		reply := byte(0)
		answered, err := c.ask(ctx, 1, replyWait, func(int) []byte { return block }, func(p []byte) bool {
			text.add(p)
			for _, b := range p {
				switch b {
				case xmodem.ACK, xmodem.NAK, xmodem.CAN:
					reply = b
					return true
				}
			}
			_, _, menu := gecko.Menu(text)
			return menu
		})
		switch {
		case err != nil:
			return nil, err
		case reply == xmodem.ACK:
			return text, nil
		case reply == xmodem.CAN:
			err := c.outcome(ctx, text)
			if err == nil {
				err = fmt.Errorf("%w: it was cancelled", ErrUpload)
			}
			return nil, err
		case answered && reply == 0:
			return nil, errRestarted
		case !answered:
			if silent++; silent == silentTries {
				return nil, fmt.Errorf("%w: the bootloader says nothing any more", ErrUpload)
			}
		}
		// One that asks again and again is answered once.
		if err := c.settle(ctx, quiet, time.Second); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: a block does not arrive, in %d tries", ErrUpload, blockTries)
}

// outcome reads how the bootloader says that it ended.
func (c *Chip) outcome(ctx context.Context, text said) error {
	ended := func(p []byte) bool {
		text.add(p)
		r, code := gecko.Outcome(text)
		_, _, menu := gecko.Menu(text)
		return r == gecko.Complete || r == gecko.Aborted && (code != 0 || menu)
	}
	if !ended(nil) {
		if _, err := c.listen(ctx, outcomeWait, ended); err != nil {
			return err
		}
	}
	r, code := gecko.Outcome(text)
	switch r {
	case gecko.Complete:
		return c.settle(ctx, quiet, time.Second)
	case gecko.Aborted:
		words, again := gecko.Reason(code)
		if again {
			return fmt.Errorf("%w: the bootloader says %#02x: %s", ErrUpload, code, words)
		}
		return fmt.Errorf("%w, with %#02x: %s", ErrRefused, code, words)
	}
	if _, _, menu := gecko.Menu(text); menu {
		return errRestarted
	}
	return fmt.Errorf("%w: the bootloader does not say how it ended", ErrUpload)
}

// runWait is how long a bootloader that has nothing to start takes to be back, with
// room: it resets the chip first.
const runWait = 3 * time.Second

// Run has the bootloader start the application. ErrNoApplication when it is back
// afterwards.
func (c *Chip) Run(ctx context.Context) error {
	_, back, err := c.run(ctx, runWait)
	if err == nil && back {
		err = ErrNoApplication
	}
	return err
}

// upgradeWait is how long a bootloader takes to replace itself: some 16 to 64 KiB of
// flash are erased and written.
const upgradeWait = 20 * time.Second

// Upgrade has the bootloader replace itself by the one that was uploaded, and returns
// the version of the one that is there afterwards. ErrNoBootloader when it does not come
// back by itself.
func (c *Chip) Upgrade(ctx context.Context) (gecko.Version, error) {
	v, back, err := c.run(ctx, upgradeWait)
	if err == nil && !back {
		err = ErrNoBootloader
	}
	return v, err
}

// run tells whether the menu came back by itself within d.
func (c *Chip) run(ctx context.Context, d time.Duration) (v gecko.Version, back bool, err error) {
	if err := c.settle(ctx, quiet, time.Second); err != nil {
		return v, false, err
	}
	var text said
	back, err = c.ask(ctx, 1, d, func(int) []byte { return []byte{gecko.ChooseRun} }, func(p []byte) bool {
		text.add(p)
		_, _, ok := gecko.Menu(text)
		return ok
	})
	if back {
		v, _, _ = gecko.Menu(text)
		err = firstOf(err, c.settle(ctx, quiet, time.Second))
	}
	return v, back, err
}
