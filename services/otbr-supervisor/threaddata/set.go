package threaddata

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Margin is by how much counters in flash are ahead of those in memory. A
// channel that is full carries some 150 frames a second, so that half of it
// lasts for 11 minutes at least; with a few frames a second it is half a day. A
// restart costs no more than that of the 4,294 million numbers of a key, which
// is replaced after 28 days.
const Margin = 200_000

// Limits of a set, which is one file for each radio that was ever used.
const (
	maxFiles = 8
	maxName  = 64
)

// Ends of names that are not of a set's: of the file that OpenThread writes aside,
// and of its temporary storage (tmp_storage.cpp), whose records are its own figures
// of the radio under the same keys.
const (
	swapSuffix = ".Swap"
	tmpSuffix  = "-tmp.data"
)

// File is a settings file.
type File struct {
	Name string
	Data []byte
}

// Set is all settings files, sorted by name.
type Set []File

// find returns the content of a file; ok is false without it.
func (s Set) find(name string) (data []byte, ok bool) {
	for _, f := range s {
		if f.Name == name {
			return f.Data, true
		}
	}
	return nil, false
}

func (s Set) equal(other Set) bool {
	return slices.EqualFunc(s, other, func(a, b File) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
}

// Empty tells whether there is no record in it.
func (s Set) Empty() bool {
	return !slices.ContainsFunc(s, func(f File) bool { return len(f.Data) > 0 })
}

// Network is the active dataset and the record of the node that has been in use
// last: the file whose counters are the furthest. ok is false without a dataset.
func (s Set) Network() (dataset []byte, info Info, ok bool) {
	for _, f := range s {
		records, err := Parse(f.Data, Native)
		if err != nil || records.Get(KeyActiveDataset) == nil {
			continue
		}
		i, _, err := records.Info()
		if err == nil && (!ok || i.after(info)) {
			dataset, info, ok = records.Get(KeyActiveDataset), i, true
		}
	}
	return dataset, info, ok
}

// after tells whether i was in use later than j, of one network key.
func (i Info) after(j Info) bool {
	if i.KeySequence != j.KeySequence {
		return i.KeySequence > j.KeySequence
	}
	return i.MAC > j.MAC || i.MAC == j.MAC && i.MLE > j.MLE
}

// keepable tells whether a file of that name is one of a set.
func keepable(name string) bool { return plain(name) && !strings.HasSuffix(name, tmpSuffix) }

// plain tells whether a file may have that name.
func plain(name string) bool {
	return name != "" && len(name) <= maxName && name[0] != '.' && !strings.HasSuffix(name, swapSuffix) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7F || r == '/' })
}

// ReadDir reads the set in a folder. Files that OpenThread would not read are
// left out and named in damaged. A folder that is not there is an empty set.
func ReadDir(dir string) (s Set, damaged []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !keepable(e.Name()) {
			continue
		}
		if len(s) == maxFiles {
			return nil, nil, fmt.Errorf("more than %d files in %s: remove those that are not of the Thread network", maxFiles, dir)
		}
		data, err := readFile(filepath.Join(dir, e.Name()))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if _, err := Parse(data, Native); err != nil {
			damaged = append(damaged, e.Name())
			continue
		}
		s = append(s, File{e.Name(), data})
	}
	return s, damaged, nil
}

// readFile reads no more than what is refused anyway.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// WriteDir replaces the files in a folder of memory by the set: for the agent,
// which must not run. It makes the folder.
func (s Set) WriteDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := s.find(e.Name()); !ok && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, f := range s {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, fs.FileMode(0o600)); err != nil {
			return err
		}
	}
	return nil
}

// Advance returns the set with all counters advanced. A file whose network
// record is of an unknown kind stays as it is; the error says so, and the set is
// good all the same.
func (s Set) Advance(by uint32) (out Set, err error) {
	out = slices.Clone(s)
	for n, f := range out {
		records, perr := Parse(f.Data, Native)
		i, ok, ierr := records.Info()
		if perr != nil || ierr != nil {
			err = fmt.Errorf("%s: its frame counters are not advanced: %w", f.Name, or(perr, ierr))
			continue
		}
		if ok {
			i.MLE, i.MAC = advance(i.MLE, by), advance(i.MAC, by)
			out[n].Data = records.withInfo(i).Append(nil, Native)
		}
	}
	return out, err
}

func or(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Lift returns the set with each file's counters not below those that base has
// for the same node and network key.
func (s Set) Lift(base Set) (out Set, lifted bool) {
	out = slices.Clone(s)
	for n, f := range out {
		old, ok := base.find(f.Name)
		if !ok {
			continue
		}
		records, err := Parse(f.Data, Native)
		before, berr := Parse(old, Native)
		if err != nil || berr != nil || records.networkKey() == nil || !bytes.Equal(records.networkKey(), before.networkKey()) {
			continue
		}
		i, ok1, _ := records.Info()
		j, ok2, _ := before.Info()
		if !ok1 || !ok2 || i.KeySequence > j.KeySequence {
			continue // a later key: no counter of it was used here
		}
		if i.KeySequence == j.KeySequence {
			j.MLE, j.MAC = max(i.MLE, j.MLE), max(i.MAC, j.MAC)
		}
		if i.KeySequence != j.KeySequence || i.MLE != j.MLE || i.MAC != j.MAC {
			lifted = true
			out[n].Data = records.withInfo(j).Append(nil, Native)
		}
	}
	return out, lifted
}

// Change is how much there is to save.
type Change int

// The kinds of change, each more urgent.
const (
	Same   Change = iota
	Minor         // children, parent, role: what a node finds out again
	Urgent        // keys, datasets, a key's sequence, a counter near the end of its margin
)

// Compare says what of now is not in saved, which is the set as it was written
// to flash, with its margin.
func Compare(saved, now Set) Change {
	change := Same
	if len(saved) != len(now) {
		return Urgent
	}
	for _, f := range now {
		old, ok := saved.find(f.Name)
		if !ok {
			return Urgent
		}
		change = max(change, compare(old, f.Data))
	}
	return change
}

func compare(saved, now []byte) Change {
	a, aerr := Parse(saved, Native)
	b, berr := Parse(now, Native)
	if berr != nil {
		return Same // nothing that could be saved
	}
	if aerr != nil {
		return Urgent
	}
	i, iok, ierr := a.Info()
	j, jok, jerr := b.Info()
	switch {
	case iok != jok || (ierr == nil) != (jerr == nil):
		return Urgent
	case jok && (i.KeySequence != j.KeySequence || i.ExtAddress != j.ExtAddress || near(j.MLE, i.MLE) || near(j.MAC, i.MAC)):
		return Urgent
	}
	return max(missing(a, b), missing(b, a))
}

// missing says how bad it is that records of a are not in b as often. Their order
// is no matter: OpenThread moves a record to the end when it changes another.
func missing(a, b Settings) (change Change) {
	for _, r := range a {
		how := Urgent
		if r.Key == KeyNetworkInfo || r.Key == KeyParentInfo || r.Key == KeyChildInfo {
			how = Minor
		}
		if change < how && a.times(r) != b.times(r) {
			change = how
		}
	}
	return change
}

// times is how often a record is there, whatever its counters.
func (s Settings) times(r Record) (n int) {
	for _, o := range s {
		if o.Key == r.Key && bytes.Equal(o.still(), r.still()) {
			n++
		}
	}
	return n
}

// still is the value without counters.
func (r Record) still() []byte {
	if r.Key != KeyNetworkInfo || len(r.Value) < infoBytes {
		return r.Value
	}
	v := bytes.Clone(r.Value)
	clear(v[offSequence : offMAC+4])
	return v
}

// near tells whether a counter has used half of what the saved one is ahead. At
// the ceiling there is no margin, and only what is beyond the saved one counts.
func near(now, saved uint32) bool {
	if saved >= ceiling {
		return now > saved
	}
	return uint64(now)+Margin/2 > uint64(saved)
}
