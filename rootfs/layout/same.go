package layout

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
)

// Same says whether two files are the same program in memory: the same bytes at
// the same addresses with the same rights but for the headers, and the same entry;
// the first has section headers. A nil error is yes. So what was found of the one, as by the checker of instructions, holds for
// the other.
func Same(a, b []byte) error {
	x, entryX, err := memory(a)
	if err != nil {
		return err
	}
	y, entryY, err := memory(b)
	if err != nil {
		return err
	}
	if entryX != entryY {
		return fmt.Errorf("layout: entries at %#x and %#x", entryX, entryY)
	}
	if len(x) != len(y) {
		return fmt.Errorf("layout: %d and %d pages in memory", len(x), len(y))
	}
	lowest, first := headers(x), min(contents(a), Page)
	for at, p := range x {
		q, ok := y[at]
		switch {
		case !ok:
			return fmt.Errorf("layout: the page at %#x is missing", at)
		case p.flags != q.flags:
			return fmt.Errorf("layout: the page at %#x may be %v and %v", at, p.flags, q.flags)
		case at == lowest && !bytes.Equal(p.bytes[first:], q.bytes[first:]), at != lowest && p.bytes != q.bytes:
			return fmt.Errorf("layout: the page at %#x differs", at)
		}
	}
	return nil
}

// memoryPage is a page of a program in memory.
type memoryPage struct {
	bytes [Page]byte
	flags elf.ProgFlag
}

// headers is the address of the page that has the file's headers: the lowest.
func headers(pages map[uint32]*memoryPage) uint32 {
	lowest := ^uint32(0)
	for at := range pages {
		lowest = min(lowest, at)
	}
	return lowest
}

// maxMemory is more than any program here takes, in bytes.
const maxMemory = 64 << 20

// memory is what a loader makes of a file, by the addresses of pages.
func memory(file []byte) (pages map[uint32]*memoryPage, entry uint64, err error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, 0, err
	}
	pages = map[uint32]*memoryPage{}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		if p.Memsz > maxMemory || p.Filesz > p.Memsz || p.Vaddr+p.Memsz > 1<<32 {
			return nil, 0, errors.New("layout: a segment is larger than any program's here")
		}
		contents, err := io.ReadAll(p.Open())
		if err != nil {
			return nil, 0, err
		}
		for i := range p.Memsz {
			at := uint32(p.Vaddr + i)
			page := pages[at/Page*Page]
			if page == nil {
				page = &memoryPage{flags: p.Flags}
				pages[at/Page*Page] = page
			}
			if page.flags != p.Flags {
				return nil, 0, fmt.Errorf("layout: two segments share the page at %#x", at)
			}
			if i < uint64(len(contents)) {
				page.bytes[at%Page] = contents[i]
			}
		}
	}
	return pages, f.Entry, nil
}
