package selftest

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gwinit/internal/selftest/native"
)

func open(t *testing.T) *machine {
	t.Helper()
	m, err := newMachine()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	return m
}

func TestCall(t *testing.T) {
	m := open(t)
	for _, tt := range []struct {
		code   string
		v0, v1 uint32
	}{
		{"move v0 a0; move v1 a1", 1, 2},
		{"move v0 a2; move v1 a3", 3, 4},
		// All that a piece may change.
		{`li v0 7; move v1 v0; move a0 v0; move a1 v0; move a2 v0; move a3 v0; move at v0; move t0 v0; move t1 v0; move t2 v0; move t3 v0
		move t4 v0; move t5 v0; move t6 v0; move t7 v0; move t8 v0; move t9 v0; move s0 v0; move s1 v0; move s2 v0; move s3 v0; move s4 v0
		move s5 v0; move s6 v0; mthi v0; mtlo v0`, 7, 7},
	} {
		c, err := m.put(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if v0, v1 := c.Call([4]uint32{1, 2, 3, 4}); v0 != tt.v0 || v1 != tt.v1 {
				t.Fatalf("%s: %d, %d, want %d, %d", tt.code, v0, v1, tt.v0, tt.v1)
			}
		}
	}
	if _, err := m.arena.Put(strings.Repeat("nop;", arenaBytes/4)); err == nil {
		t.Error("more than the arena holds was put into it")
	}
	if _, err := m.put("frob"); err == nil {
		t.Error("no such instruction, and no error")
	}
}

// A rule that is wrong is told with what it gave.
func TestTryTells(t *testing.T) {
	m := open(t)
	p, err := m.prepare([]rule{{"seven", "move v0 a2", 7}, {"eight", "move v0 a2", 8}})
	if err != nil {
		t.Fatal(err)
	}
	if o := m.try(p[0], 3, 2); o.wrong != 0 || o.runs != 5 {
		t.Errorf("%+v", o)
	}
	if o := m.try(p[1], 3, 2); o.wrong != 5 || o.got != 7 || o.String() != "eight: 5 of 5 runs gave 0x7, want 0x8: move v0 a2" {
		t.Errorf("%+v: %s", o, o)
	}
}

// Each loop notices what it is there for: with another expectation it fails,
// with its own it does not.
func TestLoopsNotice(t *testing.T) {
	m := open(t)
	change := map[string][2]string{
		"loads used one instruction behind": {"lw t7 4(a0)", "lw t7 8(a0)"},
		"lwl and lwr":                       {"swr t0 40(a0)", "swr t0 41(a0)"},
		"loads in branch slots":             {"lw t7 4(a0)", "lw t7 8(a0)"},
		"mult, mflo, mfhi":                  {"li t7 0x0b00ea4e", "li t7 0x0b00ea4f"},
		"divu, mflo, mfhi":                  {"li t6 0x00413ea6", "li t6 0x00413ea7"},
		"HI and LO kept over instructions":  {"xor t2 t2 a1", "xor t2 t2 t0"},
		"calls and returns":                 {"move t3 ra", "move t3 t0"},
	}
	for _, l := range loops {
		if !l.judged {
			continue
		}
		to, ok := change[l.name]
		if !ok || !strings.Contains(l.code, to[0]) {
			t.Errorf("%s: no change for it", l.name)
			continue
		}
		for _, wrong := range []bool{false, true} {
			code := l.code
			if wrong {
				code = strings.Replace(code, to[0], to[1], 1)
			}
			c, err := m.put(code)
			if err != nil {
				t.Fatal(err)
			}
			m.reset()
			if v0, _ := c.Call([4]uint32{m.addr(0), 100}); (v0 != 0) != wrong {
				t.Errorf("%s, changed %v: %#x", l.name, wrong, v0)
			}
		}
	}
}

func TestSkipFaults(t *testing.T) {
	m := open(t)
	restore, err := m.skipFaults()
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.put("move v0 zero; break; addiu v0 v0 1; lw t0 0(zero); addiu v0 v0 2")
	if err != nil {
		t.Fatal(err)
	}
	if v0 := m.call(c, false); v0 != 3 || m.words[atFaults] != 2 || m.words[atSignal] != uint32(unix.SIGSEGV) {
		t.Errorf("v0 %d, %d faults, the last %d", v0, m.words[atFaults], m.words[atSignal])
	}
	restore()
	// Go's own handler is back: this is a panic again and not a step over.
	var p *int
	defer func() {
		if recover() == nil {
			t.Error("nil was read")
		}
	}()
	t.Log(*p)
}

func TestHandleOfNoSignal(t *testing.T) {
	var c native.Code
	if _, err := c.Handle(200); err == nil {
		t.Error("there is no signal 200")
	}
}
