// Command stubborn will not end when it is told to. On the emulated board it
// stands for an add-on of somebody else's that has gone wrong: it says that it is
// ready, ignores SIGTERM, and if /run/stubborn-child is there, has a child in a
// session of its own, which who ends a service's process group does not reach.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"gwinit/internal/notify"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stubborn:", err)
		os.Exit(1)
	}
}

func run() error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	forEver := make(chan os.Signal, 1)
	signal.Notify(forEver, syscall.SIGUSR1) // or the runtime sees a deadlock
	if len(os.Args) > 1 && os.Args[1] == "child" {
		<-forEver
		return nil
	}
	if _, err := os.Stat("/run/stubborn-child"); err == nil {
		child := exec.Command("/proc/self/exe", "child")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			return err
		}
	}
	c, err := notify.FromEnv()
	if err == nil {
		err = c.Ready("stubborn")
	}
	if err != nil {
		return err
	}
	<-forEver
	return nil
}
