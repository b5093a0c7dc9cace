//go:build linux

package kernelengine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The driver sets SO_KEEPALIVE and nothing else on its clients' sockets, so the
// kernel's own times decide when one whose host vanished is given up: 2 h of
// silence by default, 15 min with bytes under way. A client that vanished is the
// one client, until then. The times are the box's: its other connections have
// them, too.
var sysctls = [...]struct{ name, value string }{
	// 15 + 3*5 s, as the user engine asks for on its sockets.
	{"tcp_keepalive_time", "15"},
	{"tcp_keepalive_intvl", "5"},
	{"tcp_keepalive_probes", "3"},
	// Retransmissions after 0.2, 0.4, ... s: 6 of them give up after 25.4 s at
	// least, by net/ipv4/tcp_timer.c.
	{"tcp_retries2", "6"},
}

const (
	sysctlDir = "proc/sys/net/ipv4"
	// beforePath has what the box had before, NAME=VALUE a line: a process that
	// was killed restores nothing, the next one does.
	beforePath = "run/bridge-kernel.before"
)

// flowBefore is the name of the driver's flow control among what was before.
const flowBefore = "flow_control"

// before is what the box had before the driver was armed, by name.
type before map[string]string

// readBefore returns what is noted; nil when nothing is.
func readBefore(root string) (before, error) {
	b, err := os.ReadFile(filepath.Join("/", root, beforePath))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the box had before: %w", err)
	}
	return parseBefore(string(b)), nil
}

// parseBefore takes the lines that can be put back and no others.
func parseBefore(text string) before {
	all := make(before)
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if ok && value != "" && (name == flowBefore || ours(name) != "") {
			all[name] = value
		}
	}
	return all
}

// ours returns what the engine sets a sysctl to, "" for one that it leaves alone.
func ours(name string) string {
	for _, s := range sysctls {
		if s.name == name {
			return s.value
		}
	}
	return ""
}

// note keeps b for the next process.
func (b before) note(root string) error {
	var text strings.Builder
	for name, value := range b {
		text.WriteString(name + "=" + value + "\n")
	}
	path := filepath.Join("/", root, beforePath)
	if err := os.WriteFile(path+".new", []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("note what the box had before: %w", err)
	}
	return os.Rename(path+".new", path)
}

func readSysctl(root, name string) (string, error) {
	b, err := os.ReadFile(filepath.Join("/", root, sysctlDir, name))
	return strings.TrimSpace(string(b)), err
}

func writeSysctl(root, name, value string) error {
	f, err := os.OpenFile(filepath.Join("/", root, sysctlDir, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// shorten sets the times, after noting in b what they were. What fails is
// joined; the others are set.
func (b before) shorten(root string) error {
	var failed []error
	for _, s := range sysctls {
		has, err := readSysctl(root, s.name)
		if err != nil {
			failed = append(failed, err)
		} else if _, noted := b[s.name]; !noted {
			b[s.name] = has
		}
	}
	if err := b.note(root); err != nil {
		return errors.Join(append(failed, err)...) // what cannot be restored is not changed
	}
	for _, s := range sysctls {
		if _, readable := b[s.name]; readable {
			failed = append(failed, writeSysctl(root, s.name, s.value))
		}
	}
	return errors.Join(failed...)
}

// restore puts the times back where they are still those of shorten.
func (b before) restore(root string) error {
	var failed []error
	for _, s := range sysctls {
		was, ok := b[s.name]
		if !ok {
			continue
		}
		has, err := readSysctl(root, s.name)
		if err == nil && has == s.value {
			err = writeSysctl(root, s.name, was)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func forget(root string) error {
	if err := os.Remove(filepath.Join("/", root, beforePath)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget what the box had before: %w", err)
	}
	return nil
}
