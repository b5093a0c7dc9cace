package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	t.Parallel()
	e := []edit{{name: "n", file: "a/b.go", old: "one", new: "two"}, {name: "other file", file: "c.go", old: "x", new: "y"}}
	got, err := apply(e, "a/b.go", []byte("zero one three"))
	if err != nil || string(got) != "zero two three" {
		t.Errorf("apply = %q, %v", got, err)
	}
	for name, in := range map[string]string{"no anchor": "zero", "two anchors": "one one"} {
		if _, err := apply(e, "a/b.go", []byte(in)); err == nil || !strings.Contains(err.Error(), "a/b.go") || !strings.Contains(err.Error(), `"n"`) {
			t.Errorf("%s: %v, want an error that names file and edit", name, err)
		}
	}
}

// The edits fit the installed Go, and writing them twice changes nothing.
func TestOverlayOfInstalledGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := run([]string{"overlay", "-out", dir}); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	before, err := os.Stat(list)
	if err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"overlay", "-out", dir}); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(list); err != nil || after.ModTime() != before.ModTime() {
		t.Errorf("a second run wrote again: %v", err)
	}
	b, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Replace map[string]string }
	if err := json.Unmarshal(b, &o); err != nil || len(o.Replace) != len(files(edits)) {
		t.Errorf("overlay.json lists %d files, want %d (%v)", len(o.Replace), len(files(edits)), err)
	}
}

// sleeper asks the runtime to sleep for 300 ms and prints how long that took.
const sleeper = `package main

import (
	"time"
	_ "unsafe"
)

//go:linkname usleep runtime.usleep
func usleep(usec uint32)

func main() {
	start := time.Now()
	usleep(300_000)
	println(time.Since(start).Milliseconds())
}
`

// The runtime's usleep sleeps as long as it is asked to: without the edit, a
// thousandth of it. (The timespec's edit needs futex_time64, which qemu-user
// does not have; the idle board's CPU time in the end-to-end tests shows it.)
func TestUsleep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := run([]string{"overlay", "-out", dir}); err != nil {
		t.Fatal(err)
	}
	src, bin := filepath.Join(dir, "sleeper.go"), filepath.Join(dir, "sleeper")
	if err := os.WriteFile(src, []byte(sleeper), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-ldflags=-checklinkname=0", "-o", bin, src)
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	cmd := exec.Command("qemu-mips", bin)
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1") // a signal would end the sleep
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("qemu-mips (package qemu-user): %v\n%s", err, b)
	}
	ms, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || ms < 300 {
		t.Errorf("usleep(300000) took %d ms (%v)", ms, err)
	}
}
