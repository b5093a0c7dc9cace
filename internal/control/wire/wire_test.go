package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"gwinit/internal/api"
)

func TestReadLine(t *testing.T) {
	full := strings.Repeat("x", api.MaxLine-1)
	tests := []struct {
		name, in string
		want     []string
		err      error
	}{
		{"nothing", "", nil, io.EOF},
		{"one", "a\n", []string{"a"}, io.EOF},
		{"two at once", "a\nbc\n", []string{"a", "bc"}, io.EOF},
		{"empty lines", "\n\na\n", []string{"", "", "a"}, io.EOF},
		{"half a line", "a\nb", []string{"a"}, io.ErrUnexpectedEOF},
		{"carriage return stays", "a\r\n", []string{"a\r"}, io.EOF},
		{"longest", full + "\nb\n", []string{full, "b"}, io.EOF},
		{"one too many", full + "x\n", nil, ErrTooLong},
		{"endless", full + full + full, nil, ErrTooLong},
		{"too long after a good one", "a\n" + full + "xx\n", []string{"a"}, ErrTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for how, in := range map[string]io.Reader{
				"whole":  strings.NewReader(tt.in),
				"half":   iotest.HalfReader(strings.NewReader(tt.in)),
				"single": iotest.OneByteReader(strings.NewReader(tt.in)),
				"eof":    iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				r := Reader{R: in}
				var got []string
				var err error
				for {
					var line []byte
					if line, err = r.ReadLine(); err != nil {
						break
					}
					got = append(got, string(line))
				}
				if strings.Join(got, "\n") != strings.Join(tt.want, "\n") || len(got) != len(tt.want) {
					t.Errorf("%s: got %d lines, want %d", how, len(got), len(tt.want))
				}
				if !errors.Is(err, tt.err) {
					t.Errorf("%s: err = %v, want %v", how, err, tt.err)
				}
			}
		})
	}
}

func TestReadLineGivesMemoryBack(t *testing.T) {
	r := Reader{R: strings.NewReader(strings.Repeat("x", 60<<10) + "\nshort\n")}
	for range 2 {
		if _, err := r.ReadLine(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.ReadLine(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if cap(r.buf) > 4*chunk {
		t.Errorf("the buffer still holds %d bytes", cap(r.buf))
	}
}

func TestLine(t *testing.T) {
	got, err := Line(map[string]string{"a": "<b>&\n"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "{\"a\":\"<b>&\\n\"}\n"; string(got) != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
	if want := fmt.Sprint(api.MaxLine >> 10); !strings.Contains(ErrTooLong.Error(), want) {
		t.Errorf("%q does not name %s KiB", ErrTooLong, want)
	}
	fits := strings.Repeat("x", api.MaxLine-3) // quotes and newline
	if got, err := Line(fits); err != nil || len(got) != api.MaxLine {
		t.Errorf("the longest line: %d bytes, %v", len(got), err)
	}
	if _, err := Line(fits + "x"); !errors.Is(err, ErrTooLong) {
		t.Errorf("one byte more: %v, want ErrTooLong", err)
	}
	if _, err := Line(func() {}); err == nil {
		t.Error("a function was marshalled")
	}
}

func FuzzReadLine(f *testing.F) {
	f.Add([]byte("a\nb\n"))
	f.Add([]byte("\n\n"))
	f.Add(bytes.Repeat([]byte("x"), api.MaxLine+1))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := Reader{R: iotest.HalfReader(bytes.NewReader(in))}
		rest := in
		for {
			line, err := r.ReadLine()
			if err != nil {
				if errors.Is(err, ErrTooLong) {
					if i := bytes.IndexByte(rest, '\n'); i >= 0 && i < api.MaxLine {
						t.Fatalf("a line of %d bytes is too long", i)
					}
				} else if bytes.IndexByte(rest, '\n') >= 0 {
					t.Fatalf("%v with a whole line left", err)
				}
				return
			}
			if !bytes.HasPrefix(rest, append(bytes.Clone(line), '\n')) {
				t.Fatalf("line %q is not what came", line)
			}
			rest = rest[len(line)+1:]
		}
	})
}

func TestAnswer(t *testing.T) {
	for _, data := range []any{
		api.Status{Version: "<1>&"},
		json.RawMessage(`{"a":[1,2],"b":"<"}`), json.RawMessage("{\n \"a\": 1}"), json.RawMessage("null"), json.RawMessage(nil), nil,
		[]string{},
		struct{}{},
		json.RawMessage(`"` + strings.Repeat("x", api.MaxLine) + `"`), json.RawMessage("{}{}"), json.RawMessage("no"), func() {},
	} {
		raw, err := Marshal(data)
		want := []byte(nil)
		if err == nil {
			want, err = Line(api.Reply{OK: true, Data: raw})
		}
		if got, gotErr := Answer(data); (err == nil) != (gotErr == nil) || errors.Is(err, ErrTooLong) != errors.Is(gotErr, ErrTooLong) || !bytes.Equal(got, want) {
			t.Errorf("%.80q: %.80q, %v; want %.80q, %v", data, got, gotErr, want, err)
		}
	}
}
