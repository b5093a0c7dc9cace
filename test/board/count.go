package board

import (
	"bufio"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Instructions is what the guest executed from the kernel's exec of init until
// a TCP port was listened on.
type Instructions struct {
	Decompress uint64 // the kernel's xz decoder
	Kernel     uint64 // the rest of the kernel
	User       uint64
}

// Total is all of them.
func (i Instructions) Total() uint64 { return i.Decompress + i.Kernel + i.User }

// countShift is guest time for an instruction: 8 ns, 125 million a second,
// which is within a quarter of the gateway's core.
const countShift = 3

// CountBoot boots cfg with repeatable timing, counts instructions until the
// guest listens on port, and ends the machine. Its end for a port that nobody
// listens on is ctx's.
func CountBoot(ctx context.Context, cfg Config, port int) (Instructions, error) {
	n, m, err := countBoot(ctx, cfg, port)
	if m == nil {
		return n, err
	}
	// It may be idle and deaf to an orderly end: its clock stands still.
	if cut := m.PowerCut(); cut != nil && m.PID() != 0 {
		err = errors.Join(err, cut)
	}
	return n, errors.Join(err, m.Close())
}

// RecordBoot is CountBoot that also notes which words of the program each
// process touched, and in which order. After the port is listened on it lets
// use work with the machine, ends it and returns the record's words by order.
func RecordBoot(ctx context.Context, cfg Config, port int, use func(*Machine) error) ([]Touch, error) {
	path := filepath.Join(cfg.Dir, "touched")
	_, m, err := countBoot(ctx, cfg, port, "record="+path)
	if err == nil {
		err = use(m)
	}
	if m != nil {
		err = errors.Join(err, m.Quit(), m.Close())
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("board: record: %w", err)
	}
	defer f.Close()
	return readTouched(f)
}

// Counter reads what the guest has executed while it runs on.
type Counter struct{ words []byte }

// Read returns the instructions since the kernel's exec of init.
func (c *Counter) Read() Instructions {
	at := func(class int) uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.words[8*class]))) }
	return Instructions{Decompress: at(0), Kernel: at(1), User: at(2)}
}

// Close gives up the counter's memory; nothing may Read it any more.
func (c *Counter) Close() error { return unix.Munmap(c.words) }

// StartCounted boots cfg with repeatable timing, returns when the guest listens
// on port, and counts on. The caller must Close the machine and then the
// counter.
func StartCounted(ctx context.Context, cfg Config, port int) (*Machine, *Counter, error) {
	path := filepath.Join(cfg.Dir, "counts")
	const size = 3 * 8
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		return nil, nil, fmt.Errorf("board: count: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("board: count: %w", err)
	}
	defer f.Close()
	words, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("board: count: %s: %w", path, err)
	}
	c := &Counter{words}
	_, m, err := countBoot(ctx, cfg, port, "counts="+path)
	if err != nil {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
		return nil, nil, errors.Join(err, c.Close())
	}
	return m, c, nil
}

// Touch is one word of the program that was run, read or written.
type Touch struct {
	Addr  uint32
	Order int  // 1 is the first
	Run   bool // as an instruction
	Data  bool // read or written
	Late  bool // not before the port was listened on
}

// readTouched reads what the plugin wrote.
func readTouched(r io.Reader) ([]Touch, error) {
	var list []Touch
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var t Touch
		var kind int
		if _, err := fmt.Sscanf(lines.Text(), "%x %d %d", &t.Addr, &t.Order, &kind); err != nil {
			return nil, fmt.Errorf("board: record: %q: %w", lines.Text(), err)
		}
		t.Run, t.Data, t.Late = kind&1 != 0, kind&2 != 0, kind&4 != 0
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Touch) int { return cmp.Compare(a.Order, b.Order) })
	return list, lines.Err()
}

// countBoot boots cfg and returns when port is listened on. The machine is nil
// if there is none to end.
func countBoot(ctx context.Context, cfg Config, port int, more ...string) (Instructions, *Machine, error) {
	var n Instructions
	if cfg.Kernel == "" {
		kernel, err := Kernel(ctx, KernelFull)
		if err != nil {
			return n, nil, err
		}
		cfg.Kernel = kernel
	}
	plugin, err := buildPlugin(ctx)
	if err != nil {
		return n, nil, err
	}
	args, err := pluginArgs(cfg.Kernel)
	if err != nil {
		return n, nil, err
	}
	// QEMU splits at commas, and a plugin gets no escaped one.
	ram := filepath.Join(cfg.Dir, ramFile)
	if strings.Contains(ram+plugin, ",") {
		return n, nil, fmt.Errorf("board: count: a comma in %s or %s", ram, plugin)
	}
	if cfg.Icount == 0 {
		cfg.Icount = countShift
	}
	args = slices.Concat([]string{plugin, "ram=" + ram, fmt.Sprintf("port=%d", port)}, more, args)
	cfg.Extra = append(slices.Clone(cfg.Extra), "-plugin", strings.Join(args, ","), "-d", "plugin,trace:serial_update_parameters")

	counted := make(chan Instructions, 1)
	m, err := start(ctx, cfg, func(line string) {
		if i, ok := parseCount(line); ok {
			select {
			case counted <- i:
			default:
			}
		}
	})
	if err != nil {
		return n, nil, err
	}
	select {
	case n = <-counted:
	case <-m.Exited():
		err = fmt.Errorf("board: count: the machine went off before port %d was listened on; console:\n%s", port, lastLines([]byte(m.Transcript()), 30))
	case <-ctx.Done():
		err = fmt.Errorf("board: count: port %d: %w; console:\n%s", port, ctx.Err(), lastLines([]byte(m.Transcript()), 30))
	}
	return n, m, err
}

// parseCount reads the plugin's line of the moment the port was listened on.
func parseCount(line string) (Instructions, bool) {
	var n Instructions
	_, rest, ok := strings.Cut(line, "gwcount: listen ")
	if !ok {
		return n, false
	}
	_, err := fmt.Sscanf(rest, "%d %d %d", &n.Decompress, &n.Kernel, &n.User)
	return n, err == nil
}

// pluginArgs finds in the kernel's symbol table what the plugin looks for.
func pluginArgs(kernel string) ([]string, error) {
	f, err := elf.Open(kernel)
	if err != nil {
		return nil, fmt.Errorf("board: count: %s: %w", kernel, err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("board: count: %s: %w", kernel, err)
	}
	var args []string
	var start, listen bool
	file := ""
	for _, s := range symbols {
		switch elf.ST_TYPE(s.Info) {
		case elf.STT_FILE:
			file = s.Name
		case elf.STT_FUNC:
			// Local symbols stand behind the name of their file.
			global := elf.ST_BIND(s.Info) != elf.STB_LOCAL
			from, to := s.Value&0xffffffff, (s.Value+s.Size)&0xffffffff
			span := fmt.Sprintf("%#x-%#x", from, to)
			switch {
			case s.Name == "kernel_execve":
				args, start = append(args, fmt.Sprintf("start=%#x", from)), true
			case s.Name == "inet_csk_listen_start":
				args, listen = append(args, "listen="+span), true
			case !global && strings.HasPrefix(file, "xz_dec"), global && strings.HasPrefix(s.Name, "xz_"):
				args = append(args, "class="+span)
			}
		}
	}
	if !start || !listen || len(args) == 2 {
		return nil, fmt.Errorf("board: count: %s: kernel_execve, inet_csk_listen_start or the xz decoder is not in its symbol table", kernel)
	}
	return args, nil
}

// buildPlugin compiles plugin/count.c into the cache.
func buildPlugin(ctx context.Context) (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, "plugin", "count.c")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", fmt.Errorf("board: count: %w", err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(text) // never fails
	out := filepath.Join(cache, "plugin", fmt.Sprintf("count-%016x.so", hash.Sum64()))
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", fmt.Errorf("board: count: %w", err)
	}
	aside := fmt.Sprintf("%s.%d", out, os.Getpid())
	cmd := exec.CommandContext(ctx, "gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o", aside, source)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("board: count: gcc: %w\n%s", err, said)
	}
	if err := os.Rename(aside, out); err != nil {
		return "", fmt.Errorf("board: count: %w", err)
	}
	return out, nil
}
