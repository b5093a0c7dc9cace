package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gwinit/rootfs/layout"
	"gwinit/test/board"
)

// boots and speeds: what runs before the bridge listens depends a little on who
// is scheduled when and on random numbers (the seeds of Go's maps), which the
// kernel draws from its arguments, too, while it has nothing better. So there
// are several boots, with different arguments and at several speeds of the
// guest, as board.Config.Icount has them; each adds what the others did not touch.
const boots = 18

var speeds = []int{3, 4}

// bootTime is a dozen times what a boot takes. With instructions counted, QEMU
// stops some numbers of boot for ever before the kernel has a timer, always the
// same ones; so many may be left out.
const (
	bootTime = time.Minute
	maxHung  = 4
)

// record boots an image, looks at the console shell and gwctl, and writes the
// names of what was touched to out, in the order of first touch: the list that
// toolchain/rlx's linker lays the binary out by. The map is what that linker
// wrote (-ordermap) when it made the image's binary.
func record(rootfs, userdata, symbolMap, out string) error {
	f, err := os.Open(symbolMap)
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := layout.ReadMap(f)
	if err != nil {
		return fmt.Errorf("%s: %w", symbolMap, err)
	}
	dir, err := os.MkdirTemp("", "bench-boot")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := newProfile(symbols)
	hung := 0
	for boot := 0; boot < boots+hung; boot++ {
		touched, err := recordBoot(ctx, board.Config{
			Rootfs: rootfs, Userdata: userdata, Dir: dir, Forward: map[int]int{board.BridgePort: 0},
			Icount: speeds[boot%len(speeds)], Append: []string{fmt.Sprintf("bench.boot=%d", boot)},
		}, board.BridgePort, func(m *board.Machine) error {
			if err := m.Console().WaitShell(5 * time.Minute); err != nil {
				return err
			}
			_, status, err := m.Console().RunCommand("gwctl status", 5*time.Minute)
			if err == nil && status != 0 {
				err = fmt.Errorf("gwctl status: exit status %d", status)
			}
			return err
		})
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && hung < maxHung {
			hung++
			fmt.Fprintf(os.Stderr, "bench-boot: boot %d did not end in %v; another takes its place\n", boot, bootTime)
			continue
		}
		if err != nil {
			return err
		}
		p.add(touched)
	}
	fmt.Printf("%s: touched before the bridge listens:", out)
	for _, s := range sections {
		fmt.Printf(" %d of %s", len(p.early[s].list), s)
	}
	fmt.Println()
	return os.WriteFile(out, []byte(p.String()), 0o644)
}

// recordBoot is one boot, which has bootTime.
func recordBoot(ctx context.Context, cfg board.Config, port int, use func(*board.Machine) error) ([]board.Touch, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	return board.RecordBoot(ctx, cfg, port, use)
}

// profile is what boots touched, by name.
type profile struct {
	symbols []layout.Symbol // by address, each of some size, none around another
	// By section of the list: what was touched before the port was listened on,
	// and what only after that; in the order of first touch.
	early, late map[string]*names
}

// names are names, each once.
type names struct {
	list []string
	has  map[string]bool
}

func (n *names) add(name string) {
	if !n.has[name] {
		n.has[name] = true
		n.list = append(n.list, name)
	}
}

var sections = []string{layout.Text, layout.Unwound, layout.Data}

func newProfile(symbols []layout.Symbol) *profile {
	p := &profile{early: map[string]*names{}, late: map[string]*names{}}
	for _, s := range sections {
		p.early[s], p.late[s] = &names{has: map[string]bool{}}, &names{has: map[string]bool{}}
	}
	for i, s := range symbols {
		// The linker knows where a function's description begins and not how
		// long it is.
		if s.Kind == "FUNC" {
			s.Size = 1 << 10
			if i+1 < len(symbols) {
				s.Size = min(s.Size, symbols[i+1].Addr-s.Addr)
			}
		}
		if s.Size != 0 && !s.Container() {
			p.symbols = append(p.symbols, s)
		}
	}
	return p
}

// section is where a symbol's touch is noted; "" is nowhere.
func section(s layout.Symbol, t board.Touch) string {
	if s.Kind == "TEXT" && !t.Run {
		return "" // nobody reads instructions
	}
	return s.Section()
}

// add notes a boot's touches, which are in their order.
func (p *profile) add(touched []board.Touch) {
	for _, t := range touched {
		// A word may hold several small symbols: all of them count.
		i, _ := slices.BinarySearchFunc(p.symbols, t.Addr+4, func(s layout.Symbol, end uint32) int { return cmp.Compare(s.Addr, end) })
		for i--; i >= 0 && p.symbols[i].Addr+p.symbols[i].Size > t.Addr; i-- {
			to := p.early
			if t.Late {
				to = p.late
			}
			if name := section(p.symbols[i], t); name != "" {
				to[name].add(p.symbols[i].Name)
			}
		}
	}
}

// String is the list as the linker reads it.
func (p *profile) String() string {
	var b strings.Builder
	b.WriteString("# What a boot touches, in the order of first touch: made by `make layout`.\n" +
		"# The linker that toolchain/rlx makes lays these symbols out together.\n")
	b.WriteString("[near]\n" + "gwinit/\n")
	for _, s := range sections {
		b.WriteString(s + "\n")
		for _, n := range p.early[s].list {
			b.WriteString(n + "\n")
		}
		b.WriteString(layout.Later + "\n")
		for _, n := range p.late[s].list {
			if !p.early[s].has[n] {
				b.WriteString(n + "\n")
			}
		}
	}
	return b.String()
}
