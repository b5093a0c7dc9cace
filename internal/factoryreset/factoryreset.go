//go:build linux

// Package factoryreset takes the settings off the writable partition, so that
// the gateway is as a new one: DHCP, its default name, nobody's keys.
//
// It is asked for by Request, and carried out by the next boot, before any
// service reads a setting or writes one. The wish is a file that goes last: a
// power cut in between is made up for by the boot after it.
//
// What is kept is what the hardware is (the MAC address, what the radio's
// firmware talks), what keeps a promise (the budgets of automatic resets, the
// records of faults), the entropy and the time, and programs.
package factoryreset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gwinit/internal/atomicfile"
)

// Path is the wish, below the file-system root.
const Path = "/userdata/factory-reset"

// gone are the folders beside etc that hold settings: keys, the Thread network and
// what waits to be restored.
var gone = [...]string{"ssh", "thread", ".restore"}

// kept are the entries of etc that stay. group, profile and init.d are the
// incumbent firmware's, which cannot make them anew.
var kept = [...]string{"mac_address", "random-seed", "clock", "group", "profile", "init.d"}

// radioFile is kept but for what is a wish and no property of the radio.
const radioFile = "radio.conf"

var radioKeys = [...]string{
	"FIRMWARE", "FIRMWARE_VERSION", "FIRMWARE_BAUD", "FIRMWARE_FLOW_CTRL", "BOOTLOADER_VERSION",
	"BRIDGE_BAUD", // an older firmware's name of the second one
}

// Kept says for people what stays.
const Kept = "the MAC address, what radio.conf knows of the radio's firmware, records of faults and programs are kept"

// Request leaves the wish. It is carried out by the next boot, which is the
// caller's to begin. Without a writable /userdata it is an error: then there
// are no settings in effect either.
func Request(root string) error {
	if err := atomicfile.Write(filepath.Join("/", root, Path), []byte("1\n"), 0o600); err != nil {
		return fmt.Errorf("ask for a factory reset: %w", err)
	}
	return nil
}

// Carry carries a wish out, if there is one, and returns what is to be logged,
// or nothing. It writes flash and may take its time.
func Carry(root string) string {
	wish := filepath.Join("/", root, Path)
	if _, err := os.Lstat(wish); err != nil {
		return ""
	}
	dir := filepath.Dir(wish)
	var removed []string
	var errs []error
	remove := func(name string) {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err := os.RemoveAll(path); err != nil {
			errs = append(errs, err)
			return
		}
		removed = append(removed, name)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "etc"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case slices.Contains(kept[:], name):
		case name == radioFile:
			if err := trim(filepath.Join(dir, "etc", name)); err != nil {
				errs = append(errs, err)
			}
		default:
			remove("etc/" + name)
		}
	}
	for _, name := range gone {
		remove(name)
	}
	// It goes even if something is left: a wish that stays would take at each
	// boot what was set since.
	if err := atomicfile.Remove(wish); err != nil {
		errs = append(errs, err)
	}
	text := "factory reset: "
	if len(removed) == 0 {
		text += "there were no settings"
	} else {
		text += "removed " + strings.Join(removed, " ")
	}
	text += "; " + Kept
	if err := errors.Join(errs...); err != nil {
		text += "; NOT DONE, remove it by hand: " + strings.ReplaceAll(err.Error(), "\n", ", ")
	}
	return text
}

// trim leaves the lines of radio.conf that say what the radio is.
func trim(path string) error {
	return atomicfile.Update(path, 0o644, func(old []byte, _ bool) ([]byte, error) {
		var left []byte
		for line := range strings.Lines(string(old)) {
			key, _, ok := strings.Cut(line, "=")
			if ok && slices.Contains(radioKeys[:], strings.TrimSpace(key)) {
				left = append(left, line...)
			}
		}
		return left, nil
	})
}
