// Package opt parses the options of the box's tools the way getopt does:
// single letters, joined (-la), values joined or apart (-n5, -n 5). It knows
// no long options. The standard library's flag has no joined letters.
package opt

import (
	"strconv"
	"strings"

	"gwinit/internal/applet"
)

// Set is the options that were given.
type Set struct {
	has [128]bool
	val [128]string
}

// Has tells whether option c was given.
func (s *Set) Has(c byte) bool { return s.has[c] }

// Val returns the (last) value of option c, empty if it was not given.
func (s *Set) Val(c byte) string { return s.val[c] }

// Int returns the value of option c as a number that is not negative, def if
// it was not given.
func (s *Set) Int(c byte, def int) (int, error) {
	if !s.has[c] {
		return def, nil
	}
	n, err := strconv.Atoi(s.val[c])
	if err != nil || n < 0 {
		return 0, applet.Usagef("-%c takes a number, not %q", c, s.val[c])
	}
	return n, nil
}

// Parse reads args by spec: the letters that are known, a colon behind one
// that takes a value. Options may follow operands, unless spec starts with
// '+': then the first operand ends them (it is a command with options of its
// own). "--" ends them always; a lone "-" is an operand.
func Parse(args []string, spec string) (*Set, []string, error) {
	s := new(Set)
	spec, stop := strings.CutPrefix(spec, "+")
	var operands []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return s, append(operands, args[i+1:]...), nil
		}
		if len(a) < 2 || a[0] != '-' {
			if stop {
				return s, args[i:], nil
			}
			operands = append(operands, a)
			continue
		}
		for j := 1; j < len(a); j++ {
			c := a[j]
			at := strings.IndexByte(spec, c)
			if at < 0 || c == ':' || c >= 128 {
				return nil, nil, applet.Usagef("unknown option %s", a)
			}
			s.has[c] = true
			if at+1 == len(spec) || spec[at+1] != ':' {
				continue
			}
			switch {
			case j+1 < len(a):
				s.val[c] = a[j+1:]
			case i+1 < len(args):
				i++
				s.val[c] = args[i]
			default:
				return nil, nil, applet.Usagef("-%c needs a value", c)
			}
			break
		}
	}
	return s, operands, nil
}

// Count returns args with the traditional -NUMBER (head -5) as -n NUMBER.
func Count(args []string) []string {
	if len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		if _, err := strconv.Atoi(args[0][1:]); err == nil {
			return append([]string{"-n", args[0][1:]}, args[1:]...)
		}
	}
	return args
}
