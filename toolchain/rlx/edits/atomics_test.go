package edits_test

import (
	"slices"
	"testing"

	"gwinit/toolchain/rlx/check"
	"gwinit/toolchain/rlx/emu"
)

// No path leaves an LL without an SC in ours; many do in stock Go's, or the
// checker would not see them.
func TestLinksEnd(t *testing.T) {
	t.Parallel()
	ours, err := check.File(program(t, "stress"), check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stock, err := check.File(stockProgram(t, "stress"), check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := ours.Counts[check.LLWithoutSC]; n != 0 {
		t.Errorf("%d paths leave an LL without an SC", n)
	}
	if n := stock.Counts[check.LLWithoutSC]; n < 50 {
		t.Errorf("stock Go leaves an LL without an SC %d times, want some hundred", n)
	}
}

const (
	opSW = 0x2B
	opSC = 0x38
	// dummy is the operand of a dummy SC: the word below the stack pointer.
	dummyMask, dummy = 0xFFE0FFFF, opSC<<26 | 29<<21 | 0xFFFC
)

// isDummy tells whether a word is an SC to the word below the stack pointer.
func isDummy(w uint32) bool { return w&dummyMask == dummy }

// In front of each atomic store is a dummy SC, and behind a signal's handler.
func TestStoresEndLinks(t *testing.T) {
	t.Parallel()
	bin := program(t, "stress")
	for _, test := range []struct {
		name   string
		stores int
	}{
		{"main.stores", 2}, // and one with a write barrier
		{"internal/runtime/atomic.Store", 1},
		{"internal/runtime/atomic.Cas", 1},
		{"runtime.sigtramp", 1},
		{"runtime.exitThread", 1},
	} {
		var n int
		for _, w := range words(t, bin, test.name) {
			if isDummy(w) {
				n++
			}
		}
		if n < test.stores {
			t.Errorf("%s has %d dummy SCs, want %d: %08x", test.name, n, test.stores, words(t, bin, test.name))
		}
	}
	// In the leaf there is one store to an address that is not the stack's.
	list := words(t, bin, "internal/runtime/atomic.Store")
	at := slices.IndexFunc(list, func(w uint32) bool { return w>>26 == opSW && w>>21&31 != 29 })
	if first := slices.IndexFunc(list, isDummy); at < 0 || first < 0 || first > at {
		t.Errorf("the dummy SC is word %d, the store word %d: %08x", first, at, list)
	}
}

// Counting on three threads with a preemption in every hundred instructions
// loses nothing while exceptions clear the flag or the threads do not preempt
// each other. At the weakest flag it does lose, or this would be no test.
func TestStress(t *testing.T) {
	t.Parallel()
	bin := program(t, "stress")
	for _, test := range []struct {
		name  string
		cfg   emu.Config
		loses bool
	}{
		{"address", emu.Config{LL: emu.LinkAddress, Preempt: 0.01}, false},
		{"exception", emu.Config{LL: emu.LinkException, Preempt: 0.01}, false},
		{"weakest under FIFO", emu.Config{LL: emu.LinkWeakest, Policy: emu.PolicyFIFO, Preempt: 0.01}, false},
		{"weakest", emu.Config{LL: emu.LinkWeakest, Preempt: 0.01}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			said, _ := interpret(t, test.cfg, bin, "1000")
			if loses := said != "lost 0\n"; loses != test.loses {
				t.Errorf("the program says %q", said)
			}
		})
	}
}
