package flash

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"gwinit/board/rtl8196e"
	"gwinit/internal/gwctl/bounded"
	"gwinit/internal/gwctl/image"
	"gwinit/internal/mtdimage/jffs2"
)

// Box is a login on a gateway, of this firmware or of today's.
type Box interface {
	// Run carries a command line of the shell out.
	Run(ctx context.Context, command string, in io.Reader, out io.Writer) error
	Addr() netip.Addr // that the login is at
	Close() error
}

// facts are what is known of a running gateway.
type facts struct {
	firmware string // image.Ours, Todays or Foreign
	version  string // of the firmware, or "" if only uname tells
	kernel   string // uname -r
	model    string
	board    rtl8196e.Board // the zero value: neither of the two
	mtd      string
	keys     []ssh.PublicKey
	otherKey int      // lines that open no shell
	scripts  []string // of its /userdata/etc/init.d, that are the user's own
	extra    []string // names in /userdata that no flash of userdata keeps
	hold     *rtl8196e.Page
	tools    map[string]bool
}

// mark separates what ask's commands print. No file of a gateway holds it.
const mark = "=:gwctl:="

// question prints all facts by means that both firmwares' shells have.
const question = `say() { echo; echo "` + mark + `$1"; }
say model; cat /proc/device-tree/model
say mtd; cat /proc/mtd
say release; cat /etc/gw-release
say inittab; cat /etc/inittab
say uname; uname -r
say keys; cat /userdata/ssh/authorized_keys
say initd; ls -1 /userdata/etc/init.d
say userdata; ls -1 /userdata
say tools; for t in boothold devmem nc; do which $t; done
say hold; cat /proc/device-tree/reserved-memory/boothold@*/reg
say end`

// theirScripts are what today's firmware starts, in whatever version.
var theirScripts = []string{
	"S05syslog", "S10network", "S11leds", "S15hostname", "S20time", "S25watchdog", "S26panicrec", "S30dropbear", "S40button",
	"S50uart_bridge", "S60serialgateway", "S60wireguard", "S70otbr", "S80netwatch", "S90checkpasswd",
}

// ask asks a gateway for what is to be known before it is flashed.
func ask(ctx context.Context, box Box) (f facts, err error) {
	var out bytes.Buffer
	var exit *ssh.ExitError
	if err := box.Run(ctx, "("+question+") 2>/dev/null", nil, &out); err != nil && !errors.As(err, &exit) {
		return f, err
	}
	return parseFacts(out.String())
}

// parseFacts reads what question prints.
func parseFacts(text string) (f facts, err error) {
	parts := map[string]string{}
	for _, p := range strings.Split(text, "\n"+mark)[1:] {
		name, body, _ := strings.Cut(p, "\n")
		parts[name] = strings.TrimSuffix(body, "\n")
	}
	if _, ok := parts["end"]; !ok {
		return f, errors.New("the gateway's shell did not answer as a gateway's does")
	}
	f.model = plain(strings.TrimRight(parts["model"], "\x00\n "))
	f.kernel, f.mtd = plain(strings.TrimSpace(parts["uname"])), parts["mtd"]
	switch {
	case parts["release"] != "":
		f.firmware, f.version = image.Ours, plain(strings.TrimSpace(parts["release"]))
	case parts["inittab"] != "":
		f.firmware = image.Todays
		_, f.version, _ = strings.Cut(f.kernel, "-rtl8196e-")
	}
	for _, id := range []string{rtl8196e.Lidl, rtl8196e.Sengled} {
		if b, _ := rtl8196e.ByID(id); f.model == b.Model {
			f.board = b
		}
	}
	f.keys, f.otherKey = image.Keys([]byte(parts["keys"]))
	for name := range strings.SplitSeq(parts["initd"], "\n") {
		if len(name) > 2 && name[0] == 'S' && !slices.Contains(theirScripts, name) {
			f.scripts = append(f.scripts, plain(name))
		}
	}
	for name := range strings.SplitSeq(parts["userdata"], "\n") {
		if name != "" && !slices.Contains([]string{"etc", "ssh", "thread", "usr", "netwatch", "panic", "system"}, name) {
			f.extra = append(f.extra, plain(name))
		}
	}
	f.tools = map[string]bool{}
	for line := range strings.SplitSeq(parts["tools"], "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
			f.tools[path.Base(line)] = true
		}
	}
	if reg := parts["hold"]; len(reg) == 8 {
		p := rtl8196e.Page{Base: binary.BigEndian.Uint32([]byte(reg)), Bytes: binary.BigEndian.Uint32([]byte(reg[4:]))}
		if p.Bytes >= 16 && p.Base%4 == 0 && p.Bytes%4 == 0 && p.Top() > p.Base {
			f.hold = &p
		}
	}
	return f, nil
}

// checkFlash tells whether the flash is laid out as the images are.
func (f facts) checkFlash() error {
	for _, want := range []struct {
		label string
		size  int64
	}{{"linux", 0x1E0000}, {"rootfs", 0x200000}, {"jffs2-fs", 0xC00000}} {
		found := int64(-1)
		for line := range strings.Lines(f.mtd) {
			fields := strings.Fields(line)
			if len(fields) == 4 && fields[3] == strconv.Quote(want.label) {
				found, _ = strconv.ParseInt(fields[1], 16, 64)
			}
		}
		if found != want.size {
			return fmt.Errorf("its flash is laid out in another way (partition %s: %d bytes, not %d): an image would overwrite something else", want.label, found, want.size)
		}
	}
	return nil
}

// hold has the gateway's loader wait at the next start, on an address.
func hold(ctx context.Context, box Box, f facts, a netip.Addr) error {
	if f.tools["boothold"] {
		var out bytes.Buffer
		err := box.Run(ctx, "boothold "+a.String()+" 2>&1", nil, &out)
		if err == nil && strings.Contains(out.String(), "Boot hold set at") && !strings.Contains(out.String(), "ignoring") {
			return nil
		}
		if !f.tools["devmem"] {
			return fmt.Errorf("boothold on the gateway: %q, %w", plain(strings.TrimSpace(out.String())), errors.Join(err, errHold))
		}
	}
	if !f.tools["devmem"] {
		return fmt.Errorf("it has neither boothold nor devmem: %w", errHold)
	}
	page := f.hold
	if page == nil && f.board.ID != "" {
		page = &f.board.Boothold
	}
	if page == nil {
		return fmt.Errorf("neither its device tree nor its model says where its loader looks: %w", errHold)
	}
	b := a.As4()
	// HOLD comes last: before it nothing has been asked.
	for _, w := range []struct{ at, value uint32 }{
		{page.Top() - 12, binary.BigEndian.Uint32(b[:])},
		{page.Top() - 8, 0x49505634},
		{page.Top() - 4, 0x484F4C44},
	} {
		var out bytes.Buffer
		if err := box.Run(ctx, fmt.Sprintf("devmem 0x%08X 32 0x%08X && devmem 0x%08X 32", w.at, w.value, w.at), nil, &out); err != nil {
			return fmt.Errorf("devmem on the gateway: %w, %w", err, errHold)
		}
		got, err := strconv.ParseUint(strings.TrimSpace(out.String()), 0, 32)
		if err != nil || uint32(got) != w.value {
			return fmt.Errorf("devmem on the gateway: the word at 0x%08X reads %q: %w", w.at, plain(strings.TrimSpace(out.String())), errHold)
		}
	}
	return nil
}

// errHold: the gateway cannot be made to wait in its loader.
var errHold = errors.New("its loader cannot be asked to wait")

// limits of a settings archive.
const (
	maxArchive = 8 << 20
	maxEntries = 2000
)

// Settings returns an archive (tar) of the settings and keys on a gateway; none is
// there if the gateway has none.
func Settings(ctx context.Context, box Box) ([]byte, error) {
	out := bounded.Buffer{Max: maxArchive, Strict: true}
	err := box.Run(ctx, `cd /userdata && set --; for d in etc ssh thread; do [ ! -d $d ] || set -- "$@" $d; done; [ $# = 0 ] || tar cf - "$@"`, nil, &out)
	if err == nil {
		_, err = readSettings(out.Bytes())
	}
	if err != nil {
		return nil, fmt.Errorf("settings of the gateway: %w", err)
	}
	return out.Bytes(), nil
}

// dropped are files of etc that a firmware brings itself, or that are of the moment.
var dropped = []string{"etc/group", "etc/profile", "etc/version", "etc/motd", "etc/random-seed", "etc/clock"}

// readSettings reads an archive to its end and returns what goes into a new
// userdata image: settings and keys, not the scripts that a firmware brings.
func readSettings(archive []byte) (files []jffs2.File, err error) {
	if len(archive) == 0 {
		return nil, nil // the gateway has none
	}
	t := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if len(files) >= maxEntries {
			return nil, fmt.Errorf("more than %d files", maxEntries)
		}
		f := jffs2.File{Name: path.Clean(strings.TrimSuffix(h.Name, "/")), Mode: uint32(h.Mode) & 0o777, MTime: uint32(max(0, min(h.ModTime.Unix(), 1<<32-1)))}
		top, _, _ := strings.Cut(f.Name, "/")
		if !fs.ValidPath(f.Name) || !slices.Contains([]string{"etc", "ssh", "thread"}, top) {
			return nil, fmt.Errorf("%q is no settings file", plain(f.Name))
		}
		if slices.Contains(dropped, f.Name) || f.Name == "etc/init.d" || strings.HasPrefix(f.Name, "etc/init.d/") {
			continue
		}
		switch h.Typeflag {
		case tar.TypeReg:
			f.Mode |= 0o100000
			if f.Data, err = io.ReadAll(io.LimitReader(t, maxArchive)); err != nil {
				return nil, err
			}
		case tar.TypeDir:
			f.Mode |= 0o040000
		case tar.TypeSymlink:
			f.Mode |= 0o120000
			f.Data = []byte(h.Linkname)
		default:
			continue // a pipe or a device is no setting
		}
		files = append(files, f)
	}
}

// keysIn returns the keys that open a shell among settings.
func keysIn(files []jffs2.File) []ssh.PublicKey {
	for _, f := range files {
		if f.Name == "ssh/authorized_keys" {
			keys, _ := image.Keys(f.Data)
			return keys
		}
	}
	return nil
}
