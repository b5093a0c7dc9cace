package emu

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"syscall"
	"unsafe"
)

const (
	pageSize = 4096
	// userTop ends the addresses of user mode; kseg0 begins there and every
	// access from there on is an address error.
	userTop = 0x8000_0000
	// mapTop is where the search for free addresses begins, downwards. The
	// stack and the signal trampoline lie above it.
	mapTop = 0x7f00_0000
)

// Bits of a page's entry in memory.perm. permStore is what the fast path of
// stores looks at: set where the page is writable and no decoded instructions
// are kept of it.
const (
	permRead = 1 << iota
	permWrite
	permExec
	permStore
	permMapped
	permShared
)

// memory is the guest's address space: one reservation of 2 GiB on the host,
// whose offset is the guest's address, and one byte of permissions a page.
type memory struct {
	base unsafe.Pointer
	perm *[1 << 20]uint8
	raw  []byte
	code codeCache
}

// newMemory reserves an address space. It commits no memory.
func newMemory() (*memory, error) {
	raw, err := syscall.Mmap(-1, 0, userTop, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve 2 GiB of addresses for the guest (is there a limit on virtual memory?): %w", err)
	}
	return &memory{base: unsafe.Pointer(unsafe.SliceData(raw)), perm: new([1 << 20]uint8), raw: raw}, nil
}

// free gives the reservation back.
func (m *memory) free() error {
	raw := m.raw
	m.raw, m.base = nil, nil
	return syscall.Munmap(raw)
}

func pages(n uint32) uint32 { return (n + pageSize - 1) / pageSize }

func permOf(prot uint32) uint8 {
	p := uint8(prot&7) | permMapped
	if p&permExec != 0 {
		p |= permRead
	}
	if p&permWrite != 0 {
		p |= permRead | permStore
	}
	return p
}

// taken reports whether a page of [addr, addr+n) is mapped.
func (m *memory) taken(addr, n uint32) bool {
	for p := addr / pageSize; p < addr/pageSize+pages(n); p++ {
		if p >= userTop/pageSize || m.perm[p] != 0 {
			return true
		}
	}
	return false
}

// find returns the highest free range of n bytes below mapTop, or 0.
func (m *memory) find(n uint32) uint32 {
	want, run := pages(n), uint32(0)
	for p := uint32(mapTop / pageSize); p > 16; p-- {
		if m.perm[p-1] != 0 {
			run = 0
			continue
		}
		if run++; run == want {
			return (p - 1) * pageSize
		}
	}
	return 0
}

// mapAnon makes [addr, addr+n) zero pages with the permissions of prot.
func (m *memory) mapAnon(addr, n, prot uint32) {
	m.unmap(addr, n)
	m.protect(addr, n, prot, true)
}

// mapFile maps a host file shared, so that stores reach it.
func (m *memory) mapFile(addr, n, prot uint32, fd int, off int64) error {
	m.unmap(addr, n)
	hostProt := uintptr(syscall.PROT_READ)
	if prot&permWrite != 0 {
		hostProt |= syscall.PROT_WRITE
	}
	if err := m.hostMap(addr, n, hostProt, syscall.MAP_SHARED|syscall.MAP_FIXED, fd, off); err != nil {
		return err
	}
	m.protect(addr, n, prot, true)
	for p := addr / pageSize; p < addr/pageSize+pages(n); p++ {
		m.perm[p] |= permShared
	}
	return nil
}

func (m *memory) hostMap(addr, n uint32, prot uintptr, flags, fd int, off int64) error {
	_, _, e := syscall.Syscall6(syscall.SYS_MMAP, uintptr(m.base)+uintptr(addr), uintptr(pages(n)*pageSize),
		prot, uintptr(flags), uintptr(fd), uintptr(off))
	if e != 0 {
		return e
	}
	return nil
}

// unmap drops pages; a later mapping of them begins as zeros.
func (m *memory) unmap(addr, n uint32) {
	shared, any := false, false
	for p := addr / pageSize; p < addr/pageSize+pages(n); p++ {
		shared = shared || m.perm[p]&permShared != 0
		any = any || m.perm[p] != 0
		m.perm[p] = 0
	}
	m.code.drop(addr, n)
	if any {
		m.zero(addr, n, shared)
	}
}

// zero makes whole pages zero again, as after MADV_DONTNEED.
func (m *memory) zero(addr, n uint32, shared bool) {
	if shared {
		// The host's file must not stay below the guest's next mapping.
		if err := m.hostMap(addr, n, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_FIXED|syscall.MAP_NORESERVE, -1, 0); err == nil {
			return
		}
	}
	// Cannot fail for a range inside the reservation.
	_ = syscall.Madvise(m.raw[addr:addr+pages(n)*pageSize], syscall.MADV_DONTNEED)
}

// protect sets permissions. With fresh unset it fails with ENOMEM where a page
// is not mapped.
func (m *memory) protect(addr, n, prot uint32, fresh bool) error {
	for p := addr / pageSize; p < addr/pageSize+pages(n); p++ {
		if !fresh && m.perm[p]&permMapped == 0 {
			return syscall.ENOMEM
		}
		m.perm[p] = permOf(prot) | m.perm[p]&permShared
	}
	m.code.drop(addr, n)
	return nil
}

// ok reports whether [addr, addr+n) may be accessed with the bits of want.
func (m *memory) ok(addr, n uint32, want uint8) bool {
	if n == 0 {
		return true
	}
	if addr >= userTop || n > userTop-addr {
		return false
	}
	for p := addr / pageSize; p <= (addr+n-1)/pageSize; p++ {
		if m.perm[p]&want != want {
			return false
		}
	}
	return true
}

// bytes returns the guest's bytes for the kernel's side to read or, with want
// permWrite, to write; nil and false is EFAULT.
func (m *memory) bytes(addr, n uint32, want uint8) ([]byte, bool) {
	if !m.ok(addr, n, want) {
		return nil, false
	}
	if n == 0 {
		return nil, true
	}
	if want&permWrite != 0 {
		m.code.drop(addr, n)
	}
	return m.raw[addr : addr+n : addr+n], true
}

// cstring reads a string that ends with a zero byte.
func (m *memory) cstring(addr uint32) (string, bool) {
	for n := uint32(0); n < 1<<16; n++ {
		if !m.ok(addr+n, 1, permRead) {
			return "", false
		}
		if m.raw[addr+n] == 0 {
			return string(m.raw[addr : addr+n]), true
		}
	}
	return "", false
}

func (m *memory) load32(addr uint32) (uint32, bool) {
	b, ok := m.bytes(addr, 4, permRead)
	if !ok {
		return 0, false
	}
	return binary.BigEndian.Uint32(b), true
}

func (m *memory) store32(addr, v uint32) bool {
	b, ok := m.bytes(addr, 4, permWrite)
	if ok {
		binary.BigEndian.PutUint32(b, v)
	}
	return ok
}

// word reads an aligned word whose page was looked at already. Hosts are
// little-endian (amd64, arm64).
func word(base unsafe.Pointer, a uint32) uint32 {
	return bits.ReverseBytes32(*(*uint32)(unsafe.Add(base, a)))
}

func half(base unsafe.Pointer, a uint32) uint16 {
	return bits.ReverseBytes16(*(*uint16)(unsafe.Add(base, a)))
}

func byteAt(base unsafe.Pointer, a uint32) *uint8 { return (*uint8)(unsafe.Add(base, a)) }

func putWord(base unsafe.Pointer, a, v uint32) {
	*(*uint32)(unsafe.Add(base, a)) = bits.ReverseBytes32(v)
}

func putHalf(base unsafe.Pointer, a uint32, v uint16) {
	*(*uint16)(unsafe.Add(base, a)) = bits.ReverseBytes16(v)
}
