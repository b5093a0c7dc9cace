// Command rlx adapts the installed Go to the gateway.
//
//	rlx overlay -out DIR
//
// writes edited copies of some files of the Go runtime into DIR and
// DIR/overlay.json, which `go build -overlay` takes. The installed Go is not
// touched. An edit whose anchor is not in the file exactly once is an error
// that names both: another Go release may have mended the fault, or moved it.
//
// What it does not do yet is the code generator: the RLX4181's rules (load
// delay, no MUL, no CLZ ...) are not kept, so what is built runs on the
// emulated board only.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rlx:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || args[0] != "overlay" {
		return fmt.Errorf("usage: rlx overlay [-goroot DIR] -out DIR")
	}
	fs := flag.NewFlagSet("rlx overlay", flag.ContinueOnError)
	goroot := fs.String("goroot", "", "Go `folder`; what `go env GOROOT` says if empty")
	out := fs.String("out", "", "`folder` for the edited files and overlay.json")
	if err := fs.Parse(args[1:]); err != nil {
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
	return writeOverlay(*goroot, *out)
}

// writeOverlay writes the edited files and the list of them. Files that are as
// they should be keep their time: the go command looks at it.
func writeOverlay(goroot, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for _, file := range files(edits) {
		original := filepath.Join(goroot, "src", filepath.FromSlash(file))
		b, err := os.ReadFile(original)
		if err != nil {
			return err
		}
		if b, err = apply(edits, file, b); err != nil {
			return err
		}
		edited := filepath.Join(out, filepath.FromSlash(file))
		if err := update(edited, b); err != nil {
			return err
		}
		replace[original] = edited
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return update(filepath.Join(out, "overlay.json"), append(list, '\n'))
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
