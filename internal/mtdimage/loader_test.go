package mtdimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
)

func header(sig string, start, burn uint32) Header {
	return Header{Signature: [4]byte([]byte(sig)), Start: start, Burn: burn}
}

// The parts of a full image, as small as they may be.
func parts() (boot, kernel, rootfs, userdata []byte) {
	boot = Wrap(header("boot", 0x80100000, 0), append([]byte{0x0B, 0xF0, 0, 4}, bytes.Repeat([]byte{0x5A}, 3000)...))
	kernel = Wrap(header("cs6c", 0x80C00000, 0x20000), bytes.Repeat([]byte("kern"), 1000))
	kernel = append(kernel, make([]byte, 4096-len(kernel)%4096)...) // cvimg -a 4k
	rootfs = Wrap(RootfsHeader, []byte("hsqs and the rest"))
	userdata = Wrap(UserdataHeader, append([]byte{0x19, 0x85, 0xE0, 1}, bytes.Repeat([]byte{0xFF}, UserdataSize-6)...))
	return
}

func TestCheck(t *testing.T) {
	t.Parallel()
	_, kernel, rootfs, userdata := parts()
	wrap := func(sig string, burn uint32, payload []byte) []byte {
		return Wrap(header(sig, 0x80C00000, burn), payload)
	}
	tests := []struct {
		name string
		in   []byte
		want error
		n    int // images
	}{
		{"rootfs", rootfs, nil, 1},
		{"kernel padded with 00", kernel, nil, 1},
		{"padded with FF", append(bytes.Clone(rootfs), bytes.Repeat([]byte{0xFF}, 99)...), nil, 1},
		{"padded with both", append(bytes.Clone(rootfs), 0, 0xFF), ErrTail, 0},
		{"followed by text", append(bytes.Clone(rootfs), "something that is longer than a header"...), ErrTail, 0},
		{"fills its partition", userdata, nil, 1},
		{"two bytes more", wrap("r6cr", 0x400000, make([]byte, UserdataSize)), ErrTooBig, 0},
		{"kernel whose header does not fit", wrap("cs6c", 0x20000, make([]byte, 0x1E0000-2)), ErrTooBig, 0},
		{"kernel that just fits", wrap("cs6c", 0x20000, make([]byte, 0x1E0000-18)), nil, 1},
		{"loader over the trailer", wrap("boot", 0, make([]byte, 0x1FFF0)), ErrTooBig, 0},
		{"loader up to the trailer", wrap("boot", 0, make([]byte, 0x1FFEE)), nil, 1},
		{"kernel and rootfs in one", wrap("cr6c", 0x20000, make([]byte, 0x300000)), nil, 1},
		{"two images", append(bytes.Clone(rootfs), userdata...), nil, 2},
		{"two for one place", append(bytes.Clone(rootfs), rootfs...), ErrOverlap, 0},
		{"into the next one", append(wrap("cr6c", 0x20000, make([]byte, 0x200000)), rootfs...), ErrOverlap, 0},
		{"five images", bytes.Repeat(rootfs, 5), ErrMany, 0},
		{"container", wrap("ALL1", 0, append(bytes.Clone(rootfs), userdata...)), nil, 2},
		{"container of older loaders", wrap("ALL2", 0, rootfs), ErrSignature, 0},
		{"container in a container", wrap("ALL1", 0, wrap("ALL1", 0, rootfs)), ErrSignature, 0},
		{"another signature", wrap("root", 0x200000, []byte("hsqs")), ErrSignature, 0},
		{"rootfs for the kernel's place", wrap("r6cr", 0x20000, []byte("hsqs")), ErrBurn, 0},
		{"kernel beside its place", wrap("cs6c", 0x30000, []byte("kern")), ErrBurn, 0},
		{"cut off", kernel[:2000], ErrShort, 0},
		{"nothing", nil, ErrShort, 0},
		{"zeros", make([]byte, 100), ErrSignature, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all, err := Check(tt.in)
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || len(all) != tt.n {
				t.Errorf("%d images, %v; want %d, %v", len(all), err, tt.n, tt.want)
			}
		})
	}
	all, err := Check(kernel)
	if err != nil || !all[0].KeepsHeader() || len(all[0].Flashed()) != 16+4000+2 || len(all[0].Payload()) != 4000 {
		t.Errorf("kernel: %v", err)
	}
}

func TestCheckKernel(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		start uint32
		size  uint32
		ram   uint32
		want  error
	}{
		{"usual", 0x80C00000, 0x160000, 32 << 20, nil},
		{"up to the kept pages", 0x81FFD000 - 0x100000, 0x100000, 32 << 20, nil},
		{"into them", 0x81FFD000 - 0x100000, 0x100002, 32 << 20, ErrStart},
		{"there with 64 MiB", 0x81FFD000 - 0x100000, 0x100002, 64 << 20, nil},
		{"over the loader", 0x80300000, 0x100002, 32 << 20, ErrStart},
		{"up to the loader", 0x80300000, 0x100000, 32 << 20, nil},
		{"over the vectors", 0x80000000, 0x1000, 32 << 20, ErrStart},
		{"not aligned", 0x80C00002, 0x1000, 32 << 20, ErrStart},
		{"odd", 0x80C00000, 0x1001, 32 << 20, ErrLen},
		{"too long", 0x80C00000, 0x1E0002, 32 << 20, ErrLen},
	}
	for _, tt := range tests {
		if err := CheckKernel(Header{Start: tt.start, Len: tt.size}, tt.ram); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// Where each byte of a full image comes from, and its trailer.
func TestBuildFull(t *testing.T) {
	t.Parallel()
	boot, kernel, rootfs, userdata := parts()
	b, err := BuildFull(boot, kernel, rootfs, userdata)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte{0xFF}, 16777216)
	copy(want, boot[16:])
	copy(want[0x20000:], kernel)
	copy(want[0x200000:], rootfs[16:])
	copy(want[0x400000:], userdata[16:])
	rest := append(bytes.Clone(want[:0x1FFF0]), want[0x20000:]...)
	crc := crc32.ChecksumIEEE(rest)
	copy(want[0x1FFF0:], "FFCS\x01\x00\x00\x00")
	binary.BigEndian.PutUint32(want[0x1FFF8:], crc)
	binary.BigEndian.PutUint32(want[0x1FFFC:], crc^0xFFFFFFFF)
	if !bytes.Equal(b, want) {
		t.Error("it is not laid out as it should be")
	}
	// A copy of the boot partition does, too, whatever its trailer is.
	again, err := BuildFull(b[:0x20000], kernel, rootfs, userdata)
	if err != nil || !bytes.Equal(again, b) {
		t.Errorf("from a copy of the partition: %v", err)
	}
	if _, err := BuildFull(boot, rootfs, kernel, userdata); err == nil {
		t.Error("rootfs and kernel in each other's place are taken")
	}
	if _, err := BuildFull(boot, kernel, rootfs, Wrap(UserdataHeader, []byte("no JFFS2"))); !errors.Is(err, ErrMagic) {
		t.Errorf("userdata without a JFFS2: %v", err)
	}
}

func TestCheckFull(t *testing.T) {
	t.Parallel()
	good, err := BuildFull(parts())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(b []byte) []byte
		want   error
		says   Trailer
	}{
		{"good", func(b []byte) []byte { return b }, nil, TrailerGood},
		{"a copy of a flash", func(b []byte) []byte { copy(b[0x1FFF0:], bytes.Repeat([]byte{0xFF}, 16)); return b }, ErrTrailer, TrailerBlank},
		{"sealed again", func(b []byte) []byte { b[0x900000] ^= 1; Seal(b); return b }, nil, TrailerGood},
		{"one bit", func(b []byte) []byte { b[0x900000] ^= 1; return b }, ErrTrailer, TrailerWrong},
		{"a bit of the kernel", func(b []byte) []byte { b[0x20100] ^= 1; Seal(b); return b }, ErrSum, 0},
		{"short", func(b []byte) []byte { return b[:len(b)-1] }, ErrMagic, 0},
		{"no loader", func(b []byte) []byte { b[0] = 1; return b }, ErrMagic, 0},
		{"no kernel", func(b []byte) []byte { b[0x20000] = 1; return b }, ErrMagic, 0},
		{"the maker's layout", func(b []byte) []byte { copy(b[0x200000:], "sqsh"); return b }, ErrMagic, 0},
	}
	for _, tt := range tests {
		f, err := CheckFull(tt.change(bytes.Clone(good)))
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || f.Trailer != tt.says {
			t.Errorf("%s: %v, trailer %d; want %v, %d", tt.name, err, f.Trailer, tt.want, tt.says)
		}
	}
	if !LooksFull(good) || LooksFull(good[1:]) {
		t.Error("LooksFull")
	}
}

func FuzzCheck(f *testing.F) {
	_, kernel, rootfs, _ := parts()
	f.Add(kernel)
	f.Add(append(bytes.Clone(rootfs), 0, 0, 0))
	f.Add(Wrap(header("ALL1", 0x80000000, 0), rootfs))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := Check(b)
		if err != nil {
			return
		}
		for _, i := range all {
			if Sum(i.File[HeaderLen:]) != 0 || uint64(i.Burn)+uint64(len(i.Flashed())) > uint64(i.Area.End()) {
				t.Errorf("accepted %+v", i.Header)
			}
		}
	})
}
