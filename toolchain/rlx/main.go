// Command rlx adapts the installed Go to the gateway.
//
//	rlx goroot [-from GOROOT] [-cache DIR] [-without NAME,NAME]
//
// prints the folder of a copy of the installed Go with our edits and tools
// built from it, which it makes if it must (package goroot).
//
//	rlx check [-foreign] [-strict-sc] [-stats] [-sym FILE] [-max N] FILE ...
//
// reports every instruction of a MIPS program that the RLX4181 does not execute
// as it was meant (package check), and exits with 1 if there is one.
//
//	rlx edits
//
// prints what is edited and why, the text of docs/toolchain-edits.md.
//
//	rlx go [-without NAME,NAME] ARGUMENT ...
//
// runs the go command of that copy for the gateway: big-endian MIPS, no FPU.
// Of the modules that the current one requires, it uses edited copies where
// package edits has edits for them, too. -without leaves out edits or subjects of package edits, for
// measurements.
//
// The installed Go and the module cache are not touched. An edit whose anchor is not in its file
// exactly once is an error that names both: another Go release may have mended
// the fault, or moved it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"

	"gwinit/toolchain/rlx/check"
	"gwinit/toolchain/rlx/edits"
	"gwinit/toolchain/rlx/goroot"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rlx:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "goroot":
			return printRoot(args[1:])
		case "go":
			return runGo(args[1:])
		case "edits":
			fmt.Print(edits.Markdown())
			return nil
		case "check":
			os.Exit(check.Main(args[1:], os.Stdout, os.Stderr))
		}
	}
	return errors.New("usage: rlx goroot, rlx go ARGUMENT ..., rlx check FILE ... or rlx edits; -h after one of them lists its flags")
}

// rootFlags adds the flags that say which Go is meant.
func rootFlags(fs *flag.FlagSet) func() (string, goroot.Options, error) {
	o := goroot.Options{Say: func(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }}
	fs.StringVar(&o.Base, "from", "", "the installed Go's `folder`; what `go env GOROOT` says if empty")
	fs.StringVar(&o.Cache, "cache", "", "`folder` of the copies; ${GW_CACHE:-$HOME/.cache/gwinit}/go if empty")
	without := fs.String("without", "", "leave out these edits or subjects, separated by commas")
	return func() (string, goroot.Options, error) {
		if *without != "" {
			o.Without = strings.Split(*without, ",")
		}
		root, err := goroot.Ready(context.Background(), o)
		return root, o, err
	}
}

func printRoot(args []string) error {
	fs := flag.NewFlagSet("rlx goroot", flag.ContinueOnError)
	ready := rootFlags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	root, _, err := ready()
	if err != nil {
		return err
	}
	fmt.Println(root)
	return nil
}

// runGo becomes the edited Go's go command.
func runGo(args []string) error {
	fs := flag.NewFlagSet("rlx go", flag.ContinueOnError)
	ready := rootFlags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	root, o, err := ready()
	if err != nil {
		return err
	}
	module, err := goroot.Modules(context.Background(), o)
	if err != nil {
		return err
	}
	cmd := goroot.Command(context.Background(), root, fs.Args()...)
	if module != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+module)
	}
	if err := syscall.Exec(cmd.Path, cmd.Args, cmd.Env); err != nil {
		return fmt.Errorf("exec %s: %w", cmd.Path, err)
	}
	return nil
}
