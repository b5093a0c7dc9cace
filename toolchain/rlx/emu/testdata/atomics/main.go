// Command atomics lets threads update shared words through sync/atomic and
// says how many updates were lost.
//
//	atomics [-ops LIST] [-threads N] [-n N] [-alarm]
//
// With -alarm a signal arrives every 200 us, whose handler uses the runtime's
// atomics wherever it interrupts. It prints a line for each operation, "add32 lost 0", and exits with 1 when
// something was lost.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// words are what the threads share: each thread also works on a word of its
// own, so that between its turns the flag is set for another address.
type words struct {
	_     [64]byte
	u32   uint32
	_     [64]byte
	u64   atomic.Uint64 // aligned on 32-bit machines too
	_     [64]byte
	bits  uint32
	token uint32
	mu    sync.Mutex
	plain int
	torn  atomic.Int64
	dummy [16][16]uint32
}

// ops do n updates as thread id of threads and return how many of them the
// thread itself saw lost.
var ops = map[string]func(w *words, id, n int) int{
	"add32": func(w *words, id, n int) int {
		for range n {
			atomic.AddUint32(&w.u32, 1)
			atomic.AddUint32(&w.dummy[id][0], 1)
		}
		return 0
	},
	"cas32": func(w *words, id, n int) int {
		for range n {
			for {
				v := atomic.LoadUint32(&w.u32)
				if atomic.CompareAndSwapUint32(&w.u32, v, v+1) {
					break
				}
			}
			atomic.CompareAndSwapUint32(&w.dummy[id][0], 1, 2) // fails
			atomic.StoreUint32(&w.dummy[id][1], uint32(id))
		}
		return 0
	},
	// Each token is held by somebody: what is swapped out is swapped in.
	"swap32": func(w *words, id, n int) int {
		mine := w.dummy[id][2]
		for range n {
			mine = atomic.SwapUint32(&w.token, mine)
			atomic.AddUint32(&w.dummy[id][0], 1)
		}
		w.dummy[id][2] = mine
		return 0
	},
	"bits": func(w *words, id, n int) int {
		lost, bit := 0, uint32(1)<<id
		for range n {
			atomic.OrUint32(&w.bits, bit)
			atomic.AddUint32(&w.dummy[id][0], 1)
			if atomic.LoadUint32(&w.bits)&bit == 0 {
				lost++
			}
			atomic.AndUint32(&w.bits, ^bit)
			if atomic.LoadUint32(&w.bits)&bit != 0 {
				lost++
			}
		}
		return lost
	},
	"add64": func(w *words, id, n int) int {
		for range n {
			w.u64.Add(1<<32 | 1)
			atomic.AddUint32(&w.dummy[id][0], 1)
		}
		return 0
	},
	"cas64": func(w *words, id, n int) int {
		for range n {
			for {
				v := w.u64.Load()
				if w.u64.CompareAndSwap(v, v+(1<<32|1)) {
					break
				}
			}
			atomic.CompareAndSwapUint32(&w.dummy[id][0], 1, 2)
		}
		return 0
	},
	// The halves of a 64-bit word are never seen apart.
	"store64": func(w *words, id, n int) int {
		lost := 0
		for i := range n {
			x := int64(id<<20 | i)
			w.torn.Store(x<<32 | x)
			if v := w.torn.Load(); v>>32 != v&(1<<32-1) {
				lost++
			}
		}
		return lost
	},
	"mutex": func(w *words, id, n int) int {
		for range n {
			w.mu.Lock()
			w.plain++
			w.mu.Unlock()
			atomic.AddUint32(&w.dummy[id][0], 1)
		}
		return 0
	},
}

// missing compares the words with what threads times n updates make of them.
func missing(op string, w *words, threads, n int) int {
	all := threads * n
	switch op {
	case "add32", "cas32":
		return all - int(w.u32)
	case "add64", "cas64":
		v := w.u64.Load()
		if v>>32 != v&(1<<32-1) {
			return all
		}
		return all - int(v>>32)
	case "mutex":
		return all - w.plain
	case "swap32":
		sum := int(w.token) - threads*(threads+1)/2
		for id := range threads {
			sum += int(w.dummy[id][2])
		}
		if sum != 0 {
			return 1
		}
	}
	return 0
}

func main() {
	list := flag.String("ops", "add32,cas32,swap32,bits,add64,cas64,store64,mutex", "operations")
	threads := flag.Int("threads", 4, "threads, at most 16")
	n := flag.Int("n", 2000, "updates of each")
	alarm := flag.Bool("alarm", false, "let signals arrive")
	flag.Parse()
	runtime.GOMAXPROCS(*threads)
	alarms := make(chan os.Signal, 1)
	if *alarm {
		signal.Notify(alarms, syscall.SIGALRM)
		every := [4]uintptr{0, 200, 0, 200} // struct itimerval
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETITIMER, 0, uintptr(unsafe.Pointer(&every)), 0); e != 0 {
			fmt.Println("setitimer:", e)
			os.Exit(2)
		}
	}
	code := 0
	for _, op := range strings.Split(*list, ",") {
		w := new(words)
		for id := range *threads {
			w.dummy[id][2] = uint32(id + 1)
		}
		var wg sync.WaitGroup
		var seen atomic.Int32
		for id := range *threads {
			wg.Go(func() {
				runtime.LockOSThread() // a thread of its own, gone with the goroutine
				lost := 0
				for done := 0; done < *n; done += 16 {
					lost += ops[op](w, id, min(16, *n-done))
					// Where threads do not preempt each other they take turns here.
					syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
				}
				seen.Add(int32(lost))
			})
		}
		wg.Wait()
		lost := int(seen.Load()) + missing(op, w, *threads, *n)
		fmt.Println(op, "lost", lost)
		if lost != 0 {
			code = 1
		}
	}
	if *alarm && len(alarms) == 0 {
		fmt.Println("no signal arrived")
		code = 2
	}
	os.Exit(code)
}
