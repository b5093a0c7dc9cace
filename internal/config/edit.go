package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/atomicfile"
)

// Errors that Get, Set and Unset return inside an *Error.
var (
	ErrUnknown    = errors.New("no such setting; `gwctl config list` names them")
	ErrAmbiguous  = errors.New("several files have that key; say which")
	ErrValue      = errors.New("not taken")
	ErrIncomplete = errors.New("IPADDR, NETMASK and GATEWAY belong together: set them in one command, or unset eth0 (then DHCP) or fallback as a whole")
	ErrNoUserdata = errors.New("there is nowhere to keep it; what became of /userdata is in `gwctl status`")
)

// Error is why a setting was not read or changed.
type Error struct {
	Name   string // the setting, as it was asked for
	Err    error  // one of the errors above, or what the file system said
	Detail string // more about it, or ""
}

// Code is that of an api.Error which tells a program the same.
func (e *Error) Code() string {
	switch e.Err {
	case ErrUnknown:
		return api.CodeNotFound
	case ErrAmbiguous, ErrValue, ErrIncomplete:
		return api.CodeBadRequest
	}
	return api.CodeFailed
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Name + ": " + e.Err.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap gives Err.
func (e *Error) Unwrap() error { return e.Err }

// Item is a setting with its value.
type Item struct {
	Setting
	Value string // in effect; "" when there is none
	Set   bool   // the file has a value for it, good or bad
}

// List returns every setting with its value, and the warnings of a load.
func List(root string, b rtl8196e.Board) ([]Item, []Warning) {
	c, warnings := Load(root, b)
	var items []Item
	quiet := loader{root: root}
	for _, s := range Settings() {
		items = append(items, Item{Setting: s, Value: s.value(c, b), Set: quiet.has(s)})
	}
	return items, warnings
}

// Get returns one setting with its value.
func Get(root string, b rtl8196e.Board, name string) (Item, error) {
	s, err := find(name)
	if err != nil {
		return Item{}, err
	}
	c, _ := Load(root, b)
	quiet := loader{root: root}
	return Item{Setting: s, Value: s.value(c, b), Set: quiet.has(s)}, nil
}

// has tells whether the file of s says something about it.
func (l *loader) has(s Setting) bool {
	text, _ := l.read(s.File)
	if s.Key == "" {
		v, _ := l.firstLine(s.File)
		return v != ""
	}
	for line := range strings.Lines(text) {
		if isLineOf(s, line) {
			return true
		}
	}
	return false
}

// Assignment is a setting and what it is to be.
type Assignment struct{ Name, Value string }

// Change is what Set or Unset did.
type Change struct {
	Settings []Setting // in the files that have changed; none: all was as wanted
	Restart  []string  // services that have to restart to use it
	Reload   []string  // services that have to reload, and not to restart
	NextBoot bool      // something is only used from the next boot on
	Warnings []Warning // about values that are used, with a doubt
}

// Set changes settings: all of them, or none when one is refused or cannot be
// stored. A file is replaced as a whole, with its comments and order kept. It
// blocks on flash.
func Set(root string, b rtl8196e.Board, all []Assignment) (Change, error) {
	var edits []edit
	for _, a := range all {
		s, err := find(a.Name)
		if err != nil {
			return Change{}, err
		}
		value := strings.Trim(a.Value, " \t")
		if err := writable(s, value); err != nil {
			return Change{}, err
		}
		edits = append(edits, edit{Setting: s, value: value})
	}
	return apply(root, b, append(edits, closedREST(root, b, edits)...), false)
}

// closedREST is what goes along with a change of the mode to Thread: a gateway
// that was in another one has nobody who depends on an open REST. One that comes
// from the incumbent in this mode keeps it.
func closedREST(root string, b rtl8196e.Board, edits []edit) []edit {
	bound := func(e edit) bool { return e.File == fileRadio && e.Key == "OTBR_REST_BIND" }
	mode := func(e edit) bool { return e.File == fileRadio && e.Key == "MODE" && e.value == ModeOTBR }
	if !slices.ContainsFunc(edits, mode) || slices.ContainsFunc(edits, bound) {
		return nil
	}
	if r, _ := LoadRadio(root, b); r.Mode == ModeOTBR || r.OTBR.RESTSet {
		return nil
	}
	s, err := find("radio.OTBR_REST_BIND")
	if err != nil {
		return nil // of the build: Settings has it
	}
	return []edit{{Setting: s, value: LoopbackREST}}
}

// Unset takes settings out of their files, so that the default holds. The name
// eth0 takes the whole of eth0.conf away: DHCP; fallback that of eth0.bak.
func Unset(root string, b rtl8196e.Board, names []string) (Change, error) {
	var edits []edit
	for _, n := range names {
		if file := map[string]string{"eth0": fileEth0, "fallback": fileFallback}[n]; file != "" {
			edits = append(edits, unsetFile(n, file))
			continue
		}
		s, err := find(n)
		if err != nil {
			return Change{}, err
		}
		edits = append(edits, edit{Setting: s, unset: true})
	}
	return apply(root, b, edits, false)
}

// unsetFile takes the whole of one of those two files away.
func unsetFile(name, file string) edit {
	return edit{Setting: Setting{Name: name, File: file, Restart: []string{serviceCore}}, unset: true}
}

// wholeFile is the name by which a file can be unset as a whole, or "".
func wholeFile(file string) string {
	switch file {
	case fileEth0:
		return "eth0"
	case fileFallback:
		return "fallback"
	}
	return ""
}

type edit struct {
	Setting
	value string
	unset bool
}

// writable refuses what a line of the file cannot hold: no shell is to make
// more of it than is there, when the incumbent's reads it.
func writable(s Setting, value string) error {
	bad := ""
	switch {
	case value == "":
		bad = "an empty value; use unset"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) || strings.ContainsAny(value, "\"\\$`"):
		bad = "holds a character that the file cannot"
	case s.File == fileRadio && needsQuotes(value):
		bad = "holds a blank or a sign of the shell"
	}
	if bad != "" {
		return &Error{Name: s.Name, Err: ErrValue, Detail: bad}
	}
	return nil
}

// needsQuotes tells whether a shell would make something else of the value.
func needsQuotes(value string) bool {
	return strings.ContainsAny(value, " \t'#;&|<>()*?[]!~{}")
}

// apply changes files one after the other, each once: all of them, or none. With
// try it only tells what it would change.
func apply(root string, b rtl8196e.Board, edits []edit, try bool) (Change, error) {
	var change Change
	before, _ := LoadRadio(root, b)
	thread := before.Mode == ModeOTBR
	var files []string
	for _, e := range edits {
		if !slices.Contains(files, e.File) {
			files = append(files, e.File)
		}
	}
	// Every file is tried before the first is written.
	var same []string
	var done []original
	for _, dry := range []bool{true, false} {
		if try && !dry {
			break
		}
		for _, file := range files {
			if slices.Contains(same, file) {
				continue
			}
			var mine []edit
			for _, e := range edits {
				if e.File == file {
					mine = append(mine, e)
				}
			}
			var before original
			var err error
			if !dry {
				before, err = remember(root, file)
			}
			var changed []edit
			var warnings []Warning
			if err == nil {
				changed, warnings, err = applyFile(root, b, file, mine, dry)
			}
			if err != nil {
				if e := takeBack(done); e != nil {
					return change, fmt.Errorf("%w; and what was changed before could not be taken back: %w", err, e)
				}
				return Change{}, err
			}
			if len(changed) == 0 {
				same = append(same, file)
			}
			if dry != try || len(changed) == 0 {
				continue
			}
			done = append(done, before)
			change.Warnings = append(change.Warnings, warnings...)
			for _, e := range changed {
				change.Settings = append(change.Settings, e.Setting)
				if len(e.Restart) == 0 && e.File == fileGateway {
					change.NextBoot = true
				}
			}
		}
	}
	for i, s := range change.Settings {
		thread = thread || s.File == fileRadio && s.Key == "MODE"
		if !thread { // its service is not there, nor to be there
			s.Restart = slices.DeleteFunc(slices.Clone(s.Restart), func(name string) bool { return name == serviceOTBR })
			change.Settings[i] = s
		}
	}
	for _, s := range change.Settings {
		if !s.Live() {
			change.Restart = appendNew(change.Restart, s.Restart)
		}
	}
	for _, s := range change.Settings {
		for _, name := range s.Restart {
			if !slices.Contains(change.Restart, name) {
				change.Reload = appendNew(change.Reload, []string{name})
			}
		}
	}
	slices.Sort(change.Restart)
	slices.Sort(change.Reload)
	return change, nil
}

// original is a file as it was before a change.
type original struct {
	path  string
	text  []byte
	there bool
}

func remember(root, file string) (original, error) {
	o := original{path: filepath.Join("/", root, file)}
	text, err := readBounded(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	o.text, o.there = text, err == nil
	return o, wrap(file, err)
}

// takeBack brings files back to what they were.
func takeBack(all []original) error {
	var errs []error
	for _, o := range slices.Backward(all) {
		if o.there {
			errs = append(errs, atomicfile.Write(o.path, o.text, 0o644))
		} else {
			errs = append(errs, atomicfile.Remove(o.path))
		}
	}
	return errors.Join(errs...)
}

// appendNew appends what is not there yet.
func appendNew(all, more []string) []string {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// applyFile changes one file, or only finds out whether it may. It returns those
// of the edits that change something.
func applyFile(root string, b rtl8196e.Board, file string, edits []edit, dry bool) (changed []edit, warnings []Warning, err error) {
	path := filepath.Join("/", root, file)
	name := edits[0].Name
	if len(edits) == 1 && edits[0].unset && edits[0].Key == "" {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		}
		if dry {
			return edits, nil, nil
		}
		return edits, nil, wrap(name, atomicfile.Remove(path))
	}
	change := func(old []byte, _ bool) ([]byte, error) {
		if len(old) > maxFile {
			return nil, &Error{Name: name, Err: errors.New("the file is longer than 64 KiB; mend it by hand"), Detail: file}
		}
		text := string(old)
		changed = nil
		for _, e := range edits {
			after := e.in(text)
			if after != text {
				changed = append(changed, e)
			}
			text = after
		}
		if len(changed) == 0 && !slices.ContainsFunc(edits, func(e edit) bool { return !e.unset }) {
			return old, nil
		}
		warnings, err = judge(root, b, file, text, edits)
		return []byte(text), err
	}
	if dry {
		old, err := readBounded(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, wrap(name, err)
		}
		_, err = change(old, err == nil)
		return changed, warnings, err
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, nil, wrap(name, err)
	}
	err = wrap(name, atomicfile.Update(path, 0o644, change))
	return changed, warnings, err
}

// readBounded reads one byte more than a settings file may have, at most.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// judge reads the text as a load will, and refuses a value that would not be
// used as it stands, or that spoils another of an address, mask and gateway.
func judge(root string, b rtl8196e.Board, file, text string, edits []edit) ([]Warning, error) {
	l := loader{root: root, instead: map[string]string{file: text}}
	l.all(b)
	setup := []string{"IPADDR", "NETMASK", "GATEWAY"}
	var doubts []Warning
	for _, w := range l.warnings {
		if w.File != file {
			continue
		}
		if w.Problem == problemMissing {
			return nil, &Error{Name: edits[0].Name, Err: ErrIncomplete, Detail: w.Key + " is missing"}
		}
		for _, e := range edits {
			switch {
			case e.unset:
			case e.Key == w.Key && w.Used != e.value:
				return nil, &Error{Name: e.Name, Err: ErrValue, Detail: w.Problem}
			case e.Key == w.Key:
				doubts = append(doubts, w)
			case !slices.Contains(setup, e.Key) || !slices.Contains(setup, w.Key):
			case w.Used != w.Value:
				return nil, &Error{Name: e.Name, Err: ErrValue, Detail: w.Key + "=" + w.Value + " is then " + w.Problem}
			case !slices.ContainsFunc(edits, func(e edit) bool { return e.Key == w.Key }) && !slices.Contains(doubts, w):
				doubts = append(doubts, w)
			}
		}
	}
	return doubts, nil
}

// in returns text with the edit made: the last line that says something about
// the setting is replaced where it stands, others of it go, a new one is added
// at the end.
func (e edit) in(text string) string {
	if e.Key == "" {
		return e.value + "\n"
	}
	var lines []string
	last := -1
	for line := range strings.Lines(text) {
		if !isLineOf(e.Setting, line) {
			lines = append(lines, line)
			continue
		}
		if last >= 0 {
			lines = slices.Delete(lines, last, last+1)
		}
		last = len(lines)
		lines = append(lines, line)
	}
	var with []string
	if !e.unset {
		comment := ""
		if last >= 0 {
			comment = commentOf(e.Setting, lines[last])
		}
		with = e.lines(comment)
	}
	if last >= 0 {
		lines = slices.Replace(lines, last, last+1, with...)
		return strings.Join(lines, "")
	}
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") && len(with) > 0 {
		lines[n-1] += "\n"
	}
	return strings.Join(append(lines, with...), "")
}

// lines is how the value is written.
func (e edit) lines(comment string) []string {
	if comment != "" {
		comment = " " + comment
	}
	if e.Key == keyServer {
		var all []string
		for f := range strings.FieldsSeq(e.value) {
			all = append(all, "server "+f+comment+"\n")
			comment = ""
		}
		return all
	}
	value := e.value
	if needsQuotes(value) {
		value = `"` + value + `"`
	}
	return []string{e.Key + "=" + value + comment + "\n"}
}

// isLineOf tells whether the line sets s.
func isLineOf(s Setting, line string) bool {
	if s.Key == keyServer {
		f := strings.Fields(line)
		return len(f) > 0 && (f[0] == "server" || f[0] == "pool")
	}
	e, ok := parseLine(strings.TrimPrefix(strings.TrimRight(line, "\r\n"), "\ufeff"))
	return ok && e.key == s.Key
}

// commentOf is the comment at the end of a line.
func commentOf(s Setting, line string) string {
	line = strings.TrimRight(line, "\r\n")
	if s.Key == keyServer {
		if i := strings.IndexByte(line, '#'); i >= 0 {
			return line[i:]
		}
		return ""
	}
	e, _ := parseLine(line)
	return e.comment
}

// StoreMAC keeps mac as the interface's, in place of what is stored. Errors are
// an *Error. It blocks on flash.
func StoreMAC(root string, mac [6]byte) error {
	path := filepath.Join("/", root, fileMAC)
	err := makeDir(filepath.Dir(path))
	if err == nil {
		err = atomicfile.Write(path, []byte(formatMAC(mac)+"\n"), 0o644)
	}
	return wrap(nameMAC, err)
}

// makeDir makes the settings' folder where only the partition is there.
func makeDir(path string) error {
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// wrap says in words what a box without /userdata says by an error number.
func wrap(name string, err error) error {
	var already *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already):
		return already
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrNotExist):
		return &Error{Name: name, Err: ErrNoUserdata}
	}
	return &Error{Name: name, Err: err}
}

// Check returns the warnings of a load.
func Check(root string, b rtl8196e.Board) []Warning {
	_, warnings := Load(root, b)
	return warnings
}
