package rootfsflash

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrWrite: the flash does not take it.
var ErrWrite = errors.New("the flash does not take it")

const (
	// tries is how often a block is erased and written in one round, and rounds
	// how often the whole is gone over.
	tries  = 4
	rounds = 3
)

// flash is a partition.
type flash interface {
	ReadAt(p []byte, at int64) (int, error)
	WriteAt(p []byte, at int64) (int, error)
	// Erase makes a range all FF. It begins and ends with a block.
	Erase(at, n uint32) error
}

// write brings image to the flash, block by block, and reads each back. What is
// there already is left alone, so that doing it again is doing the rest. feed is
// called before and behind each block, say for what a person should know.
func write(f flash, image []byte, block int, feed func(), say func(format string, args ...any)) error {
	n := (len(image) + block - 1) / block
	want, got := make([]byte, block), make([]byte, block)
	// part is a block of the image, with what is behind its end erased.
	part := func(i int) {
		rest := copy(want, image[i*block:])
		for ; rest < block; rest++ {
			want[rest] = 0xff
		}
	}
	same := func(i int) bool {
		for range tries { // an error of reading is no reason to erase
			if k, err := f.ReadAt(got, int64(i)*int64(block)); err == nil && k == block {
				return bytes.Equal(got, want)
			}
		}
		return false
	}
	one := func(i int) error {
		at := i * block
		if err := f.Erase(uint32(at), uint32(block)); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		if _, err := f.WriteAt(want, int64(at)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if !same(i) {
			return errors.New("something else is read back")
		}
		return nil
	}
	bad := 0
	for round := range rounds {
		if round > 0 {
			say("%d blocks are wrong: once more", bad)
		}
		bad = 0
		for i := range n {
			feed()
			part(i)
			for try := 0; !same(i); try++ {
				if try == tries {
					bad++
					break
				}
				feed()
				if err := one(i); err != nil {
					say("block %d of %d: %v; try %d of %d", i+1, n, err, try+1, tries)
				}
			}
			if round == 0 && (i+1)%4 == 0 || i+1 == n {
				say("%d of %d blocks", i+1, n)
			}
		}
		if bad == 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: %d of %d blocks", ErrWrite, bad, n)
}
