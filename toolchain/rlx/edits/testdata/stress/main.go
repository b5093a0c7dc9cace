// Stress counts on several threads at once, in each way that sync/atomic has,
// and prints how much of it was lost.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	if n < 0 {
		stores(new(atomic.Uint32), new(atomic.Pointer[int]), new(int))
	}
	const threads = 3
	runtime.GOMAXPROCS(threads)
	var (
		wide    atomic.Int64
		add     atomic.Int32
		cas     atomic.Uint32
		or, and uint32
		swapped atomic.Uint32
		wg      sync.WaitGroup
	)
	and = 1<<threads - 1
	for i := range threads {
		wg.Go(func() {
			runtime.LockOSThread()
			for range n {
				add.Add(1)
				for old := cas.Load(); !cas.CompareAndSwap(old, old+1); old = cas.Load() {
				}
				wide.Add(1 << 20)
				swapped.Add(swapped.Swap(0) + 1)
				atomic.OrUint32(&or, 1<<i)
				atomic.AndUint32(&and, ^(1 << i))
			}
		})
	}
	wg.Wait()
	lost := threads*n - int(add.Load()) + threads*n - int(cas.Load()) + threads*n - int(wide.Load()>>20) + threads*n - int(swapped.Load())
	if or != 1<<threads-1 || and != 0 {
		lost++
	}
	fmt.Println("lost", lost)
}

// Stores are what a test reads the words of.
//
//go:noinline
func stores(p *atomic.Uint32, q *atomic.Pointer[int], x *int) {
	p.Store(7)
	p.Store(0)
	q.Store(x)
}
