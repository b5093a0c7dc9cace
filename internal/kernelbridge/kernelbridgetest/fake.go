//go:build linux

// Package kernelbridgetest has two fakes of the in-kernel UART bridge's
// parameters. Fake is a folder that another process can use, too: enable is
// written, armed follows after a while or never, the other parameters read what
// was written. Driver is in memory and behaves as the driver does.
package kernelbridgetest

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gwinit/internal/kernelbridge"
)

// Fake is the driver. OnEnable, when set, runs in place of the default, which
// makes armed follow enable at once.
type Fake struct {
	Root string // give it to kernelbridge.Detect

	dir      string
	onEnable func(f *Fake, value string)

	mu     sync.Mutex // guards writes
	writes []string   // values written to enable, oldest first
}

// New makes the folder with armed and flow_control as given. onEnable may be
// nil. enable is a FIFO that a goroutine of the test reads.
func New(t testing.TB, armed bool, flowControl string, onEnable func(f *Fake, value string)) *Fake {
	t.Helper()
	f := &Fake{Root: t.TempDir(), onEnable: onEnable}
	f.dir = filepath.Join(f.Root, kernelbridge.Dir)
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f.SetArmed(armed)
	f.Set("flow_control", flowControl)
	f.Set("tty", "/dev/ttyS1")
	f.Set("baud", "115200")
	f.Set("bind_addr", "0.0.0.0")
	f.Set("port", "8888")
	f.Set("stats", "rx=0 tx=0 drops_nocli=0 drops_err=0 drops_tx=0 xoff=0 xon=0 tx_pause_timeouts=0")
	enable := filepath.Join(f.dir, "enable")
	if err := unix.Mkfifo(enable, 0o644); err != nil {
		t.Fatal(err)
	}
	// Read and write: the read never sees an end between two writers.
	fifo, err := os.OpenFile(enable, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(fifo)
		for lines.Scan() {
			if v := strings.TrimSpace(lines.Text()); v != "" {
				f.enabled(v)
			}
		}
	}()
	t.Cleanup(func() {
		fifo.Close()
		<-done
	})
	return f
}

func (f *Fake) enabled(v string) {
	f.mu.Lock()
	f.writes = append(f.writes, v)
	f.mu.Unlock()
	if f.onEnable != nil {
		f.onEnable(f, v)
		return
	}
	f.SetArmed(v == "1")
}

// Writes returns what was written to enable.
func (f *Fake) Writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.writes...)
}

// SetArmed sets what armed reads.
func (f *Fake) SetArmed(armed bool) {
	v := "0"
	if armed {
		v = "1"
	}
	f.Set("armed", v)
}

// Set sets what a parameter reads; the file is replaced, so a reader sees the
// old value or the new one.
func (f *Fake) Set(name, value string) {
	tmp := filepath.Join(f.dir, "."+name)
	if err := os.WriteFile(tmp, []byte(value+"\n"), 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(tmp, filepath.Join(f.dir, name)); err != nil {
		panic(err)
	}
}

// Block makes every read of a parameter hang until the returned function is
// called, as while a radio pin is pulsed.
func (f *Fake) Block(t testing.TB, name string) (release func()) {
	t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	return func() {
		w, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		w.WriteString("0\n")
		w.Close()
	}
}

// Get returns what a parameter reads.
func (f *Fake) Get(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(b))
}
