package edits_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/check"
	"gwinit/toolchain/rlx/emu"
	"gwinit/toolchain/rlx/goroot"
	"gwinit/toolchain/rlx/isa"
)

// listing is a function's instructions.
func listing(t *testing.T, bin, name string) string {
	t.Helper()
	var list []string
	for _, w := range words(t, bin, name) {
		list = append(list, isa.Decode(w).String())
	}
	return strings.Join(list, "; ")
}

// What becomes of each function of testdata/delays, word by word.
func TestDelays(t *testing.T) {
	t.Parallel()
	bin := program(t, "delays")
	for name, want := range map[string]string{
		"loadUse":     "lw $1,4($29); nop; lw $2,0($1); nop; addiu $2,$2,1; jr $31; sw $2,8($29)",
		"loadFill":    "lw $1,4($29); lw $3,8($29); lw $2,0($1); addiu $3,$3,1; addu $2,$2,$3; jr $31; sw $2,12($29)",
		"loadStore":   "lw $1,4($29); lw $2,8($29); lw $3,0($1); nop; sw $3,0($2); jr $31; nop",
		"loadTwice":   "lw $1,4($29); nop; lw $2,0($1); nop; lw $2,4($1); jr $31; sw $2,8($29)",
		"unaligned":   "lw $1,4($29); or $2,$0,$0; lwl $2,0($1); lwr $2,3($1); jr $31; sw $2,8($29)",
		"loadBranch":  "lw $1,4($29); nop; lw $2,0($1); nop; beq $2,$0,.+12; nop; addiu $2,$0,1; jr $31; sw $2,8($29)",
		"faultOrder":  "lw $1,4($29); lw $2,8($29); nor $0,$0,$0; sw $0,0($1); lw $3,4($2); nop; addu $4,$3,$3; sw $4,4($1); jr $31; nop",
		"far":         "lw $1,4($29); lui $23,0x1; addu $23,$23,$1; lbu $2,-25533($23); jr $31; sw $2,8($29)",
		"barrier":     "lw $1,4($29); nop; lw $2,4($1); lw $3,0($1); nop; addu $3,$3,$2; jr $31; sw $3,8($29)",
		"product":     "lw $1,4($29); lw $2,8($29); nop; mult $2,$1; mflo $3; jr $31; sw $3,12($29)",
		"twoProducts": "lw $1,4($29); lw $2,8($29); nop; multu $2,$1; mfhi $3; nop; nop; multu $2,$2; mflo $4; sw $3,12($29); jr $31; sw $4,16($29)",
		"trap":        "break 0; jr $31; nop",
		"tmp":         "lw $1,4($29); nop; lw $23,0($1); nop; addiu $23,$23,1; sw $23,8($29); jr $31; nop",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := listing(t, bin, "main."+name); got != want {
				t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
			}
		})
	}
	said, exit := strict(t, emu.Config{}, bin)
	if exit != (emu.Exit{}) || said != strings.Repeat("ok\n", 11) {
		t.Errorf("the program ends with %+v and says\n%s", exit, said)
	}
}

// What the core does not have is an error that names the line.
func TestRejects(t *testing.T) {
	t.Parallel()
	root := ourGo(t)
	for name, test := range map[string]struct{ code, want string }{
		"CLZ":                   {"CLZ R1, R2", "does not have"},
		"conditional trap":      {"TEQ $1, R1, R2", "conditional trap"},
		"rotation":              {"ROTR $3, R1, R2", "rotation"},
		"rotation by register":  {"WORD $0x00221846", "rotation"},
		"floating point":        {"ADDF F0, F2, F4", "floating point"},
		"floating point load":   {"MOVF (R1), F2", "floating point"},
		"MUL as a word":         {"WORD $0x70221802", "does not have"},
		"branch as a word":      {"WORD $0x10000001", "branch given as a word"},
		"branch-likely":         {"WORD $0x50220001", "branch-likely"},
		"SYNC as a word":        {"WORD $0x0000000f", "SYNC"},
		"thread pointer":        {"WORD $0x7c03e83b", "does not have"},
		"prefetch":              {"WORD $0xcc200000", "does not have"},
		"call through its link": {"WORD $0x03e0f809", "JALR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := assemble(t, root, test.code)
			if err == nil || !strings.Contains(said, "bad.s:2") || !strings.Contains(said, test.want) {
				t.Errorf("%v, %q, want an error of bad.s:2 with %q", err, said, test.want)
			}
		})
	}
	for _, code := range []string{"ADDU R1, R2", "CMOVN R1, R2, R3", "LL (R1), R2", "SC R2, (R1)", "MOVWL 1(R1), R2", "SYSCALL", "BREAK"} {
		if said, err := assemble(t, root, code); err != nil {
			t.Errorf("%s: %v, %s", code, err, said)
		}
	}
}

func assemble(t *testing.T, root, code string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bad.s")
	if err := os.WriteFile(file, []byte("TEXT ·f(SB), 4, $0-0\n\t"+code+"\n\tRET\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := goroot.Command(t.Context(), root, "tool", "asm", "-p", "main", "-o", file+".o", file).CombinedOutput()
	return string(said), err
}

// What a program sees of the order of its instructions is what it sees of
// stock Go's.
func TestOrder(t *testing.T) {
	t.Parallel()
	ours, exit := strict(t, emu.Config{}, program(t, "order"))
	if exit != (emu.Exit{}) {
		t.Fatalf("%+v\n%s", exit, ours)
	}
	stock, err := qemu(t, nil, stockProgram(t, "order"))
	if err != nil {
		t.Fatalf("%v\n%s", err, stock)
	}
	if ours != stock {
		t.Errorf("ours says\n%sstock's\n%s", ours, stock)
	}
	if n := strings.Count(ours, " main."); n < 12 {
		t.Errorf("%d faults have a line, want a dozen:\n%s", n, ours)
	}
}

// Functions of random statements compute what the same ones compute as stock
// Go compiles them.
func TestRandomFunctions(t *testing.T) {
	t.Parallel()
	seeds := 2
	if os.Getenv("GW_SOAK") != "" {
		seeds = 50
	}
	root := ourGo(t)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeRandom(t, dir, uint64(seed))
			bin := filepath.Join(dir, "ours")
			build := goroot.Command(t.Context(), root, "build", "-o", bin, ".")
			build.Dir = dir
			if said, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			report, err := check.File(bin, check.Options{})
			if err != nil || len(report.Violations) != 0 {
				t.Errorf("the checker: %v, %+v", err, report.Counts)
			}
			ours, exit := strict(t, emu.Config{}, bin)
			if exit != (emu.Exit{}) {
				t.Fatalf("%+v\n%s", exit, ours)
			}
			// The host's Go is a judge too: integers are the same everywhere.
			run := exec.CommandContext(t.Context(), "go", "run", ".")
			run.Dir = dir
			host, err := run.Output()
			if err != nil {
				t.Fatal(err)
			}
			if ours != string(host) {
				t.Errorf("seed %d: ours says\n%s\nthe host's\n%s", seed, ours, host)
			}
		})
	}
}

// How many of the delays of loads cost a NOP, and how many slots hold work.
func TestDelaysFilled(t *testing.T) {
	t.Parallel()
	said, err := exec.CommandContext(t.Context(), "mips-linux-gnu-objdump", "-d", "--no-show-raw-insn", program(t, "order")).Output()
	if err != nil {
		t.Fatal("no objdump for MIPS (install binutils-mips-linux-gnu, as make test does):", err)
	}
	load := regexp.MustCompile(`\t(lw|lb|lbu|lh|lhu|ll)\t`)
	call := regexp.MustCompile(`\tjalr?\t`)
	var loads, padded, calls, filled int
	lines := strings.Split(string(said), "\n")
	for i, line := range lines[:len(lines)-1] {
		nop := strings.HasSuffix(lines[i+1], "\tnop")
		switch {
		case load.MatchString(line):
			loads++
			if nop {
				padded++
			}
		case call.MatchString(line):
			calls++
			if !nop {
				filled++
			}
		}
	}
	t.Logf("%d of %d loads are followed by a NOP, %d of %d slots of calls hold work", padded, loads, filled, calls)
	if loads == 0 || calls == 0 || padded*100 > loads*25 || filled*100 < calls*50 {
		t.Error("want at most a quarter, and half")
	}
}
