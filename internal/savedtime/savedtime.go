// Package savedtime keeps the time over a power cut, roughly: the boards have
// no clock that goes on without power. The time that a file holds is when the
// box was last known to run, so it is never ahead of true time by itself, and
// near enough for logs and certificates until a time server answers.
//
// It decides nothing about when: Restore is for the process that mounts
// /userdata, Save for the service that keeps the clock.
package savedtime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gwinit/internal/atomicfile"
	"gwinit/internal/logring"
)

// Path is where the time is: Unix seconds in decimal, and a line feed.
const Path = "/userdata/etc/clock"

// latest is 2200-01-01: no box of these runs until then, so a later time is
// damage.
const latest = 7_258_118_400

// earliest is what a clock counts as known from.
const earliest = logring.WallKnown / int64(time.Second)

// ErrBad is returned for a file that holds no time.
var ErrBad = errors.New("holds no time")

// Parse reads the content of the file: a time from 2024 to 2200.
func Parse(b []byte) (time.Time, error) {
	s, whole := bytes.CutSuffix(b, []byte{'\n'})
	n, err := strconv.ParseInt(string(s), 10, 64)
	if !whole || err != nil || n < earliest || n >= latest {
		return time.Time{}, ErrBad
	}
	return time.Unix(n, 0), nil
}

// Load returns the time that is saved below root ("" or "/" on the box).
// fs.ErrNotExist is none, ErrBad a damaged one.
func Load(root string) (time.Time, error) {
	f, err := os.Open(filepath.Join("/", root, Path))
	if err != nil {
		return time.Time{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return time.Time{}, err
	}
	t, err := Parse(b)
	if err != nil {
		return t, fmt.Errorf("%s %w", Path, err)
	}
	return t, nil
}

// Restore sets the clock by set to the saved time, if that is ahead of now, and
// returns what it did, a line for the log; "" when there is nothing to say.
func Restore(root string, now time.Time, set func(time.Time) error) string {
	saved, err := Load(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return "clock: " + err.Error()
	case !saved.After(now):
		return ""
	}
	if err := set(saved); err != nil {
		return "clock: set it to the saved time: " + err.Error()
	}
	return "clock: set to the saved time, " + saved.UTC().Format(time.DateTime) + " UTC"
}

// Save replaces the saved time (INV 6).
func Save(root string, t time.Time) error {
	return atomicfile.Write(filepath.Join("/", root, Path), append(strconv.AppendInt(nil, t.Unix(), 10), '\n'), 0o644)
}
