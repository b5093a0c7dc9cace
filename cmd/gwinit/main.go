// Command gwinit is the gateway's userland: PID 1, every service, the tools of
// the box and gwctl in one binary. It looks at argv[0], then at argv[1].
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"gwinit/internal/applet"
	"gwinit/internal/pid1"
	"gwinit/internal/rootfsflash"
)

// version is set by the linker.
var version = "development"

func main() {
	name := filepath.Base(os.Args[0])
	if name == "init" && os.Getpid() == 1 {
		pid1.Main(version)
	}
	if name == rootfsflash.Name && os.Getpid() == 1 {
		rootfsflash.Main()
	}
	args := os.Args[1:]
	// What the boot runs before the bridge listens is looked up without the
	// whole table, which touches code of every tool in flash.
	if name == "gw" && len(args) > 0 {
		if a, ok := bootApplet(args[0]); ok {
			os.Exit(a.Execute(context.Background(), stdio(), args[1:]))
		}
	}
	// A file that grows beyond its limit (internal/ramfiles) is an error of the
	// write, and not the end of the program with a trace.
	signal.Ignore(syscall.SIGXFSZ)
	os.Exit(dispatch(name, args))
}

func stdio() applet.IO { return applet.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// dispatch runs the applet that argv names and returns its exit status.
func dispatch(name string, args []string) int {
	std := stdio()
	table := applets()
	if login, ok := strings.CutPrefix(name, "-"); ok { // "-sh": a login shell
		name, args = login, append([]string{"-l"}, args...)
	}
	a, ok := table.Find(name)
	if !ok { // called by the binary's own name: the applet is the first argument
		if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
			list(std)
			return 0
		}
		switch args[0] {
		case "-list":
			for _, a := range table {
				fmt.Fprintln(std.Out, a.Name)
			}
			return 0
		case "-version", "--version":
			fmt.Fprintln(std.Out, version)
			return 0
		}
		if a, ok = table.Find(args[0]); !ok {
			fmt.Fprintf(std.Err, "gw: no applet %q; gw alone lists them\n", args[0])
			return 127
		}
		args = args[1:]
	}
	return a.Execute(context.Background(), std, args)
}
