//go:build linux

// Package slots keeps the userlands that updates have put beside the factory's,
// which is in the rootfs and never changes in the field: two files at most, with
// what is known of each, and which of them the next boot runs.
//
//	/userdata/system/a, b            the binaries
//	/userdata/system/a.info, b.info  lines NAME=value: see Info
//	/userdata/system/state           lines NAME=value: see State
//
// A new one is written aside, synced and renamed; then it is tried. Each attempt
// is written before it is made, and one that cannot be is not made. A trial that
// ends without a commit, for whatever reason, is one attempt of Attempts; then
// what ran before runs again. Whatever a power cut or a bad block leaves of these
// files, there is a complete userland to run: the factory's, if no other.
package slots

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gwinit/internal/atomicfile"
)

// Dir is where it all is on the box.
const Dir = "/userdata/system"

// Attempts is how often a new userland is tried.
const Attempts = 3

// Factory is the name of the userland in the rootfs, which is no slot.
const Factory = "factory"

// names are the slots.
var names = []string{"a", "b"}

// Errors, with what to do.
var (
	// ErrNothing: there is nothing to commit, to try or to go back to.
	ErrNothing = errors.New("there is no such update")
	// ErrDamaged: a slot is not what was installed.
	ErrDamaged = errors.New("the update's file is damaged")
)

// Info is what is known of a slot.
type Info struct {
	Version string // VERSION
	Size    int64  // SIZE, in bytes
	SHA256  string // SHA256, in hexadecimal, as it was signed
	// CRC, in hexadecimal, is what a boot checks: the signature was checked when
	// it was installed, and who could write to the flash since can do what he
	// likes. IEEE's polynomial; a SHA-256 would add seconds to each boot.
	CRC uint32
}

// State is which userland runs.
type State struct {
	Run      string // RUN: a slot, or Factory: what runs when nothing is tried
	Before   string // BEFORE: what ran before Run was committed; "" if it is gone
	Try      string // TRY: a slot that is to be tried, "" is none
	Attempts int    // ATTEMPTS that were begun
	// REASON is why the last trial ended without a commit, "" if none did, and
	// FAILED the version that was tried.
	Reason, Failed string
}

// Choice is what a boot is to run.
type Choice struct {
	Slot  string // or Factory
	Path  string // of the binary; "" for Factory
	Trial bool
	Why   string // why it is not what was asked for; "" if it is
}

// Store is a folder of slots.
type Store struct {
	dir string
	sys system
}

// New is the store below root, "" on the box.
func New(root string) *Store { return newStore(filepath.Join("/", root, Dir), disk{}) }

func newStore(dir string, sys system) *Store { return &Store{dir, sys} }

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// State is what is written. A file that cannot be understood is an error, and the
// state with it that of a new box: the factory's userland runs.
func (s *Store) State() (State, error) {
	fresh := State{Run: Factory}
	fields, err := s.fields("state")
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return fresh, err
	}
	st := State{
		Run: fields["RUN"], Before: fields["BEFORE"], Try: fields["TRY"],
		Reason: oneLine(fields["REASON"]), Failed: oneLine(fields["FAILED"]),
	}
	if st.Attempts, err = strconv.Atoi(fields["ATTEMPTS"]); err != nil || st.Attempts < 0 ||
		!userland(st.Run) || st.Before != "" && !userland(st.Before) || st.Try != "" && !slices.Contains(names, st.Try) || st.Try == st.Run {
		return fresh, fmt.Errorf("%s makes no sense: the factory's userland runs; install the update again", s.path("state"))
	}
	return st, nil
}

func userland(name string) bool { return name == Factory || slices.Contains(names, name) }

// write replaces the state.
func (s *Store) write(st State) error {
	return s.sys.replace(s.path("state"), fmt.Appendf(nil, "RUN=%s\nBEFORE=%s\nTRY=%s\nATTEMPTS=%d\nREASON=%s\nFAILED=%s\n",
		st.Run, st.Before, st.Try, st.Attempts, oneLine(st.Reason), oneLine(st.Failed)))
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}

// fields reads the lines NAME=value of a small file.
func (s *Store) fields(name string) (map[string]string, error) {
	b, err := s.sys.read(s.path(name))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range bytes.Lines(b) {
		key, value, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), "=")
		if !ok || !bytes.HasSuffix(line, []byte("\n")) {
			return nil, fmt.Errorf("%s: line %q makes no sense", s.path(name), line)
		}
		fields[key] = value
	}
	return fields, nil
}

// Info is what is known of a slot.
func (s *Store) Info(slot string) (Info, error) {
	fields, err := s.fields(slot + ".info")
	if err != nil {
		return Info{}, err
	}
	i := Info{Version: fields["VERSION"], SHA256: fields["SHA256"]}
	i.Size, err = strconv.ParseInt(fields["SIZE"], 10, 64)
	crc, cerr := strconv.ParseUint(fields["CRC"], 16, 32)
	i.CRC = uint32(crc)
	if err != nil || cerr != nil || i.Version == "" || i.Size <= 0 {
		return Info{}, fmt.Errorf("%s makes no sense", s.path(slot+".info"))
	}
	return i, nil
}

// Choose is what the boot that asks is to run. It counts an attempt if that is a
// trial: to be called once in a boot. Its error is one more thing to tell: there
// always is a choice.
func (s *Store) Choose() (Choice, error) {
	st, err := s.State()
	if err != nil {
		return Choice{Slot: Factory, Why: err.Error()}, err
	}
	var why string
	if st.Try != "" {
		var c Choice
		if c, err = s.try(&st); err == nil && c.Slot != "" {
			return c, nil
		}
		why = st.Reason
		if err != nil {
			why = "an attempt cannot be written down, so it is not made: " + err.Error()
		}
	}
	if st.Run == Factory {
		return Choice{Slot: Factory, Why: why}, err
	}
	if bad := s.check(st.Run); bad != nil {
		return Choice{Slot: Factory, Why: bad.Error() + "; install it again"}, errors.Join(err, bad)
	}
	return Choice{Slot: st.Run, Path: s.path(st.Run), Why: why}, err
}

// try begins a trial, or ends it for good: then the choice is none.
func (s *Store) try(st *State) (Choice, error) {
	info, err := s.Info(st.Try)
	if err == nil {
		err = s.check(st.Try)
	}
	switch {
	case err != nil:
		return Choice{}, s.giveUp(st, info.Version, err.Error())
	case st.Attempts >= Attempts:
		return Choice{}, s.giveUp(st, info.Version, fmt.Sprintf("it was started %d times and never was well for long enough", st.Attempts))
	}
	st.Attempts++
	if err := s.write(*st); err != nil {
		return Choice{}, err
	}
	return Choice{Slot: st.Try, Path: s.path(st.Try), Trial: true}, nil
}

// giveUp ends a trial.
func (s *Store) giveUp(st *State, version, why string) error {
	st.Try, st.Attempts, st.Reason, st.Failed = "", 0, why, version
	return s.write(*st)
}

// check tells whether a slot is what was installed.
func (s *Store) check(slot string) error {
	info, err := s.Info(slot)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	f, err := s.sys.open(s.path(slot))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer f.Close()
	sum := crc32.NewIEEE()
	if n, err := io.Copy(sum, f); err != nil || n != info.Size || sum.Sum32() != info.CRC {
		return fmt.Errorf("%w: %s has %d bytes and not the %d that were installed, or others (%v)", ErrDamaged, s.path(slot), n, info.Size, err)
	}
	return nil
}

// Commit makes a slot that is tried the one that runs.
func (s *Store) Commit(slot string) error {
	st, err := s.State()
	switch {
	case err != nil:
		return err
	case st.Run == slot:
		return nil // it was committed before
	case st.Try != slot:
		return fmt.Errorf("%w: %s is not tried", ErrNothing, slot)
	}
	return s.write(State{Run: slot, Before: st.Run})
}

// GiveUp ends the trial of a slot from within it, with a reason.
func (s *Store) GiveUp(why string) error {
	st, err := s.State()
	switch {
	case err != nil:
		return err
	case st.Try == "":
		return fmt.Errorf("%w: nothing is tried", ErrNothing)
	}
	info, _ := s.Info(st.Try) // without it the version is not told
	return s.giveUp(&st, info.Version, why)
}

// Back has the next boot run what ran before the last commit, and is told what
// that is.
func (s *Store) Back() (string, error) {
	st, err := s.State()
	if err != nil {
		return "", err
	}
	if st.Try != "" { // it is the trial that ends
		return st.Run, s.GiveUp("somebody went back")
	}
	to := st.Before
	switch {
	case to == "" && st.Run == Factory:
		return "", fmt.Errorf("%w: the factory's userland runs", ErrNothing)
	case to == "":
		to = Factory
	}
	return to, s.write(State{Run: to})
}

// Install writes a new binary of that size and has the next boot try it. write
// gives it its contents and may refuse them by its error: then nothing is changed
// but that the older slot is gone, whose place it takes. running is what runs now,
// whose file is never touched.
func (s *Store) Install(running string, info Info, write func(io.Writer) error) (slot string, err error) {
	st, err := s.State()
	if err != nil { // the files are there, but nobody knows what for
		st = State{Run: running}
	}
	i := slices.IndexFunc(names, func(n string) bool { return n != running && n != st.Run })
	if i < 0 {
		return "", fmt.Errorf("%s runs and %s would run next: restart first", running, st.Run)
	}
	slot = names[i]
	// The state names no file that goes.
	if st.Try == slot || st.Before == slot || err != nil {
		if st.Try == slot {
			st.Try, st.Attempts = "", 0
		}
		if st.Before == slot {
			st.Before = ""
		}
		if err := s.write(st); err != nil {
			return "", err
		}
	}
	part := s.path(slot + ".part")
	for _, old := range []string{s.path(slot), s.path(slot + ".info"), part} {
		if err := s.sys.remove(old); err != nil {
			return "", err
		}
	}
	if info.CRC, err = s.fill(part, info.Size, write); err != nil {
		return "", errors.Join(err, s.sys.remove(part))
	}
	if err := s.sys.replace(s.path(slot+".info"), fmt.Appendf(nil, "VERSION=%s\nSIZE=%d\nSHA256=%s\nCRC=%08x\n", oneLine(info.Version), info.Size, info.SHA256, info.CRC)); err != nil {
		return "", err
	}
	if err := s.sys.rename(part, s.path(slot)); err != nil {
		return "", err
	}
	// As it is on the flash, and not as it was sent.
	if err := s.check(slot); err != nil {
		return "", err
	}
	st.Try, st.Attempts, st.Reason, st.Failed = slot, 0, "", ""
	return slot, s.write(st)
}

// fill writes a file and syncs it.
func (s *Store) fill(path string, size int64, write func(io.Writer) error) (uint32, error) {
	f, err := s.sys.create(path)
	if err != nil {
		return 0, err
	}
	sum := crc32.NewIEEE()
	n := new(counter)
	err = write(io.MultiWriter(f, sum, n))
	if err == nil && int64(*n) != size {
		err = fmt.Errorf("%d bytes came, and %d were announced", *n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	return sum.Sum32(), errors.Join(err, f.Close())
}

// counter counts bytes.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// file is a file that is written.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// system is every step that can fail or be the last one before a power cut.
type system interface {
	read(path string) ([]byte, error)
	open(path string) (io.ReadCloser, error)
	create(path string) (file, error)
	rename(from, to string) error // and syncs the folder
	remove(path string) error     // and syncs the folder; a file that is not there is none
	replace(path string, b []byte) error
}

// disk is the flash.
type disk struct{}

// maxText bounds the small files, in bytes.
const maxText = 4 << 10

func (disk) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(b) > maxText {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxText)
	}
	return b, err
}

func (disk) open(path string) (io.ReadCloser, error) { return os.Open(path) }

func (disk) create(path string) (file, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
}

func (disk) rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (disk) remove(path string) error {
	err := atomicfile.Remove(path)
	if errors.Is(err, fs.ErrNotExist) { // not even the folder
		return nil
	}
	return err
}

func (disk) replace(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, b, 0o644)
}
