// Order prints what a program can see of the order of its instructions: memory
// after a recovered fault, lines of panics and of callers, results of loops and
// stacks that move.
package main

import (
	"fmt"
	"math/bits"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

type node struct {
	a, b, c int
	next    *node
	big     [2000]int
	last    int
}

var (
	global, other int
	sink          []byte
)

// caught runs f and says what it panicked with and in which line of this file.
func caught(name string, f func()) {
	defer func() {
		r := recover()
		var pcs [16]uintptr
		frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
		for {
			frame, more := frames.Next()
			if strings.HasPrefix(frame.Function, "main.") && !strings.HasPrefix(frame.Function, "main.caught") {
				fmt.Println(name, r, frame.Function, frame.Line)
				return
			}
			if !more {
				fmt.Println(name, r, "nowhere")
				return
			}
		}
	}()
	f()
}

//go:noinline
func storesThenFault(p *node, x *int) {
	global = 1
	*x = 2
	p.b = 3
	other = 4
	*x = 5
}

//go:noinline
func loadThenStores(p *node, x *int) int {
	*x = 6
	v := p.c
	*x = 7
	global = v
	return v
}

//go:noinline
func named(p *node) (r, s int) {
	defer func() { recover() }()
	r = 1
	s = p.a
	r = 2
	p.next.b = r
	s = 3
	return
}

//go:noinline
func local(p *node) (seen int) {
	x := 1
	defer func() {
		recover()
		seen = x
	}()
	x = 2
	p.a++
	x = 3
	p.next.a++
	x = 4
	return
}

//go:noinline
func far(p *node) int { return p.last }

//go:noinline
func element(p *node, i int) int { return p.big[i] }

//go:noinline
func chain(p *node) int {
	a := p.a
	q := p.next
	return a +
		q.b +
		q.next.c
}

//go:noinline
func copies(p, q *node, i int) {
	p.a, p.b, p.c = q.a, q.b, q.c
	p.big[i] = q.big[i+1]
}

func inlined(p *node) int {
	return p.b * 3
}

//go:noinline
func callsInlined(p *node) int {
	x := global
	return x + inlined(p)
}

//go:noinline
func divide(a, b int) int { return a / b }

//go:noinline
func slice(s []int, i, j int) []int { return s[i:j] }

// spin is a loop without a call, which stock Go preempts by signals.
//
//go:noinline
func spin(n int, table *[64]uint32) uint32 {
	x, y, z := uint32(1), uint32(2), uint64(3)
	var from, to [40]uint32 // copied through REGTMP
	var far [9000]uint32    // most of it more than 32 KiB from SP
	for i := range n {
		from[i%40] += x
		to = from
		far[8999] += to[i%40]
		far[8500] ^= far[8999]
		y += far[8500]
		t := table[x&63]
		x = x*12 + t
		y = bits.RotateLeft32(y, 5) ^ x*20
		z = z*0x5851F42D4C957F2D + uint64(y)
		table[y&63] = t + uint32(z>>32)
		if x&8 != 0 {
			y += table[i&63]
		}
	}
	return x ^ y ^ uint32(z)
}

//go:noinline
func deep(n int, a [8]int) int {
	if n == 0 {
		return a[3]
	}
	a[n&7] += n
	return deep(n-1, a) + a[1]
}

func main() {
	x := 0
	caught("store", func() { storesThenFault(nil, &x) })
	fmt.Println(global, other, x)
	caught("load", func() { loadThenStores(nil, &x) })
	fmt.Println(global, other, x)
	fmt.Println(named(&node{}))
	fmt.Println(local(nil), local(&node{}))
	caught("far", func() { far(nil) })
	caught("element", func() { element(&node{}, 2000+x) })
	caught("element of nil", func() { element(nil, x) })
	caught("chain", func() { chain(&node{next: &node{}}) })
	caught("copies", func() { copies(nil, &node{}, 1) })
	caught("copies from", func() { copies(&node{}, nil, 1) })
	caught("copies out", func() { copies(&node{}, &node{}, 1999) })
	caught("inlined", func() { callsInlined(nil) })
	caught("divide", func() { divide(1, x-x) })
	caught("slice", func() { slice(make([]int, 4), 3, x+2) })

	var group sync.WaitGroup
	var rounds atomic.Int32
	done := make(chan bool)
	go func() {
		for {
			select {
			case <-done:
				done <- true
				return
			default:
				runtime.GC()
				sink = make([]byte, 4096)
				rounds.Add(1)
			}
		}
	}()
	var sums [4]uint32
	for i := range sums {
		group.Go(func() {
			var table [64]uint32
			for j := range table {
				table[j] = uint32(i*j + 1)
			}
			sums[i] = spin(200000, &table)
		})
	}
	group.Wait()
	done <- true
	<-done
	fmt.Println(sums, rounds.Load() > 0)
	fmt.Println(deep(20000, [8]int{1, 2, 3, 4, 5, 6, 7, 8}))
}
