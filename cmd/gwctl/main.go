// Command gwctl is the gateway's remote control for a workstation (Linux,
// macOS, Windows): the same command line as on the box, without device code,
// and what turns a crash's trace into lines.
package main

import (
	"context"
	"os"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/bench"
	"gwinit/internal/gwctl/completion"
	"gwinit/internal/gwctl/discover"
	"gwinit/internal/gwctl/ethtune"
	"gwinit/internal/gwctl/image"
	"gwinit/internal/gwctl/remote"
	"gwinit/internal/gwctl/symbolize"
)

// version is set by the linker.
var version = "development"

func main() {
	local := []gwctl.Local{discover.Command(), ethtune.Command(), image.Command(), symbolize.Command()}
	local = append(local, bench.Commands(version)...)
	local = append(local, completion.Command(local...))
	a := remote.Wrap(version, local...)
	os.Exit(a.Execute(context.Background(), applet.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
}
