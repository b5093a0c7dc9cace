package rootfsflash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gwinit/internal/mtdimage"
)

const testBlock = 4096

// nor is a NOR flash: what is written clears bits and sets none.
type nor struct {
	b      []byte
	erased int // blocks
	fails  func(op string, at int64) error
	stuck  int // a byte that stays as it is; 0: none
}

func (f *nor) fail(op string, at int64) error {
	if f.fails == nil {
		return nil
	}
	return f.fails(op, at)
}

func (f *nor) ReadAt(p []byte, at int64) (int, error) {
	return copy(p, f.b[at:]), f.fail("read", at)
}

func (f *nor) WriteAt(p []byte, at int64) (int, error) {
	if err := f.fail("write", at); err != nil {
		return 0, err
	}
	for i, c := range p {
		if int(at)+i != f.stuck || f.stuck == 0 {
			f.b[int(at)+i] &= c
		}
	}
	return len(p), nil
}

func (f *nor) Erase(at, n uint32) error {
	if at%testBlock != 0 || n%testBlock != 0 {
		return errors.New("no block begins there")
	}
	if err := f.fail("erase", int64(at)); err != nil {
		return err
	}
	f.erased += int(n / testBlock)
	for i := at; i < at+n; i++ {
		if int(i) != f.stuck || f.stuck == 0 {
			f.b[i] = 0xff
		}
	}
	return nil
}

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestWrite(t *testing.T) {
	image := noise(10*testBlock + 100)
	var said strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	fed := 0
	run := func(f *nor) error {
		said.Reset()
		fed = 0
		return write(f, image, testBlock, func() { fed++ }, say)
	}
	check := func(f *nor) {
		t.Helper()
		if !bytes.Equal(f.b[:len(image)], image) || bytes.Count(f.b[len(image):11*testBlock], []byte{0xff}) != testBlock-100 {
			t.Error("something else is in the flash")
		}
	}
	f := &nor{b: noise(16 * testBlock)}
	behind := bytes.Clone(f.b[11*testBlock:])
	if err := run(f); err != nil || f.erased != 11 || said.String() != "4 of 11 blocks\n8 of 11 blocks\n11 of 11 blocks\n" || fed < 22 {
		t.Errorf("%v, %d erased, fed %d times: %s", err, f.erased, fed, said.String())
	}
	check(f)
	if !bytes.Equal(f.b[11*testBlock:], behind) {
		t.Error("what is behind the image was touched")
	}
	if err := run(f); err != nil || f.erased != 11 {
		t.Errorf("again: %v, %d erased", err, f.erased)
	}
	// Errors that pass, of each kind, three times in a row at most.
	for _, op := range []string{"erase", "write", "read"} {
		n := 0
		f := &nor{b: noise(16 * testBlock), fails: func(o string, at int64) error {
			if o != op {
				return nil
			}
			if n++; n%4 != 0 {
				return errors.New("timeout")
			}
			return nil
		}}
		if err := run(f); err != nil || op != "read" && !strings.Contains(said.String(), "block 1 of 11: "+op+": timeout; try 1 of 4\n") {
			t.Errorf("%s: %v: %s", op, err, said.String())
		}
		f.fails = nil
		check(f)
	}
	// A block that stays bad is told, and the others are written.
	f = &nor{b: noise(16 * testBlock), stuck: 3*testBlock + 7}
	f.b[f.stuck] = image[f.stuck] ^ 1
	err := run(f)
	if !errors.Is(err, ErrWrite) || err.Error() != "the flash does not take it: 1 of 11 blocks" {
		t.Errorf("%v", err)
	}
	if s := said.String(); !strings.Contains(s, "block 4 of 11: something else is read back; try 4 of 4\n") || strings.Count(s, "1 blocks are wrong: once more") != rounds-1 {
		t.Errorf("%s", s)
	}
	f.b[f.stuck] ^= 1
	check(f)
}

// rootfsImage is a file that the loader takes.
func rootfsImage(n int) []byte {
	b := noise(n)
	copy(b, "hsqs")
	binary.LittleEndian.PutUint16(b[superMajor:], 4)
	binary.LittleEndian.PutUint64(b[superUsed:], uint64(n))
	return mtdimage.Wrap(mtdimage.RootfsHeader, b)
}

func TestCheck(t *testing.T) {
	good := rootfsImage(5000)
	if flash, err := Check(good, 8192); err != nil || len(flash) != 5002 || !bytes.Equal(flash, good[mtdimage.HeaderLen:]) {
		t.Errorf("%d bytes, %v", len(flash), err)
	}
	change := func(f func(b []byte)) []byte {
		p := bytes.Clone(good[mtdimage.HeaderLen : len(good)-2])
		f(p)
		return mtdimage.Wrap(mtdimage.RootfsHeader, p)
	}
	flipped := bytes.Clone(good)
	flipped[3000] ^= 1
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"nothing":         {nil, ErrNotRootfs},
		"short":           {good[:4000], mtdimage.ErrShort},
		"one bit":         {flipped, mtdimage.ErrSum},
		"without header":  {good[mtdimage.HeaderLen:], ErrNotRootfs},
		"userdata":        {mtdimage.Wrap(mtdimage.UserdataHeader, good[16:]), ErrNotRootfs},
		"no squashfs":     {change(func(b []byte) { b[0] = 'x' }), ErrNotRootfs},
		"another version": {change(func(b []byte) { b[superMajor] = 3 }), ErrNotRootfs},
		"cut inside":      {change(func(b []byte) { b[superUsed+1]++ }), ErrNotRootfs},
		"too big":         {rootfsImage(9000), ErrTooBig},
	} {
		if _, err := Check(c.file, 8192); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(rootfsImage(200), uint32(1000))
	f.Add([]byte("hsqs"), uint32(0))
	f.Fuzz(func(t *testing.T, file []byte, size uint32) {
		if flash, err := Check(file, size); err == nil && (uint64(len(flash)) > uint64(size) || !bytes.HasPrefix(flash, []byte("hsqs")) || mtdimage.Sum(flash) != 0) {
			t.Errorf("%d bytes for %d", len(flash), size)
		}
	})
}
