//go:build linux

// Package backup writes and reads archives of a gateway's settings, keys,
// passwords and Thread network: .tar.gz files that any tar opens.
//
// The first entry, gateway-backup, says of what gateway it is and in which format;
// then come the files, under userdata/; the last one, SHA256SUMS, holds the sum of
// each, as `sha256sum -c` reads it. Both directions stream: of the archive one
// file at a time is in memory. A reader takes nothing on trust: it is for the
// caller to change nothing until Read has come to its end.
//
// The hash is an argument: crypto belongs to SSH's packages.
package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/restore"
	"gwinit/internal/tarfile"
)

// Format is the version of the layout. A reader knows all up to its own.
const Format = 1

// Names of entries.
const (
	aboutName = "gateway-backup"
	sumsName  = "SHA256SUMS"
	folder    = "userdata/"
)

// maxText bounds the first and the last entry, in bytes.
const maxText = 64 << 10

// About says of which gateway a backup is.
type About struct {
	Format   int       `json:"format"`
	Board    string    `json:"board"` // as in api.Board.ID
	Version  string    `json:"version"`
	Hostname string    `json:"hostname"`
	Time     time.Time `json:"time,omitzero"` // zero: the gateway did not know
}

// text is the first entry.
func (a About) text() string {
	s := "format=" + strconv.Itoa(Format) + "\nboard=" + a.Board + "\nversion=" + a.Version + "\nhostname=" + a.Hostname + "\n"
	if !a.Time.IsZero() {
		s += "time=" + a.Time.UTC().Format(time.RFC3339) + "\n"
	}
	return s
}

// Errors of Read.
var (
	ErrFormat  = errors.New("this is no backup that gwctl made, or a damaged one")
	ErrVersion = errors.New("the backup is of a newer firmware: update this gateway first")
	ErrSum     = errors.New("a file is not what it was when the backup was made")
)

// parseAbout reads the first entry. Lines that it does not know are of a later
// firmware.
func parseAbout(text string) (a About, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) || len(value) > 128 {
			return a, fmt.Errorf("%w: %s", ErrFormat, aboutName)
		}
		switch key {
		case "format":
			a.Format, err = strconv.Atoi(value)
		case "board":
			a.Board = value
		case "version":
			a.Version = value
		case "hostname":
			a.Hostname = value
		case "time":
			a.Time, err = time.Parse(time.RFC3339, value)
		}
		if err != nil {
			return a, fmt.Errorf("%w: %s", ErrFormat, aboutName)
		}
	}
	switch {
	case a.Format < 1 || a.Board == "":
		return a, fmt.Errorf("%w: %s", ErrFormat, aboutName)
	case a.Format > Format:
		return a, ErrVersion
	}
	return a, nil
}

// Write writes the backup of the gateway below root ("" on the box) to w. It
// returns the names of the files in it, relative to /userdata, and of those that
// are no regular files and were left out.
func Write(w io.Writer, root string, about About, newHash func() hash.Hash) (names, others []string, err error) {
	names, others, err = restore.Files(root)
	if err != nil {
		return nil, nil, err
	}
	z := gzip.NewWriter(w)
	t := tarfile.NewWriter(z)
	var sums bytes.Buffer
	add := func(name string, mode fs.FileMode, mtime time.Time, data []byte) error {
		if err := t.WriteHeader(&tarfile.Header{Kind: tarfile.File, Name: name, Mode: mode, Size: int64(len(data)), ModTime: mtime}); err != nil {
			return err
		}
		h := newHash()
		h.Write(data)
		sums.WriteString(hex.EncodeToString(h.Sum(nil)) + "  " + name + "\n")
		_, err := t.Write(data)
		return err
	}
	if err := add(aboutName, 0o600, about.Time, []byte(about.text())); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		data, info, err := read(filepath.Join("/", root, folder, name))
		if err == nil {
			err = add(folder+name, info.Mode().Perm(), info.ModTime(), data)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("back up %s: %w", name, err)
		}
	}
	last := bytes.Clone(sums.Bytes())
	err = errors.Join(add(sumsName, 0o600, about.Time, last), t.Close(), z.Close())
	return names, others, err
}

// read reads a file that nobody put another kind of thing in the place of.
func read(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file any more")
	}
	data, err := io.ReadAll(io.LimitReader(f, restore.MaxFile+1))
	if err == nil && len(data) > restore.MaxFile {
		err = fmt.Errorf("longer than %d KiB: it is no setting; put it elsewhere", restore.MaxFile>>10)
	}
	return data, info, err
}

// Read reads a backup. begin is told of which gateway it is, before any file; put
// gets each file with its name relative to /userdata. An error of either ends it.
// What put got is good only when Read returns no error: the sums come last.
func Read(r io.Reader, newHash func() hash.Hash, begin func(About) error, put func(name string, data []byte, perm fs.FileMode) error) error {
	z, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return ErrFormat
	}
	// Sums of headers and records of names are far below a file's limit.
	all := &io.LimitedReader{R: z, N: restore.MaxBytes + restore.MaxFiles*maxText/16}
	t := tarfile.NewReader(all)
	sums := map[string]string{}
	total := int64(0)
	for first := true; ; first = false {
		h, err := t.Next()
		if err != nil {
			return damaged(err, all.N)
		}
		switch {
		case first != (h.Name == aboutName):
			return fmt.Errorf("%w: it begins with %q", ErrFormat, clip(h.Name))
		case h.Kind != tarfile.File:
			return fmt.Errorf("%w: %q is no file", ErrFormat, clip(h.Name))
		case sums[h.Name] != "":
			return fmt.Errorf("%w: %q is there twice", ErrFormat, clip(h.Name))
		}
		name, isFile := strings.CutPrefix(h.Name, folder)
		limit := int64(maxText)
		if isFile {
			limit = restore.MaxFile
		}
		total += h.Size
		switch {
		case isFile && !restore.InScope(name), !isFile && !first && h.Name != sumsName:
			return fmt.Errorf("%w: %q is nothing that a backup holds", ErrFormat, clip(h.Name))
		case h.Size > limit, total > restore.MaxBytes, len(sums) > restore.MaxFiles:
			return fmt.Errorf("%w: %q is too large, or one too many", ErrFormat, clip(h.Name))
		}
		data := make([]byte, h.Size)
		if _, err := io.ReadFull(t, data); err != nil {
			return damaged(err, all.N)
		}
		if h.Name == sumsName {
			if err := compare(string(data), sums); err != nil {
				return err
			}
			return end(t, all)
		}
		sum := newHash()
		sum.Write(data)
		sums[h.Name] = hex.EncodeToString(sum.Sum(nil))
		if first {
			about, err := parseAbout(string(data))
			if err == nil {
				err = begin(about)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := put(name, data, h.Mode.Perm()); err != nil {
			return err
		}
	}
}

// end sees that nothing comes behind the sums, and that gzip's own sum is right.
func end(t *tarfile.Reader, all *io.LimitedReader) error {
	if _, err := t.Next(); err != io.EOF {
		return fmt.Errorf("%w: something comes behind %s", ErrFormat, sumsName)
	}
	if _, err := io.Copy(io.Discard, all); err != nil || all.N == 0 {
		return damaged(err, all.N)
	}
	return nil
}

// damaged is the error of an archive that cannot be read, with left bytes that
// might have been.
func damaged(err error, left int64) error {
	switch {
	case left == 0:
		return fmt.Errorf("%w: it is too large", ErrFormat)
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it is cut off", ErrFormat)
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// compare sees that each file has its sum, and each sum its file.
func compare(text string, sums map[string]string) error {
	n := 0
	for line := range strings.Lines(text) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		switch {
		case !ok:
			return fmt.Errorf("%w: %s", ErrFormat, sumsName)
		case sums[name] == "":
			return fmt.Errorf("%w: %q of %s is missing", ErrFormat, clip(name), sumsName)
		case sums[name] != sum:
			return fmt.Errorf("%w: %s", ErrSum, name)
		}
		n++
	}
	if n != len(sums) {
		return fmt.Errorf("%w: %s has %d of %d files", ErrFormat, sumsName, n, len(sums))
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 60)] }
