package edits_test

import (
	"debug/elf"
	"strings"
	"testing"
)

func TestCrypto(t *testing.T) {
	t.Parallel()
	bin := program(t, "vault")
	f, err := elf.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var room uint64
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOBITS {
			room += s.Size
		}
	}
	if room >= 1<<20 {
		t.Errorf(".bss and .noptrbss are %d bytes, want less than 1 MiB", room)
	}
	if f.Section(".go.fipsinfo") != nil {
		t.Error("what FIPS mode checks lies apart")
	}
	want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\ntrue false\ntrue\nabc\n"
	if said, err := qemu(t, nil, bin); err != nil || said != want {
		t.Errorf("the program says %q (%v), want %q", said, err, want)
	}
	if said, err := qemu(t, []string{"GODEBUG=fips140=on"}, bin); err == nil || !strings.Contains(said, "FIPS 140-3 mode is not supported on linux-mips") {
		t.Errorf("FIPS mode: %v\n%s", err, said)
	}
}
