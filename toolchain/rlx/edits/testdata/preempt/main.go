// Preempt runs a loop without calls on one core and says how many turns another
// goroutine had meanwhile, and what the loop computed.
package main

import (
	"fmt"
	"runtime"
	"time"
)

func main() {
	runtime.GOMAXPROCS(1)
	turns := 0
	go func() {
		for {
			turns++
			time.Sleep(time.Millisecond)
		}
	}()
	for turns == 0 {
		runtime.Gosched()
	}
	before := turns
	table := make([]uint32, 1024)
	sum := spin(300_000_000, table)
	fmt.Println(turns-before, sum)
}

//go:noinline
func spin(n int, table []uint32) uint32 {
	x := uint32(1)
	for i := range n {
		p := &table[i%len(table)]
		x = x*1664525 + 1013904223 + *p
		*p = x >> 16
	}
	return x
}
