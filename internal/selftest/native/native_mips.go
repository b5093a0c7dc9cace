package native

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"gwinit/internal/selftest/asm"
)

// frame is what call reads and writes; its layout stands in call_mips.s too.
type frame struct {
	entry uintptr
	args  [4]uint32
	v0    uint32
	v1    uint32
}

//go:noescape
func call(f *frame)

// sysCacheflush is cacheflush(2) of o32, and bothCaches its BCACHE
// (arch/mips/include/uapi/asm/cachectl.h).
const (
	sysCacheflush = unix.SYS_CACHEFLUSH
	bothCaches    = 3
)

// Arena is memory that holds code.
type Arena struct {
	mem  []byte
	used int // bytes
}

// Open maps an arena for size bytes of code. The kernel's refusal is an error
// that names the call.
func Open(size int) (*Arena, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, os.NewSyscallError("mmap of executable memory", err)
	}
	return &Arena{mem: mem}, nil
}

// Close unmaps the arena: none of its code may be called or be a signal's
// handler any more.
func (a *Arena) Close() error { return unix.Munmap(a.mem) }

// Code is machine code in an arena.
type Code struct{ entry uintptr }

// Put assembles source (see package asm) into the arena, on a cache line of
// its own, and makes the instruction cache see it.
func (a *Arena) Put(source string) (Code, error) {
	const line = 16
	a.used = (a.used + line - 1) &^ (line - 1)
	base := Addr(a.mem) + uintptr(a.used)
	words, err := asm.Assemble(source, uint32(base))
	if err != nil {
		return Code{}, err
	}
	size := 4 * len(words)
	if a.used+size > len(a.mem) {
		return Code{}, fmt.Errorf("the arena of %d bytes is full", len(a.mem))
	}
	copy(unsafe.Slice((*uint32)(unsafe.Pointer(&a.mem[a.used])), len(words)), words)
	a.used += size
	if _, _, errno := unix.Syscall(sysCacheflush, base, uintptr(size), bothCaches); errno != 0 {
		return Code{}, os.NewSyscallError("cacheflush", errno)
	}
	return Code{base}, nil
}

// Call runs the code with args in a0 to a3 and returns what it left in v0 and
// v1. The goroutine cannot be stopped meanwhile, not even for the collector.
func (c Code) Call(args [4]uint32) (v0, v1 uint32) {
	f := frame{entry: c.entry, args: args}
	call(&f)
	return f.v0, f.v1
}

// sigaction is the kernel's, of o32 (arch/mips/include/uapi/asm/signal.h).
type sigaction struct {
	flags   uint32
	handler uintptr
	mask    [4]uint32
}

// Flags of sigaction, with MIPS's values.
const (
	saSiginfo = 0x8
	saOnStack = 0x08000000
	saRestart = 0x10000000
)

// Handle makes code the handler of a signal, called with signal, siginfo and
// ucontext in a0 to a2 on the thread's signal stack, until restore. Go's
// runtime does not know: meanwhile it must not need the signal.
func (c Code) Handle(sig unix.Signal) (restore func(), err error) {
	var old sigaction
	if err := rtSigaction(sig, &sigaction{flags: saSiginfo | saOnStack | saRestart, handler: c.entry}, &old); err != nil {
		return nil, err
	}
	return func() { _ = rtSigaction(sig, &old, nil) }, nil // what was valid before is
}

func rtSigaction(sig unix.Signal, to, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(to.mask), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("rt_sigaction of "+unix.SignalName(sig), errno)
	}
	return nil
}

// Addr is where mapped memory stands, for code that is to find it.
func Addr(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
