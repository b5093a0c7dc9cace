// Package texttest keeps what a program writes in tests, while it goes on.
package texttest

import (
	"strings"
	"sync"
)

// Buffer is a text that some goroutines write and others read. Its zero value is
// ready for use.
type Buffer struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is the text so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Len is its length in bytes.
func (b *Buffer) Len() int { return len(b.String()) }
