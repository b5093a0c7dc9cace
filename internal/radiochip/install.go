package radiochip

import (
	"context"
	"errors"
	"fmt"

	"gwinit/internal/radioproto/gbl"
	"gwinit/internal/radioproto/gecko"
)

// ErrNotNewer means that an image has a bootloader, and nothing else, that is not
// newer than the one that is there.
var ErrNotNewer = errors.New("the bootloader in the image is not newer than the radio's, which would take it, erase its application, and not use it")

// Installed is what became of a chip.
type Installed struct {
	Bootloader gecko.Version
	// App is what runs; its Kind is Bootloader when nothing does, after an image
	// with no application in it.
	App Found
	// Erased says that the application of before is gone, or may be: an upload began.
	Erased bool
}

// maxRounds: an image with an update of secure element or bootloader is sent once for
// each, and once for its application.
const maxRounds = 3

// Install puts an image on the chip: it enters the bootloader, refuses what that
// would refuse after it has erased the application, uploads, starts the application
// and waits until it answers. settings are where applications may answer, the present
// one and the new one, the likeliest first. On an error Installed says how far it
// came: where nothing was erased, the application of before runs again; where it
// was, the chip waits in its bootloader for another Install.
func (c *Chip) Install(ctx context.Context, pins Pins, img *gbl.Image, file []byte, settings []Setting, progress func(done, total int)) (in Installed, err error) {
	if in.Bootloader, err = c.Enter(ctx, pins, settings); err != nil {
		return in, err
	}
	c.log("the bootloader answers: version " + in.Bootloader.String())
	if err := ctx.Err(); err == nil && img.Bootloader != nil && !img.Application() && !c.newer(img, in.Bootloader) {
		err = fmt.Errorf("%w: %s in the image, %s in the radio", ErrNotNewer, gecko.VersionOf(img.Bootloader.Version), in.Bootloader)
		return in, c.leave(ctx, err)
	}
	for round := 1; ; round++ {
		err := c.Upload(ctx, file[:img.Bytes], func(done, total int) {
			in.Erased = true
			progress(done, total)
		})
		if err != nil && !in.Erased {
			err = c.leave(ctx, err)
		}
		if err != nil {
			return in, err
		}
		if c.newer(img, in.Bootloader) {
			c.log("the bootloader replaces itself")
			old := in.Bootloader
			in.Bootloader, err = c.Upgrade(ctx)
			if errors.Is(err, ErrNoBootloader) {
				in.Bootloader, err = c.Enter(ctx, pins, settings) // it has started the application
			}
			if err != nil {
				in.Bootloader = old
				return in, fmt.Errorf("%w after it was to replace itself", err)
			}
			if c.newer(img, in.Bootloader) {
				return in, fmt.Errorf("%w: it has not replaced itself, and is still %s", ErrRefused, in.Bootloader)
			}
			c.log("the bootloader is now version " + in.Bootloader.String())
			if img.Application() && round < maxRounds {
				continue
			}
		}
		in.App = Found{Kind: Bootloader, Version: in.Bootloader.String(), Setting: Setting{gecko.Baud, "none"}}
		if !img.Application() {
			return in, nil
		}
		err = c.Run(ctx)
		if errors.Is(err, ErrNoApplication) && img.SE != nil && round < maxRounds {
			continue // the secure element's firmware was first
		}
		if err != nil {
			return in, err
		}
		c.log("the new application starts")
		return in, c.started(ctx, &in, settings)
	}
}

func (c *Chip) newer(img *gbl.Image, than gecko.Version) bool {
	return img.Bootloader != nil && gecko.VersionOf(img.Bootloader.Version).Newer(than)
}

// leave starts the application of before, since nothing was changed.
func (c *Chip) leave(ctx context.Context, err error) error {
	ctx = context.WithoutCancel(ctx)
	if _, e := c.menu(ctx, uploadEnds); e != nil {
		return fmt.Errorf("%w; and the bootloader could not be told to start what was there: %w", err, e)
	}
	if e := c.Run(ctx); e != nil && !errors.Is(e, ErrNoApplication) {
		return fmt.Errorf("%w; and the application of before was not started: %w", err, e)
	}
	return err
}

// startTries is how often all settings are tried for a new application: it may still
// be starting when the likeliest is.
const startTries = 2

// started waits for the new application.
func (c *Chip) started(ctx context.Context, in *Installed, settings []Setting) error {
	for range startTries {
		f, err := c.Probe(ctx, settings)
		if err == nil {
			in.App = f
			if f.Kind == Bootloader {
				return fmt.Errorf("%w: it was started, and the bootloader is back", ErrNoApplication)
			}
			return nil
		}
		if !errors.Is(err, ErrNoAnswer) {
			return err
		}
	}
	return fmt.Errorf("%w: the image was taken and started, and nothing known answers at any rate", ErrNoAnswer)
}
