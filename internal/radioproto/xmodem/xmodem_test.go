package xmodem

import (
	"bytes"
	"testing"
)

func TestBlocks(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 128: 1, 129: 2, 256: 2} {
		if got := Blocks(n); got != want {
			t.Errorf("%d bytes: %d blocks, want %d", n, got, want)
		}
	}
	data := bytes.Repeat([]byte("123456789"), 29) // 261 bytes
	first := AppendBlock(nil, data, 0)
	if len(first) != 133 || first[0] != SOH || first[1] != 1 || first[2] != 0xFE || !bytes.Equal(first[3:131], data[:128]) {
		t.Errorf("first block % x", first)
	}
	last := AppendBlock([]byte("x"), data, 2)[1:]
	if last[1] != 3 || last[2] != 0xFC || !bytes.Equal(last[3:8], data[256:]) || !bytes.Equal(last[8:131], bytes.Repeat([]byte{Padding}, 123)) {
		t.Errorf("last block % x", last)
	}
	// The number begins again behind 255, with 0.
	long := make([]byte, 260*BlockSize)
	if b := AppendBlock(nil, long, 255); b[1] != 0 || b[2] != 0xFF {
		t.Errorf("block 256 has the number %d", b[1])
	}
	// 128 zero bytes have the CRC 0; one bit changes it to what the polynomial says.
	if b := AppendBlock(nil, long, 0); b[131] != 0 || b[132] != 0 {
		t.Errorf("CRC of zeros % x", b[131:])
	}
	long[127] = 1
	if b := AppendBlock(nil, long, 0); b[131] != 0x10 || b[132] != 0x21 {
		t.Errorf("CRC of a one at the end % x, want 10 21", b[131:])
	}
}
