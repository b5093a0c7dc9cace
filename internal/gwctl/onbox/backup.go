//go:build linux

package onbox

import (
	"bufio"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"gwinit/board/rtl8196e"
	"gwinit/internal/applet"
	"gwinit/internal/backup"
	"gwinit/internal/config"
	"gwinit/internal/control/wire"
	"gwinit/internal/logring"
	"gwinit/internal/restore"
)

// Help of Backup and Restore.
const (
	BackupUsage = `usage: gwctl backup [FILE]
write settings, keys, passwords and the Thread network into an archive

FILE is a .tar.gz; - or nothing is standard output. Whoever has it has the
gateway: it holds the host key and what lets people in.
`
	RestoreUsage = `usage: gwctl restore [-n] [-y] [-mac] FILE
put what a backup holds into the place of what is there, at the next boot

FILE is what gwctl backup wrote; - is standard input. It is looked through before
anything changes, and refused if it is damaged or of a board of another kind. Keys
that let people in now still do afterwards.

  -n    only look through it
  -y    do not ask
  -mac  take the MAC address of the backup, too: for a gateway in another's place
`
)

// Box is the gateway that a command works on.
type Box struct {
	Root    string // "" on the box
	Version string // of the firmware
	NewHash func() hash.Hash
}

func (b Box) board() string { return rtl8196e.Detect(b.Root).ID }

// now is the time, or zero while the gateway does not know it.
func now() time.Time {
	if t := time.Now(); t.UnixNano() >= logring.WallKnown {
		return t.UTC().Truncate(time.Second)
	}
	return time.Time{}
}

// backupJSON is what -json prints of a backup to a file.
type backupJSON struct {
	backup.About
	File    string   `json:"file"`
	Files   int      `json:"files"`
	LeftOut []string `json:"leftOut,omitempty"` // no regular files
}

// Backup writes an archive. -json is for one to a file.
func Backup(b Box, std applet.IO, args []string, asJSON bool) error {
	file, err := target("backup", std, args)
	if err != nil {
		return err
	}
	n, _ := config.LoadNetwork(b.Root)
	about := backup.About{Format: backup.Format, Board: b.board(), Version: b.Version, Hostname: n.Hostname, Time: now()}
	var names, others []string
	err = writeTo(std, file, func(w io.Writer) (err error) {
		names, others, err = backup.Write(w, b.Root, about, b.NewHash)
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON && file != "-":
		return printJSON(std, backupJSON{about, file, len(names), others})
	case asJSON:
		return nil
	}
	told := std.Out
	if file == "-" {
		told = std.Err
	}
	for _, o := range others {
		fmt.Fprintf(std.Err, "left out, since it is no regular file: /userdata/%s\n", o)
	}
	_, err = fmt.Fprintf(told, "%d files of %s (%s, %s)\n", len(names), about.Hostname, about.Board, about.Version)
	return err
}

// target is the file of a command that writes one; - for standard output, which
// no terminal should be.
func target(name string, std applet.IO, args []string) (string, error) {
	switch {
	case len(args) > 1 || len(args) == 1 && args[0] != "-" && strings.HasPrefix(args[0], "-"):
		return "", applet.Usagef("%s takes one FILE, or - for standard output", name)
	case len(args) == 1 && args[0] != "-":
		return args[0], nil
	}
	if f, ok := std.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return "", applet.Usagef("%s what? A FILE: an archive is nothing for a terminal", name)
	}
	return "-", nil
}

// writeTo has write make file, as a whole or not at all, for root only; - is
// standard output.
func writeTo(std applet.IO, file string, write func(w io.Writer) error) error {
	if file == "-" {
		w := bufio.NewWriterSize(std.Out, 16<<10)
		return errors.Join(write(w), w.Flush())
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".gwctl-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

func printJSON(std applet.IO, v any) error {
	line, err := wire.Marshal(v)
	if err == nil {
		_, err = std.Out.Write(append(line, '\n'))
	}
	return err
}

// restoreJSON is what -json prints of a restore.
type restoreJSON struct {
	backup.About
	Files   int      `json:"files"`
	Removed []string `json:"removed,omitempty"` // names below /userdata
	DryRun  bool     `json:"dryRun,omitempty"`
	Reboot  bool     `json:"reboot"` // is needed for it
}

// Restore has the next boot put an archive's files into their places. The gateway
// goes on with what it has until then.
func Restore(b Box, std applet.IO, args []string, asJSON bool) (err error) {
	try, sure, mac, file := false, false, false, ""
	for _, a := range args {
		switch {
		case a == "-n":
			try = true
		case a == "-y":
			sure = true
		case a == "-mac":
			mac = true
		case file != "" || a != "-" && strings.HasPrefix(a, "-"):
			return applet.Usagef("restore takes -n, -y, -mac and one FILE, or - for standard input; not %q", a)
		default:
			file = a
		}
	}
	in := std.In
	switch {
	case file == "":
		return applet.Usagef("restore what? A FILE, or - for standard input")
	case file == "-" && !sure && !try:
		return applet.Usagef("standard input cannot be asked as well: add -y")
	case file != "-":
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	var stage *restore.Stage
	if !try {
		if stage, err = restore.Begin(b.Root); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		defer func() { err = errors.Join(err, stage.Drop()) }()
	}
	var names []string
	done := restoreJSON{DryRun: try, Reboot: !try}
	begin := func(a backup.About) error {
		done.About = a
		if here := b.board(); a.Board != here {
			return fmt.Errorf("it is of a board of another kind (%s), and this one is %s: nothing was changed", a.Board, here)
		}
		return nil
	}
	put := func(name string, data []byte, perm fs.FileMode) error {
		switch name {
		case restore.MACAddress:
			if !mac {
				return nil
			}
		case restore.AuthorizedKeys:
			data = b.letIn(data)
		}
		names = append(names, name)
		if try {
			return nil
		}
		return stage.Put(name, data, perm)
	}
	if err := backup.Read(in, b.NewHash, begin, put); err != nil {
		if file == "-" {
			file = "the backup" // a workstation's command line has another name for it
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	done.Files = len(names)
	if done.Removed, err = restore.Leftover(b.Root, names); err != nil {
		return err
	}
	what := fmt.Sprintf("%d files of %s (%s, %s)", done.Files, done.Hostname, done.Board, done.Version)
	if !done.Time.IsZero() {
		what += " from " + done.Time.Format(time.RFC3339)
	}
	if len(done.Removed) > 0 {
		what += "; without " + strings.Join(done.Removed, " ") + ", which it does not have"
	}
	if !sure && !try {
		if err := confirmed(std, what+". Take them from the next boot on?"); err != nil {
			return err
		}
	}
	if !try {
		if err := stage.Commit(); err != nil {
			return err
		}
	}
	if asJSON {
		return printJSON(std, done)
	}
	next := "They take effect with the next boot: gwctl reboot"
	if try {
		next = "It can be restored; nothing was changed"
	}
	_, err = fmt.Fprintf(std.Out, "%s.\n%s.\n", what, next)
	return err
}

// letIn adds to a backup's authorized_keys what lets people in now: who restores
// came by one of these.
func (b Box) letIn(saved []byte) []byte {
	present, err := os.ReadFile(filepath.Join("/", b.Root, "userdata", restore.AuthorizedKeys))
	if err != nil {
		return saved // none
	}
	all := string(saved)
	if all != "" && !strings.HasSuffix(all, "\n") {
		all += "\n"
	}
	for line := range strings.Lines(string(present)) {
		line = strings.TrimSuffix(line, "\n") + "\n"
		if !strings.Contains("\n"+all, "\n"+line) {
			all += line
		}
	}
	return []byte(all)
}
