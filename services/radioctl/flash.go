//go:build linux

package radioctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/radiochip"
	"gwinit/internal/radionote"
	"gwinit/internal/radioproto/gbl"
	"gwinit/internal/radioproto/gecko"
)

// Flash is what to flash, and what is not to be found out.
type Flash struct {
	File []byte
	Baud int    // of the new firmware; 0: it is found out
	Flow string // "": what the board has and the firmware answers with
	// Force flashes what the board's data speaks against.
	Force bool
	// Point is called when there is no way back: from then on it is better not to be
	// interrupted.
	Point func()
}

// Flashed is what became of it.
type Flashed struct {
	api.RadioAnswer                  // of the new application; an image without one: of the bootloader
	Bootloader      string           `json:"bootloader"` // its version
	Mode            string           `json:"mode"`       // zigbee, otbr
	Changed         []string         `json:"changed"`    // settings
	Warnings        []config.Warning `json:"-"`
}

// metadata is what some builders put into an image, as JSON. Keys are those of
// Nabu Casa's builds.
type metadata struct {
	Baud   int    `json:"baudrate"`
	Type   string `json:"fw_type"`
	EZSP   string `json:"ezsp_version"`
	Thread string `json:"ot_rcp_version"`
	CPC    string `json:"cpc_version"`
}

func about(img *gbl.Image) (m metadata) {
	if len(img.Metadata) > 0 && json.Unmarshal(img.Metadata, &m) != nil {
		return metadata{} // somebody else's
	}
	return m
}

// describe is an image in one line.
func describe(img *gbl.Image) string {
	var parts []string
	if img.Application() {
		m := about(img)
		text := clean("an application " + m.Type + " " + m.EZSP + m.Thread + m.CPC)
		if m.Baud > 0 {
			text += " for " + strconv.Itoa(m.Baud) + " baud"
		}
		parts = append(parts, text)
	}
	if img.Bootloader != nil {
		parts = append(parts, "bootloader "+gecko.VersionOf(img.Bootloader.Version).String())
	}
	if img.SE != nil {
		parts = append(parts, "firmware of the secure element")
	}
	text := strings.Join(parts, ", ")
	return fmt.Sprintf("the image has %d bytes: %s", img.Bytes, text)
}

// clean is text of a file for a terminal.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s[:min(len(s), 100)])
	return strings.TrimRight(s, " ")
}

// ErrWrongChip means that an image is not for the board's chip.
var ErrWrongChip = errors.New("the image is not for this gateway's radio")

// fits judges an image by the chip that the board has: what is programmed outside of
// where applications are is for another one. A wrong image can be one that the
// bootloader takes, and then nothing answers any more.
func fits(img *gbl.Image, chip rtl8196e.RadioChip) error {
	if chip.FlashBytes == 0 {
		return nil // not known
	}
	for _, s := range img.Sections {
		end := uint64(s.Address) + uint64(s.Bytes)
		if s.Address < chip.AppStart || end > uint64(chip.FlashBytes) {
			return fmt.Errorf("%w: it writes %#x to %#x, and applications of the %s are within %#x to %#x; with -force it is sent all the same",
				ErrWrongChip, s.Address, end, chip.Name, chip.AppStart, chip.FlashBytes)
		}
	}
	return nil
}

// Flash installs an image on the radio, writes down what it is, and gives the radio to
// the service that the new firmware is for. Whatever fails leaves the radio as it was,
// or in its bootloader; the error says which, and the way back.
func (b *Box) Flash(ctx context.Context, o Flash) (done Flashed, err error) {
	img, err := gbl.Parse(o.File)
	if err != nil {
		return done, fmt.Errorf("%w. Nothing was changed", err)
	}
	b.Say(describe(img))
	if err := fits(img, b.Board.Radio.Chip); err != nil && !o.Force {
		return done, fmt.Errorf("%w. Nothing was changed", err)
	}
	h, err := b.take(ctx, "flash", lendUpload)
	if err != nil {
		return done, fmt.Errorf("%w. Nothing was changed", err)
	}
	pointed := false
	told := -1
	progress := func(sent, total int) {
		if !pointed {
			pointed = true
			if o.Point != nil {
				o.Point()
			}
		}
		if tenth := sent * 10 / total; tenth != told {
			told = tenth
			b.Say(fmt.Sprintf("sent %3d %% (%d of %d bytes)", sent*100/total, sent, total))
		}
	}
	in, err := h.Install(ctx, h.pins, img, o.File, h.settings(o.Baud, about(img).Baud), progress)
	done.Bootloader = in.Bootloader.String()
	switch {
	case err != nil:
		err = fmt.Errorf("%w. %s", err, after(in, img, err))
	case img.Application():
		b.Say("it answers: " + answer(in.App).String())
		err = h.note(ctx, &done, in, o)
	default:
		done.RadioAnswer = answer(in.App)
		err = h.set(ctx, &done, []config.Assignment{{Name: "radio.BOOTLOADER_VERSION", Value: done.Bootloader}})
		b.Say("the radio has no application now: gwctl radio flash FILE brings one in")
	}
	if err == nil && h.thread && done.Mode != config.ModeOTBR && img.Application() {
		h.thread = false // it stays stopped: this is no radio for it
	}
	err = errors.Join(err, h.giveBack(ctx))
	if err != nil {
		return done, err
	}
	return done, b.start(ctx, done)
}

// after says what the radio is like after a failure, and the way back.
func after(in radiochip.Installed, img *gbl.Image, err error) string {
	switch {
	case in.Bootloader == (gecko.Version{}):
		return "Nothing was changed: the radio was not brought into its bootloader. gwctl radio recover resets it"
	case !in.Erased:
		return "Nothing was changed: the radio runs what it ran"
	case errors.Is(err, radiochip.ErrNoAnswer):
		return "The image is installed: is it one for this radio? gwctl radio recover asks it again, gwctl radio flash FILE with another image needs a firmware that answers, or a board with a bootloader pin"
	}
	what := "the same image"
	if errors.Is(err, radiochip.ErrRefused) {
		what = "another image"
	}
	return "The radio is in its bootloader and waits: gwctl radio flash FILE with " + what + " is the way back, as often as it takes"
}

// note writes down what the radio is now.
func (h *held) note(ctx context.Context, done *Flashed, in radiochip.Installed, o Flash) error {
	f := in.App
	var err error
	switch {
	case o.Flow != "":
		f.Flow = o.Flow
	default:
		// The one of before was another firmware's: the board says how it is wired.
		f, err = h.FlowOf(ctx, f, h.boardFlow(ctx))
	}
	if err != nil {
		return err
	}
	done.RadioAnswer = answer(f)
	done.Mode = config.ModeZigbee
	if f.Kind == radiochip.Spinel {
		done.Mode = config.ModeOTBR
	}
	all := []config.Assignment{
		{Name: "radio.MODE", Value: done.Mode},
		{Name: "radio.FIRMWARE", Value: done.Firmware},
		{Name: "radio.FIRMWARE_BAUD", Value: strconv.Itoa(f.Baud)},
		{Name: "radio.FIRMWARE_FLOW_CTRL", Value: f.Flow},
		{Name: "radio.BOOTLOADER_VERSION", Value: done.Bootloader},
	}
	if v := radiochip.Short(f.Version); v != "" {
		all = append(all, config.Assignment{Name: "radio.FIRMWARE_VERSION", Value: v})
	}
	return errors.Join(h.set(ctx, done, all), radionote.Write(h.box.Root, done.RadioAnswer))
}

// set changes radio.conf, all or nothing, and has those read it who do.
func (h *held) set(ctx context.Context, done *Flashed, all []config.Assignment) error {
	change, err := config.Set(h.box.Root, h.box.Board, all)
	if err != nil {
		var text []string
		for _, a := range all {
			text = append(text, a.Name+"="+a.Value)
		}
		return fmt.Errorf("the radio works, and that could not be written down: %w. Later: gwctl config set %s", err, strings.Join(text, " "))
	}
	done.Warnings = change.Warnings
	for _, s := range change.Settings {
		done.Changed = append(done.Changed, s.Name)
	}
	// The radio has to be free when they look for it.
	if err := h.close(); err != nil {
		return err
	}
	for _, name := range append(change.Reload, change.Restart...) {
		if name == thread && h.thread {
			continue // it is started, or not, afterwards
		}
		if err := h.box.again(ctx, name, slices.Contains(change.Restart, name)); err != nil {
			return err
		}
	}
	return nil
}

// again has a service use new settings: it reads them, or restarts where it cannot.
// One that does not run is left alone.
func (b *Box) again(ctx context.Context, name string, restart bool) error {
	if name == thread {
		return b.followMode(ctx)
	}
	var told *api.Error
	if !restart {
		_, err := b.Ask(ctx, api.OpCall, api.CallArgs{Service: name, Method: "reload"})
		if err == nil || !errors.As(err, &told) {
			return err
		}
	}
	err := b.service(ctx, name, "try-restart")
	if errors.As(err, &told) && told.Code == api.CodeNotFound {
		return nil // this gateway does not have it
	}
	return err
}

// start sees that the service has the radio that the new firmware is for.
func (b *Box) start(ctx context.Context, done Flashed) error {
	want := bridge
	if done.Mode == config.ModeOTBR {
		want = thread
	}
	st, err := b.status(ctx)
	if err != nil {
		return err
	}
	s := find(st, want)
	if s == nil {
		return nil // this gateway does not have it
	}
	if want == thread && !live(s.State) {
		if err := b.followMode(ctx); err != nil {
			return err
		}
	}
	for end := time.Now().Add(handOver); time.Now().Before(end); {
		if st, err = b.status(ctx); err != nil {
			return err
		}
		if st.Radio.Owner == want {
			b.Say(want + " has the radio")
			return nil
		}
		if s := find(st, want); s != nil && s.State == "failed" {
			break
		}
		if err := sleep(ctx, poll); err != nil {
			return err
		}
	}
	b.Say("the radio is flashed, and " + want + " does not have it yet: gwctl logs " + want + " may say why")
	return nil
}
