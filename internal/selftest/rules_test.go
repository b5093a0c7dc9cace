//go:build linux

package selftest

import (
	"regexp"
	"strings"
	"testing"

	"gwinit/internal/selftest/asm"
)

// sources are all pieces of machine code, as they are put into memory.
func sources() map[string]string {
	all := map[string]string{"skipper": skipper, "waiting": waiting}
	add := func(set string, rules []rule) {
		for _, r := range rules {
			all[set+"/"+r.name] = r.code
		}
	}
	for _, s := range allRules() {
		add(s.name, s.rules)
	}
	for _, l := range loads {
		add("at once "+l.name, loadRules(l, "").rules)
	}
	add("curiosities", curiosities[:])
	for _, p := range probes {
		all["probe/"+p.name] = "move v0 a1; " + p.code
	}
	for _, l := range loops {
		all["loop/"+l.name] = l.code
	}
	for _, s := range singles {
		all["single/"+s.name] = s.code
	}
	for _, o := range others {
		all["other/"+o.name] = o.code
	}
	for _, h := range meddlers {
		all["meddler/"+h.name] = h.code
	}
	all["storm"] = stormHandler
	for name, code := range all {
		all[name] = strings.ReplaceAll(code, "%#x", "0x12345678") + "; jr ra; nop"
	}
	return all
}

// Every piece assembles, no two have one name, and none names a register that
// is not its own: s7 is the linker's, gp, sp and s8 (g) are Go's.
func TestSources(t *testing.T) {
	t.Parallel()
	foreign := regexp.MustCompile(`\b(s7|k0|k1|gp|sp|s8)\b`)
	for name, code := range sources() {
		if _, err := asm.Assemble(code, 0x400000); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if r := foreign.FindString(code); r != "" {
			t.Errorf("%s uses %s: %s", name, r, code)
		}
		// A call that it makes is its own: it has to keep ra.
		if strings.Contains(code, "jal ") && !strings.Contains(code, "move s0 ra") {
			t.Errorf("%s calls and does not keep ra: %s", name, code)
		}
	}
	names := map[string]bool{}
	for _, s := range allRules() {
		for _, r := range s.rules {
			if n := s.name + "/" + r.name; names[n] {
				t.Errorf("%s is there twice", n)
			} else {
				names[n] = true
			}
		}
	}
	if len(names) < 350 {
		t.Errorf("%d rules only", len(names))
	}
	for _, u := range uses {
		if strings.Count(u.code, "L;") != 1 || strings.Count(u.code, "G;") != 1 {
			t.Errorf("%s: one load and one gap: %s", u.name, u.code)
		}
	}
}

// What one group puts into memory fits: the groups with most are cpu, which
// holds every rule and every load with its uses at once, and storm.
func TestArenaIsLargeEnough(t *testing.T) {
	t.Parallel()
	size := 0
	for name, code := range sources() {
		words, err := asm.Assemble(code, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		size += (4*len(words) + 15) &^ 15
	}
	if size > arenaBytes {
		t.Errorf("all pieces together have %d bytes, the arena %d", size, arenaBytes)
	}
}

// A rule with its gap is right on a core with an exposed load delay: the word
// behind the load is the gap, not the use.
func TestGap(t *testing.T) {
	t.Parallel()
	with, without := uses[0].source(loads[0], "nop"), uses[0].source(loads[0], "")
	if with != "move t0 a1; nop; nop; lw t0 0(a0); nop; move v0 t0" || without != "move t0 a1; nop; nop; lw t0 0(a0); ; move v0 t0" {
		t.Errorf("%q, %q", with, without)
	}
	a, err := asm.Assemble(with, 0)
	b, err2 := asm.Assemble(without, 0)
	if err != nil || err2 != nil || len(a) != 6 || len(b) != 5 {
		t.Errorf("%x %v, %x %v", a, err, b, err2)
	}
}

// The bytes of the unaligned rules, written out for one offset.
func TestUnalignedRules(t *testing.T) {
	t.Parallel()
	want := map[string]uint32{ // memory 80 91 A2 B3 C4 D5 E6 F7, register 0B AD 0B AD
		"lwl 0": 0x8091A2B3, "lwl 1": 0x91A2B3AD, "lwl 2": 0xA2B30BAD, "lwl 3": 0xB3AD0BAD,
		"lwr 0": 0x0BAD0B80, "lwr 1": 0x0BAD8091, "lwr 2": 0x0B8091A2, "lwr 3": 0x8091A2B3,
		"lwl, lwr 1": 0x91A2B3C4, "lwr, lwl 2": 0xA2B3C4D5, "lwl, nop, lwr 3": 0xB3C4D5E6, "lwl, lwr 0": 0x8091A2B3,
		"swl 0": 0x0BAD0BAD, "swl 1": 0x800BAD0B, "swl 3": 0x8091A20B,
		"swr 0": 0xAD91A2B3, "swr 2": 0xAD0BADB3, "swr 3": 0x0BAD0BAD,
	}
	for _, r := range unalignedRules().rules {
		if w, ok := want[r.name]; ok && r.want != w {
			t.Errorf("%s: %#x, want %#x", r.name, r.want, w)
		}
		delete(want, r.name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
}
