// Collect says what collections of a small heap take for themselves, in KiB.
package main

import (
	"fmt"
	"runtime"
)

var kept [64][]byte

func main() {
	for i := range 1000 {
		kept[i%len(kept)] = make([]byte, i)
		if i%100 == 0 {
			runtime.GC()
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println(m.GCSys >> 10)
}
