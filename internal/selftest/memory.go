//go:build linux

package selftest

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxFill bounds the memory that is filled, however much is in hand.
const maxFill = 8 << 10 // KiB

// runMemory looks at stacks, page faults, the collector and RAM.
func runMemory(ctx context.Context, e *env) {
	total, available := meminfo(e.root)
	e.say("in hand", Info, "%d of %d KiB available, %d KiB pages", available, total, os.Getpagesize()>>10)
	for _, step := range []func(*env){deepStack, manyStacks, pageFaults, collector} {
		if ctx.Err() != nil {
			return
		}
		step(e)
	}
	fill(ctx, e, min(maxFill, available/4)<<10)
}

// meminfo returns MemTotal and MemAvailable in KiB, zeros if unknown.
func meminfo(root string) (total, available int) {
	b, err := os.ReadFile(filepath.Join(root, "/proc/meminfo"))
	if err != nil {
		return 0, 0
	}
	return kib(string(b), "MemTotal:"), kib(string(b), "MemAvailable:")
}

// kib finds a key of /proc/meminfo.
func kib(info, key string) int {
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil || n < 0 {
				return 0
			}
			return n
		}
	}
	return 0
}

// descend recurses with an array and a word that the call below writes by a
// pointer, both in a frame that moves whenever the stack grows. It returns how
// many frames were not as they were left.
//
//go:noinline
func descend(depth int, above *uint32) (wrong int) {
	var frame [16]uint32
	for i := range frame {
		frame[i] = uint32(depth * (i + 1))
	}
	inbox, want := uint32(depth), uint32(depth)
	if depth > 0 {
		wrong = descend(depth-1, &inbox)
		want += message(depth - 1)
	}
	for i := range frame {
		if frame[i] != uint32(depth*(i+1)) {
			want++ // the frame is wrong whatever the inbox holds
			inbox = 0
		}
	}
	if inbox != want {
		wrong++
	}
	*above += message(depth)
	return wrong
}

// message is what a call at depth tells its caller.
func message(depth int) uint32 { return 3*uint32(depth) + 1 }

// deepStack grows a stack to half a megabyte or so and back.
func deepStack(e *env) {
	const depth = 4000
	done := make(chan int)
	go func() { // on a small stack of its own
		var top uint32
		done <- descend(depth, &top)
	}()
	wrong := <-done
	e.judge("deep recursion", wrong == 0, "%d calls, %d frames wrong", depth, wrong)
}

// manyStacks grows many stacks at once, with collections in between.
func manyStacks(e *env) {
	const n, depth = 24, 120
	done := make(chan int, n)
	for range n {
		go func() {
			var top uint32
			runtime.Gosched()
			done <- descend(depth, &top)
		}()
	}
	wrong := 0
	for i := range n {
		if i%8 == 0 {
			runtime.GC()
		}
		wrong += <-done
	}
	e.judge("many stacks", wrong == 0, "%d goroutines, %d calls each, %d frames wrong", n, depth, wrong)
}

// pageFaults maps, touches and unmaps.
func pageFaults(e *env) {
	const name = "page faults"
	const size, rounds = 1 << 20, 4
	page := os.Getpagesize()
	wrong := 0
	began := time.Now()
	for r := range rounds {
		mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if e.failed(name, err) {
			return
		}
		for i := 0; i < size; i += page {
			if mem[i] != 0 {
				wrong++ // somebody else's page
			}
			mem[i] = byte(i/page + r)
		}
		for i := 0; i < size; i += page {
			if mem[i] != byte(i/page+r) {
				wrong++
			}
		}
		if err := unix.Munmap(mem); e.failed(name, err) {
			return
		}
	}
	n := rounds * size / page
	e.judge(name, wrong == 0, "%d pages, %d wrong, %v each", n, wrong, time.Since(began)/time.Duration(n))
}

// tree is what the collector has to follow.
type tree struct {
	left, right *tree
	sum         uint32
	pad         []byte
}

func grow(depth int, seed uint32) *tree {
	t := &tree{sum: seed}
	if depth > 0 {
		t.left, t.right = grow(depth-1, 2*seed), grow(depth-1, 2*seed+1)
	} else {
		t.pad = []byte{byte(seed), byte(seed >> 8)}
	}
	return t
}

// check counts the nodes that are not what grow made.
func (t *tree) check(depth int, seed uint32) int {
	wrong := 0
	if t.sum != seed {
		wrong++
	}
	if depth == 0 {
		if len(t.pad) != 2 || t.pad[0] != byte(seed) || t.pad[1] != byte(seed>>8) {
			wrong++
		}
		return wrong
	}
	return wrong + t.left.check(depth-1, 2*seed) + t.right.check(depth-1, 2*seed+1)
}

// collector collects while trees are made and dropped.
func collector(e *env) {
	const depth = 11
	n := e.times(40, 8)
	keep := grow(depth, 1)
	wrong := 0
	began := time.Now()
	for i := range n {
		t := grow(depth-2, uint32(i))
		if i%4 == 0 {
			runtime.GC()
		}
		keep.right.right = grow(depth-2, 7) // an old object points at a young one
		wrong += t.check(depth-2, uint32(i))
	}
	runtime.GC()
	wrong += keep.left.check(depth-1, 2) + keep.right.left.check(depth-2, 6) + keep.right.right.check(depth-2, 7)
	e.judge("collector", wrong == 0, "%d trees made and dropped under collections, %d objects wrong, %v", 2*n+1, wrong, time.Since(began).Round(time.Millisecond))
	debug.FreeOSMemory()
}

// fill writes size bytes of RAM, every word with a number of its own, and
// reads them back twice.
func fill(ctx context.Context, e *env, size int) {
	const name = "RAM"
	size &^= os.Getpagesize() - 1
	if size <= 0 {
		e.say(name, Skip, "how much is available is unknown")
		return
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if e.failed(name, err) {
		return
	}
	defer func() { _ = unix.Munmap(mem) }() // the process ends soon
	words := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(mem))), size/4)
	wrong := 0
	for _, invert := range []uint32{0, ^uint32(0)} {
		if ctx.Err() != nil {
			return
		}
		for i := range words {
			words[i] = uint32(i)*2654435761 ^ invert
		}
		for i := range words {
			if words[i] != uint32(i)*2654435761^invert {
				wrong++
			}
		}
	}
	e.judge(name, wrong == 0, "%d KiB, two patterns, %d words wrong", size>>10, wrong)
}
