package mtdimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// FlashSize is the size of every board's flash in bytes. The loader writes to
// no other.
const FlashSize = 16 << 20

// Area is a partition of the flash, as the loader's table has it.
type Area struct {
	Name   string // boot, kernel, rootfs or userdata
	Offset uint32
	Size   uint32
}

// End is the first offset behind the area.
func (a Area) End() uint32 { return a.Offset + a.Size }

// The areas, from the start of the flash to its end.
var (
	Boot     = Area{"boot", 0, 0x20000}
	Kernel   = Area{"kernel", 0x20000, 0x1E0000}
	Rootfs   = Area{"rootfs", RootfsHeader.Burn, RootfsSize}
	Userdata = Area{"userdata", UserdataHeader.Burn, UserdataSize}
)

// Areas returns all of them in the order of the flash.
func Areas() []Area { return []Area{Boot, Kernel, Rootfs, Userdata} }

// Signatures that the loader knows.
const (
	SigKernel       = "cs6c" // the header stays in the flash
	SigKernelRootfs = "cr6c" // kernel and root file system in one; the header stays
	SigData         = "r6cr" // rootfs or userdata
	SigBoot         = "boot"
	SigContainer    = "ALL1" // holds images, with a sum over all of them
	SigContainer2   = "ALL2" // older loaders' container, which is refused
)

const (
	maxImages = 4

	// magicOf are the words by which the loader knows a full image.
	bootMagic = 0x0BF00004
)

var (
	squashfsMagic = []byte("hsqs")
	jffs2Magic    = []byte{0x19, 0x85}
)

// Errors of Check and CheckFull, beside those of Parse.
var (
	ErrSignature = errors.New("the signature is none that the loader knows")
	ErrBurn      = errors.New("its offset in the flash is not the start of the partition that it is for")
	ErrTooBig    = errors.New("it does not fit")
	ErrTail      = errors.New("what follows is neither an image nor all 00 or all FF")
	ErrOverlap   = errors.New("two images are for the same place")
	ErrMany      = errors.New("more than 4 images in one file")
	ErrStart     = errors.New("the address in RAM is one that the loader does not start")
	ErrTrailer   = errors.New("the CRC trailer of a full image")
	ErrMagic     = errors.New("no full image")
)

// Image is one image in a file.
type Image struct {
	Header
	Area   Area
	Offset int    // of the header in the file
	File   []byte // header, payload and sum, without what pads the file
}

// KeepsHeader tells whether the header is written to the flash, too.
func (h Header) KeepsHeader() bool {
	s := string(h.Signature[:])
	return s == SigKernel || s == SigKernelRootfs
}

// Flashed is what is written to the flash at Burn.
func (i Image) Flashed() []byte {
	if i.KeepsHeader() {
		return i.File
	}
	return i.File[HeaderLen:]
}

// Payload is what the image is about. An odd one has a zero behind it: its
// length is not kept.
func (i Image) Payload() []byte { return i.File[HeaderLen : len(i.File)-2] }

// area returns where an image belongs, by its signature and offset.
func (h Header) area() (Area, error) {
	var may []Area
	switch string(h.Signature[:]) {
	case SigKernel, SigKernelRootfs:
		may = []Area{Kernel}
	case SigData:
		may = []Area{Rootfs, Userdata}
	case SigBoot:
		may = []Area{Boot}
	case SigContainer2:
		return Area{}, fmt.Errorf("a container %q, which today's loaders refuse: %w", h.Signature, ErrSignature)
	default:
		return Area{}, fmt.Errorf("signature % x: %w", h.Signature, ErrSignature)
	}
	for _, a := range may {
		if a.Offset != h.Burn {
			continue
		}
		if string(h.Signature[:]) == SigKernelRootfs {
			a = Area{"kernel and rootfs", Kernel.Offset, Kernel.Size + Rootfs.Size}
		}
		return a, nil
	}
	return Area{}, fmt.Errorf("%q for offset %#x: %w", h.Signature, h.Burn, ErrBurn)
}

// Check does the loader's checks of an upload before it erases anything, and
// returns the images in it. Those of a full image are its partitions, without
// headers but the kernel's; see CheckFull.
//
// What a container ALL1 holds is inferred: images one behind the other.
func Check(file []byte) ([]Image, error) {
	all, err := check(file, 0)
	if err != nil {
		return nil, err
	}
	byPlace := slices.Clone(all)
	slices.SortFunc(byPlace, func(a, b Image) int { return int(a.Burn) - int(b.Burn) })
	for i := 1; i < len(byPlace); i++ {
		a, b := byPlace[i-1], byPlace[i]
		if uint64(a.Burn)+uint64(len(a.Flashed())) > uint64(b.Burn) {
			return nil, fmt.Errorf("%s and %s: %w", a.Area.Name, b.Area.Name, ErrOverlap)
		}
	}
	return all, nil
}

func check(file []byte, at int) (all []Image, err error) {
	rest := file
	for {
		h, _, err := Parse(rest)
		switch {
		case len(all) > 0 && uniform(rest):
			return all, nil
		case len(rest) < HeaderLen && len(all) > 0:
			return nil, fmt.Errorf("%d bytes behind the image: %w", len(rest), ErrTail)
		case len(rest) < HeaderLen:
			return nil, err
		}
		if string(h.Signature[:]) == SigContainer && at == 0 && len(all) == 0 {
			if err != nil {
				return nil, err
			}
			if !uniform(rest[HeaderLen+h.Len:]) {
				return nil, fmt.Errorf("behind a container: %w", ErrTail)
			}
			return check(rest[HeaderLen:HeaderLen+h.Len-2], HeaderLen)
		}
		area, areaErr := h.area()
		if areaErr != nil {
			if len(all) > 0 && errors.Is(areaErr, ErrSignature) {
				return nil, fmt.Errorf("%d bytes behind the image: %w", len(rest), ErrTail)
			}
			return nil, areaErr
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", area.Name, err)
		}
		i := Image{Header: h, Area: area, Offset: at, File: rest[:HeaderLen+h.Len]}
		room := area.Size
		if area == Boot {
			room -= trailerLen
		}
		if n := len(i.Flashed()); uint64(n) > uint64(room) {
			return nil, fmt.Errorf("%s: %d bytes of flash, and there are %d: %w", area.Name, n, room, ErrTooBig)
		}
		if all = append(all, i); len(all) > maxImages {
			return nil, ErrMany
		}
		rest, at = rest[len(i.File):], at+len(i.File)
	}
}

// uniform tells whether all of b is 00 or all of it FF.
func uniform(b []byte) bool {
	return len(b) == 0 || (b[0] == 0 || b[0] == 0xFF) && bytes.Count(b, b[:1]) == len(b)
}

// Where a loader's own code and stack are in RAM, and what it starts.
const (
	lowestStart = 0x80001000
	ramBase     = 0x80000000
	keptAtTop   = 0x3000
	loaderBegin = 0x80400000
	loaderEnd   = 0x80500000
)

// CheckKernel tells whether a loader would start the kernel of that header on a
// board with ramBytes of RAM: it copies it there, and looks at every boot.
func CheckKernel(h Header, ramBytes uint32) error {
	begin, end := uint64(h.Start), uint64(h.Start)+uint64(h.Len)
	switch {
	case h.Len == 0 || h.Len%2 != 0 || h.Len > Kernel.Size:
		return fmt.Errorf("kernel of %#x bytes: %w", h.Len, ErrLen)
	case begin%4 != 0 || begin < lowestStart || end > ramBase+uint64(ramBytes)-keptAtTop:
		return fmt.Errorf("kernel at %#x to %#x: %w with %d MiB of RAM", begin, end, ErrStart, ramBytes>>20)
	case begin < loaderEnd && end > loaderBegin:
		return fmt.Errorf("kernel at %#x to %#x, where the loader itself is: %w", begin, end, ErrStart)
	}
	return nil
}

const (
	trailerLen = 16
	trailerAt  = 0x20000 - trailerLen
)

var trailerMagic = []byte("FFCS")

// Trailer is the state of a full image's CRC trailer.
type Trailer int

// States of a trailer.
const (
	TrailerGood  Trailer = iota
	TrailerBlank         // all FF: a copy of a flash that was not written as a whole
	TrailerWrong         // of another image, or damaged
)

// LooksFull tells whether a file has the length and the first words of a full
// image. The loader takes anything else for a file with headers.
func LooksFull(b []byte) bool {
	return len(b) == FlashSize && binary.BigEndian.Uint32(b) == bootMagic &&
		bytes.HasPrefix(b[Kernel.Offset:], []byte(SigKernel)) && bytes.HasPrefix(b[Rootfs.Offset:], squashfsMagic)
}

// TrailerOf looks at the CRC trailer. b has FlashSize bytes.
func TrailerOf(b []byte) Trailer {
	t := b[trailerAt : trailerAt+trailerLen]
	switch {
	case bytes.Equal(t, trailerOf(b)):
		return TrailerGood
	case bytes.Count(t, []byte{0xFF}) == len(t):
		return TrailerBlank
	}
	return TrailerWrong
}

// trailerOf makes the trailer: "FFCS", the length, the CRC-32 of all but these
// 16 bytes, and its complement.
func trailerOf(b []byte) []byte {
	crc := crc32.Update(crc32.ChecksumIEEE(b[:trailerAt]), crc32.IEEETable, b[trailerAt+trailerLen:])
	t := append([]byte(nil), trailerMagic...)
	t = binary.BigEndian.AppendUint32(t, FlashSize)
	t = binary.BigEndian.AppendUint32(t, crc)
	return binary.BigEndian.AppendUint32(t, ^crc)
}

// Seal writes the CRC trailer of a full image, without which the loader refuses
// it. b has FlashSize bytes.
func Seal(b []byte) { copy(b[trailerAt:], trailerOf(b)) }

// FullImage is the partitions of a full image.
type FullImage struct {
	Boot, Rootfs, Userdata []byte // of the partition's size
	Kernel                 Image
	Trailer                Trailer
}

// ParseFull splits a full image or a copy of a flash. It checks all but the
// trailer.
func ParseFull(b []byte) (f FullImage, err error) {
	if len(b) != FlashSize {
		return f, fmt.Errorf("%d bytes, and a flash has %d: %w", len(b), FlashSize, ErrMagic)
	}
	if w := binary.BigEndian.Uint32(b); w != bootMagic {
		return f, fmt.Errorf("it begins with %08x, and a loader with %08x: %w", w, bootMagic, ErrMagic)
	}
	if !bytes.HasPrefix(b[Kernel.Offset:], []byte(SigKernel)) {
		return f, fmt.Errorf("there is no kernel (%s) at %#x: %w", SigKernel, Kernel.Offset, ErrMagic)
	}
	if !bytes.HasPrefix(b[Rootfs.Offset:], squashfsMagic) {
		return f, fmt.Errorf("there is no squashfs at %#x: %w. The maker's own firmware has another layout, which this loader does not write", Rootfs.Offset, ErrMagic)
	}
	part := func(a Area) []byte { return b[a.Offset:a.End()] }
	h, flash, err := Parse(part(Kernel))
	if err != nil {
		return f, fmt.Errorf("kernel: %w", err)
	}
	f.Kernel = Image{Header: h, Area: Kernel, Offset: int(Kernel.Offset), File: part(Kernel)[:HeaderLen+len(flash)]}
	f.Boot, f.Rootfs, f.Userdata, f.Trailer = part(Boot), part(Rootfs), part(Userdata), TrailerOf(b)
	return f, nil
}

// CheckFull does the loader's checks of a full image.
func CheckFull(b []byte) (FullImage, error) {
	f, err := ParseFull(b)
	switch {
	case err != nil:
		return f, err
	case f.Trailer == TrailerBlank:
		return f, fmt.Errorf("%w is missing", ErrTrailer)
	case f.Trailer == TrailerWrong:
		return f, fmt.Errorf("%w is that of another image, or bytes were damaged", ErrTrailer)
	}
	return f, nil
}

// BuildFull puts a full image together: boot, rootfs and userdata without their
// headers, the kernel with it, FF between, and the trailer. boot may also be a
// copy of the boot partition itself.
func BuildFull(boot, kernel, rootfs, userdata []byte) ([]byte, error) {
	out := bytes.Repeat([]byte{0xFF}, FlashSize)
	if len(boot) == int(Boot.Size) && binary.BigEndian.Uint32(boot) == bootMagic {
		copy(out, boot[:trailerAt])
	} else if err := put(out, Boot, boot); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		area Area
		file []byte
	}{{Kernel, kernel}, {Rootfs, rootfs}, {Userdata, userdata}} {
		if err := put(out, p.area, p.file); err != nil {
			return nil, err
		}
	}
	if !bytes.HasPrefix(out[Userdata.Offset:], jffs2Magic) {
		return nil, fmt.Errorf("userdata: no big-endian JFFS2 in it: %w", ErrMagic)
	}
	Seal(out)
	_, err := CheckFull(out)
	return out, err
}

// put writes a file's one image, and what pads the file, to its area.
func put(out []byte, area Area, file []byte) error {
	all, err := Check(file)
	if err != nil {
		return fmt.Errorf("%s: %w", area.Name, err)
	}
	if len(all) != 1 || all[0].Area != area || all[0].Offset != 0 {
		return fmt.Errorf("%s: that file is for %s", area.Name, all[0].Area.Name)
	}
	content := file
	if !all[0].KeepsHeader() {
		content = file[HeaderLen:]
	}
	room := int(area.Size)
	if area == Boot {
		room = trailerAt
	}
	if len(content) > room {
		if !uniform(content[room:]) || len(all[0].Flashed()) > room {
			return fmt.Errorf("%s: %d bytes of flash, and there are %d: %w", area.Name, len(content), room, ErrTooBig)
		}
		content = content[:room] // the file is padded beyond its place
	}
	copy(out[area.Offset:], content)
	return nil
}
