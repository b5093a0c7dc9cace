package flash

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/image"
	"gwinit/internal/gwctl/words"
	"gwinit/internal/mtdimage"
	"gwinit/internal/mtdimage/jffs2"
)

// Usage is what -h prints.
const Usage = `usage: gwctl [-H GATEWAY] flash [KIND] FILE [OPTIONS]
bring an image to a gateway through its bootloader

KIND is rootfs, userdata, kernel or full; without it FILE says what it is. The
gateway runs this firmware or today's (rtl8196e-gateway), or waits in its
loader already: then leave -H out. This computer has to be in the gateway's
own network.

  -n              make all checks, tell what would be done, and change nothing
  -loader ADDR    the address for the loader; a free one of the network is
                  taken without it, and 192.168.1.6 without -H
  -settings FILE  with userdata or full and without -H: put the settings of
                  this archive, which an earlier try has made, into the image
  -add-key        let this computer's key log in, if none can; else it asks
  -y              no question before it begins
  -force          go on where something could not be checked; never where a
                  check found a fault

Settings and keys are saved to a file here first, and a flash of userdata or
full keeps them. While the flash is written a power cut leaves a gateway that
starts no more by itself: docs/recover.md then.
`

// Env is what flash works with.
type Env struct {
	Name string // of the gateway, for people; "" without one
	// Dial logs in to the gateway; nil: there is none, only a waiting loader.
	Dial func(ctx context.Context) (Box, error)
	// Yes asks the person, or fails if there is nobody.
	Yes func(question string) (bool, error)
	// Keys are this computer's public keys, lines of authorized_keys.
	Keys func() []string
	Out  io.Writer // what was done
	Err  io.Writer // progress

	// For tests; zero is the default.
	Times  Times
	Waits  Waits
	InUse  func(context.Context, netip.Addr) bool
	Listen func(port int) (net.PacketConn, error)
}

// Waits bound the steps. Zero is the default.
type Waits struct {
	Loader   time.Duration // reboot until the loader answers: 90 s (ours takes up to 15 s to stop)
	Firewall time.Duration // of silence of a loader that is there: 40 s (after a transfer that broke off it answers nothing for 20 s)
	Verdict  time.Duration // by size: 60 s, and 17 s a MiB (61 s for 16 MiB were measured)
	Back     time.Duration // reset until the gateway lets log in: 6 min (a first boot makes keys and mounts a full flash)
	Every    time.Duration // between two tries to log in: 3 s
}

func (w Waits) or(size int) Waits {
	return Waits{
		cmp.Or(w.Loader, 90*time.Second), cmp.Or(w.Firewall, 40*time.Second),
		cmp.Or(w.Verdict, 60*time.Second+17*time.Second*time.Duration(size>>20)),
		cmp.Or(w.Back, 6*time.Minute), cmp.Or(w.Every, 3*time.Second),
	}
}

// Run carries the command out.
func Run(ctx context.Context, e Env, args []string) error {
	r := &run{Env: e}
	if err := r.options(args); err != nil {
		return err
	}
	if r.InUse == nil {
		r.InUse = inUse
	}
	if r.Listen == nil {
		r.Listen = func(port int) (net.PacketConn, error) {
			return net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
		}
	}
	return r.all(ctx)
}

// kinds are what can be flashed.
var kinds = []string{"rootfs", "userdata", "kernel", "full"}

// run is one run.
type run struct {
	Env
	kind, path     string
	dry, yes       bool
	force, addKey  bool
	loaderText     string
	settingsPath   string
	settingsSaved  string // what this run has saved
	file           image.File
	raw            []byte
	send           []byte // what is uploaded
	settings       []jffs2.File
	f              facts
	loader         netip.Addr
	tftp, notice   net.PacketConn
	flashedVersion string
}

func (r *run) options(args []string) error {
	fs := flag.NewFlagSet("gwctl flash", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&r.dry, "n", false, "")
	fs.BoolVar(&r.yes, "y", false, "")
	fs.BoolVar(&r.force, "force", false, "")
	fs.BoolVar(&r.addKey, "add-key", false, "")
	fs.StringVar(&r.loaderText, "loader", "", "")
	fs.StringVar(&r.settingsPath, "settings", "", "")
	given, err := words.Parse(fs, args)
	if err != nil {
		return err
	}
	switch len(given) {
	case 1:
		r.path = given[0]
	case 2:
		if r.kind, r.path = given[0], given[1]; !slices.Contains(kinds, r.kind) {
			return applet.Usagef("flash takes rootfs, userdata, kernel or full, and not %q", r.kind)
		}
	default:
		return applet.Usagef("flash takes a file")
	}
	if r.loaderText != "" {
		a, err := netip.ParseAddr(r.loaderText)
		if err != nil || !a.Is4() {
			return applet.Usagef("-loader takes an IPv4 address, and not %q", r.loaderText)
		}
		r.loader = a
	}
	if r.settingsPath != "" && r.Dial != nil {
		return applet.Usagef("-settings is for a gateway that waits in its loader: with -H its own are taken")
	}
	return nil
}

func (r *run) say(format string, a ...any) { fmt.Fprintf(r.Out, format+"\n", a...) }

// untouched says so behind an error of a check.
func untouched(err error) error { return fmt.Errorf("%w\nNothing was changed", err) }

func (r *run) all(ctx context.Context) error {
	if err := r.image(); err != nil {
		return untouched(err)
	}
	var box Box
	if r.Dial != nil {
		var err error
		if box, err = r.Dial(ctx); err != nil {
			return untouched(fmt.Errorf("%w%s", err, r.ifItWaits(ctx)))
		}
		defer func() { box.Close() }()
		if err := r.gateway(ctx, box); err != nil {
			return untouched(err)
		}
	} else if err := r.alone(); err != nil {
		return untouched(err)
	}
	if err := r.compose(); err != nil {
		return untouched(err)
	}
	if err := r.ports(ctx, box); err != nil {
		return untouched(err)
	}
	defer r.tftp.Close()
	defer r.notice.Close()
	if r.dry {
		r.plan()
		return nil
	}
	if err := r.confirm(); err != nil {
		return untouched(err)
	}
	if box != nil {
		if err := r.enterLoader(ctx, box); err != nil {
			return err
		}
	}
	if err := r.upload(ctx); err != nil {
		return err
	}
	return r.verdict(ctx)
}

// image reads the file and checks it.
func (r *run) image() (err error) {
	if r.raw, err = image.Read(r.path); err != nil {
		return err
	}
	r.file = image.Look(r.raw)
	// A copy of a flash lacks the trailer only, which is added.
	if r.file.Full && r.file.Trailer == mtdimage.TrailerBlank && errors.Is(r.file.Refused, mtdimage.ErrTrailer) {
		r.file.Refused = nil
	}
	if err := r.file.Check(); err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	is := "full"
	if !r.file.Full {
		if len(r.file.Parts) != 1 {
			return fmt.Errorf("%s holds %d images: flash takes one at a time, or a full image; gwctl image extract takes it apart", r.path, len(r.file.Parts))
		}
		is = r.file.Parts[0].Area.Name
	}
	switch {
	case !slices.Contains(kinds, is):
		return fmt.Errorf("%s is for %s: it is flashed as a part of a full image only (make fullflash), since a wrong one cannot be mended without a programmer", r.path, is)
	case r.kind != "" && r.kind != is:
		return fmt.Errorf("%s is for %s and not for %s", r.path, is, r.kind)
	}
	r.kind = is
	if p, ok := r.file.Part(mtdimage.Rootfs); ok {
		if p.Firmware == image.Foreign && !r.force {
			return fmt.Errorf("%s: its rootfs is neither this firmware's nor today's; -force flashes it", r.path)
		}
		r.flashedVersion = p.Version
	}
	return nil
}

// gateway asks the gateway, and checks that the image is for it.
func (r *run) gateway(ctx context.Context, box Box) (err error) {
	if r.f, err = ask(ctx, box); err != nil {
		return err
	}
	f := r.f
	switch f.firmware {
	case image.Ours:
		r.say("%s runs gwinit %s, kernel %s", r.Name, f.version, f.kernel)
	case image.Todays:
		r.say("%s runs today's firmware %s, kernel %s", r.Name, f.version, f.kernel)
	default:
		return fmt.Errorf("%s runs neither this firmware nor rtl8196e-gateway; for the maker's own see gwctl install", r.Name)
	}
	if f.board.ID == "" {
		return fmt.Errorf("it is no gateway that these images are for: its model is %q", f.model)
	}
	r.say("board: %s (%s)", f.board.ID, f.model)
	if err := f.checkFlash(); err != nil {
		return err
	}
	if err := r.board(f.board.ID); err != nil {
		return err
	}
	if !box.Addr().Is4() {
		return fmt.Errorf("name %s by its IPv4 address (gwctl discover tells it): a loader knows no IPv6, and its network is the one that counts", r.Name)
	}
	l, err := linkTo(box.Addr())
	if err != nil {
		return err
	}
	if err := r.pickLoader(ctx, l, box.Addr()); err != nil {
		return err
	}
	archive, err := Settings(ctx, box)
	if err != nil {
		return err
	}
	if err := r.login(ctx, box, &archive); err != nil {
		return err
	}
	if r.settings, err = readSettings(archive); err != nil {
		return err
	}
	if len(archive) == 0 {
		r.say("settings: it has none")
		return nil
	}
	if r.dry {
		r.say("settings: %d files, which would be saved here first", len(r.settings))
		return nil
	}
	return r.save(archive)
}

// board refuses an image of another one.
func (r *run) board(id string) error {
	p, ok := r.file.Part(mtdimage.Kernel)
	switch {
	case !ok || p.Board == id:
		return nil
	case p.Board != "":
		return fmt.Errorf("%s: its kernel is for %s, and this is a %s: it would not start", r.path, p.Board, id)
	case !r.force:
		return fmt.Errorf("%s: it cannot be seen which board its kernel is for, and one for another does not start; if you know that it is for a %s, -force flashes it", r.path, id)
	}
	return nil
}

func (r *run) pickLoader(ctx context.Context, l link, gateway netip.Addr) (err error) {
	if !r.loader.IsValid() {
		r.loader, err = l.freeAddr(ctx, gateway, r.InUse)
		return err
	}
	if err := l.checkLoaderAddr(r.loader); err != nil {
		return err
	}
	switch {
	case r.loader == gateway:
		return fmt.Errorf("-loader %s is the gateway's own: computers here would go on sending to its old hardware address; take another", r.loader)
	case r.InUse(ctx, r.loader):
		return fmt.Errorf("somebody has the address %s already; name another with -loader", r.loader)
	}
	return nil
}

// save keeps the settings in a file.
func (r *run) save(archive []byte) error {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '-'
	}, r.Name)
	path := "gateway-settings-" + name + "-" + time.Now().Format("20060102-150405") + ".tar"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(archive)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	back, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(back, archive) {
		return fmt.Errorf("%s does not hold what was written: %w", path, err)
	}
	r.settingsSaved = path
	r.say("settings: %d files, saved as %s (it holds keys: keep it to yourself)", len(r.settings), path)
	return nil
}

// login makes sure that somebody can log in afterwards.
func (r *run) login(ctx context.Context, box Box, archive *[]byte) error {
	root, ok := r.file.Part(mtdimage.Rootfs)
	ours := ok && root.Firmware == image.Ours || !ok && r.f.firmware == image.Ours
	if ours && r.f.firmware != image.Ours && r.kind != "kernel" {
		if len(r.f.scripts) > 0 {
			r.say("NOT STARTED ANY MORE: your own scripts in /userdata/etc/init.d: %s. This firmware runs no scripts of that folder", strings.Join(r.f.scripts, ", "))
		}
	}
	if (r.kind == "userdata" || r.kind == "full") && len(r.f.extra) > 0 {
		r.say("LOST: what is in /userdata/%s; settings, SSH and Thread files are kept", strings.Join(r.f.extra, ", /userdata/"))
	}
	if r.kind == "kernel" || !ours {
		return nil // nothing changes, or today's firmware lets in whom it let in
	}
	if len(root.Keys) > 0 {
		r.say("login afterwards: %d keys in the image", len(root.Keys))
		return nil
	}
	files, err := readSettings(*archive)
	if err != nil {
		return err
	}
	mine := r.mine()
	kept := keysIn(files)
	for _, k := range kept {
		if slices.ContainsFunc(mine, func(m ssh.PublicKey) bool { return bytes.Equal(m.Marshal(), k.Marshal()) }) {
			r.say("login afterwards: with a key of this computer")
			return nil
		}
	}
	if len(kept) > 0 {
		r.say("login afterwards: with one of %d keys in /userdata/ssh/authorized_keys; none of them is this computer's", len(kept))
		if len(mine) == 0 || !r.addKey {
			return nil
		}
	}
	const how = "this firmware knows no default password, and no key would let anybody in afterwards: "
	if len(mine) == 0 {
		return errors.New(how + "this computer has no key either: ssh-keygen -t ed25519 makes one, then try again")
	}
	lines := r.Keys()
	line := strings.TrimSpace(lines[slices.IndexFunc(lines, func(s string) bool { k, _ := image.Keys([]byte(s)); return len(k) > 0 })])
	add := r.addKey
	if !add && r.dry {
		return errors.New(how + "-add-key lets this computer's in: " + line)
	}
	if !add {
		if add, err = r.Yes("This firmware knows no default password, and no key would let anybody in afterwards. Let this computer's key log in to " + r.Name + "?\n" + line + "\n"); err != nil {
			return fmt.Errorf("%s%w; -add-key is a yes", how, err)
		}
	}
	if !add {
		return errors.New(how + "put one into /userdata/ssh/authorized_keys, or into the image (make image SSH_KEY=FILE)")
	}
	if r.dry {
		r.say("login afterwards: this computer's key would be added")
		return nil
	}
	// A file that ends without a new line must not swallow the key.
	const append = `mkdir -p /userdata/ssh && chmod 700 /userdata/ssh && { [ ! -s /userdata/ssh/authorized_keys ] || echo; cat; } >>/userdata/ssh/authorized_keys && chmod 600 /userdata/ssh/authorized_keys && sync`
	if err := box.Run(ctx, append, strings.NewReader(line+"\n"), io.Discard); err != nil {
		return fmt.Errorf("add the key on the gateway: %w", err)
	}
	if *archive, err = Settings(ctx, box); err != nil {
		return err
	}
	if files, err = readSettings(*archive); err != nil {
		return err
	}
	if len(keysIn(files)) == 0 {
		return errors.New("the key was added, and is not in the gateway's /userdata/ssh/authorized_keys: is /userdata full?")
	}
	r.say("login afterwards: this computer's key was added to /userdata/ssh/authorized_keys")
	return nil
}

// mine are this computer's keys.
func (r *run) mine() (all []ssh.PublicKey) {
	if r.Keys != nil {
		for _, line := range r.Keys() {
			keys, _ := image.Keys([]byte(line))
			all = append(all, keys...)
		}
	}
	return all
}

// alone checks what can be checked without a login.
func (r *run) alone() error {
	if !r.loader.IsValid() {
		r.loader = netip.AddrFrom4([4]byte{192, 168, 1, 6}) // a loader's own
	}
	l, err := linkTo(r.loader)
	if err != nil {
		return err
	}
	if err := l.checkLoaderAddr(r.loader); err != nil {
		return err
	}
	if r.settingsPath != "" {
		b, err := os.ReadFile(r.settingsPath)
		if err == nil {
			r.settings, err = readSettings(b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.settingsPath, err)
		}
	}
	if err := r.unseen(); err != nil && !r.force {
		return fmt.Errorf("%w. -force flashes it all the same", err)
	}
	return nil
}

// unseen is what a loader cannot be asked.
func (r *run) unseen() error {
	if p, ok := r.file.Part(mtdimage.Kernel); ok {
		return fmt.Errorf("a loader cannot be asked what board it is on: %s must be for it (%s)", r.path, cmp.Or(p.Board, "which one it is for cannot be seen"))
	}
	root, isRoot := r.file.Part(mtdimage.Rootfs)
	data, isData := r.file.Part(mtdimage.Userdata)
	switch {
	case isRoot && (root.Firmware != image.Ours || len(root.Keys) > 0):
	case isRoot:
		return fmt.Errorf("whether a key in the gateway's /userdata lets you log in cannot be seen from here, and %s has none (make image SSH_KEY=FILE)", r.path)
	case isData && len(data.Keys) == 0 && len(keysIn(r.settings)) == 0:
		return fmt.Errorf("neither %s nor -settings has a key that lets you log in afterwards", r.path)
	}
	return nil
}

// compose makes what is sent: the file, with the settings that it would lose.
func (r *run) compose() error {
	r.send = r.raw
	if r.kind != "userdata" && r.kind != "full" {
		return nil
	}
	b := bytes.Clone(r.raw)
	at := mtdimage.HeaderLen
	if r.file.Full {
		at = int(mtdimage.Userdata.Offset)
	}
	if len(b) < at+mtdimage.UserdataSize || r.file.Full && r.file.Trailer == mtdimage.TrailerWrong {
		return fmt.Errorf("%s: userdata does not fill its partition: today's loader leaves what is behind it, and JFFS2 would find old files there", r.path)
	}
	area := b[at : at+mtdimage.UserdataSize-2]
	if len(r.settings) > 0 {
		if err := jffs2.Add(area, r.settings, uint32(time.Now().Unix())); err != nil {
			return fmt.Errorf("put the settings into %s: %w", r.path, err)
		}
	}
	if r.file.Full {
		mtdimage.Seal(b)
	} else {
		b = mtdimage.Wrap(*r.file.Parts[0].Header, area)
	}
	r.send = b
	after := image.Look(b)
	if err := after.Check(); err != nil {
		return fmt.Errorf("%s with the settings in it: %w", r.path, err)
	}
	have := map[string][]byte{}
	p, _ := after.Part(mtdimage.Userdata)
	for _, f := range p.JFFS2.Files {
		have[f.Name] = f.Data
	}
	for _, f := range r.settings {
		if f.Regular() && !bytes.Equal(have[f.Name], f.Data) {
			return fmt.Errorf("put the settings into %s: %s is not there afterwards", r.path, f.Name)
		}
	}
	return nil
}

// ports opens the sockets, and looks whether this computer's firewall lets in what
// a loader sends.
func (r *run) ports(ctx context.Context, box Box) (err error) {
	if r.notice, err = r.Listen(noticePort); err != nil {
		return fmt.Errorf("UDP port %d, where the loader tells how it went: %w. Is another flash under way on this computer?", noticePort, err)
	}
	if r.tftp, err = r.Listen(sourcePort); err != nil {
		r.notice.Close()
		return fmt.Errorf("UDP port %d, which the upload comes from: %w. Is another flash under way on this computer?", sourcePort, err)
	}
	if box == nil || !r.f.tools["nc"] || r.firewallOpen(ctx, box) || r.force {
		return nil
	}
	r.notice.Close()
	r.tftp.Close()
	return fmt.Errorf("datagrams of the gateway do not arrive here: %s. -force goes on all the same", firewallAdvice)
}

const firewallAdvice = "this computer's firewall seems to keep out what a loader sends (UDP from ports 2098 and up to port 50069, and to port 9999). Windows: allow gwctl.exe in private networks (Windows Security, Firewall, Allow an app), and let the network be a private one; Linux: ufw allow from GATEWAY proto udp, or the like; macOS: allow incoming connections for gwctl"

// firewallOpen has the gateway send datagrams from a port that nobody here has
// talked to, as a loader does. A gateway whose nc cannot do it proves nothing.
func (r *run) firewallOpen(ctx context.Context, box Box) bool {
	l, err := linkTo(box.Addr())
	if err != nil {
		return true
	}
	const text = "gwctl-flash"
	cmd := fmt.Sprintf("for i in 1 2 3; do echo %s | nc -u -w 1 %s %d; done", text, l.local, noticePort)
	sent := make(chan error, 1)
	sctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	go func() { sent <- box.Run(sctx, cmd, nil, io.Discard) }()
	end := time.Now().Add(8 * time.Second)
	buf := make([]byte, 100)
	for time.Now().Before(end) && ctx.Err() == nil {
		_ = r.notice.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		n, _, err := r.notice.ReadFrom(buf)
		if err == nil && strings.TrimSpace(string(buf[:n])) == text {
			cancel()
			<-sent
			return true
		}
	}
	cancel()
	return <-sent != nil // it could not send
}

// plan is what -n prints.
func (r *run) plan() {
	if r.Dial != nil {
		r.say("Would: have %s restart into its loader at %s, send %d bytes (%s), wait until they are written, and for the gateway to come back.", r.Name, r.loader, len(r.send), r.what())
	} else {
		r.say("Would: send %d bytes (%s) to the loader at %s.", len(r.send), r.what(), r.loader)
	}
	r.say("Nothing was changed.")
}

func (r *run) what() string {
	var all []string
	for _, p := range r.file.Parts {
		all = append(all, p.Title())
	}
	return strings.Join(all, ", ")
}

func (r *run) confirm() error {
	took := map[string]string{"rootfs": "half a minute", "kernel": "half a minute", "userdata": "one to two minutes", "full": "two minutes"}[r.kind]
	risk := "A power cut while it is written leaves a gateway that starts no more by itself; it can be flashed again with a serial console (docs/recover.md)."
	switch r.kind {
	case "userdata":
		risk = "A power cut while it is written loses the settings on the gateway."
	case "full":
		risk = "A power cut while it is written may leave a gateway that needs a programmer."
	}
	r.say("%s: %s, to the loader at %s. It takes about %s. %s", r.path, r.what(), r.loader, took, risk)
	if r.yes {
		return nil
	}
	ok, err := r.Yes("Go on?")
	switch {
	case err != nil:
		return fmt.Errorf("%w; -y is a yes", err)
	case !ok:
		return errors.New("it was not wanted")
	}
	return nil
}

// again is the command line that goes on where this one ended.
func (r *run) again() string {
	s := "gwctl flash " + r.kind + " " + r.path + " -loader " + r.loader.String()
	if r.settingsSaved != "" && (r.kind == "userdata" || r.kind == "full") {
		s += " -settings " + r.settingsSaved
	}
	if r.settingsPath != "" {
		s += " -settings " + r.settingsPath
	}
	if r.Dial != nil && r.unseen() != nil {
		s += " -force" // what a login has shown
	}
	return s
}

// ifItWaits is what to do when a gateway lets nobody log in.
func (r *run) ifItWaits(ctx context.Context) string {
	if !r.loader.IsValid() {
		return "\nIf it waits in its loader already, flash without -H"
	}
	if r.InUse(ctx, r.loader) {
		return "\nSomebody answers at " + r.loader.String() + ": if that is its loader, go on with: " + r.again()
	}
	return "\nNobody answers at " + r.loader.String() + " either"
}
