package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
)

var errShort = errors.New("a short message from nf_tables")

// next cuts the first attribute off. ok is false at the end, and at what is no
// attribute.
func next(order byteOrder, b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, nil, false
	}
	n := int(order.Uint16(b))
	if n < 4 || n > len(b) {
		return 0, nil, nil, false
	}
	return order.Uint16(b[2:]), b[4:n], b[min(len(b), (n+3)&^3):], true
}

// kindBits are those of an attribute's type, without its flags.
const kindBits = 0x3fff

// find returns the nth attribute of a kind, from 0, and whether there is one.
func find(order byteOrder, b []byte, kind uint16, nth int) (value []byte, ok bool) {
	for {
		var k uint16
		if k, value, b, ok = next(order, b); !ok {
			return nil, false
		}
		if k&kindBits == kind {
			if nth == 0 {
				return value, true
			}
			nth--
		}
	}
}

// first is find's, empty if there is none.
func first(order byteOrder, b []byte, path ...uint16) []byte {
	for _, kind := range path {
		b, _ = find(order, b, kind, 0)
	}
	return b
}

// within tells whether got has every attribute of sent, as it was sent, and as
// many elements in each list. It may have others: the kernel tells more than it
// was told, and in another order.
func within(order byteOrder, sent, got []byte) bool {
	for rest := sent; ; {
		kind, value, behind, ok := next(order, rest)
		if !ok {
			return true
		}
		nth := 0
		for b := sent[:len(sent)-len(rest)]; ; nth++ {
			if _, ok := find(order, b, kind&kindBits, nth); !ok {
				break
			}
		}
		has, ok := find(order, got, kind&kindBits, nth)
		switch {
		case !ok:
			return false
		case kind&nested == 0:
			if !bytes.Equal(value, has) {
				return false
			}
		case !within(order, value, has):
			return false
		}
		rest = behind
	}
}

// expressions counts the expressions of a rule.
func expressions(order byteOrder, rule []byte) (n int) {
	list := first(order, rule, ruleExpressions)
	for {
		if _, ok := find(order, list, listElement, n); !ok {
			return n
		}
		n++
	}
}

// parseCount reads the attributes of a counter.
func parseCount(order byteOrder, b []byte) (c Count) {
	if v := first(order, b, counterBytes); len(v) == 8 {
		c.Bytes = binary.BigEndian.Uint64(v)
	}
	if v := first(order, b, counterPackets); len(v) == 8 {
		c.Packets = binary.BigEndian.Uint64(v)
	}
	return c
}

// parseRule compares the attributes of a rule that the kernel has with r, and
// reads its counter.
func parseRule(order byteOrder, b []byte, r Rule) (c Count, same bool) {
	w := &writer{order: order}
	w.rule(r)
	if expressions(order, w.b) != expressions(order, b) || !within(order, w.b, b) {
		return c, false
	}
	list := first(order, b, ruleExpressions)
	for nth := 0; ; nth++ {
		e, ok := find(order, list, listElement, nth)
		if !ok {
			return c, true
		}
		if string(first(order, e, exprName)) == "counter\x00" {
			return parseCount(order, first(order, e, exprData)), true
		}
	}
}

// parsePorts reads the elements of a message about the set.
func parsePorts(order byteOrder, b []byte) (all []Port) {
	list := first(order, b, elementsList)
	for nth := 0; ; nth++ {
		e, ok := find(order, list, listElement, nth)
		if !ok {
			return all
		}
		if key := first(order, e, elementKey, dataValue); len(key) >= 6 {
			all = append(all, Port{
				Protocol: key[0], Number: binary.BigEndian.Uint16(key[4:]),
				Count: parseCount(order, first(order, e, elementExpr, exprData)),
			})
		}
	}
}

// answer is a message of the kernel.
type answer struct {
	kind   uint16
	number uint32 // of the request's message
	code   int32  // of NLMSG_ERROR: 0 or a negative errno
	body   []byte // the attributes; of no message of netlink itself
}

// Kinds of netlink's own messages.
const (
	kindError = 2 // NLMSG_ERROR
	kindDone  = 3 // NLMSG_DONE
)

// parseAnswer cuts the first message off a packet.
func parseAnswer(order byteOrder, b []byte) (a answer, rest []byte, err error) {
	if len(b) < 16 {
		return a, nil, errShort
	}
	n := int(order.Uint32(b))
	if n < 16 || n > len(b) {
		return a, nil, errShort
	}
	a.kind, a.number = order.Uint16(b[4:]), order.Uint32(b[8:])
	rest, b = b[min(len(b), (n+3)&^3):], b[16:n]
	switch {
	case a.kind == kindDone:
	case a.kind == kindError:
		if len(b) < 4 {
			return a, nil, errShort
		}
		a.code = int32(order.Uint32(b))
	case len(b) < 4:
		return a, nil, errShort
	default:
		a.body = b[4:]
	}
	return a, rest, nil
}
