// Signals sends itself the real-time signal 40, which it may wait for.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	c := make(chan os.Signal, 1)
	if len(os.Args) > 1 {
		signal.Notify(c, syscall.Signal(40))
	}
	if err := syscall.Kill(os.Getpid(), syscall.Signal(40)); err != nil {
		panic(err)
	}
	select {
	case s := <-c:
		fmt.Println(s)
	case <-time.After(10 * time.Second):
		fmt.Println("nothing")
	}
}
