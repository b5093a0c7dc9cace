package dnssd

import (
	"errors"
	"strings"
)

// Limits of RFC 1035 section 2.3.4, in bytes.
const (
	maxLabel = 63
	maxName  = 255 // with the zero label
)

// ErrName is what a name that cannot be written is refused with.
var ErrName = errors.New("a DNS name has labels of 1 to 63 bytes and 255 bytes at most")

// Name is a domain name in wire form: labels behind their length, and the zero
// label. It is never compressed.
type Name []byte

// NewName makes a name of an instance label, which may hold any byte and may be
// empty for none, and of labels between dots.
func NewName(instance, rest string) (Name, error) {
	var n Name
	add := func(label string) bool {
		if label == "" || len(label) > maxLabel {
			return false
		}
		n = append(append(n, byte(len(label))), label...)
		return true
	}
	if instance != "" && !add(instance) {
		return nil, ErrName
	}
	for label := range strings.SplitSeq(rest, ".") {
		if !add(label) {
			return nil, ErrName
		}
	}
	if n = append(n, 0); len(n) > maxName {
		return nil, ErrName
	}
	return n, nil
}

// Equal compares as DNS does: ASCII letters without their case.
func (n Name) Equal(o Name) bool {
	if len(n) != len(o) {
		return false
	}
	for i, c := range n {
		if fold(c) != fold(o[i]) {
			return false
		}
	}
	return true
}

// fold leaves the lengths of labels as they are: those are below 'A'.
func fold(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// Label returns the first label, and the name behind it.
func (n Name) Label() (label string, rest Name) {
	if len(n) == 0 || n[0] == 0 {
		return "", n
	}
	return string(n[1 : 1+n[0]]), n[1+n[0]:]
}

// String returns labels between dots, with a backslash before a dot or a
// backslash inside a label (RFC 6763 section 4.3).
func (n Name) String() string {
	var b strings.Builder
	for len(n) > 0 && n[0] != 0 {
		var label string
		label, n = n.Label()
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		for i := range len(label) {
			if label[i] == '.' || label[i] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(label[i])
		}
	}
	return b.String()
}
