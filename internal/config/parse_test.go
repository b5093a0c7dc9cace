package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []entry
	}{
		{"plain", "FIRMWARE_BAUD=460800\n", []entry{{1, "FIRMWARE_BAUD", "460800", "", ""}}},
		{"no newline", "A=1", []entry{{1, "A", "1", "", ""}}},
		{"CRLF", "A=1\r\nB=2\r\n", []entry{{1, "A", "1", "", ""}, {2, "B", "2", "", ""}}},
		{"byte order mark", "\ufeffA=1\n", []entry{{1, "A", "1", "", ""}}},
		{"blank lines and comments", "\n# A=0\n\t# x\n  \nA=1\n", []entry{{5, "A", "1", "", ""}}},
		{"trailing blanks", "A=1 \t\n", []entry{{1, "A", "1", "", ""}}},
		{"leading blanks", "  A=1\n", []entry{{1, "A", "1", "", ""}}},
		{"blank after the sign", "A= 1\n", []entry{{1, "A", "1", "", ""}}},
		{"export", "export A=1\nexport\tB=2\n", []entry{{1, "A", "1", "", ""}, {2, "B", "2", "", ""}}},
		{"a key that begins like export", "exported=1\n", []entry{{1, "exported", "1", "", ""}}},
		{"double quotes", `DNS="1.1.1.1 8.8.8.8"`, []entry{{1, "DNS", "1.1.1.1 8.8.8.8", "", ""}}},
		{"single quotes", `A='x "y" \z'`, []entry{{1, "A", `x "y" \z`, "", ""}}},
		{"quoted blanks stay", `A=" x "`, []entry{{1, "A", " x ", "", ""}}},
		{"escapes in quotes", `A="a\"b\\c\d"`, []entry{{1, "A", `a"b\c\d`, "", ""}}},
		{"escape without quotes", `A=a\ b`, []entry{{1, "A", "a b", "", ""}}},
		{"parts in quotes", `A=a"b c"'d'e`, []entry{{1, "A", "ab cde", "", ""}}},
		{"blanks without quotes", "DNS=1.1.1.1 8.8.8.8\n", []entry{{1, "DNS", "1.1.1.1 8.8.8.8", "", ""}}},
		{"comment behind", "A=1 # one\n", []entry{{1, "A", "1", "", "# one"}}},
		{"comment behind quotes", `A="x # y" # z`, []entry{{1, "A", "x # y", "", "# z"}}},
		{"hash inside", "A=x#y\n", []entry{{1, "A", "x#y", "", ""}}},
		{"hash first", "A=#y\n", []entry{{1, "A", "#y", "", ""}}},
		{"only a comment", "A= # nothing\n", []entry{{1, "A", "", "", "# nothing"}}},
		{"empty", "A=\nB=\"\"\n", []entry{{1, "A", "", "", ""}, {2, "B", "", "", ""}}},
		{"semicolon at the end", "A=1;\nB=2 ; # two\n", []entry{{1, "A", "1", "", ""}, {2, "B", "2", "", ""}}},
		{"two on a line", "A=1; B=2\n", []entry{{1, "A", "1", problemMore, ""}}},
		{"nothing is expanded", "A=$HOME`id`$(id)\n", []entry{{1, "A", "$HOME`id`$(id)", "", ""}}},
		{"open quote", `A="x`, []entry{{1, "A", "x", problemQuote, ""}}},
		{"equals in the value", "A=b=c\n", []entry{{1, "A", "b=c", "", ""}}},
		{"no equals", "server x\n", []entry{{1, "", "server x", problemNoEquals, ""}}},
		{"blank before the sign", "A =1\n", []entry{{1, "", "A =1", problemNoEquals, ""}}},
		{"not a name", "1A=1\n=2\nA-B=3\n", []entry{
			{1, "", "1A=1", problemNoEquals, ""},
			{2, "", "=2", problemNoEquals, ""},
			{3, "", "A-B=3", problemNoEquals, ""},
		}},
		{"zero bytes", "A=1\n\x00\x00\x00", []entry{{1, "A", "1", "", ""}, {2, "", "", problemNUL, ""}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parse(tt.text); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("parse(%q)\n got %+v\nwant %+v", tt.text, got, tt.want)
			}
		})
	}
}

// Whatever is in a file, keys are names, line numbers grow, and a value that
// Set could write reads back as it was.
func FuzzParse(f *testing.F) {
	f.Add("A=1\nexport B=\"x y\" # c\r\n", "1.1.1.1 8.8.8.8")
	f.Add("A='", "a'b")
	f.Add("\ufeff=\x00;", "#")
	f.Fuzz(func(t *testing.T, text, value string) {
		line := 0
		for _, e := range parse(text) {
			if e.line <= line {
				t.Errorf("line %d after line %d", e.line, line)
			}
			line = e.line
			if e.key != "" && !isKey(e.key) {
				t.Errorf("key %q", e.key)
			}
			if e.key == "" && e.problem == "" {
				t.Errorf("an entry without key and problem: %+v", e)
			}
		}
		s := Setting{Name: "x.DNS", Key: "DNS", File: fileEth0}
		value = strings.Trim(value, " \t")
		if writable(s, value) != nil {
			return
		}
		once := edit{Setting: s, value: value}.in(text)
		all := parse(once)
		var last entry
		n := 0
		for _, e := range all {
			if e.key == "DNS" {
				last = e
				n++
			}
		}
		if n != 1 || last.value != value {
			t.Errorf("%q set in %q gives %q, which holds it %d times as %q", value, text, once, n, last.value)
		}
		if twice := (edit{Setting: s, value: value}).in(once); twice != once {
			t.Errorf("set twice: %q, once: %q", twice, once)
		}
	})
}
