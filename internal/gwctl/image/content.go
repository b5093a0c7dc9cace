// Package image is gwctl's subcommand image: it says what a firmware file is, in
// words, whether the gateway's loader takes it, and takes it apart. Only
// cmd/gwctl has it. Package flash asks it before anything is sent.
package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/ulikunitz/xz/lzma"
	"golang.org/x/crypto/ssh"

	"gwinit/board/rtl8196e"
	"gwinit/internal/mtdimage"
	"gwinit/internal/mtdimage/jffs2"
	"gwinit/internal/mtdimage/squashfs"
)

// Whose a root file system is.
const (
	Ours    = "gwinit"
	Todays  = "rtl8196e-gateway" // a system of BusyBox, as gateways have today
	Foreign = ""
)

// Part is one partition's content in a file.
type Part struct {
	Area   mtdimage.Area
	Header *mtdimage.Header // nil: in a full image without one
	Flash  []byte           // as it is written to the flash, from the partition's start
	// Problem is what is wrong with the content, beyond what the loader checks.
	Problem error

	Squashfs *squashfs.Info // of a rootfs
	Firmware string         // Ours, Todays or Foreign
	Version  string         // of the firmware, or of the kernel
	Keys     []ssh.PublicKey
	OtherKey int // lines of authorized_keys that let nobody get a shell

	Board string // that a kernel is for: rtl8196e's ID; "" if it cannot be seen

	JFFS2 *jffs2.Image // of userdata
}

// File is what is known of a file.
type File struct {
	Bytes   int
	Full    bool
	Trailer mtdimage.Trailer // of a full one
	Parts   []Part           // of what was read, also if the loader refuses it
	// Refused is why the loader does not take it, or nil.
	Refused error
}

// Part returns the part for an area.
func (f File) Part(a mtdimage.Area) (Part, bool) {
	for _, p := range f.Parts {
		if p.Area == a {
			return p, true
		}
	}
	return Part{}, false
}

// Look finds out what a file is.
func Look(b []byte) File {
	f := File{Bytes: len(b)}
	if len(b) == mtdimage.FlashSize && (mtdimage.LooksFull(b) || binary.BigEndian.Uint32(b) == 0x0BF00004) {
		f.Full = true
		f.Trailer = mtdimage.TrailerOf(b)
		_, f.Refused = mtdimage.CheckFull(b)
		for _, a := range mtdimage.Areas() {
			f.Parts = append(f.Parts, look(a, nil, b[a.Offset:a.End()]))
		}
		return f
	}
	all, err := mtdimage.Check(b)
	f.Refused = err
	for _, i := range all {
		f.Parts = append(f.Parts, look(i.Area, &i.Header, i.Flashed()))
	}
	return f
}

func look(a mtdimage.Area, h *mtdimage.Header, flash []byte) Part {
	p := Part{Area: a, Header: h, Flash: flash}
	switch a {
	case mtdimage.Boot:
		if w := binary.BigEndian.Uint32(flash); w != 0x0BF00004 {
			p.Problem = fmt.Errorf("it begins with %08x, and a loader of these boards with 0bf00004", w)
		}
	case mtdimage.Kernel:
		p.kernel()
	case mtdimage.Rootfs:
		p.rootfs()
	case mtdimage.Userdata:
		i, err := jffs2.Read(flash)
		if err != nil {
			p.Problem = err
			return p
		}
		p.JFFS2 = &i
		for _, f := range i.Files {
			if f.Name == "ssh/authorized_keys" {
				p.Keys, p.OtherKey = Keys(f.Data)
			}
		}
	}
	return p
}

// rootfs looks into a squashfs.
func (p *Part) rootfs() {
	fs, info, err := squashfs.Open(p.Flash)
	if err != nil {
		p.Problem = err
		return
	}
	p.Squashfs = &info
	if _, err := fs.ReadDir("/"); err != nil {
		p.Problem = err
		return
	}
	if b, err := fs.ReadFile("etc/gw-release"); err == nil {
		p.Firmware, p.Version = Ours, strings.TrimSpace(string(b))
	} else if _, err := fs.ReadFile("etc/inittab"); err == nil {
		p.Firmware = Todays
		if b, err := fs.ReadFile("etc/version"); err == nil {
			p.Version = strings.TrimSpace(string(b))
		}
	}
	if b, err := fs.ReadFile("etc/ssh/authorized_keys"); err == nil {
		p.Keys, p.OtherKey = Keys(b)
	}
}

// maxKernel bounds an unpacked kernel; it must fit a gateway's RAM.
const maxKernel = 64 << 20

var linuxVersion = regexp.MustCompile(`Linux version ([[:graph:]]{1,80})`)

// kernel unpacks a kernel: its version and its board's device tree are in it.
func (p *Part) kernel() {
	h, flash, err := mtdimage.Parse(p.Flash)
	if err != nil {
		p.Problem = err
		return
	}
	p.Header = &h
	plain := unpackKernel(flash)
	if m := linuxVersion.FindSubmatch(plain); m != nil {
		p.Version = string(m[1])
	}
	for _, id := range []string{rtl8196e.Lidl, rtl8196e.Sengled} {
		if b, _ := rtl8196e.ByID(id); bytes.Contains(plain, []byte(b.Model)) {
			if p.Board != "" {
				p.Board = "" // both: it cannot be told
				break
			}
			p.Board = id
		}
	}
	ram := uint32(32 << 20)
	if b, ok := rtl8196e.ByID(p.Board); ok {
		ram = b.RAMBytes
	}
	p.Problem = mtdimage.CheckKernel(h, ram)
}

// unpackKernel returns what the kernel's own decompressor unpacks, as far as it
// can be found: an LZMA stream of unknown length, as xz --format=lzma makes it.
func unpackKernel(b []byte) []byte {
	mark := bytes.Repeat([]byte{0xFF}, 8)
	for off := 0; ; {
		i := bytes.Index(b[off:], mark)
		if i < 0 {
			return b // not packed, or in a way that is not known
		}
		at := off + i - 5
		off += i + 1
		// properties, then the dictionary: a whole number of 64 KiB here
		if at < 0 || b[at] >= 225 || b[at+1] != 0 || b[at+2] != 0 || b[at+4] > 4 {
			continue
		}
		r, err := lzma.ReaderConfig{}.NewReader(bytes.NewReader(b[at:]))
		if err != nil {
			continue
		}
		out, _ := io.ReadAll(io.LimitReader(r, maxKernel)) // what follows it is no error
		if len(out) > 1<<16 {
			return out
		}
	}
}

// harmless are the options of authorized_keys with which a key opens a shell all
// the same, from anywhere.
var harmless = []string{"no-agent-forwarding", "no-x11-forwarding", "no-user-rc", "agent-forwarding", "x11-forwarding", "user-rc", "port-forwarding", "no-port-forwarding", "pty"}

// Keys returns the keys of an authorized_keys file that open a shell, and how many
// lines hold something else: a limit, or what is no key. What the gateway takes is
// said in services/sshd/server.
func Keys(file []byte) (keys []ssh.PublicKey, others int) {
	for line := range bytes.Lines(file) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		key, _, options, _, err := ssh.ParseAuthorizedKey(line)
		ok := err == nil
		for _, o := range options {
			ok = ok && bytes.Contains([]byte(" "+strings.Join(harmless, " ")+" "), []byte(" "+strings.ToLower(o)+" "))
		}
		if _, cert := key.(*ssh.Certificate); cert || !ok {
			others++
			continue
		}
		keys = append(keys, key)
	}
	return keys, others
}

// errFile is what verify ends with.
var errFile = errors.New("the loader would refuse it")
