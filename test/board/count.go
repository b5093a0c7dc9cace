package board

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	var n Instructions
	if cfg.Kernel == "" {
		kernel, err := Kernel(ctx)
		if err != nil {
			return n, err
		}
		cfg.Kernel = kernel
	}
	plugin, err := buildPlugin(ctx)
	if err != nil {
		return n, err
	}
	args, err := pluginArgs(cfg.Kernel)
	if err != nil {
		return n, err
	}
	// QEMU splits at commas, and a plugin gets no escaped one.
	ram := filepath.Join(cfg.Dir, ramFile)
	if strings.Contains(ram+plugin, ",") {
		return n, fmt.Errorf("board: count: a comma in %s or %s", ram, plugin)
	}
	if cfg.Icount == 0 {
		cfg.Icount = countShift
	}
	args = append([]string{plugin, "ram=" + ram, fmt.Sprintf("port=%d", port)}, args...)
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
		return n, err
	}
	select {
	case n = <-counted:
		err = nil
	case <-m.Exited():
		err = fmt.Errorf("board: count: the machine went off before port %d was listened on; console:\n%s", port, lastLines([]byte(m.Transcript()), 30))
	case <-ctx.Done():
		err = fmt.Errorf("board: count: port %d: %w; console:\n%s", port, ctx.Err(), lastLines([]byte(m.Transcript()), 30))
	}
	// It may be idle and deaf to an orderly end: its clock stands still.
	if cut := m.PowerCut(); cut != nil && m.PID() != 0 {
		err = errors.Join(err, cut)
	}
	return n, errors.Join(err, m.Close())
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
