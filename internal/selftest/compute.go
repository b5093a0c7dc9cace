//go:build linux

package selftest

import (
	"context"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// computation is some arithmetic and its result, which is the same on every
// machine.
type computation struct {
	name string
	run  func(rounds int) uint64
	want uint64 // for computeRounds
}

// computeRounds is how often each is done: a second or so on the real core.
const computeRounds = 2000

// lcg is the next of a sequence of numbers (Knuth's MMIX constants).
func lcg(x uint64) uint64 { return x*6364136223846793005 + 1442695040888963407 }

// computations use what programs use most. A test on the workstation sees to
// it that the results are right.
var computations = [...]computation{
	{"64 bits: multiply, divide, shift", int64s, 0x4d4092a88f940061},
	{"32 bits: signed divisions and shifts", int32s, 0x14ebd757fbce611},
	{"floats in software", floats, 0xf72a5361801b559c},
	{"bit counts", bitCounts, 0x23f2d91c973583ae},
	{"CRC-32", crc, 0xcbf69b320c921b63},
	{"numbers as text and back", text, 0x7b0f1342276dc6c6},
	{"sort and map", sorting, 0x920db56207c9237e},
}

// runCompute compares with the known results.
func runCompute(ctx context.Context, e *env) {
	for _, c := range computations {
		if ctx.Err() != nil {
			return
		}
		got := c.run(computeRounds)
		e.judge(c.name, got == c.want, "%#x, want %#x", got, c.want)
	}
}

func int64s(n int) uint64 {
	x, sum := uint64(1), uint64(0)
	for range 4 * n {
		x = lcg(x)
		y := lcg(x) | 1
		hi, lo := bits.Mul64(x, y)
		q, r := bits.Div64(hi%y, lo, y)
		sum += q ^ r ^ x/(y>>40|1) ^ x%(y>>20|1) ^ x<<(y>>58) ^ x>>(y>>59&31) ^ uint64(int64(x)>>(y>>60)) ^ uint64(int64(x)/int64(y>>33|1))
	}
	return sum
}

func int32s(n int) uint64 {
	x, sum := uint64(2), uint64(0)
	for range 16 * n {
		x = lcg(x)
		a, b := int32(x>>32), int32(x>>7)|1
		sum = sum*31 + uint64(uint32(a/b)) ^ uint64(uint32(a%b))<<16 ^ uint64(uint32(a)/uint32(b)) ^ uint64(uint32(a)*uint32(b))
		sum += uint64(uint32(a>>(b&31))) + uint64(uint32(int16(a))) + uint64(uint32(int8(b))) + uint64(uint32(a)<<(b&31))
		if a < b {
			sum++
		}
		if uint32(a) < uint32(b) {
			sum += 3
		}
	}
	return sum
}

func floats(n int) uint64 {
	x, sum := uint64(3), uint64(0)
	for range 2 * n {
		x = lcg(x)
		a, b := float64(int64(x))/1024, float64(x>>40)+0.5
		// Each operation rounds by itself: no machine may fuse two.
		p, q := float64(a*b), float64(a/b)
		sum = bits.RotateLeft64(sum, 7) ^ math.Float64bits(float64(p+q)) ^ math.Float64bits(float64(p-a)) ^ uint64(int64(q))
		f := float32(a)
		sum ^= uint64(math.Float32bits(float32(float32(f*f)+1))) ^ uint64(math.Float32bits(f/3))
		if a < b && float64(f) >= a {
			sum++
		}
	}
	return sum
}

func bitCounts(n int) uint64 {
	x, sum := uint64(4), uint64(0)
	for i := range 16 * n {
		x = lcg(x)
		v := x >> (i & 63)
		sum = sum*31 + uint64(bits.LeadingZeros64(v)+bits.TrailingZeros64(v)<<8+bits.OnesCount64(v)<<16)
		sum += uint64(bits.Len32(uint32(v))) ^ uint64(bits.TrailingZeros32(uint32(v))) ^ uint64(bits.Reverse32(uint32(v))) ^ uint64(bits.ReverseBytes64(v)) ^ uint64(bits.Len8(uint8(v)))
	}
	return sum
}

func crc(n int) uint64 {
	b := make([]byte, 4099)
	x := uint64(5)
	for i := range b {
		x = lcg(x)
		b[i] = byte(x >> 56)
	}
	sum := uint64(crc32.ChecksumIEEE([]byte("123456789"))) << 32 // 0xcbf43926
	for i := range n / 100 {
		at := i % 7 // every alignment
		copy(b[at:], b[2*at:])
		sum ^= uint64(crc32.ChecksumIEEE(b[at:])) << (i % 31)
	}
	return sum
}

func text(n int) uint64 {
	x, sum := uint64(6), uint64(0)
	for i := range n {
		x = lcg(x)
		f := float64(int64(x)) * math.Pow10(i%40-20)
		s := strconv.FormatFloat(f, 'g', -1, 64)
		back, err := strconv.ParseFloat(s, 64)
		if err != nil || back != f {
			return 0
		}
		d := strconv.FormatInt(int64(x), 10)
		for _, c := range []byte(s + d) {
			sum = sum*131 + uint64(c)
		}
	}
	return sum
}

func sorting(n int) uint64 {
	x, sum := uint64(7), uint64(0)
	list := make([]int64, n)
	m := map[int64]int{}
	for i := range list {
		x = lcg(x)
		list[i] = int64(x >> 33)
		m[list[i]] = i
	}
	slices.Sort(list)
	for i, v := range list {
		sum = sum*31 + uint64(v) + uint64(m[v])
		if i > 0 && list[i-1] > v {
			return 0
		}
		delete(m, v)
	}
	return sum + uint64(len(m))
}
