// Package boothold leaves words for the next boot in a page of RAM that the
// kernel reserves and a reset does not clear: for the loader, to stop and wait
// for an image, and for our own next start, to come up in another mode once.
//
// Where the page is comes from the running kernel's device tree, never from a
// table: the loader's address is compiled into it per board, and writing a word
// to the other board's address would hit the kernel's memory.
//
// The page, by offset from its top (words are big-endian, as the CPU is):
//
//	-0x004  HOLD  0x484F4C44 "HOLD": the loader stays in download mode
//	-0x008  mark  0x49505634 "IPV4": the address below is for the loader's TFTP
//	-0x00C  address  a.b.c.d as a<<24|b<<16|c<<8|d
//	-0x010  not ours: some builds of the incumbent's loader leave a marker here
//
// and by offset from its base:
//
//	+0x100  magic  0x47574F42 "GWOB": one boot in another mode
//	+0x104  mode   0x53414645 "SAFE" or 0x46414354 "FACT"
//	+0x108  check  every bit of mode inverted
//	+0x200  magic  0x47574C57 "GWLW": what a boot said last, up to -0x010
//	+0x204  length of the text
//	+0x208  CRC-32 of the text, which follows
//
// The loader zeroes its three words when it takes them and touches no other.
// Ours are at the far end: what lies above the page is a stack of the loader's
// that grows down. Three words are asked for because RAM is noise after a cold
// start.
package boothold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
)

// Errors that Find and the words return.
var (
	ErrNoPage = errors.New("the kernel's device tree reserves no boothold page")
	ErrVerify = errors.New("the word did not stay")
)

const (
	wordHold   = 0x484F4C44
	wordIPv4   = 0x49505634
	wordOnce   = 0x47574F42
	wordSafe   = 0x53414645
	wordFact   = 0x46414354
	fromTop    = 0x10 // what the loader and its kin use, at the top
	onceOffset = 0x100
	// smallest page: the incumbent's tool takes 16 bytes, ours has to hold
	// both ends.
	minBytes = onceOffset + 12 + fromTop
)

// Mode is what the next start is asked to be.
type Mode string

// Modes.
const (
	Normal  Mode = ""
	Safe    Mode = "safe"    // console, network and SSH only
	Factory Mode = "factory" // the userland of the root file system, whatever is installed
)

// Find returns the page that the kernel below root ("" or "/" on the box)
// reserves, or ErrNoPage. Its reg property must be two cells of 32 bits.
func Find(root string) (rtl8196e.Page, error) {
	pattern := filepath.Join("/", root, "proc/device-tree/reserved-memory/boothold@*/reg")
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return rtl8196e.Page{}, ErrNoPage
	}
	sort.Strings(found)
	f, err := os.Open(found[0])
	if err != nil {
		return rtl8196e.Page{}, err
	}
	defer f.Close()
	var reg [9]byte
	n, err := io.ReadFull(f, reg[:])
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return rtl8196e.Page{}, err
	}
	p, err := parseReg(reg[:n])
	if err != nil {
		return rtl8196e.Page{}, fmt.Errorf("%s: %w", found[0], err)
	}
	return p, nil
}

// parseReg reads base and size from the 8 bytes of a reg property.
func parseReg(reg []byte) (rtl8196e.Page, error) {
	if len(reg) != 8 {
		return rtl8196e.Page{}, errors.New("not one address and one size of 32 bits")
	}
	p := rtl8196e.Page{Base: binary.BigEndian.Uint32(reg), Bytes: binary.BigEndian.Uint32(reg[4:])}
	if p.Bytes < minBytes || p.Base%4 != 0 || p.Bytes%4 != 0 || p.Top() < p.Base {
		return rtl8196e.Page{}, fmt.Errorf("a page of %d bytes at %#08x is not one to write words to", p.Bytes, p.Base)
	}
	return p, nil
}

// Hold asks the loader to wait for an image at its next start, on the address
// ip when withIP, on its own default otherwise. It returns the physical address
// of the HOLD word. It does not reboot. HOLD is written last: before that
// nothing has been asked.
func Hold(root string, ip [4]byte, withIP bool) (addr uint32, err error) {
	m, err := open(root)
	if err != nil {
		return 0, err
	}
	defer m.close()
	top := m.page.Top()
	if withIP {
		if err := m.put(top-12, binary.BigEndian.Uint32(ip[:])); err != nil {
			return 0, err
		}
		if err := m.put(top-8, wordIPv4); err != nil {
			return 0, err
		}
	} else if err := m.put(top-8, 0); err != nil {
		// An earlier call may have left an address that nobody asks for now.
		return 0, err
	}
	if err := m.put(top-4, wordHold); err != nil {
		return 0, err
	}
	return top - 4, nil
}

// Guard asks the loader to wait at its next start, as Hold does without an
// address, and returns what takes that back: it opens no file any more.
func Guard(root string) (release func() error, err error) {
	if _, err := Hold(root, [4]byte{}, false); err != nil {
		return nil, err
	}
	m, err := open(root)
	if err != nil {
		return nil, err
	}
	return func() error {
		defer m.close()
		return m.put(m.page.Top()-4, 0)
	}, nil
}

// SetOnce asks our own next start for a mode. Normal takes the wish back.
func SetOnce(root string, mode Mode) error {
	var word uint32
	switch mode {
	case Normal:
	case Safe:
		word = wordSafe
	case Factory:
		word = wordFact
	default:
		return fmt.Errorf("no such boot mode: %q", string(mode))
	}
	m, err := open(root)
	if err != nil {
		return err
	}
	defer m.close()
	at := m.page.Base + onceOffset
	// Without its magic the rest says nothing: it goes first and comes last.
	if err := m.put(at, 0); err != nil || mode == Normal {
		return err
	}
	if err := m.put(at+4, word); err != nil {
		return err
	}
	if err := m.put(at+8, ^word); err != nil {
		return err
	}
	return m.put(at, wordOnce)
}

// TakeOnce returns the mode that was asked for and clears the wish, so that it
// holds for one boot. Without a page, or with noise in it, it is Normal; an
// error says that a wish could not be cleared or read, and comes with Normal:
// a mode that cannot be cleared would hold for ever.
func TakeOnce(root string) (Mode, error) {
	m, err := open(root)
	if errors.Is(err, ErrNoPage) {
		return Normal, nil
	}
	if err != nil {
		return Normal, err
	}
	defer m.close()
	at := m.page.Base + onceOffset
	var words [3]uint32
	for i := range words {
		if words[i], err = m.get(at + uint32(4*i)); err != nil {
			return Normal, err
		}
	}
	if words[0] != wordOnce {
		return Normal, nil
	}
	if err := m.put(at, 0); err != nil {
		return Normal, err
	}
	switch {
	case words[1] == wordSafe && words[2] == ^words[1]:
		return Safe, nil
	case words[1] == wordFact && words[2] == ^words[1]:
		return Factory, nil
	}
	return Normal, nil
}

// memory is the page in physical memory.
type memory struct {
	fd   int
	page rtl8196e.Page
}

// open finds the page and opens /dev/mem uncached (O_SYNC): a reset clears the
// caches, not the RAM.
func open(root string) (*memory, error) {
	page, err := Find(root)
	if err != nil {
		return nil, err
	}
	path := filepath.Join("/", root, "dev/mem")
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_SYNC|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &memory{fd: fd, page: page}, nil
}

func (m *memory) close() { unix.Close(m.fd) }

func (m *memory) get(at uint32) (uint32, error) {
	var b [4]byte
	n, err := unix.Pread(m.fd, b[:], int64(at))
	if err == nil && n != len(b) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, fmt.Errorf("read the word at %#08x: %w", at, err)
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

// put writes a word and reads it back.
func (m *memory) put(at, v uint32) error {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	n, err := unix.Pwrite(m.fd, b[:], int64(at))
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write the word at %#08x: %w", at, err)
	}
	back, err := m.get(at)
	if err != nil {
		return err
	}
	if back != v {
		return fmt.Errorf("%w: %#08x holds %#08x instead of %#08x", ErrVerify, at, back, v)
	}
	return nil
}
