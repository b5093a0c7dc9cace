//go:build linux

// Package enrol is the way by which a gateway that nobody may log in to gets
// its first key: for a while after a boot the serial console shows a code, and
// who gives it over SSH, as the user setup, may add a key. Who can press the
// gateway's button needs no code: three presses let one key in (package panel).
//
// The code is in memory only (/run), is compared in constant time, ends after
// Tries wrong ones, when a key was added, or after Lasts. The package knows
// neither SSH nor the console: services/sshport shows the code, services/sshd
// takes it.
package enrol

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/atomicfile"
)

// Lasts is how long a code is good for, from its making on.
const Lasts = 15 * time.Minute

// Tries is how many wrong codes end it. There are 32^8 codes.
const Tries = 5

// Where things are, below the file-system root.
const (
	file     = "run/ssh/setup"
	keysFile = "userdata/ssh/authorized_keys"
	keysEtc  = "etc/ssh/authorized_keys"
	// pressed is services/panel's: until when a press of the button is good for,
	// in nanoseconds of Uptime.
	pressed = "run/enrol-until"
)

// Errors of Try.
var (
	ErrClosed = errors.New("there is no code, or not any more: switch the gateway off and on and be at its serial console, or press its button three times for a second or two")
	ErrWrong  = errors.New("that is not the code")
)

// alphabet has no letters that are mistaken for others.
const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"

const codeLen = 8

// Window is what is known of the code.
type Window struct {
	code  string
	until time.Duration // by the clock of uptime
	tries int           // that are left
	now   time.Duration
}

// Open tells whether a code is taken.
func (w Window) Open() bool { return w.code != "" && w.tries > 0 && w.now < w.until }

// Left is for how long it is.
func (w Window) Left() time.Duration { return max(0, w.until-w.now) }

// String says how it is, for people.
func (w Window) String() string {
	switch {
	case w.code == "":
		return "there is a key already, or no code was made since the last boot"
	case w.tries <= 0:
		return "the code of this boot was used up"
	case w.now >= w.until:
		return "the time for it is over; switch the gateway off and on"
	}
	return "open"
}

// Needed tells whether there is no key by which somebody could log in.
func Needed(root string) bool {
	for _, name := range []string{keysFile, keysEtc} {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			// One that is there and cannot be read is no reason to let
			// somebody else in.
			if !errors.Is(err, fs.ErrNotExist) {
				return false
			}
			continue
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				return false
			}
		}
	}
	return true
}

// ErrMade is a second code in one boot.
var ErrMade = errors.New("there was a code already since the last boot")

// Begin makes a code and opens the window, once in a boot. random is read once.
func Begin(root string, random io.Reader) error {
	path := filepath.Join(root, file)
	if _, err := os.Lstat(path); err == nil {
		return ErrMade
	}
	var b [codeLen]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return fmt.Errorf("make a setup code: %w", err)
	}
	for i := range b {
		b[i] = alphabet[b[i]%byte(len(alphabet))] // 256 is a multiple of it
	}
	w := Window{code: string(b[:]), until: Uptime() + Lasts, tries: Tries}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make a setup code: %w", err)
	}
	if err := atomicfile.Write(path, w.text(), 0o600); err != nil {
		return fmt.Errorf("make a setup code: %w", err)
	}
	return nil
}

// Pressed is for how long yet the button lets a key in without a code, as often
// as it is pressed and whoever has keys already; 0: it does not.
func Pressed(root string) time.Duration {
	b, err := os.ReadFile(filepath.Join(root, pressed))
	if err != nil {
		return 0 // nobody pressed it
	}
	until, err := strconv.ParseInt(strings.TrimSuffix(string(b), "\n"), 10, 64)
	if err != nil {
		return 0
	}
	return max(0, time.Duration(until)-Uptime())
}

// UsePress takes what Pressed tells, for one key.
func UsePress(root string) error {
	if Pressed(root) == 0 || os.Remove(filepath.Join(root, pressed)) != nil {
		return ErrClosed
	}
	return nil
}

// Code is the code as it is shown; empty where none is taken.
func (w Window) Code() string {
	if !w.Open() {
		return ""
	}
	return w.code[:4] + "-" + w.code[4:]
}

// Look reads how it is. Once there is a key, there is no window.
func Look(root string) Window {
	if !Needed(root) {
		return Window{}
	}
	b, _ := os.ReadFile(filepath.Join(root, file)) // none: no window
	return read(b)
}

// Try counts a try and tells whether code is the one. Errors wrap ErrClosed or
// ErrWrong where it is one of them.
func Try(root, code string) error {
	var result error
	err := atomicfile.Update(filepath.Join(root, file), 0o600, func(old []byte, there bool) ([]byte, error) {
		w := read(old)
		if !there || !w.Open() || !Needed(root) {
			result = ErrClosed
			return old, ErrClosed
		}
		if same(plain(code), w.code) {
			return old, nil
		}
		w.tries--
		result = ErrWrong
		return w.text(), nil
	})
	if result != nil {
		return result
	}
	if errors.Is(err, fs.ErrNotExist) { // the folder
		return ErrClosed
	}
	return err
}

// Add appends a line to authorized_keys and ends the window.
func Add(root, line string) error {
	path := filepath.Join(root, keysFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err := atomicfile.Update(path, 0o600, func(old []byte, _ bool) ([]byte, error) {
		if len(old) > 0 && old[len(old)-1] != '\n' {
			old = append(old, '\n')
		}
		return append(old, line...), nil
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o700); err != nil {
		return err
	}
	// It stays, closed, so that no other code is made in this boot.
	return atomicfile.Update(filepath.Join(root, file), 0o600, func(old []byte, _ bool) ([]byte, error) {
		w := read(old)
		w.tries = 0
		return w.text(), nil
	})
}

// same compares in a time that does not depend on where the two differ.
// (crypto/subtle is for the SSH service alone: core has no other crypto.)
func same(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	var differ byte
	for i := range len(a) {
		differ |= a[i] ^ b[i]
	}
	return differ == 0
}

// plain is a code as it is compared, however it was typed.
func plain(code string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case strings.ContainsRune(" -\t\r\n", r):
			return -1
		}
		return r
	}, code)
}

func (w Window) text() []byte {
	return []byte(w.code + " " + strconv.FormatInt(int64(w.until), 10) + " " + strconv.Itoa(w.tries) + "\n")
}

func read(b []byte) Window {
	f := strings.Fields(string(b))
	if len(f) != 3 || len(f[0]) != codeLen {
		return Window{}
	}
	until, err1 := strconv.ParseInt(f[1], 10, 64)
	tries, err2 := strconv.Atoi(f[2])
	if err1 != nil || err2 != nil {
		return Window{}
	}
	return Window{code: f[0], until: time.Duration(until), tries: tries, now: Uptime()}
}

// Uptime is a clock that processes share and nobody sets (INV 13).
func Uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 1<<63 - 1 // which ends every window; it cannot be
	}
	return time.Duration(t.Nano())
}
