// Command rlx adapts the installed Go to the gateway.
//
//	rlx goroot [-from GOROOT] [-cache DIR] [-without NAME,NAME]
//
// prints the folder of a copy of the installed Go with our edits and tools
// built from it, which it makes if it must (package goroot).
//
//	rlx go [-without NAME,NAME] ARGUMENT ...
//
// runs the go command of that copy for the gateway: big-endian MIPS, no FPU.
// -without leaves out edits or subjects of package edits, for measurements.
//
//	rlx overlay -out DIR
//
// writes edited copies of some files of the Go runtime into DIR and
// DIR/overlay.json, which `go build -overlay` takes.
//
//	go build -toolexec 'rlx toolexec -order LIST [-map FILE]' ...
//	RLX_ORDER=LIST [RLX_MAP=FILE] go build -toolexec rlx ...
//
// are two ways to say the same: link with a linker of our own, made from the
// installed Go's, which lays out together what LIST names (link/order.go). The
// program of rlx must be given by its whole path. LIST is what the boot
// touches; `go run ./test/bench/boot -record` makes it and needs for that the
// map of the binary that it boots. Names that a program does not have are
// passed over. The linker is built when it is first needed and kept in
// ${GW_CACHE:-$HOME/.cache/gwinit}/link.
//
// The installed Go is not touched. An edit whose anchor is not in the file
// exactly once is an error that names both: another Go release may have mended
// the fault, or moved it.
//
// What it does not do yet is the code generator: the RLX4181's rules (load
// delay, no MUL, no CLZ ...) are not kept, so what is built runs on the
// emulated board only.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

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
		case "overlay":
			return overlay(args[1:])
		case "toolexec":
			return toolexec(args[1:])
		}
		if filepath.IsAbs(args[0]) {
			return toolexec(args)
		}
	}
	return fmt.Errorf("usage: rlx overlay [-goroot DIR] -out DIR, or rlx toolexec [-order FILE] [-map FILE] TOOL [ARGUMENT ...]")
}

// rootFlags adds the flags that say which Go is meant.
func rootFlags(fs *flag.FlagSet) func() (string, error) {
	o := goroot.Options{Say: func(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }}
	fs.StringVar(&o.Base, "from", "", "the installed Go's `folder`; what `go env GOROOT` says if empty")
	fs.StringVar(&o.Cache, "cache", "", "`folder` of the copies; ${GW_CACHE:-$HOME/.cache/gwinit}/go if empty")
	without := fs.String("without", "", "leave out these edits or subjects, separated by commas")
	return func() (string, error) {
		if *without != "" {
			o.Without = strings.Split(*without, ",")
		}
		return goroot.Ready(context.Background(), o)
	}
}

func printRoot(args []string) error {
	fs := flag.NewFlagSet("rlx goroot", flag.ContinueOnError)
	ready := rootFlags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	root, err := ready()
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
	root, err := ready()
	if err != nil {
		return err
	}
	cmd := goroot.Command(context.Background(), root, fs.Args()...)
	if err := syscall.Exec(cmd.Path, cmd.Args, cmd.Env); err != nil {
		return fmt.Errorf("exec %s: %w", cmd.Path, err)
	}
	return nil
}

func overlay(args []string) error {
	fs := flag.NewFlagSet("rlx overlay", flag.ContinueOnError)
	goroot := fs.String("goroot", "", "Go `folder`; what `go env GOROOT` says if empty")
	out := fs.String("out", "", "`folder` for the edited files and overlay.json")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return fmt.Errorf("rlx overlay: -out is needed")
	}
	if *goroot == "" {
		b, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("go env GOROOT: %w", err)
		}
		*goroot = strings.TrimSpace(string(b))
	}
	edited := map[string][]byte{}
	for _, file := range files(edits) {
		b, err := os.ReadFile(filepath.Join(*goroot, "src", filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		if edited[file], err = apply(edits, file, b); err != nil {
			return err
		}
	}
	_, err := writeFiles(*goroot, edited, *out)
	return err
}

// writeFiles writes edited files, named by their path below GOROOT/src, and the
// list of them, whose path it returns. Files that are as they should be keep
// their time: the go command looks at it.
func writeFiles(goroot string, edited map[string][]byte, out string) (list string, err error) {
	out, err = filepath.Abs(out)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, b := range edited {
		path := filepath.Join(out, filepath.FromSlash(file))
		if err := update(path, b); err != nil {
			return "", err
		}
		replace[filepath.Join(goroot, "src", filepath.FromSlash(file))] = path
	}
	b, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	list = filepath.Join(out, "overlay.json")
	return list, update(list, append(b, '\n'))
}

// update writes a file unless it holds b already.
func update(path string, b []byte) error {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, b) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// apply carries out the edits of one file.
func apply(edits []edit, file string, b []byte) ([]byte, error) {
	for _, e := range edits {
		if e.file != file {
			continue
		}
		if n := bytes.Count(b, []byte(e.old)); n != 1 {
			return nil, fmt.Errorf("%s: the anchor of the edit %q is there %d times, not once: look whether this Go release still needs it", file, e.name, n)
		}
		b = bytes.Replace(b, []byte(e.old), []byte(e.new), 1)
	}
	return b, nil
}

// files are the files that edits name, each once, in their order.
func files(edits []edit) (list []string) {
	seen := map[string]bool{}
	for _, e := range edits {
		if !seen[e.file] {
			seen[e.file] = true
			list = append(list, e.file)
		}
	}
	return list
}
