//go:build !mips

package native

import "golang.org/x/sys/unix"

// Arena is memory that holds code, elsewhere.
type Arena struct{}

// Code is machine code in an arena, elsewhere.
type Code struct{}

// Open returns ErrNotMIPS.
func Open(int) (*Arena, error) { return nil, ErrNotMIPS }

// Close does nothing.
func (*Arena) Close() error { return nil }

// Put returns ErrNotMIPS.
func (*Arena) Put(string) (Code, error) { return Code{}, ErrNotMIPS }

// Call returns zeros.
func (Code) Call([4]uint32) (v0, v1 uint32) { return 0, 0 }

// Handle returns ErrNotMIPS.
func (Code) Handle(unix.Signal) (restore func(), err error) { return nil, ErrNotMIPS }

// Addr returns zero.
func Addr([]byte) uintptr { return 0 }
