//go:build linux

package selftest

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"gwinit/internal/selftest/native"
)

// What the pieces of machine code find: a0 points at the words of pattern, a1
// is oldValue, a2 and a3 are these.
const (
	oldValue = 0x0BAD0BAD // what a register holds before a load
	argA2    = 7
	argA3    = 0xFFFFFFFF

	word0   = 0x8091A2B3
	word1   = 0xC4D5E6F7
	word2   = 0x01234567
	word3   = 0x7FFFFFFF
	pointed = 0x5A5A1234 // what word 4 points at
)

// Word indices of the data page, each at four times that from a0.
const (
	atPointer = 4 // the address of atPointed
	atGetpid  = 5 // the number of getpid(2)
	atZero    = 6
	atOne     = 7
	atScratch = 8 // four words, zero before each call
	atPointed = 12
	patterned = 16 // words from here on are the groups' own
)

// Sizes. The data cache has 8 KiB in two ways, the TLB 32 entries of 4 KiB
// pages: what evicts both is several times as large.
const (
	arenaBytes = 96 << 10
	dataBytes  = 4 << 10
	evictBytes = 64 * 4096
	dcacheStep = 16 // bytes, a line
)

// machine is code and data for the pieces of machine code.
type machine struct {
	arena *native.Arena
	mem   []byte
	words []uint32 // mem, as the code sees it
	evict []byte
}

// newMachine maps the memory. On another CPU than MIPS it is native.ErrNotMIPS.
func newMachine() (*machine, error) {
	arena, err := native.Open(arenaBytes)
	if err != nil {
		return nil, err
	}
	m := &machine{arena: arena}
	for _, want := range []struct {
		mem  *[]byte
		size int
	}{{&m.mem, dataBytes}, {&m.evict, evictBytes}} {
		*want.mem, err = unix.Mmap(-1, 0, want.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			m.close()
			return nil, os.NewSyscallError("mmap", err)
		}
	}
	for i := 0; i < len(m.evict); i += 4096 {
		m.evict[i] = 1 // a page of its own, not the shared one of zeros
	}
	m.words = unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(m.mem))), dataBytes/4)
	return m, nil
}

// close unmaps the memory. The process ends soon after: an error changes nothing.
func (m *machine) close() {
	for _, mem := range [][]byte{m.mem, m.evict} {
		if mem != nil {
			_ = unix.Munmap(mem)
		}
	}
	_ = m.arena.Close()
}

// addr is the address of a data word.
func (m *machine) addr(word int) uint32 { return uint32(native.Addr(m.mem)) + uint32(4*word) }

// put is the arena's, with the return that every piece ends with.
func (m *machine) put(source string) (native.Code, error) {
	c, err := m.arena.Put(source + "; jr ra; nop")
	if err != nil {
		return c, fmt.Errorf("%s: %w", source, err)
	}
	return c, nil
}

// reset writes the pattern.
func (m *machine) reset() {
	copy(m.words, []uint32{
		word0, word1, word2, word3, m.addr(atPointed), 4020, 0, 1,
		0, 0, 0, 0, pointed, 0, 0, 0,
	})
}

// cold fills data cache and TLB with something else.
func (m *machine) cold() {
	var sum byte
	for i := 0; i < 32<<10; i += dcacheStep {
		sum += m.evict[i]
	}
	for i := 0; i < len(m.evict); i += 4096 {
		sum += m.evict[i]
	}
	m.evict[1] = sum
}

// call runs a piece on a fresh pattern.
func (m *machine) call(c native.Code, cold bool) uint32 {
	m.reset()
	if cold {
		m.cold()
	}
	v0, _ := c.Call([4]uint32{m.addr(0), oldValue, argA2, argA3})
	return v0
}
