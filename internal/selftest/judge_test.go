//go:build linux

package selftest

import (
	"maps"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProbeJudge(t *testing.T) {
	t.Parallel()
	find := func(name string) probe {
		for _, p := range probes {
			if p.name == name {
				return p
			}
		}
		t.Fatalf("no probe %s", name)
		return probe{}
	}
	for _, tt := range []struct {
		probe   string
		v0      uint32
		faults  uint32
		signal  unix.Signal
		verdict Verdict
		what    string
	}{
		{"break", unchanged, 1, unix.SIGTRAP, OK, "SIGTRAP, as it should"},
		{"break", unchanged, 1, unix.SIGILL, Fail, "SIGILL; want SIGTRAP"},
		{"break", unchanged, 0, 0, Fail, "nothing happens; want SIGTRAP"},
		{"load from address 0", unchanged, 1, unix.SIGBUS, Fail, "SIGBUS; want SIGSEGV"},
		{"mul", 49, 0, 0, Info, "done, as the MIPS32 manual says"},
		{"mul", unchanged, 1, unix.SIGILL, Info, "SIGILL"},
		{"mul", unchanged, 0, 0, Info, "nothing happens, the target keeps its value"},
		{"clz", 5, 0, 0, Info, "done, but gives 0x5 instead of 0x1d"},
		{"rotr", 0x000BAD0B, 0, 0, Info, "done as if it were srl"},
		{"rotr", 0xAD0BAD0B, 0, 0, Info, "done, as the MIPS32 manual says"},
		{"beql, not taken", 3, 0, 0, Info, "done as if it were beq"},
		{"teq, equal", unchanged, 1, unix.SIGTRAP, Info, "SIGTRAP"},
		{"teq, equal", unchanged, 0, 0, Info, "nothing happens"},
		{"sync", unchanged, 0, 0, Info, "done, as the MIPS32 manual says"},
	} {
		v, what := find(tt.probe).judge(tt.v0, tt.faults, tt.signal)
		if v != tt.verdict || what != tt.what {
			t.Errorf("%s with %#x and %v: %s, %q; want %s, %q", tt.probe, tt.v0, tt.signal, v, what, tt.verdict, tt.what)
		}
	}
}

// What is known of the link flag comes to a line and a verdict.
func TestConclude(t *testing.T) {
	t.Parallel()
	const (
		plainThread, plainHandler = "a thread that stores x", "a handler that stores x"
		thread                    = "a thread that adds to x by LL and SC and leaves LL y open"
		handler                   = "a handler that adds to x by LL and SC"
	)
	// A flag without address that every exception and every SC clears.
	cleared := map[string]bool{"LL x, SC x": true, "LL x, SC y": true, "LL x, SW x, SC x": true}
	// A flag that only SC clears.
	weakest := maps.Clone(cleared)
	weakest["LL x, getpid, SC x"] = true
	// As QEMU does: it compares the address and the value.
	qemu := map[string]bool{"LL x, SC x": true, "LL x, SC x, SC x": true, "LL x, SW x, SC x": true, "LL x, getpid, SC x": true}
	for _, tt := range []struct {
		name               string
		stored             map[string]bool
		changed, overwrote map[string]int
		flag               string
		verdict            Verdict
		why                string
	}{
		{
			"cleared by exceptions", cleared,
			map[string]int{thread: 100, handler: 50},
			map[string]int{thread: 0},
			"address-checked no, cleared by exception yes, by a store no, by SC yes", OK, "in 150 rounds",
		},
		{
			"the weakest", weakest,
			map[string]int{thread: 100, handler: 100, plainThread: 100},
			map[string]int{thread: 97, plainThread: 3},
			"address-checked no, cleared by exception no, by a store no, by SC yes", Fail, "97 of 200 SCs",
		},
		{
			"once is enough", weakest,
			map[string]int{thread: 100},
			map[string]int{thread: 1},
			"cleared by exception no", Fail, "1 of 100 SCs",
		},
		{
			"plain stores alone", weakest,
			map[string]int{thread: 100, handler: 50, plainThread: 100, plainHandler: 100},
			map[string]int{plainThread: 2, plainHandler: 100},
			"cleared by exception no", OK, "in 150 rounds; over plain stores, which this program's atomics do without, 102 did",
		},
		{
			"an emulator", qemu,
			map[string]int{thread: 20},
			nil,
			"address-checked yes, cleared by exception no, by a store no, by SC no", OK, "in 20 rounds",
		},
		{"nobody came", cleared, nil, nil, "address-checked no", Skip, "nobody"},
	} {
		got := linkFacts{tt.stored, tt.changed, tt.overwrote}.conclude()
		if len(got) != 2 || got[0].Verdict != Info || !strings.HasPrefix(got[0].Detail, "link flag: ") || !strings.Contains(got[0].Detail, tt.flag) {
			t.Errorf("%s: %+v, want %q", tt.name, got, tt.flag)
			continue
		}
		if got[1].Verdict != tt.verdict || !strings.Contains(got[1].Detail, tt.why) {
			t.Errorf("%s: %+v, want %s with %q", tt.name, got[1], tt.verdict, tt.why)
		}
	}
}
