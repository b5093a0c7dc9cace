package opt

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name     string
		args     []string
		spec     string
		flags    string
		val      string // of n
		operands []string
		bad      bool
	}{
		{"none", nil, "a", "", "", nil, false},
		{"joined", []string{"-la", "x"}, "al", "la", "", []string{"x"}, false},
		{"value joined", []string{"-n5"}, "n:", "n", "5", nil, false},
		{"value apart", []string{"-an", "5", "x"}, "an:", "an", "5", []string{"x"}, false},
		{"behind operands", []string{"x", "-a"}, "a", "a", "", []string{"x"}, false},
		{"operands end them", []string{"x", "-a"}, "+a", "", "", []string{"x", "-a"}, false},
		{"double dash", []string{"-a", "--", "-b"}, "a", "a", "", []string{"-b"}, false},
		{"lone dash", []string{"-", "-a"}, "a", "a", "", []string{"-"}, false},
		{"unknown", []string{"-b"}, "a", "", "", nil, true},
		{"long", []string{"--all"}, "a", "", "", nil, true},
		{"colon is none", []string{"-:"}, "a:", "", "", nil, true},
		{"plus is none", []string{"-+"}, "+a", "", "", nil, true},
		{"not ASCII", []string{"-\xff"}, "a", "", "", nil, true},
		{"no value", []string{"-n"}, "n:", "", "", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, operands, err := Parse(tt.args, tt.spec)
			if (err != nil) != tt.bad {
				t.Fatal(err)
			}
			if tt.bad {
				return
			}
			for _, c := range []byte("abln") {
				if want := slices.Contains([]byte(tt.flags), c); s.Has(c) != want {
					t.Errorf("-%c: %t", c, s.Has(c))
				}
			}
			if s.Val('n') != tt.val || !slices.Equal(operands, tt.operands) {
				t.Errorf("value %q, operands %q", s.Val('n'), operands)
			}
		})
	}
}

func TestInt(t *testing.T) {
	s, _, _ := Parse([]string{"-n", "7", "-m", "-1", "-k", "x"}, "n:m:k:")
	if n, err := s.Int('n', 0); n != 7 || err != nil {
		t.Error(n, err)
	}
	if n, err := s.Int('z', 3); n != 3 || err != nil {
		t.Error(n, err)
	}
	for _, c := range []byte("mk") {
		if _, err := s.Int(c, 0); err == nil {
			t.Errorf("-%c is accepted", c)
		}
	}
}

func TestCount(t *testing.T) {
	if got := Count([]string{"-5", "f"}); !slices.Equal(got, []string{"-n", "5", "f"}) {
		t.Error(got)
	}
	if got := Count([]string{"-f"}); !slices.Equal(got, []string{"-f"}) {
		t.Error(got)
	}
}
