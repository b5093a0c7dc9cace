//go:build linux

package selftest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// stop ends the other thread's machine code.
func stop(m *machine) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&m.words[atStop])), 1)
}

// Two threads of the kernel at once: on one core, it switches between them at
// any instruction.
const hands = 2

// contest lets two threads do work n times each.
func contest(n int, work func(hand, i int)) {
	var wg sync.WaitGroup
	for hand := range hands {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := range n {
				work(hand, i)
			}
		})
	}
	wg.Wait()
}

// runAtomics counts with two threads and with a signal handler, if there is
// machine code for one.
func runAtomics(ctx context.Context, e *env) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(hands + 1))
	stormed(e)
	n := e.times(5_000_000, 500_000)
	for _, c := range []struct {
		name  string
		n     int
		count func(n int) (got, want uint64)
	}{
		{"Add, 32 bits", n, countAdd32},
		{"CompareAndSwap, 32 bits", n / 4, countCas32},
		{"Swap, 32 bits", n / 4, countSwap32},
		{"And, Or", n / 4, countBits},
		{"Add, 64 bits", n / 10, countAdd64},
		{"CompareAndSwap, 64 bits", n / 20, countCas64},
		{"Store and Load, 64 bits, in one piece", n / 10, countTorn},
		{"CompareAndSwap of pointers", n / 20, countStack},
		{"Mutex", n / 10, countMutex},
		{"Store and Load order", n / 10, countOrder},
	} {
		if ctx.Err() != nil {
			return
		}
		got, want := c.count(c.n)
		e.judge(c.name, got == want, "%d, want %d, from %d threads", got, want, hands)
	}
}

// stormed adds with this program's atomics to what a handler adds to, too.
func stormed(e *env) {
	const name = "Add under signals whose handler adds"
	m := machineOr(e)
	if m == nil {
		return
	}
	defer m.close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	end, err := m.storm(m.addr(atAdded))
	if e.failed(name, err) {
		return
	}
	n := e.times(5_000_000, 500_000)
	added := &m.words[atAdded]
	contestWith(n, func() { atomic.AddUint32(added, 1) })
	for range n {
		for {
			old := atomic.LoadUint32(added)
			if atomic.CompareAndSwapUint32(added, old, old+1) {
				break
			}
		}
	}
	end()
	want := uint32(3*n) + m.words[atStorm]
	e.judge(name, *added == want && m.words[atStorm] > 0, "%d, want %d, of which %d by the handler", *added, want, m.words[atStorm])
}

// contestWith is contest, with this thread as one of the two: the storm's
// signals are for it.
func contestWith(n int, work func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for range n {
			work()
		}
	})
	for range n {
		work()
	}
	wg.Wait()
}

func countAdd32(n int) (got, want uint64) {
	var sum atomic.Uint32
	contest(n, func(int, int) { sum.Add(1) })
	return uint64(sum.Load()), uint64(hands * n)
}

func countCas32(n int) (got, want uint64) {
	var sum atomic.Uint32
	contest(n, func(int, int) {
		for {
			old := sum.Load()
			if sum.CompareAndSwap(old, old+1) {
				return
			}
		}
	})
	return uint64(sum.Load()), uint64(hands * n)
}

// countSwap32 passes tokens through one word: none is lost, none comes twice.
func countSwap32(n int) (got, want uint64) {
	var slot atomic.Uint32
	var in, out [hands]uint64
	contest(n, func(hand, i int) {
		token := uint32(hand*n + i + 1)
		in[hand] += uint64(token)
		out[hand] += uint64(slot.Swap(token))
	})
	return out[0] + out[1] + uint64(slot.Load()), in[0] + in[1]
}

// countBits has each thread set and clear bits of its own in one word.
func countBits(n int) (got, want uint64) {
	var word atomic.Uint32
	var wrong [hands]uint64
	contest(n, func(hand, i int) {
		bit := uint32(1) << (16*hand + i%16)
		if word.Or(bit)&bit != 0 || word.And(^bit)&bit == 0 {
			wrong[hand]++
		}
	})
	return wrong[0] + wrong[1] + uint64(word.Load()), 0
}

func countAdd64(n int) (got, want uint64) {
	var sum atomic.Uint64
	sum.Store(1<<32 - uint64(n)) // the carry is on the way
	contest(n, func(int, int) { sum.Add(1) })
	return sum.Load(), 1<<32 + uint64(n)
}

func countCas64(n int) (got, want uint64) {
	var sum atomic.Uint64
	sum.Store(1<<32 - uint64(n))
	contest(n, func(int, int) {
		for {
			old := sum.Load()
			if sum.CompareAndSwap(old, old+1) {
				return
			}
		}
	})
	return sum.Load(), 1<<32 + uint64(n)
}

// countTorn counts loads whose halves are not of one store.
func countTorn(n int) (got, want uint64) {
	var word atomic.Uint64
	var torn [hands]uint64
	contest(n, func(hand, i int) {
		v := uint64(hand*n + i)
		word.Store(v<<32 | v)
		if v = word.Load(); v>>32 != v&0xffffffff {
			torn[hand]++
		}
	})
	return torn[0] + torn[1], 0
}

// countStack pushes on a list and counts what is on it.
func countStack(n int) (got, want uint64) {
	n = min(n, 20_000) // memory
	type node struct{ next *node }
	var top atomic.Pointer[node]
	contest(n, func(int, int) {
		fresh := new(node)
		for {
			fresh.next = top.Load()
			if top.CompareAndSwap(fresh.next, fresh) {
				return
			}
		}
	})
	for p := top.Load(); p != nil; p = p.next {
		got++
	}
	return got, uint64(hands * n)
}

func countMutex(n int) (got, want uint64) {
	var mu sync.Mutex
	var sum uint64
	contest(n, func(int, int) {
		mu.Lock()
		sum++
		mu.Unlock()
	})
	return sum, uint64(hands * n)
}

// countOrder is what a message needs: who sees the flag sees what was written
// before it. One thread writes, the other looks.
func countOrder(n int) (got, want uint64) {
	var data [8]atomic.Uint32
	var flag atomic.Uint32
	var wrong uint64
	contest(n, func(hand, i int) {
		if hand == 0 {
			data[i%8].Store(uint32(i))
			flag.Store(uint32(i))
		} else if f := flag.Load(); data[f%8].Load() < f {
			wrong++
		}
	})
	return wrong, 0
}
