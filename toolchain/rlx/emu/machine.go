package emu

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sort"
	"time"
)

// Mode says which CPU the guest runs on.
type Mode uint8

const (
	// ModeStrict is the RLX4181, and ends the program at the first instruction
	// that relies on what the core does not promise.
	ModeStrict Mode = iota
	// ModeCount is the RLX4181; violations are counted by place.
	ModeCount
	// ModeRLX is the RLX4181, silently: a load's old value and all.
	ModeRLX
	// ModeMIPS32 is a MIPS32 with interlocks, MUL, CLZ, traps and SYNC, on
	// which stock Go's output runs.
	ModeMIPS32
)

// Link says how strong the link flag of LL and SC is, which nobody has
// measured on the core.
type Link uint8

const (
	// LinkException: one flag without an address, cleared by every exception.
	LinkException Link = iota
	// LinkAddress also compares the address.
	LinkAddress
	// LinkWeakest: one flag that LL sets and only SC clears. It survives
	// exceptions and context switches.
	LinkWeakest
)

// Policy is the scheduling policy a program begins with.
type Policy uint8

const (
	// PolicyOther preempts round-robin.
	PolicyOther Policy = iota
	// PolicyFIFO lets a thread run until it blocks or yields.
	PolicyFIFO
)

// Config is how a program runs. The zero value of each field is usable.
type Config struct {
	Mode   Mode
	LL     Link
	Policy Policy
	// Seed decides the scheduler's jitter and the guest's random bytes.
	Seed uint64
	// Slice is a thread's time slice in instructions; 400,000 where 0: 1 ms of
	// the core at one instruction a cycle. Each slice is between half and one
	// and a half of it.
	Slice int64
	// Preempt is the probability, per instruction, of a preemption beside
	// those of the slice.
	Preempt float64
	// NsPerInst is the virtual time of an instruction in nanoseconds; 2.5
	// where 0: 400 MHz at one instruction a cycle.
	NsPerInst float64
	// Epoch is the wall clock's time at the start; a fixed day where zero.
	Epoch time.Time
	// RealClock makes the guest's clocks the host's, and the run no longer
	// repeatable.
	RealClock bool
	// NoMadvise makes madvise fail with ENOSYS, as a kernel without
	// CONFIG_ADVISE_SYSCALLS does.
	NoMadvise bool
	// Limit ends the program after so many instructions, with an error; 0 is
	// no limit.
	Limit uint64

	Args []string // Args[0] is the program's name
	Env  []string
	// Stdin, Stdout and Stderr are host descriptors for 0, 1 and 2, which the
	// machine does not close.
	Stdin, Stdout, Stderr int
	// Exec is the command that runs a MIPS program which the guest executes.
	// It is followed by "-seed" and a number, so that a child's random bytes
	// are its own, and by the program's path and arguments. Where empty, only
	// programs of the host can be executed.
	Exec []string
	// Trace receives a line for each system call where not nil.
	Trace io.Writer
}

// ViolationKind is a rule of the CPU that an executed instruction broke.
type ViolationKind uint8

const (
	// ViolationRead: the instruction after a load reads the register.
	ViolationRead ViolationKind = iota
	// ViolationWrite: it writes the register, which races with the load.
	ViolationWrite
	// ViolationHILO: MULT, DIV, MTHI or MTLO less than two instructions after
	// MFHI or MFLO.
	ViolationHILO
	// ViolationSC: the instruction after an SC reads its result. Nobody has
	// measured that; the old value is not modelled.
	ViolationSC
)

func (k ViolationKind) String() string {
	switch k {
	case ViolationRead:
		return "reads a register in its load's delay slot"
	case ViolationWrite:
		return "writes a register in its load's delay slot"
	}
	if k == ViolationSC {
		return "reads the result of an SC at once"
	}
	return "writes HI or LO within two instructions of MFHI or MFLO"
}

func violationOf(h hazard) ViolationKind {
	if h == hazardWrite {
		return ViolationWrite
	}
	return ViolationRead
}

// Violation is a place where the program relied on what the core does not
// promise.
type Violation struct {
	Kind ViolationKind
	// PC is the load, or the instruction that writes HI or LO; Use is the
	// instruction that meets the load.
	PC, Use uint32
	Reg     uint8
	Symbol  string // of PC, with an offset
	Count   uint64
}

func (v Violation) Error() string {
	if v.Kind == ViolationHILO {
		return fmt.Sprintf("%#x (%s) %v", v.PC, v.Symbol, v.Kind)
	}
	return fmt.Sprintf("%#x %v: $%d is set at %#x (%s)", v.Use, v.Kind, v.Reg, v.PC, v.Symbol)
}

// Counters counts what was executed. Instructions includes NOPs, and those in
// branch slots.
type Counters struct {
	Instructions uint64
	Loads        uint64
	Stores       uint64
	NOPs         uint64
	LL           uint64
	SC           uint64
	SCFailed     uint64
	Syncs        uint64 // each a trap on the core
	Emulated     uint64 // RDHWR, each a trap
	Unaligned    uint64 // loads and stores the kernel fixes up, each a trap
	Syscalls     uint64
	Switches     uint64 // context switches
	Preemptions  uint64 // of them, and of ticks without a switch
	Signals      uint64 // delivered to handlers
	Violations   uint64
	VirtualNanos int64
	// ByThread holds the instructions of each thread in the order of creation.
	ByThread []uint64
	// BySyscall holds the calls by name.
	BySyscall map[string]uint64
}

// WriteJSON writes the counters as one indented JSON object.
func (c *Counters) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	return e.Encode(c)
}

// Machine is one guest process with its CPU and kernel. It is used by one
// goroutine; [Machine.Signal] alone may be called from others.
type Machine struct {
	cfg   Config
	mem   *memory
	rng   *rand.Rand
	count Counters
	syms  []symbol

	// The CPU's state between runs.
	link     bool
	linkAddr uint32
	fault    fault
	late     late
	broken   error
	places   map[Violation]uint64

	kernel
}

// violation records one and reports whether the program ends there.
func (m *Machine) violation(k ViolationKind, pc, use uint32, reg uint8) bool {
	m.count.Violations++
	v := Violation{Kind: k, PC: pc, Use: use, Reg: reg}
	switch m.cfg.Mode {
	case ModeStrict:
		v.Symbol, v.Count = m.symbolize(pc), 1
		m.broken = v
		return true
	case ModeCount:
		m.places[v]++
	}
	return false
}

// Violations returns the places in ascending order of address ([ModeCount]).
func (m *Machine) Violations() []Violation {
	var vs []Violation
	for v, n := range m.places {
		v.Count, v.Symbol = n, m.symbolize(v.PC)
		vs = append(vs, v)
	}
	sort.Slice(vs, func(i, j int) bool {
		a, b := vs[i], vs[j]
		if a.PC != b.PC {
			return a.PC < b.PC
		}
		return a.Kind < b.Kind
	})
	return vs
}

// Exit is how a program ended.
type Exit struct {
	Code   int
	Signal int    // not 0: killed by it; the numbers are those of MIPS
	Detail string // where, for a human; empty where no signal killed it
}

// New returns a machine with no program in it. Close frees it.
func New(cfg Config) (*Machine, error) {
	if cfg.Slice == 0 {
		cfg.Slice = 400_000
	}
	if cfg.NsPerInst == 0 {
		cfg.NsPerInst = 2.5
	}
	if cfg.Epoch.IsZero() {
		cfg.Epoch = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	}
	mem, err := newMemory()
	if err != nil {
		return nil, err
	}
	m := &Machine{
		cfg:    cfg,
		mem:    mem,
		rng:    rand.New(rand.NewPCG(cfg.Seed, 0x8196e)),
		places: map[Violation]uint64{},
	}
	m.count.BySyscall = map[string]uint64{}
	if err := m.kernel.init(m); err != nil {
		return nil, err
	}
	return m, nil
}

// Close frees the guest's memory and closes its descriptors.
func (m *Machine) Close() error {
	m.kernel.close()
	return m.mem.free()
}

// Counters returns what was counted so far.
func (m *Machine) Counters() Counters {
	c := m.count
	c.VirtualNanos = m.monotonic()
	for _, t := range m.all {
		c.ByThread = append(c.ByThread, t.executed)
	}
	return c
}

// Run loads the program of a file and runs it to its end. The error is a
// [Violation] in [ModeStrict], ctx's, or says what the interpreter could not
// do; Exit is valid without one.
func (m *Machine) Run(ctx context.Context, path string) (Exit, error) {
	if err := m.loadELF(path); err != nil {
		return Exit{}, err
	}
	return m.loop(ctx)
}
