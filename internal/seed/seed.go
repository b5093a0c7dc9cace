// Package seed carries entropy from one boot to the next: a file of random
// bytes that the kernel is given at the start and that is replaced before it
// could be given a second time. Without it, a box with nothing but timer
// interrupts has no randomness that anybody may wait for in its first 15 s.
//
// # Order
//
// The old seed is removed, and its folder synced, before the kernel is told to
// count it; then a new one is drawn from the kernel and written. So no seed is
// ever counted twice, and one that could not be removed is mixed in and not
// counted. A power cut between the two leaves no seed: the next boot waits, as
// the first one of a box does. (seedrng, from which the format is, hashes old
// and new into one file instead; that takes a hash function in this process,
// where removal takes none.)
//
// The package decides nothing about when: Load is for the process that mounts
// /userdata, Save for a clean end and for the first boot of all.
package seed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gwinit/internal/atomicfile"
)

// Path is where the seed is.
const Path = "/userdata/etc/random-seed"

// Sizes in bytes: of the seeds that Save writes, all that the kernel's pool
// holds (BLAKE2S_HASH_SIZE, drivers/char/random.c), and of those that Load takes.
const (
	Bytes   = 32
	maxRead = 512
)

// ErrNotReady says that the kernel has no randomness worth keeping yet.
var ErrNotReady = errors.New("the kernel has too little entropy yet")

// Kernel is the kernel's random number generator.
type Kernel interface {
	// Random fills b, or returns ErrNotReady at once.
	Random(b []byte) error
	// Mix adds b to the pool, which counts it as nothing.
	Mix(b []byte) error
	// Credit adds b to the pool, which counts 8 bits a byte.
	Credit(b []byte) error
}

// Load gives the kernel the seed below root ("" or "/" on the box) and returns
// what became of it, a line for the log; "" when there is nothing to say. It
// does not wait for entropy, but for flash.
func Load(root string, k Kernel) string {
	path := filepath.Join("/", root, Path)
	b, private, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "" // the first boot, or a power cut at a bad moment
	case err != nil:
		return "entropy: " + err.Error()
	}
	defer clear(b)
	var probe [1]byte
	reason := ""
	switch {
	case k.Random(probe[:]) == nil:
		// Nobody waits: it stays for a boot that needs it.
		return say("entropy: the kernel has its own, the saved seed is mixed in and kept", k.Mix(b))
	case len(b) < Bytes:
		reason = fmt.Sprintf("%d bytes are too few", len(b))
	case !private:
		reason = "others could read it; chmod 600 " + Path
	default:
		// INV 6 in reverse: gone for good before it counts.
		if err := atomicfile.Remove(path); err != nil {
			reason = err.Error()
		}
	}
	if reason != "" {
		return say("entropy: the saved seed is mixed in but not counted: "+reason, k.Mix(b))
	}
	if err := k.Credit(b); err != nil {
		return "entropy: " + err.Error()
	}
	return say("entropy: saved seed counted", Save(root, k))
}

func say(text string, err error) string {
	if err != nil {
		text += "; " + err.Error()
	}
	return text
}

// read returns the seed and whether only its owner can read it.
func read(path string) ([]byte, bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%s is not a regular file; remove it", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRead))
	return b, info.Mode().Perm()&0o077 == 0, err
}

// Exists tells whether there is a seed for the next boot.
func Exists(root string) bool {
	_, err := os.Lstat(filepath.Join("/", root, Path))
	return err == nil
}

// Save replaces the seed by a new one (INV 6). It returns ErrNotReady at once
// when the kernel has too little entropy; the old seed stays then.
func Save(root string, k Kernel) error {
	var b [Bytes]byte
	if err := k.Random(b[:]); err != nil {
		return fmt.Errorf("new seed: %w", err)
	}
	defer clear(b[:])
	path := filepath.Join("/", root, Path)
	// A mode that somebody changed is not kept.
	if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("new seed: %w", err)
	}
	if err := atomicfile.Write(path, b[:], 0o600); err != nil {
		return fmt.Errorf("new seed: %w", err)
	}
	return nil
}
