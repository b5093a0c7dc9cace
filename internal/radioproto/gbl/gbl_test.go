package gbl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
)

// tag is a part of a file.
func tag(id uint32, body ...byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, id)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(body))), body...)
}

func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// file joins parts, and ends them with the checksum.
func file(parts ...[]byte) []byte {
	b := append(bytes.Join(parts, nil), words(tagEnd, 4)...)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

var (
	header = tag(tagHeader, words(3<<24, 0)...)
	prog   = tag(tagEraseProg, append(words(0x4000), "program"...)...)
)

// The smallest file there is, byte by byte: the numbers are those of UG266.
func TestGolden(t *testing.T) {
	want := []byte("\xeb\x17\xa6\x03\x08\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00" +
		"\xfd\x03\x03\xfd\x08\x00\x00\x00\x00\x40\x00\x00\x01\x02\x03\x04" +
		"\xfc\x04\x04\xfc\x04\x00\x00\x00\x56\x55\xe1\xe6")
	if got := file(header, tag(tagEraseProg, 0, 0x40, 0, 0, 1, 2, 3, 4)); !bytes.Equal(got, want) {
		t.Fatalf("% x, want % x", got, want)
	}
	// Over the whole file with its checksum the CRC comes to the constant that the
	// bootloader compares with.
	if crc := ^crc32.ChecksumIEEE(want); crc != 0xDEBB20E3 {
		t.Errorf("residue %#x", crc)
	}
	m, err := Parse(want)
	if err != nil || m.Bytes != len(want) || len(m.Sections) != 1 || m.Sections[0] != (Section{Address: 0x4000, Bytes: 4}) || !m.Application() {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestParts(t *testing.T) {
	app := append(words(2, 0x07050100, 0), "0123456789abcdef"...)
	m, err := Parse(append(file(header, tag(tagDependency, words(1, 2)...), tag(tagApp, app...),
		tag(tagBootloader, words(0x02040002, 0x800, 1)...), tag(tagSE, words(4, 0x010203)...),
		tag(tagMetadata, []byte(`{"a":1}`)...), tag(tagProgLZ4, words(0x8000, 7)...), prog,
		tag(tagCert), tag(tagSignature, make([]byte, 64)...)), 0xFF, 0xFF, 0))
	if err != nil {
		t.Fatal(err)
	}
	if m.App == nil || m.App.Version != 0x07050100 || string(m.App.Product[:]) != "0123456789abcdef" || m.App.Type != 2 {
		t.Errorf("application %+v", m.App)
	}
	if m.Bootloader == nil || *m.Bootloader != (Bootloader{0x02040002, 0x800}) || m.SE == nil || m.SE.Version != 0x010203 {
		t.Errorf("bootloader %+v, secure element %+v", m.Bootloader, m.SE)
	}
	if string(m.Metadata) != `{"a":1}` || !m.Signed || m.Encrypted || len(m.Sections) != 2 || !m.Sections[0].Compressed {
		t.Errorf("%+v", m)
	}
	m, err = Parse(file(tag(tagHeader, words(3<<24, 0x101)...), tag(tagEncInit, make([]byte, 16)...), tag(tagEncData, 1, 2, 3)))
	if err != nil || !m.Encrypted || !m.Signed || !m.Application() || len(m.Sections) != 0 {
		t.Errorf("encrypted: %+v, %v", m, err)
	}
	m, err = Parse(file(header, tag(tagBootloader, words(0x02050000, 0)...)))
	if err != nil || m.Application() {
		t.Errorf("only a bootloader: %+v, %v", m, err)
	}
}

func TestRefused(t *testing.T) {
	good := file(header, prog)
	damaged := bytes.Clone(good)
	damaged[30] ^= 1
	for _, tt := range []struct {
		name string
		file []byte
		err  error
		word string
	}{
		{"empty", nil, ErrFormat, "empty"},
		{"archive", []byte("PK\x03\x04xxxxxxxx"), ErrFormat, "unpack"},
		{"S-records", []byte("S00600004844521B"), ErrFormat, ".s37"},
		{"Intel hex", []byte(":020000040000FA"), ErrFormat, ".hex"},
		{"EBL", []byte("\x00\x00\x00\x8c\xe3\x50\x00\x00"), ErrFormat, ".ebl"},
		{"ELF", []byte("\x7fELF12345678"), ErrFormat, ".elf"},
		{"web page", []byte("<!DOCTYPE html>"), ErrFormat, "web page"},
		{"noise", []byte("noise noise noise"), ErrFormat, ""},
		{"damaged", damaged, ErrCRC, ""},
		{"trailing", append(bytes.Clone(good), 1), ErrTrailing, ""},
		{"another version", file(tag(tagHeader, words(4<<24, 0)...), prog), ErrVersion, ""},
		{"two headers", file(header, header, prog), ErrFormat, "second header"},
		{"unknown part", file(header, tag(0x12345678), prog), ErrTag, "0x12345678 at byte 16"},
		{"short part", file(header, tag(tagApp, 1, 2, 3), prog), ErrFormat, ""},
		{"nothing in it", file(header, tag(tagMetadata, 1)), ErrEmpty, ""},
		{"long end", append(bytes.Join([][]byte{header, prog}, nil), tag(tagEnd, 1, 2, 3, 4, 5)...), ErrFormat, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse(tt.file)
			if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.word) || m != nil {
				t.Errorf("%+v, %v; want %v with %q", m, err, tt.err, tt.word)
			}
		})
	}
	// Wherever it is cut.
	for n := range good {
		if _, err := Parse(good[:n]); !errors.Is(err, ErrCut) && !errors.Is(err, ErrFormat) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file(header, prog))
	f.Add(file(header, tag(tagBootloader, words(1, 2)...)))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			if m != nil {
				t.Errorf("%+v with %v", m, err)
			}
			return
		}
		if m.Bytes > len(b) || m.Bytes < 28 {
			t.Errorf("%d of %d bytes", m.Bytes, len(b))
		}
		n := 0
		for _, s := range m.Sections {
			n += s.Bytes
		}
		if n > m.Bytes {
			t.Errorf("sections of %d bytes in %d", n, m.Bytes)
		}
	})
}
