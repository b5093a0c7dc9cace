// Package native calls machine code that this process wrote into its own
// memory, to see what the CPU under it does with exactly those words.
//
// It exists on big-endian 32-bit MIPS; elsewhere Open returns ErrNotMIPS. It
// does not protect the process from the code that it calls: that is for the
// caller, who runs it in a process that may die. A call may change v0, v1,
// a0-a3, t0-t9, s0-s6, HI and LO, must leave every other register as it was,
// and must not use the stack.
package native

import "errors"

// ErrNotMIPS says that this program was built for another CPU.
var ErrNotMIPS = errors.New("this program is not built for big-endian MIPS")
