// Clock prints the wall clock's seconds, how many milliseconds the runtime
// sleeps when it is told 300,001 us, and, given a file, what becomes of a
// modification time.
package main

import (
	"fmt"
	"os"
	"time"
	_ "unsafe"
)

//go:linkname usleep runtime.usleep
func usleep(usec uint32)

func main() {
	now := time.Now()
	usleep(300_001)
	fmt.Println(now.Unix(), time.Since(now).Milliseconds())
	for _, name := range os.Args[1:] {
		for _, year := range []int{1999, 2026, 2040, 2105} {
			want := time.Date(year, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
			if err := os.Chtimes(name, want, want); err != nil {
				panic(err)
			}
			fi, err := os.Stat(name)
			if err != nil {
				panic(err)
			}
			fmt.Println(year, fi.ModTime().Equal(want))
		}
	}
}
