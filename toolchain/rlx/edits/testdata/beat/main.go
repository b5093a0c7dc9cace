// Beat does one of three things as often as it is told, 50 ms apart: sleep in a
// system call, take a tick, take a byte from a pipe.
package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const pause = 50 * time.Millisecond

func main() {
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	switch os.Args[1] {
	case "call":
		runtime.LockOSThread()
		for range n {
			ts := syscall.NsecToTimespec(pause.Nanoseconds())
			if err := syscall.Nanosleep(&ts, nil); err != nil {
				panic(err)
			}
		}
	case "tick":
		t := time.NewTicker(pause)
		defer t.Stop()
		for range n {
			<-t.C
		}
	case "pipe":
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		go func() {
			for range n {
				time.Sleep(pause)
				_, _ = w.Write([]byte{1})
			}
		}()
		var b [1]byte
		for range n {
			if _, err := r.Read(b[:]); err != nil {
				panic(err)
			}
		}
	}
}
