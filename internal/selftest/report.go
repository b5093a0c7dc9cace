//go:build linux

package selftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
)

// Identity is what was tested on what.
type Identity struct {
	Version   string `json:"version"`
	Quick     bool   `json:"quick"`
	FileBytes int64  `json:"fileBytes"` // of this program's file
	FileCRC32 string `json:"fileCRC32"` // IEEE, in hex; "" if it could not be read
	Go        string `json:"go"`        // compiler and target
	Board     string `json:"board"`     // ID and model
	CPU       string `json:"cpu"`       // /proc/cpuinfo: system type, cpu model, BogoMIPS, ASEs
	Kernel    string `json:"kernel"`    // release and version
	UID       int    `json:"uid"`
	Uptime    string `json:"uptime"`
}

// Report is what -json prints.
type Report struct {
	Identity
	Results []Result        `json:"results"`
	Counts  map[Verdict]int `json:"counts"`
	Seconds float64         `json:"seconds"`
}

// identify looks at the machine below root and at this program.
func identify(root, version string, quick bool) Identity {
	id := Identity{
		Version: version, Quick: quick, UID: os.Getuid(),
		Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
	}
	board := rtl8196e.Detect(root)
	id.Board = board.ID
	if board.Model != "" {
		id.Board += " (" + board.Model + ")"
	}
	if b, err := os.ReadFile(filepath.Join(root, "/proc/cpuinfo")); err == nil {
		id.CPU = cpuModel(string(b))
	}
	if b, err := os.ReadFile(filepath.Join(root, "/proc/uptime")); err == nil {
		id.Uptime, _, _ = strings.Cut(string(b), " ")
		id.Uptime += " s"
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		id.Kernel = unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Version[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	}
	if exe, err := os.Executable(); err == nil {
		id.FileBytes, id.FileCRC32 = sum(exe)
	}
	return id
}

// sum returns a file's size and CRC, or zeros.
func sum(name string) (int64, string) {
	f, err := os.Open(name)
	if err != nil {
		return 0, ""
	}
	defer f.Close()
	h := crc32.NewIEEE()
	n, err := io.Copy(h, f)
	if err != nil {
		return 0, ""
	}
	return n, fmt.Sprintf("%08x", h.Sum32())
}

// cpuModel picks what tells cores apart out of /proc/cpuinfo.
func cpuModel(info string) string {
	var parts []string
	seen := map[string]bool{}
	for line := range strings.Lines(info) {
		key, value, ok := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch key {
		case "system type", "machine", "cpu model", "model name", "BogoMIPS", "ASEs implemented", "isa":
			if ok && value != "" && !seen[key] { // of the first CPU
				seen[key] = true
				parts = append(parts, key+" "+value)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// count counts verdicts.
func count(results []Result) map[Verdict]int {
	n := map[Verdict]int{}
	for _, r := range results {
		n[r.Verdict]++
	}
	return n
}

// printer writes the report as lines; quiet, only the document at its end.
type printer struct {
	out   io.Writer
	quiet bool
	err   error // the first write's that failed
}

func (p *printer) printf(format string, a ...any) {
	if !p.quiet && p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, a...)
	}
}

func (p *printer) head(id Identity) {
	mode := ""
	if id.Quick {
		mode = " (quick)"
	}
	p.printf("gw selftest %s%s\n", id.Version, mode)
	p.printf("file    %d bytes, crc32 %s, %s\n", id.FileBytes, id.FileCRC32, id.Go)
	p.printf("board   %s\ncpu     %s\nkernel  %s, uptime %s, uid %d\n", id.Board, id.CPU, id.Kernel, id.Uptime, id.UID)
}

func (p *printer) group(g group) { p.printf("\n-- %s: %s\n", g.name, g.what) }

func (p *printer) took(d time.Duration) { p.printf("   %.1f s\n", d.Seconds()) }

// result writes a line; what follows its first line feed is set in.
func (p *printer) result(r Result) {
	p.printf("%-5s %s/%s: %s\n", r.Verdict, r.Group, r.Name, strings.ReplaceAll(r.Detail, "\n", "\n      | "))
}

// end writes the summary, or the document.
func (p *printer) end(r Report) error {
	if p.quiet {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetIndent("", " ")
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("encode the report: %w", err)
		}
		_, err := p.out.Write(b.Bytes())
		return err
	}
	p.printf("\n%d ok, %d FAIL, %d skip, %d info in %.0f s\n", r.Counts[OK], r.Counts[Fail], r.Counts[Skip], r.Counts[Info], r.Seconds)
	for _, f := range r.Results {
		if f.Verdict == Fail {
			first, _, _ := strings.Cut(f.Detail, "\n")
			p.printf("FAIL %s/%s: %s\n", f.Group, f.Name, first)
		}
	}
	if r.Counts[Fail] == 0 {
		p.printf("verdict: ok\n")
	} else {
		p.printf("verdict: FAIL; please paste everything from the line `gw selftest` to here into a report\n")
	}
	return p.err
}
