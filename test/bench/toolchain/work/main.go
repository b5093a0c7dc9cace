// Command work does a fixed amount of one kind of work, so that what two
// compilers make of it can be counted in instructions: `work NAME`, and
// `work none` for what starting and ending costs.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"math/big"
	"math/bits"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// kinds returns a word that depends on all of the work, so that none of it
// can be left out and both compilers' results can be compared.
var kinds = map[string]func() uint64{
	"none":     func() uint64 { return 0 },
	"floats":   floats,
	"sha256":   sha,
	"ed25519":  sign,
	"json":     jsonWork,
	"maps":     maps,
	"sort":     sorting,
	"strconv":  conversions,
	"text":     text,
	"big":      bigNumbers,
	"bits":     bitWork,
	"frames":   frames,
	"channels": channels,
	"mutex":    locks,
	"gc":       trees,
	"time":     times,
}

func main() {
	name := "none"
	if len(os.Args) == 2 {
		name = os.Args[1]
	}
	work, ok := kinds[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "work: no kind of work is called", name)
		os.Exit(2)
	}
	fmt.Printf("%s %016x\n", name, work())
}

// lcg is a cheap source of the same numbers everywhere.
type lcg uint32

func (l *lcg) next() uint32 {
	*l = *l*1664525 + 1013904223
	return uint32(*l)
}

func floats() uint64 {
	x, y, vx, vy := 1.0, 0.0, 0.0, 1.0
	for range 3000 {
		r := x*x + y*y
		a := 1 / (r * math.Sqrt(r))
		vx -= x * a * 0.01
		vy -= y * a * 0.01
		x += vx * 0.01
		y += vy * 0.01
	}
	return math.Float64bits(x) ^ math.Float64bits(y)
}

func sha() uint64 {
	buf := make([]byte, 64<<10)
	var sum [32]byte
	for range 4 {
		sum = sha256.Sum256(buf)
		copy(buf, sum[:])
	}
	return binary.BigEndian.Uint64(sum[:])
}

func sign() uint64 {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	msg := []byte("gateway")
	sig := ed25519.Sign(key, msg)
	if !ed25519.Verify(key.Public().(ed25519.PublicKey), msg, sig) {
		return 0
	}
	return binary.BigEndian.Uint64(sig)
}

func jsonWork() uint64 {
	type service struct {
		Name  string         `json:"name"`
		State string         `json:"state"`
		Pid   int            `json:"pid"`
		Env   map[string]int `json:"env"`
		List  []string       `json:"list"`
	}
	in := service{"bridge", "running", 42, map[string]int{"baud": 115200, "port": 8888}, []string{"a", "b", "c\n"}}
	var n uint64
	for range 150 {
		b, err := json.Marshal(in)
		if err != nil {
			return 0
		}
		var out service
		if err := json.Unmarshal(b, &out); err != nil {
			return 0
		}
		n += uint64(len(b)) + uint64(out.Env["port"])
	}
	return n
}

func maps() uint64 {
	m := map[uint32]uint32{}
	l := lcg(1)
	for range 20000 {
		m[l.next()>>18]++
	}
	var n uint64
	for k, v := range m {
		n += uint64(k) * uint64(v)
	}
	return n
}

func sorting() uint64 {
	l := lcg(2)
	a := make([]uint32, 20000)
	for i := range a {
		a[i] = l.next()
	}
	b := make([]string, 2000)
	for i := range b {
		b[i] = strconv.Itoa(int(l.next()))
	}
	slices.Sort(a)
	sort.Strings(b)
	return uint64(a[777])<<32 | uint64(len(b[77]))
}

func conversions() uint64 {
	l := lcg(3)
	var n uint64
	for range 3000 {
		v := l.next()
		s := strconv.FormatUint(uint64(v)*uint64(v), 10)
		u, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0
		}
		n += u
	}
	for range 200 {
		f := float64(l.next()) / 3
		g, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', -1, 64), 64)
		if err != nil || g != f {
			return 0
		}
	}
	return n
}

func text() uint64 {
	line := "eth0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500 carrier on, fq_codel, 100 Mbit/s full duplex"
	var n uint64
	for range 1500 {
		f := strings.Fields(line)
		n += uint64(len(strings.Join(f, ","))) + uint64(strings.Index(line, "fq_codel"))
		n += uint64(bytes.Count([]byte(strings.ToUpper(line)), []byte("T")))
	}
	return n
}

func bigNumbers() uint64 {
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 521), big.NewInt(1))
	x := big.NewInt(3)
	x.Exp(x, new(big.Int).Rsh(p, 400), p)
	return x.Uint64()
}

func bitWork() uint64 {
	l := lcg(4)
	var n uint64
	for range 60000 {
		v := l.next()
		n += uint64(bits.Len32(v)) + uint64(bits.TrailingZeros32(v|1<<20)) + uint64(bits.OnesCount32(v))
		hi, lo := bits.Mul64(n, uint64(v))
		n ^= hi ^ lo<<(v&31) ^ uint64(v/10)
	}
	return n
}

// frames is what a bridge does with bytes: escape, sum, find the end.
func frames() uint64 {
	l := lcg(5)
	in := make([]byte, 4096)
	for i := range in {
		in[i] = byte(l.next() >> 24)
	}
	out := make([]byte, 0, 2*len(in))
	var n uint64
	for range 30 {
		out = out[:0]
		crc := uint16(0xffff)
		for _, b := range in {
			crc = crc>>8 | crc<<8
			crc ^= uint16(b)
			crc ^= crc & 0xff >> 4
			crc ^= crc << 12
			crc ^= crc & 0xff << 5
			switch b {
			case 0x7e, 0x7d, 0x11, 0x13, 0x18, 0x1a:
				out = append(out, 0x7d, b^0x20)
			default:
				out = append(out, b)
			}
		}
		n += uint64(crc) + uint64(crc32.ChecksumIEEE(out)) + uint64(bytes.IndexByte(out, 0x7d))
	}
	return n
}

func channels() uint64 {
	ping, pong := make(chan uint64), make(chan uint64)
	go func() {
		for v := range ping {
			pong <- v + 1
		}
		close(pong)
	}()
	var n uint64
	for range 10000 {
		ping <- n
		n = <-pong
	}
	close(ping)
	<-pong
	return n
}

func locks() uint64 {
	var mu sync.RWMutex
	var counter atomic.Uint32
	var n uint64
	for range 60000 {
		mu.Lock()
		n++
		mu.Unlock()
		mu.RLock()
		n += uint64(counter.Add(1) & 1)
		mu.RUnlock()
	}
	return n
}

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func (n *node) count() uint64 {
	if n.left == nil {
		return 1
	}
	return 1 + n.left.count() + n.right.count()
}

func trees() uint64 {
	kept := tree(14)
	var n uint64
	for range 60 {
		n += tree(10).count()
	}
	return n + kept.count()
}

func times() uint64 {
	t := time.Unix(1796000000, 0).UTC()
	var n uint64
	for range 1500 {
		s := t.Format(time.RFC3339)
		u, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return 0
		}
		n += uint64(u.Unix()) + uint64(u.YearDay())
		t = t.Add(37 * time.Hour)
	}
	return n
}
