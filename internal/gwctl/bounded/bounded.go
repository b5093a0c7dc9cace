// Package bounded keeps what a gateway says from filling a workstation's memory.
package bounded

import (
	"bytes"
	"fmt"
)

// Buffer keeps the first Max bytes that are written to it. It embeds no
// bytes.Buffer, whose ReadFrom io.Copy would call in place of Write. It is not safe
// for concurrent use.
type Buffer struct {
	Max int
	// Strict has a write beyond Max fail; else what is beyond is dropped, and Cut
	// tells of it.
	Strict bool
	Cut    bool

	b bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	n := min(len(p), b.Max-b.b.Len())
	b.b.Write(p[:n]) // never fails
	if n == len(p) {
		return n, nil
	}
	b.Cut = true
	if b.Strict {
		return n, fmt.Errorf("more than %d bytes", b.Max)
	}
	return len(p), nil
}

// Bytes are those kept, until the next Write.
func (b *Buffer) Bytes() []byte { return b.b.Bytes() }

// Len is how many those are.
func (b *Buffer) Len() int { return b.b.Len() }
