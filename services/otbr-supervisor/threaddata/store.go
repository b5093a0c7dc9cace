package threaddata

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gwinit/internal/atomicfile"
)

// generationHead is the first line of a generation. It goes on with
//
//	generation N
//	NAME BYTES        a line for each file
//	(an empty line, and the files one after the other)
//
// and ends in four bytes, the CRC-32 (IEEE) of all before, big-endian.
const generationHead = "gwinit thread data 1"

// generation is the set as it was saved for the n-th time.
type generation struct {
	n   uint64
	set Set
}

func (g generation) append(b []byte) []byte {
	b = append(b, generationHead+"\ngeneration "...)
	b = append(strconv.AppendUint(b, g.n, 10), '\n')
	for _, f := range g.set {
		b = append(append(b, f.Name...), ' ')
		b = append(strconv.AppendInt(b, int64(len(f.Data)), 10), '\n')
	}
	b = append(b, '\n')
	for _, f := range g.set {
		b = append(b, f.Data...)
	}
	sum := crc32.ChecksumIEEE(b)
	return append(b, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
}

// parseGeneration reads what append wrote, and nothing else.
func parseGeneration(b []byte) (g generation, err error) {
	n := len(b) - 4
	if n < 0 {
		return g, ErrDamaged
	}
	sum := crc32.ChecksumIEEE(b[:n])
	if !bytes.Equal(b[n:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}) {
		return g, ErrDamaged
	}
	head, data, ok := bytes.Cut(b[:n], []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	if !ok || len(lines) < 2 || len(lines) > 2+maxFiles || lines[0] != generationHead {
		return g, ErrDamaged
	}
	number, ok := strings.CutPrefix(lines[1], "generation ")
	if g.n, err = strconv.ParseUint(number, 10, 63); err != nil || !ok {
		return g, ErrDamaged
	}
	for _, line := range lines[2:] {
		name, size, _ := strings.Cut(line, " ")
		bytes, err := strconv.Atoi(size)
		if err != nil || bytes < 0 || bytes > len(data) || !plain(name) || len(g.set) > 0 && g.set[len(g.set)-1].Name >= name {
			return g, ErrDamaged
		}
		if keepable(name) { // or it was saved before that was known
			g.set = append(g.set, File{name, data[:bytes:bytes]})
		}
		data = data[bytes:]
	}
	if len(data) != 0 {
		return g, ErrDamaged
	}
	return g, nil
}

// slots are the names of the two generations. No firmware's copying of
// thread/* takes them along.
var slots = [2]string{".generation-0", ".generation-1"}

// Store is a folder in flash. It is for one goroutine at a time.
type Store struct {
	dir  string
	sys  system
	next uint64 // number of the next generation; 0: Load has not been called
	was  Set    // as it stands in the single files
}

// NewStore returns the store in a folder, which Save makes if need be.
func NewStore(dir string) *Store { return &Store{dir: dir, sys: flash{}} }

// system is every step that a power cut may come before, so that a test has one
// come. A step is carried out whole or not at all.
type system interface {
	Write(path string, data []byte) error
	Remove(path string) error
}

type flash struct{}

func (flash) Write(path string, data []byte) error { return atomicfile.Write(path, data, 0o600) }
func (flash) Remove(path string) error             { return atomicfile.Remove(path) }

// Source is where a set that was loaded comes from.
type Source int

// The sources.
const (
	Nothing    Source = iota // there is no set
	Generation               // the newest that is whole
	Files                    // the single files: somebody else has written them
)

// Loaded is a set from flash.
type Loaded struct {
	Set    Set
	Source Source
	// Lifted: somebody else's files had counters below those in use before.
	Lifted bool
	// Damaged are files that cannot be read, and were left aside.
	Damaged []string
}

// Load returns the set that counts. A folder that is not there is none.
func (s *Store) Load() (l Loaded, err error) {
	var all []generation
	for _, name := range slots {
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return l, err
		}
		g, err := parseGeneration(b)
		if err != nil {
			l.Damaged = append(l.Damaged, name)
			continue
		}
		all = append(all, g)
	}
	if len(all) == 2 && all[0].n < all[1].n {
		all[0], all[1] = all[1], all[0]
	}
	files, damaged, err := ReadDir(s.dir)
	if err != nil {
		return l, err
	}
	l.Damaged = append(l.Damaged, damaged...)
	s.was, s.next = files, 1
	if len(all) > 0 {
		s.next = all[0].n + 1
		if ours(files, all) {
			l.Set, l.Source = all[0].set, Generation
			return l, nil
		}
	}
	if len(files) == 0 {
		return l, nil
	}
	l.Set, l.Source = files, Files
	if len(all) > 0 {
		l.Set, l.Lifted = files.Lift(all[0].set)
	}
	return l, nil
}

// ours tells whether the single files are what Save writes, or leaves behind
// when it is cut: each of one of the generations, or not there.
func ours(files Set, all []generation) bool {
	return !slices.ContainsFunc(files, func(f File) bool {
		return !slices.ContainsFunc(all, func(g generation) bool {
			data, ok := g.set.find(f.Name)
			return ok && bytes.Equal(data, f.Data)
		})
	})
}

// Save writes the set: a generation first, which is all that a restart needs,
// then the single files. Load must have been called before.
func (s *Store) Save(set Set) error {
	if s.next == 0 {
		return errors.New("threaddata: Save before Load")
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	g := generation{s.next, set}
	if err := s.sys.Write(filepath.Join(s.dir, slots[g.n%2]), g.append(nil)); err != nil {
		return fmt.Errorf("save the Thread network: %w", err)
	}
	s.next++
	for _, f := range set {
		if err := s.sys.Write(filepath.Join(s.dir, f.Name), f.Data); err != nil {
			return fmt.Errorf("save the Thread network: %w", err)
		}
	}
	for _, f := range s.was {
		if _, ok := set.find(f.Name); !ok {
			if err := s.sys.Remove(filepath.Join(s.dir, f.Name)); err != nil {
				return fmt.Errorf("save the Thread network: %w", err)
			}
		}
	}
	s.was = set
	return nil
}

// Export is the set as one file with a checksum, for a backup.
func (s Set) Export() []byte { return generation{0, s}.append(nil) }

// Import reads what Export made.
func Import(b []byte) (Set, error) {
	g, err := parseGeneration(b)
	if err != nil {
		return nil, err
	}
	for _, f := range g.set {
		if _, err := Parse(f.Data, Native); err != nil {
			return nil, fmt.Errorf("%s: %w; was it made on another kind of computer?", f.Name, err)
		}
	}
	return g.set, nil
}
