// Package nft makes one table of nftables, whose only base chain is the input of
// both families, reads it back, and compares: what services/firewall needs of
// nf_tables and no more.
//
// The messages are made and read here. Formats are those of
// linux/netfilter/nfnetlink.h and nf_tables.h: headers of messages and
// attributes are in the CPU's byte order, numbers in attributes are big-endian,
// and a register holds what the kernel has in memory. docs/size.md says what
// github.com/google/nftables would cost instead.
package nft

import (
	"encoding/binary"
	"net/netip"
)

// Names in the kernel.
const (
	Table = "gwinit"
	chain = "input"
	set   = "dropped"
)

// Protocol numbers (IANA) that the package knows.
const (
	ICMP   = 1
	IGMP   = 2
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

// Span is ports or ICMP types from First to Last. Zero is any.
type Span struct{ First, Last uint16 }

// Rule is one of the chain: every condition that is set must hold. Rules are
// comparable.
type Rule struct {
	Text      string       // for people, and nft(8) shows it as the rule's comment; at most 100 bytes
	Interface string       // that the packet came in by, at most 15 bytes; "": any
	From      netip.Prefix // its source; not valid: any
	Answers   bool         // it belongs to a connection that is known
	Protocol  uint8        // of the upper layer; 0: any
	Span      Span         // of destination ports, or of types with ICMP and ICMPv6

	Accept bool // else it is dropped
	Tally  bool // counted by destination port as well; Protocol must be TCP or UDP
}

// Count is what has met a rule.
type Count struct{ Packets, Bytes uint64 }

// Port is what was tallied of one.
type Port struct {
	Protocol uint8
	Number   uint16
	Count
}

// State is what the kernel has.
type State struct {
	Present bool // the table is there
	// Same tells that chain and rules are what they were made as. Rules and
	// Ports are read only then.
	Same  bool
	Rules []Count // in their order
	Ports []Port  // tallied in the last hour
}

// Limits of the set that tallies.
const (
	tallyPorts = 64      // then further ones are in the rule's count only
	tallyMS    = 3600000 // a port is forgotten so long after its last packet
)

// Numbers of linux/netfilter/nfnetlink.h and nf_tables.h.
const (
	subsystem = 10 // NFNL_SUBSYS_NFTABLES

	batchBegin = 0x10 // NFNL_MSG_BATCH_BEGIN
	batchEnd   = 0x11

	msgNewTable   = subsystem << 8
	msgGetTable   = subsystem<<8 | 1
	msgDelTable   = subsystem<<8 | 2
	msgNewChain   = subsystem<<8 | 3
	msgGetChain   = subsystem<<8 | 4
	msgNewRule    = subsystem<<8 | 6
	msgGetRule    = subsystem<<8 | 7
	msgNewSet     = subsystem<<8 | 9
	msgNewElement = subsystem<<8 | 12
	msgGetElement = subsystem<<8 | 13

	familyInet = 1 // NFPROTO_INET
	familyIPv4 = 2
	familyIPv6 = 10

	listElement = 1 // NFTA_LIST_ELEM

	tableName = 1

	chainTable   = 1
	chainName    = 3
	chainHook    = 4
	chainPolicy  = 5
	chainType    = 7
	hookNumber   = 1
	hookPriority = 2
	hookInput    = 1 // NF_INET_LOCAL_IN

	ruleTable       = 1
	ruleChain       = 2
	ruleExpressions = 4
	ruleUserData    = 7
	commentType     = 0 // of the user data, as nft(8) has it

	exprName = 1
	exprData = 2

	dataValue   = 1
	dataVerdict = 2
	verdictCode = 1
	drop        = 0 // NF_DROP
	accept      = 1

	// Registers: the verdict's, the first of 16 bytes, and the second word of
	// that.
	regVerdict = 0
	reg1       = 1
	reg1Second = 9

	metaRegister  = 1
	metaKey       = 2
	metaInterface = 6
	metaFamily    = 15
	metaProtocol  = 16

	cmpRegister = 1
	cmpOp       = 2
	cmpData     = 3
	cmpEqual    = 0
	cmpNotEqual = 1
	cmpAtMost   = 3
	cmpAtLeast  = 5

	payloadRegister  = 1
	payloadBase      = 2
	payloadOffset    = 3
	payloadLength    = 4
	networkHeader    = 1
	transportHeader  = 2
	destinationPort  = 2  // offset in TCP and UDP
	sourceIPv4       = 12 // offsets of the source address
	sourceIPv6       = 8
	interfaceNameLen = 16 // IFNAMSIZ

	bitwiseSource = 1
	bitwiseTarget = 2
	bitwiseLength = 3
	bitwiseMask   = 4
	bitwiseXOR    = 5

	ctRegister       = 1
	ctKey            = 2
	ctState          = 0
	stateEstablished = 1 << 1 // NF_CT_STATE_BIT
	stateRelated     = 1 << 2

	immediateRegister = 1
	immediateData     = 2

	counterBytes   = 1
	counterPackets = 2

	dynsetName  = 1
	dynsetOp    = 3
	dynsetKey   = 4
	dynsetExpr  = 7
	dynsetTouch = 1 // NFT_DYNSET_OP_UPDATE

	setTable     = 1
	setName      = 2
	setFlags     = 3
	setKeyType   = 4
	setKeyLength = 5
	setDesc      = 9
	setID        = 10
	setTimeout   = 11
	setDescSize  = 1
	flagTimeout  = 0x10
	flagEval     = 0x20
	// keyType is nft(8)'s for "inet_proto . inet_service", and keyLength its
	// bytes: each part takes words.
	keyType   = 12<<6 | 13
	keyLength = 8

	elementsTable = 1
	elementsSet   = 2
	elementsList  = 3
	elementKey    = 1
	elementExpr   = 7
)

// byteOrder is that of a CPU.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// writer makes messages and their attributes.
type writer struct {
	order byteOrder
	b     []byte
}

const nested = 0x8000 // NLA_F_NESTED

// open begins an attribute that close ends.
func (w *writer) open(kind uint16) (at int) {
	at = len(w.b)
	w.b = w.order.AppendUint16(w.b, 0)
	w.b = w.order.AppendUint16(w.b, kind)
	return at
}

func (w *writer) close(at int) {
	w.order.PutUint16(w.b[at:], uint16(len(w.b)-at))
	for len(w.b)%4 != 0 {
		w.b = append(w.b, 0)
	}
}

func (w *writer) bytes(kind uint16, value ...byte) {
	at := w.open(kind)
	w.b = append(w.b, value...)
	w.close(at)
}

func (w *writer) text(kind uint16, s string) { w.bytes(kind, append([]byte(s), 0)...) }

func (w *writer) number(kind uint16, v uint32) {
	w.bytes(kind, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// data is a value for a register.
func (w *writer) data(kind uint16, value ...byte) {
	at := w.open(kind | nested)
	w.bytes(dataValue, value...)
	w.close(at)
}

// expr is an expression with its attributes.
func (w *writer) expr(name string, attributes func()) {
	at := w.open(listElement | nested)
	w.text(exprName, name)
	data := w.open(exprData | nested)
	attributes()
	w.close(data)
	w.close(at)
}

// Parts of expressions.

func (w *writer) meta(key uint32) {
	w.expr("meta", func() {
		w.number(metaKey, key)
		w.number(metaRegister, reg1)
	})
}

func (w *writer) cmp(op uint32, value ...byte) {
	w.expr("cmp", func() {
		w.number(cmpRegister, reg1)
		w.number(cmpOp, op)
		w.data(cmpData, value...)
	})
}

func (w *writer) payload(register, base, offset, length uint32) {
	w.expr("payload", func() {
		w.number(payloadRegister, register)
		w.number(payloadBase, base)
		w.number(payloadOffset, offset)
		w.number(payloadLength, length)
	})
}

// mask keeps the bits of the first register that mask has.
func (w *writer) mask(mask ...byte) {
	w.expr("bitwise", func() {
		w.number(bitwiseSource, reg1)
		w.number(bitwiseTarget, reg1)
		w.number(bitwiseLength, uint32(len(mask)))
		w.data(bitwiseMask, mask...)
		w.data(bitwiseXOR, make([]byte, len(mask))...)
	})
}

func (w *writer) from(p netip.Prefix) {
	family, offset := byte(familyIPv4), uint32(sourceIPv4)
	if p.Addr().Is6() {
		family, offset = familyIPv6, sourceIPv6
	}
	w.meta(metaFamily)
	w.cmp(cmpEqual, family)
	addr := p.Masked().Addr().AsSlice()
	w.payload(reg1, networkHeader, offset, uint32(len(addr)))
	if p.Bits() < len(addr)*8 {
		mask := make([]byte, len(addr))
		for i := range p.Bits() {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		w.mask(mask...)
	}
	w.cmp(cmpEqual, addr...)
}

// span compares the first register, which holds a port or a type.
func (w *writer) span(s Span, wide bool) {
	value := func(v uint16) []byte {
		if wide {
			return []byte{byte(v >> 8), byte(v)}
		}
		return []byte{byte(v)}
	}
	if s.First == s.Last {
		w.cmp(cmpEqual, value(s.First)...)
		return
	}
	w.cmp(cmpAtLeast, value(s.First)...)
	w.cmp(cmpAtMost, value(s.Last)...)
}

// expressions writes what a rule does.
func (w *writer) expressions(r Rule) {
	if r.Interface != "" {
		var name [interfaceNameLen]byte
		copy(name[:], r.Interface)
		w.meta(metaInterface)
		w.cmp(cmpEqual, name[:]...)
	}
	if r.From.IsValid() {
		w.from(r.From)
	}
	if r.Answers {
		w.expr("ct", func() {
			w.number(ctKey, ctState)
			w.number(ctRegister, reg1)
		})
		// The kernel has it as a number of its own order.
		w.mask(w.order.AppendUint32(nil, stateEstablished|stateRelated)...)
		w.cmp(cmpNotEqual, 0, 0, 0, 0)
	}
	if r.Protocol != 0 {
		w.meta(metaProtocol)
		w.cmp(cmpEqual, r.Protocol)
	}
	switch wide := r.Protocol != ICMP && r.Protocol != ICMPv6; {
	case r.Span == Span{}:
	case wide:
		w.payload(reg1, transportHeader, destinationPort, 2)
		w.span(r.Span, wide)
	default:
		w.payload(reg1, transportHeader, 0, 1)
		w.span(r.Span, wide)
	}
	w.expr("counter", func() {})
	if r.Tally {
		// The first word of the key, the protocol, is there already.
		w.payload(reg1Second, transportHeader, destinationPort, 2)
		w.expr("dynset", func() {
			w.text(dynsetName, set)
			w.number(dynsetOp, dynsetTouch)
			w.number(dynsetKey, reg1)
			at := w.open(dynsetExpr | nested)
			w.text(exprName, "counter")
			data := w.open(exprData | nested)
			w.close(data)
			w.close(at)
		})
	}
	w.expr("immediate", func() {
		w.number(immediateRegister, regVerdict)
		at := w.open(immediateData | nested)
		verdict := w.open(dataVerdict | nested)
		code := uint32(drop)
		if r.Accept {
			code = accept
		}
		w.number(verdictCode, code)
		w.close(verdict)
		w.close(at)
	})
}

// chain writes what the chain is, without its names.
func (w *writer) chain() {
	at := w.open(chainHook | nested)
	w.number(hookNumber, hookInput)
	w.number(hookPriority, 0)
	w.close(at)
	w.number(chainPolicy, drop)
	w.text(chainType, "filter")
}

// rule writes what a rule is, without the names of table and chain.
func (w *writer) rule(r Rule) {
	at := w.open(ruleExpressions | nested)
	w.expressions(r)
	w.close(at)
	comment := append([]byte{commentType, byte(len(r.Text) + 1)}, r.Text...)
	w.bytes(ruleUserData, append(comment, 0)...)
}

// Flags of messages.
const (
	flagRequest = 1
	flagAck     = 4
	flagDump    = 0x300
	flagCreate  = 0x400
	flagAppend  = 0x800
)

// headerLen is nlmsghdr and, behind it, nfgenmsg.
const headerLen = 16 + 4

// message appends one, numbered number.
func (w *writer) message(kind, flags uint16, number uint32, body func()) {
	at := len(w.b)
	w.b = append(w.b, make([]byte, headerLen)...)
	w.b[at+16] = familyInet
	if kind == batchBegin || kind == batchEnd {
		w.b[at+16], w.b[at+19] = 0, subsystem // res_id, big-endian
	}
	if body != nil {
		body()
	}
	w.order.PutUint32(w.b[at:], uint32(len(w.b)-at))
	w.order.PutUint16(w.b[at+4:], kind)
	w.order.PutUint16(w.b[at+6:], flags|flagRequest)
	w.order.PutUint32(w.b[at+8:], number)
}

// Numbers of the messages of a transaction.
const (
	numberBegin = iota + 1
	numberFirst // the table, so that the next is there to be deleted
	numberDelete
	numberTable
	numberSet
	numberChain
	numberRules // the first rule's
)

// transaction is the messages that put the table of rules in the place of the
// one that may be there, in one step, and how many of them are answered. Nil
// rules leave no table.
func transaction(order byteOrder, rules []Rule) (b []byte, answers int) {
	w := &writer{order: order}
	w.message(batchBegin, 0, numberBegin, nil)
	name := func() { w.text(tableName, Table) }
	w.message(msgNewTable, flagAck|flagCreate, numberFirst, name)
	w.message(msgDelTable, flagAck, numberDelete, name)
	if rules == nil {
		w.message(batchEnd, 0, numberTable, nil)
		return w.b, numberDelete - numberBegin
	}
	w.message(msgNewTable, flagAck|flagCreate, numberTable, name)
	w.message(msgNewSet, flagAck|flagCreate, numberSet, func() {
		w.text(setTable, Table)
		w.text(setName, set)
		w.number(setFlags, flagTimeout|flagEval)
		w.number(setKeyType, keyType)
		w.number(setKeyLength, keyLength)
		at := w.open(setDesc | nested)
		w.number(setDescSize, tallyPorts)
		w.close(at)
		w.number(setID, 1)
		w.bytes(setTimeout, binary.BigEndian.AppendUint64(nil, tallyMS)...)
	})
	w.message(msgNewChain, flagAck|flagCreate, numberChain, func() {
		w.text(chainTable, Table)
		w.text(chainName, chain)
		w.chain()
	})
	number := uint32(numberRules)
	for _, r := range rules {
		w.message(msgNewRule, flagAck|flagCreate|flagAppend, number, func() {
			w.text(ruleTable, Table)
			w.text(ruleChain, chain)
			w.rule(r)
		})
		number++
	}
	w.message(batchEnd, 0, number, nil)
	return w.b, int(number) - numberFirst
}

// question is a request for what there is.
func question(order byteOrder, kind uint16) []byte {
	w := &writer{order: order}
	flags := uint16(flagDump)
	if kind == msgGetTable || kind == msgGetChain {
		flags = 0 // it is one
	}
	w.message(kind, flags, 1, func() {
		w.text(tableName, Table) // the first attribute of them all
		switch kind {
		case msgGetChain:
			w.text(chainName, chain)
		case msgGetRule:
			w.text(ruleChain, chain)
		case msgGetElement:
			w.text(elementsSet, set)
		}
	})
	return w.b
}
