// Package symbolize is gwctl's subcommand symbolize: it turns the pcs of a
// pasted trace into files and lines, with the symbol file of the release. It
// asks no gateway, and only cmd/gwctl has it: the gateway's own binary does
// without (toolchain/rlx/symbols reads the file).
package symbolize

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/words"
	"gwinit/toolchain/rlx/symbols"
)

// maxText bounds the text that is read, in bytes. It is kept whole: the build
// ID comes behind the first lines of a crash.
const maxText = 64 << 20

// folders are searched for symbol files without -sym: where a release was
// unpacked, and where `make gw` puts them.
var folders = [...]string{".", "build"}

const usage = `usage: gwctl symbolize [-sym FILE|FOLDER] FILE|-
turn a trace of the gateway's programs into files and lines

FILE is what was copied from the console or a log; - is standard input.
  -sym FILE    the release's symbol file (gw.sym), or a folder with such files
               (*.sym); the working folder and its build/ are searched without
`

// Command is the subcommand.
func Command() gwctl.Local {
	return gwctl.Local{
		Name: "symbolize", Args: "[-sym FILE] FILE", Summary: "turn a pasted trace into files and lines",
		Usage: usage, Workstation: true,
		Run: func(std applet.IO, args []string, asJSON bool, _ func(string, bool) (string, error)) error {
			return run(std, args, asJSON)
		},
	}
}

func run(std applet.IO, args []string, asJSON bool) error {
	fs := flag.NewFlagSet("gwctl symbolize", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	sym := fs.String("sym", "", "")
	names, err := words.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return applet.Usagef("symbolize takes one file with a trace, or - for standard input")
	}
	text, err := read(std.In, names[0])
	if err != nil {
		return err
	}
	where := folders[:]
	if *sym != "" {
		where = []string{*sym}
	}
	tables, err := find(symbols.BuildIDs(text), where, *sym != "")
	if err != nil {
		return err
	}
	out, err := symbols.Translate(text, tables)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(std.Out).Encode(struct {
			Text string `json:"text"`
		}{string(out)})
	}
	_, err = std.Out.Write(out)
	return err
}

// read returns what a file, or standard input for "-", holds.
func read(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("the trace has more than %d MiB: cut out what is in question", maxText>>20)
	}
	return text, nil
}

// find returns the symbols of the builds that a trace names, or of the one
// symbol file that there is if it names none. named tells that the user said
// where they are.
func find(ids, where []string, named bool) (map[string]*symbols.Table, error) {
	files := map[string]string{} // by build ID
	for _, place := range where {
		if err := list(place, named, files); err != nil {
			return nil, err
		}
	}
	places := strings.Join(where, ", ")
	tables := map[string]*symbols.Table{}
	if len(ids) == 0 {
		if !named || len(files) != 1 {
			return nil, errors.New(`the trace has no line "build id: ...": copy the whole of it, or name the symbol file of the release with -sym FILE`)
		}
		for id := range files {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		name, ok := files[id]
		if !ok {
			return nil, fmt.Errorf("the trace is of build %s, and %s: name the symbol file (gw.sym) of the release that it is of with -sym FILE", id, have(places, files))
		}
		t, err := symbols.Open(name)
		if err != nil {
			return nil, err
		}
		tables[id] = t
	}
	return tables, nil
}

// have says what was found.
func have(places string, files map[string]string) string {
	if len(files) == 0 {
		return "there is no symbol file in " + places
	}
	var list []string
	for id, name := range files {
		list = append(list, name+" is of build "+id)
	}
	if len(list) > 3 {
		return fmt.Sprintf("none of the %d symbol files in %s is", len(list), places)
	}
	return strings.Join(list, ", ")
}

// list adds the symbol files at place, a file or a folder, by their build IDs.
// What the user did not name may be missing.
func list(place string, named bool, files map[string]string) error {
	st, err := os.Stat(place)
	switch {
	case err != nil && named:
		return err
	case err != nil:
		return nil
	case !st.IsDir():
		id, err := readID(place)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		files[id] = place
		return nil
	}
	entries, err := os.ReadDir(place)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(place, e.Name())
		if filepath.Ext(name) != ".sym" {
			continue
		}
		// Other programs have files with that name too.
		if id, err := readID(name); err == nil {
			files[id] = name
		}
	}
	return nil
}

func readID(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return symbols.ReadID(f)
}
