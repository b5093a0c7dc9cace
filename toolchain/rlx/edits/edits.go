// Package edits holds what makes an installed Go's source tree into one for
// the RLX4181: changes of files below GOROOT/src, each anchored in the text
// that it replaces, and whole files to add (_new).
//
// It only describes; package goroot carries out.
package edits

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Edit is one change of a file below GOROOT/src: Old, which stands there
// exactly once, becomes New; with Upto, what becomes New is Old and what
// follows it up to Upto, which stays. Why is for whoever finds the anchor gone,
// and for the Go project.
type Edit struct {
	Name, File, Why string
	Old, Upto, New  string
}

// Subject is what belongs together and can be left out together: edits, and
// the added files below the folders or files of Added.
type Subject struct {
	Name  string
	Edits []Edit
	Added []string
}

//go:embed all:_new
var added embed.FS

// Subjects are all of them. The first is what the go command tells the tools
// apart by and stays whatever is left out.
func Subjects() []Subject {
	return []Subject{
		{Name: "identity", Edits: identityEdits, Added: []string{"cmd/internal/objabi/rlx.go"}},
		{Name: "assembler", Edits: assemblerEdits, Added: assemblerFiles},
		{Name: "compiler", Edits: compilerEdits, Added: []string{"cmd/compile/internal/ssa/rlx.go"}},
		{Name: "atomics", Edits: atomicsEdits, Added: []string{"cmd/compile/internal/mips/rlx_atomic.go"}},
		{Name: "runtime", Edits: runtimeEdits, Added: []string{"runtime/netpoll_epoll_wait.go"}},
		{Name: "crypto", Edits: cryptoEdits, Added: []string{"crypto/internal/fips140/drbg/entropy_mips.go"}},
		{Name: "size of crypto", Edits: cryptoSizeEdits},
		{Name: "size of the standard library", Edits: stdSizeEdits},
		{Name: "inlining", Edits: inliningEdits},
		{Name: "linker", Edits: linkerEdits, Added: []string{"cmd/link/internal/ld/order.go", "cmd/link/internal/ld/symfile.go"}},
		{Name: "tables", Edits: tableEdits, Added: []string{"runtime/symfile.go"}},
	}
}

// identityEdits make the tools say which edits they carry: the go command
// keeps objects by what `compile -V=full` prints, which for a release is its
// version alone, and would mix stock's and ours.
var identityEdits = []Edit{
	{
		Name: "tools say their edits", File: "cmd/internal/objabi/flag.go",
		Why: "The go command must not take one compiler's objects for the other's.",
		Old: `	if s == "full" {
`,
		New: `	if s == "full" {
		p += " rlx:" + rlxKey
`,
	},
}

// Select returns all subjects without those, or those single edits, that are
// named. A name that nothing has is an error.
func Select(without []string) ([]Subject, error) {
	list, used := selectFrom(Subjects(), 1, without)
	for _, m := range Modules() {
		_, more := selectFrom(m.Subjects, 0, without)
		maps.Copy(used, more)
	}
	for _, name := range without {
		if !used[name] {
			return nil, fmt.Errorf("no subject and no edit is called %q", name)
		}
	}
	return list, nil
}

// selectFrom leaves out what is named, but for the first subjects, which stay,
// and tells which names it knew.
func selectFrom(subjects []Subject, stay int, without []string) (list []Subject, used map[string]bool) {
	used = map[string]bool{}
	for i, s := range subjects {
		if i >= stay && slices.Contains(without, s.Name) {
			used[s.Name] = true
			continue
		}
		s.Edits = slices.DeleteFunc(slices.Clone(s.Edits), func(e Edit) bool {
			drop := i >= stay && slices.Contains(without, e.Name)
			used[e.Name] = used[e.Name] || drop
			return drop
		})
		list = append(list, s)
	}
	return list, used
}

// Files are the files that the subjects edit, below GOROOT/src, each once.
func Files(subjects []Subject) (list []string) {
	for _, s := range subjects {
		for _, e := range s.Edits {
			list = append(list, e.File)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Apply carries out the subjects' edits of one file in their order.
func Apply(subjects []Subject, file string, b []byte) ([]byte, error) {
	for _, s := range subjects {
		for _, e := range s.Edits {
			if e.File != file {
				continue
			}
			if n := bytes.Count(b, []byte(e.Old)); n != 1 {
				return nil, fmt.Errorf("%s: the anchor of the edit %q is there %d times, not once: see whether this Go release still needs it. The edit's reason: %s", file, e.Name, n, strings.ReplaceAll(e.Why, "\n", " "))
			}
			at := bytes.Index(b, []byte(e.Old))
			end := at + len(e.Old)
			if e.Upto != "" {
				n := bytes.Index(b[end:], []byte(e.Upto))
				if n < 0 {
					return nil, fmt.Errorf("%s: the end of the edit %q, %q, does not follow its anchor any more. The edit's reason: %s", file, e.Name, e.Upto, strings.ReplaceAll(e.Why, "\n", " "))
				}
				end += n
			}
			b = slices.Concat(b[:at], []byte(e.New), b[end:])
		}
	}
	return b, nil
}

// AddedFiles returns the whole files that the subjects add, by their path
// below GOROOT/src.
func AddedFiles(subjects []Subject) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, s := range subjects {
		for _, root := range s.Added {
			err := fs.WalkDir(added, path.Join("_new", root), func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, err := added.ReadFile(name)
				files[strings.TrimPrefix(name, "_new/")] = b
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("added files of %s: %w", s.Name, err)
			}
		}
	}
	return files, nil
}
