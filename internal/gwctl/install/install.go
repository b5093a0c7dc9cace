// Package install is gwctl's subcommand install: the first flash of a gateway, for
// somebody who has never flashed one. It tells what is needed, makes a copy of the
// whole flash, by the SSH of today's firmware or by the loader's serial console, and
// writes a full image by that console, and never before such a copy was verified.
// Only cmd/gwctl has it.
package install

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.bug.st/serial"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/bounded"
	"gwinit/internal/gwctl/flash"
	"gwinit/internal/gwctl/image"
	"gwinit/internal/gwctl/words"
	"gwinit/internal/mtdimage"
)

// Usage is what -h prints.
const Usage = `usage: gwctl [-H GATEWAY] install [VERB] [OPTIONS]
the first flash of a gateway, step by step

  install               what is needed, the wiring, the steps; touches nothing
  -H GATEWAY install backup FILE
                        copy all 16 MiB of a gateway with today's firmware
  install backup FILE -serial PORT
                        the same by the loader's console, of any firmware
  install write IMAGE -backup FILE -serial PORT
                        write a full image by the loader's console; FILE is a
                        copy that backup has made and verified

  -serial PORT   the USB adapter: /dev/ttyUSB0, /dev/cu.usbserial-..., COM3
  -loader ADDR   a free address of this computer's network for the loader
                 (192.168.1.6)
  -y             no question before it writes
  -force         write though the flash's loader is neither that of the copy nor
                 that of IMAGE: after a write that was interrupted
`

const guide = `The first flash of a gateway

You need the gateway, a network cable, a computer in the same network, and for
the maker's own firmware a USB adapter for a serial line of 3.3 V (not 5 V).

A. The gateway runs today's firmware (rtl8196e-gateway): no soldering.
   1. gwctl -H GATEWAY install backup flash-backup.bin
   2. gwctl -H GATEWAY flash -n build/rootfs.bin   (all checks, changes nothing)
   3. gwctl -H GATEWAY flash build/rootfs.bin
   4. gwctl -H GATEWAY doctor

B. It runs the maker's own firmware, or nothing at all.
   1. Open it. Header J1, from pin 1: VCC (leave it open), GND, TX of the
      gateway (to RX of the adapter), RX of the gateway (to TX).
   2. gwctl install backup flash-backup.bin -serial PORT -loader FREE-ADDRESS
      and switch the gateway on when it says so.
   3. make fullflash BOOT=FILE KERNEL=FILE: loader and kernel for YOUR board,
      of rtl8196e-gateway's release. One for another board does not start.
   4. gwctl install write build/fullflash.bin -backup flash-backup.bin \
        -serial PORT -loader FREE-ADDRESS
   5. gwctl discover, and gwctl -H GATEWAY setup with the code on the console.

Keep flash-backup.bin: it is the only way back to what was there. docs/install.md
tells more, docs/recover.md what to do if something went wrong.
`

// Env is what install works with.
type Env struct {
	Name string
	Dial func(ctx context.Context) (flash.Box, error) // nil: no gateway was named
	Yes  func(question string) (bool, error)
	Out  io.Writer

	// For tests; nil is the default.
	OpenSerial func(name string) (io.ReadWriteCloser, error)
	Catch      time.Duration // how long a prompt is waited for: 3 min
	Times      flash.Times
}

// run is one run.
type run struct {
	Env
	serialName string
	loader     netip.Addr
	backup     string
	yes, force bool
}

// Run carries the command out.
func Run(ctx context.Context, e Env, args []string) error {
	r := &run{Env: e}
	if r.OpenSerial == nil {
		r.OpenSerial = openSerial
	}
	if r.Catch == 0 {
		r.Catch = 3 * time.Minute
	}
	f := flag.NewFlagSet("gwctl install", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&r.serialName, "serial", "", "")
	f.StringVar(&r.backup, "backup", "", "")
	f.BoolVar(&r.yes, "y", false, "")
	f.BoolVar(&r.force, "force", false, "")
	addr := f.String("loader", "192.168.1.6", "")
	given, err := words.Parse(f, args)
	if err != nil {
		return err
	}
	if r.loader, err = netip.ParseAddr(*addr); err != nil || !r.loader.Is4() {
		return applet.Usagef("-loader takes an IPv4 address, and not %q", *addr)
	}
	switch {
	case len(given) == 0:
		return r.guide()
	case len(given) == 2 && given[0] == "backup" && r.Dial != nil:
		return r.save(ctx, given[1], r.bySSH)
	case len(given) == 2 && given[0] == "backup" && r.serialName != "":
		return r.save(ctx, given[1], r.bySerial)
	case len(given) == 2 && given[0] == "backup":
		return applet.Usagef("backup needs -H GATEWAY, or -serial PORT")
	case len(given) == 2 && given[0] == "write" && (r.serialName == "" || r.backup == ""):
		return applet.Usagef("write needs -serial PORT and -backup FILE, a copy of this gateway's flash")
	case len(given) == 2 && given[0] == "write":
		return r.write(ctx, given[1])
	}
	return applet.Usagef("install takes backup FILE, write IMAGE or nothing")
}

func (r *run) say(format string, a ...any) { fmt.Fprintf(r.Out, format+"\n", a...) }

func (r *run) guide() error {
	if _, err := io.WriteString(r.Out, guide); err != nil {
		return err
	}
	ports, err := serial.GetPortsList()
	if err != nil || len(ports) == 0 {
		r.say("\nNo serial adapter is plugged into this computer.")
		return nil
	}
	r.say("\nSerial ports of this computer: %s", strings.Join(ports, ", "))
	return nil
}

func openSerial(name string) (io.ReadWriteCloser, error) {
	p, err := serial.Open(name, &serial.Mode{BaudRate: baud, DataBits: 8})
	if err != nil {
		ports, _ := serial.GetPortsList()
		return nil, fmt.Errorf("serial port %s: %w; there are: %s", name, err, strings.Join(ports, ", "))
	}
	return p, nil
}

// save makes a copy of the flash, verifies it and keeps it with its checksum.
func (r *run) save(ctx context.Context, path string, read func(context.Context) ([]byte, error)) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s is there already: a copy of a flash is not overwritten", path)
	}
	b, err := read(ctx)
	if err != nil {
		return fmt.Errorf("%w.\nNothing was written to the gateway, and no copy was kept", err)
	}
	if err := plausible(b); err != nil {
		return fmt.Errorf("what was read is no flash of such a gateway: %w", err)
	}
	sum := sha256.Sum256(b)
	for name, data := range map[string][]byte{path: b, path + ".sha256": fmt.Appendf(nil, "%x  %s\n", sum, filepath.Base(path))} {
		if err := writeNew(name, data); err != nil {
			return err
		}
	}
	if err := checkBackup(path); err != nil {
		return err
	}
	r.say("%s: %d bytes, read twice and compared. Its checksum is in %s.sha256; keep both, and a copy elsewhere: settings and keys are in it, and it is the only way back", path, len(b), path)
	if mtdimage.LooksFull(b) {
		r.say("%s", strings.TrimSpace(image.Look(b).Words()))
	} else {
		r.say("It is not laid out as rtl8196e-gateway is: the maker's own firmware")
	}
	return nil
}

func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already", name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// plausible tells whether it can be a flash: a loader at its start, and more in it.
func plausible(b []byte) error {
	switch {
	case len(b) != mtdimage.FlashSize:
		return fmt.Errorf("it has %d bytes and not %d", len(b), mtdimage.FlashSize)
	case bytes.Count(b[:4096], b[:1]) == 4096:
		return errors.New("it begins with nothing but one value: the flash was not read")
	case bytes.Count(b[0x20000:], []byte{0xFF}) == len(b)-0x20000:
		return errors.New("behind the loader it is empty")
	case bytes.Equal(b[:8<<20], b[8<<20:]):
		return errors.New("its halves are the same: one half of the flash was read twice")
	}
	return nil
}

// checkBackup reads a copy back, with its checksum.
func checkBackup(path string) error {
	b, err := image.Read(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path + ".sha256")
	if err != nil {
		return fmt.Errorf("the copy's checksum: %w; install backup writes it", err)
	}
	want, _, _ := strings.Cut(string(text), " ")
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want {
		return fmt.Errorf("%s is not what was read from the gateway: its checksum is another", path)
	}
	return plausible(b)
}

// bySSH reads the partitions by a login.
func (r *run) bySSH(ctx context.Context) ([]byte, error) {
	box, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	read := func(n int, size uint32) ([]byte, error) {
		out := &bounded.Buffer{Max: int(size), Strict: true}
		if err := box.Run(ctx, fmt.Sprintf("cat /dev/mtd%d", n), nil, out); err != nil {
			return nil, fmt.Errorf("mtd%d of the gateway: %w", n, err)
		}
		if out.Len() != int(size) {
			return nil, fmt.Errorf("mtd%d of the gateway has %d bytes and not %d: another layout; use -serial", n, out.Len(), size)
		}
		return out.Bytes(), nil
	}
	var whole []byte
	for n, a := range mtdimage.Areas() {
		r.say("reading mtd%d (%s)", n, a.Name)
		b, err := read(n, a.Size)
		if err != nil {
			return nil, err
		}
		again := b
		if a == mtdimage.Userdata {
			// It is in use, and may change between: what it is made of tells.
			f := image.Look(mtdimage.Wrap(mtdimage.UserdataHeader, b[:len(b)-2]))
			if p, ok := f.Part(a); !ok || p.JFFS2 == nil {
				return nil, errors.New("mtd3 of the gateway is no JFFS2")
			}
		} else if again, err = read(n, a.Size); err != nil {
			return nil, err
		}
		if !bytes.Equal(b, again) {
			return nil, fmt.Errorf("mtd%d of the gateway reads differently the second time", n)
		}
		whole = append(whole, b...)
	}
	return whole, nil
}

// loaderConsole is a loader at its prompt, and a TFTP client for it.
func (r *run) loaderConsole(ctx context.Context) (c *console, t *flash.Client, done func(), err error) {
	port, err := r.OpenSerial(r.serialName)
	if err != nil {
		return nil, nil, nil, err
	}
	c = newConsole(port)
	done = func() {
		c.close()
		port.Close()
	}
	conn, err := net.ListenPacket("udp4", ":0")
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	end := done
	done = func() {
		conn.Close()
		end()
	}
	r.say("Switch the gateway off and on now; waiting for its loader on %s", r.serialName)
	if err := c.catch(ctx, r.Catch, func() { r.say("(still waiting)") }); err != nil {
		done()
		return nil, nil, nil, err
	}
	r.say("the loader is there")
	if err := c.setIP(ctx, r.loader); err != nil {
		done()
		return nil, nil, nil, err
	}
	return c, flash.NewClient(conn, r.loader, r.Times), done, nil
}

// answerWithin is how long a loader at its prompt may take to answer TFTP.
const answerWithin = 20 * time.Second

// errNotRead: what a download brought is not from the flash.
var errNotRead = errors.New("the loader did not read its flash (FLR); switch the gateway off and on and try again")

// readFlash reads the whole flash by the console and TFTP. What is in the loader's
// RAM before is overwritten by a mark, so that it cannot be taken for the flash.
func (r *run) readFlash(ctx context.Context, c *console, t *flash.Client) ([]byte, error) {
	reach := func(err error) error {
		if errors.Is(err, flash.ErrNoAnswer) {
			return fmt.Errorf("%w: is there a network cable, is %s in this computer's network, and does its firewall let in UDP?", err, r.loader)
		}
		return err
	}
	if _, err := c.command(ctx, "AUTOBURN 0", 5*time.Second); err != nil {
		return nil, err
	}
	mark := make([]byte, 64)
	_, _ = rand.Read(mark) // never fails
	if err := t.Put(ctx, mark, answerWithin, func(int) {}); err != nil {
		return nil, reach(err)
	}
	said, err := c.read(ctx, 0, mtdimage.FlashSize)
	if err != nil {
		return nil, err
	}
	b, err := t.Get(ctx, mtdimage.FlashSize, answerWithin, func(int) {})
	if errors.Is(err, flash.ErrLength) || bytes.HasPrefix(b, mark) {
		return nil, fmt.Errorf("%w. It said %q", errNotRead, said)
	}
	return b, reach(err)
}

func (r *run) bySerial(ctx context.Context) ([]byte, error) {
	c, t, done, err := r.loaderConsole(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r.say("reading the flash")
	b, err := r.readFlash(ctx, c, t)
	if err != nil {
		return nil, err
	}
	r.say("reading it again")
	again, err := r.readFlash(ctx, c, t)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(b, again) {
		return nil, errors.New("the flash reads differently the second time")
	}
	return b, nil
}

// write writes a full image by the console: what is in RAM is read back before,
// and what is in the flash afterwards.
func (r *run) write(ctx context.Context, path string) error {
	nothing := func(err error) error { return fmt.Errorf("%w.\nNothing was written to the gateway", err) }
	b, err := image.Read(path)
	if err != nil {
		return nothing(err)
	}
	f := image.Look(b)
	// The console's way needs no trailer, so that a copy of a flash can go back.
	if f.Full && errors.Is(f.Refused, mtdimage.ErrTrailer) && f.Trailer == mtdimage.TrailerBlank {
		f.Refused = nil
	}
	back := plausible(b) == nil && sameAsBackup(b, r.backup)
	if err := f.Check(); (err != nil || !f.Full) && !back {
		return nothing(errors.Join(fmt.Errorf("%s is no full image of 16 MiB, nor the copy itself", path), err))
	}
	if err := checkBackup(r.backup); err != nil {
		return nothing(fmt.Errorf("the copy of this gateway's flash: %w", err))
	}
	k, _ := f.Part(mtdimage.Kernel)
	if back {
		r.say("%s: the copy itself, the way back", path)
	} else {
		r.say("%s: %s", path, f.Words())
	}
	if !r.yes {
		ok, err := r.Yes(fmt.Sprintf("Loader and kernel in it must be for this very board (kernel: %s). A power cut in the next two minutes, or a loader for another board, leaves a gateway that needs a programmer. Write it?", orUnknown(k.Board)))
		if err != nil {
			return nothing(fmt.Errorf("%w; -y is a yes", err))
		}
		if !ok {
			return nothing(errors.New("it was not wanted"))
		}
	}
	c, t, done, err := r.loaderConsole(ctx)
	if err != nil {
		return nothing(err)
	}
	defer done()
	// Is it the gateway that the copy is of? What is never written tells.
	r.say("comparing the flash with the copy")
	now, err := r.readFlash(ctx, c, t)
	if err != nil {
		return nothing(err)
	}
	old, err := image.Read(r.backup)
	if err != nil {
		return nothing(err)
	}
	boot := func(b []byte) []byte { return b[:mtdimage.Boot.Size] }
	if !back && !r.force && !bytes.Equal(boot(now), boot(old)) && !bytes.Equal(boot(now), boot(b)) {
		return nothing(fmt.Errorf("%s is the copy of another gateway: its loader differs from this one's. If it is this one's, and an earlier write was interrupted, -force goes on", r.backup))
	}
	r.say("sending %d bytes", len(b))
	if err := t.Put(ctx, b, answerWithin, func(int) {}); err != nil {
		return nothing(err)
	}
	got, err := t.Get(ctx, len(b), answerWithin, func(int) {})
	if err != nil {
		return nothing(err)
	}
	if !bytes.Equal(got, b) {
		return nothing(errors.New("what the loader has in its memory is not what was sent"))
	}
	r.say("writing: DO NOT SWITCH THE GATEWAY OFF")
	damaged := func(err error) error {
		return fmt.Errorf("%w.\nTHE FLASH MAY BE HALF WRITTEN. Do not switch the gateway off: as long as the loader runs it can be written again by the same command, with the console as it is (docs/recover.md)", err)
	}
	if err := c.write(ctx, 0, len(b)); err != nil {
		return damaged(err)
	}
	r.say("reading it back")
	if got, err = r.readFlash(ctx, c, t); err != nil {
		return damaged(err)
	}
	if !bytes.Equal(got, b) {
		return damaged(errors.New("the flash holds something else than was written"))
	}
	r.say("written, and read back the same. Switch the gateway off and on (once off for 10 s: an old loader's first start may need it)")
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "for which board cannot be seen"
	}
	return "for " + s
}

// sameAsBackup tells whether an image is the copy itself: the way back.
func sameAsBackup(b []byte, path string) bool {
	old, err := image.Read(path)
	return err == nil && bytes.Equal(old, b)
}
