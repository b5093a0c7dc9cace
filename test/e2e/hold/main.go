// Command hold has as much memory as its argument says, in MiB, and keeps it
// until it is killed. On the emulated board it stands for a large program of
// somebody else's.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: hold MIB")
		os.Exit(2)
	}
	mib, err := strconv.ParseUint(os.Args[1], 10, 12)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hold:", err)
		os.Exit(2)
	}
	signal.Ignore(syscall.SIGHUP) // of the shell that started it
	var own, pages uint64
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscan(string(b), &pages, &own) // what Go has already
	}
	memory := make([]byte, mib<<20-min(mib<<20, own*uint64(os.Getpagesize())))
	touch := func() {
		for i := 0; i < len(memory); i += 4096 {
			memory[i]++
		}
	}
	touch()
	fmt.Println("held", mib, "MiB")
	for range time.Tick(time.Minute) {
		touch()
	}
}
