//go:build linux

package benchmode

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// Left names processes of user space that are neither PID 1, this one, nor kept,
// nor descend from those, and TCP ports that somebody listens on.
func (y System) Left(kept []int) (left []string, err error) {
	var all []proc
	if err := y.each(func(p proc) { all = append(all, p) }); err != nil {
		return nil, err
	}
	fine := append([]int{os.Getpid()}, kept...)
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !slices.Contains(fine, p.pid) && slices.Contains(fine, p.parent) {
				fine, grown = append(fine, p.pid), true
			}
		}
	}
	for _, p := range all {
		if p.pid == 1 || slices.Contains(fine, p.pid) {
			continue
		}
		what := p.name
		if line, _ := os.ReadFile(y.path("proc/" + strconv.Itoa(p.pid) + "/cmdline")); len(line) > 0 {
			what = strings.TrimSpace(strings.ReplaceAll(string(line[:min(len(line), 60)]), "\x00", " "))
		}
		left = append(left, what+" (process "+strconv.Itoa(p.pid)+")")
	}
	for _, name := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		b, _ := os.ReadFile(y.path(name)) // a kernel without IPv6 has no tcp6
		for _, port := range listening(string(b)) {
			if text := "a listener on tcp/" + strconv.Itoa(port); !slices.Contains(left, text) {
				left = append(left, text)
			}
		}
	}
	return left, nil
}

// listening returns the ports of the sockets in /proc/net/tcp or tcp6 that
// listen: the second column is address:port and the fourth the state, 0A for them.
func listening(text string) (ports []int) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" {
			continue
		}
		_, hex, ok := strings.Cut(f[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); ok && err == nil {
			ports = append(ports, int(n))
		}
	}
	return ports
}
