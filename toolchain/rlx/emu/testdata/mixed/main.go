// Command mixed uses what the runtime asks of a kernel: threads, timers,
// collection, preemption, faults that become panics, floats.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

type node struct {
	_ [100]int
	n *node
}

// next calls, so that who calls it for ever gives way there.
//
//go:noinline
func next(x int) int { return add(x, 1) }

//go:noinline
func add(x, y int) int { return x + y }

func main() {
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum := 0
	for i := 0; i < 20; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var l *node
			for j := 0; j < 2000; j++ {
				n := &node{}
				if j%100 != 0 {
					n.n = l
				}
				l = n
				if j%500 == 0 {
					time.Sleep(time.Millisecond)
					runtime.Gosched()
				}
			}
			mu.Lock()
			sum += i
			mu.Unlock()
		}()
	}
	wg.Wait()
	fmt.Println("sum", sum)
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		var p *node
		fmt.Println(p.n)
	}()
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		z := 0
		fmt.Println(1 / z)
	}()
	t := time.NewTicker(50 * time.Millisecond)
	for i := 0; i < 5; i++ {
		<-t.C
		fmt.Println("tick", i)
	}
	done := make(chan int)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	runtime.GC()
	close(done)
	x := 0
	go func() {
		for {
			x = next(x)
		}
	}()
	time.Sleep(20 * time.Millisecond)
	runtime.GC()
	h := sha256.New()
	for i := 0; i < 1000; i++ {
		fmt.Fprintf(h, "%d %g", i, float64(i)*1.1)
	}
	fmt.Printf("%x\n", h.Sum(nil))
	fmt.Fprintln(os.Stderr, "end")
	var m map[string]int
	m["x"] = 1
}
