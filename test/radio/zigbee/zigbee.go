// Package zigbee is one Zigbee node as the coordinator's application sees it:
// it answers device object (ZDO) requests and cluster library (ZCL) commands,
// and reports attributes.
//
// Formats are those of the Zigbee specification R22 (05-3474-22, section 2.4)
// and of the Zigbee Cluster Library 8 (07-5123-08, section 2.5). There is no
// network layer here: no routes, no security, no loss.
package zigbee

import (
	"encoding/binary"
	"math"
	"slices"
)

// APS is the addressing of an application message.
type APS struct {
	Profile, Cluster             uint16
	SourceEndpoint, DestEndpoint uint8
	Options, Group               uint16
	Sequence                     uint8
}

// Message is what travels between two nodes.
type Message struct {
	APS
	Payload []byte
}

// Profiles and endpoints.
const (
	ProfileZDO    = 0x0000
	ProfileHA     = 0x0104
	EndpointZDO   = 0
	EndpointAll   = 0xFF
	BroadcastLow  = 0xFFF8 // addresses from here on are broadcasts
	responseBit   = 0x8000
	ClusterBasic  = 0x0000
	ClusterAnalog = 0x000C // Analog Input (Basic)
	AttrPresent   = 0x0055 // its PresentValue, single precision
)

// ZDO clusters that are answered in their own way; the rest is "not supported".
const (
	zdoNwkAddr     = 0x0000
	zdoIEEEAddr    = 0x0001
	zdoNodeDesc    = 0x0002
	zdoPowerDesc   = 0x0003
	zdoSimpleDesc  = 0x0004
	zdoActiveEP    = 0x0005
	zdoAnnounce    = 0x0013
	zdoBind        = 0x0021
	zdoUnbind      = 0x0022
	zdoLeave       = 0x0034
	zdoPermit      = 0x0036
	zdoOK          = 0x00
	zdoInvalidEP   = 0x82
	zdoNotSup      = 0x84
	zdoNoDevice    = 0x81
	zclOK          = 0x00
	zclUnsupported = 0x81 // cluster command
	zclUnsupAttr   = 0x86
)

// LogicalType is the node descriptor's.
type LogicalType uint8

// Logical types.
const (
	Coordinator LogicalType = 0
	Router      LogicalType = 1
	EndDevice   LogicalType = 2
)

// Endpoint is one simple descriptor and the attributes behind it.
type Endpoint struct {
	ID              uint8
	Profile, Device uint16
	Version         uint8
	In, Out         []uint16
	Attributes      map[Attr]Value
}

// Attr names an attribute.
type Attr struct{ Cluster, ID uint16 }

// Value is an attribute's ZCL data type and its bytes as they travel.
type Value struct {
	Type uint8
	Data []byte
}

// String is the value of a ZCL character string.
func String(s string) Value { return Value{0x42, append([]byte{byte(len(s))}, s...)} }

// Uint8 is the value of a ZCL uint8.
func Uint8(v uint8) Value { return Value{0x20, []byte{v}} }

// Enum8 is the value of a ZCL enum8.
func Enum8(v uint8) Value { return Value{0x30, []byte{v}} }

// Single is the value of a ZCL single precision number.
func Single(v float32) Value {
	return Value{0x39, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))}
}

// Node is one node. Receive and Report belong to one goroutine.
type Node struct {
	EUI64        uint64
	Addr         uint16 // network address
	Type         LogicalType
	Manufacturer uint16
	Endpoints    []Endpoint

	// Left is set when the node was told to leave.
	Left bool

	zclSeq, zdoSeq uint8
}

// NewSensor returns an end device that is awake, with one endpoint and the
// Basic attributes that an interview asks for.
func NewSensor(eui64 uint64, addr uint16) *Node {
	basic := func(id uint16) Attr { return Attr{ClusterBasic, id} }
	return &Node{
		EUI64: eui64, Addr: addr, Type: EndDevice, Manufacturer: 0x1049,
		Endpoints: []Endpoint{{
			ID: 1, Profile: ProfileHA, Device: 0x000C, Version: 1,
			In: []uint16{ClusterBasic, ClusterAnalog}, Out: []uint16{0x0003},
			Attributes: map[Attr]Value{
				basic(0x0000):                Uint8(8),  // ZCL version
				basic(0x0001):                Uint8(17), // application version
				basic(0x0002):                Uint8(2),
				basic(0x0003):                Uint8(1),
				basic(0x0004):                String("gateway tests"),
				basic(0x0005):                String("virtual-counter"),
				basic(0x0006):                String("20240101"),
				basic(0x0007):                Enum8(3), // battery
				basic(0x4000):                String("1.0.0"),
				{ClusterAnalog, AttrPresent}: Single(0),
			},
		}},
	}
}

// capability is the MAC capability field: receiver on, and for all but end
// devices mains and full function (section 2.3.2.3.6).
func (n *Node) capability() byte {
	if n.Type == EndDevice {
		return 0x88
	}
	return 0x8E
}

func (n *Node) endpoint(id uint8) *Endpoint {
	if i := slices.IndexFunc(n.Endpoints, func(e Endpoint) bool { return e.ID == id }); i >= 0 {
		return &n.Endpoints[i]
	}
	return nil
}

// Announce is the broadcast of a node that has joined (section 2.4.3.1.11).
func (n *Node) Announce() Message {
	n.zdoSeq++
	p := []byte{n.zdoSeq}
	p = binary.LittleEndian.AppendUint16(p, n.Addr)
	p = binary.LittleEndian.AppendUint64(p, n.EUI64)
	p = append(p, n.capability())
	return Message{APS{Profile: ProfileZDO, Cluster: zdoAnnounce}, p}
}

// Report is an attribute report (ZCL section 2.5.11) to the coordinator's
// endpoint 1 that wants no default response.
func (n *Node) Report(ep uint8, attr Attr, v Value) Message {
	if e := n.endpoint(ep); e != nil {
		e.Attributes[attr] = v
	}
	n.zclSeq++
	p := []byte{0x18, n.zclSeq, 0x0A} // server to client, no default response
	p = binary.LittleEndian.AppendUint16(p, attr.ID)
	p = append(p, v.Type)
	p = append(p, v.Data...)
	return Message{APS{Profile: ProfileHA, Cluster: attr.Cluster, SourceEndpoint: ep, DestEndpoint: 1}, p}
}

// Receive takes a message and returns what the node answers. broadcast says
// that it was not for this node alone. Malformed messages get no answer.
func (n *Node) Receive(m Message, broadcast bool) []Message {
	if n.Left {
		return nil
	}
	if m.DestEndpoint == EndpointZDO && m.Profile == ProfileZDO {
		return n.zdo(m, broadcast)
	}
	var out []Message
	for i := range n.Endpoints {
		e := &n.Endpoints[i]
		if m.DestEndpoint == e.ID || m.DestEndpoint == EndpointAll {
			out = append(out, n.zcl(m, e, broadcast)...)
		}
	}
	return out
}

func (n *Node) zdo(m Message, broadcast bool) []Message {
	if len(m.Payload) < 1 || m.Cluster&responseBit != 0 || m.Cluster == zdoAnnounce {
		return nil
	}
	le := binary.LittleEndian
	seq, p := m.Payload[0], m.Payload[1:]
	r := []byte{seq}
	addressed := len(p) >= 2 && le.Uint16(p) == n.Addr
	switch m.Cluster {
	case zdoNwkAddr:
		if len(p) < 8 || le.Uint64(p) != n.EUI64 {
			return nil
		}
		r = le.AppendUint16(le.AppendUint64(append(r, zdoOK), n.EUI64), n.Addr)
	case zdoIEEEAddr:
		if !addressed {
			return nil
		}
		r = le.AppendUint16(le.AppendUint64(append(r, zdoOK), n.EUI64), n.Addr)
	case zdoNodeDesc, zdoPowerDesc, zdoActiveEP, zdoSimpleDesc:
		if len(p) < 2 {
			return nil
		}
		if !addressed {
			r = append(r, zdoNoDevice, p[0], p[1])
			break
		}
		body := n.descriptor(m.Cluster, p[2:])
		if body == nil {
			r = append(r, zdoInvalidEP, p[0], p[1], 0)
			break
		}
		r = append(append(r, zdoOK, p[0], p[1]), body...)
	case zdoBind, zdoUnbind:
		r = append(r, zdoOK)
	case zdoLeave:
		n.Left = true
		r = append(r, zdoOK)
	case zdoPermit:
		if broadcast {
			return nil
		}
		r = append(r, zdoOK)
	default:
		if broadcast {
			return nil
		}
		r = append(r, zdoNotSup)
	}
	return []Message{{APS{Profile: ProfileZDO, Cluster: m.Cluster | responseBit}, r}}
}

// descriptor is the body of a descriptor response (section 2.3.2); nil: no
// such endpoint.
func (n *Node) descriptor(cluster uint16, rest []byte) []byte {
	le := binary.LittleEndian
	switch cluster {
	case zdoNodeDesc:
		server := uint16(22) << 9 // stack compliance revision
		if n.Type == Coordinator {
			server |= 1 // primary trust center
		}
		p := []byte{byte(n.Type), 0x40, n.capability()} // 2.4 GHz
		p = le.AppendUint16(p, n.Manufacturer)
		p = append(p, 82) // largest NPDU
		p = le.AppendUint16(p, 128)
		p = le.AppendUint16(p, server)
		p = le.AppendUint16(p, 128)
		return append(p, 0)
	case zdoPowerDesc:
		return []byte{0x10, 0xC1} // mains available, 100 %
	case zdoActiveEP:
		p := []byte{byte(len(n.Endpoints))}
		for _, e := range n.Endpoints {
			p = append(p, e.ID)
		}
		return p
	}
	if len(rest) < 1 {
		return nil
	}
	e := n.endpoint(rest[0])
	if e == nil {
		return nil
	}
	d := []byte{e.ID}
	d = le.AppendUint16(d, e.Profile)
	d = le.AppendUint16(d, e.Device)
	d = append(d, e.Version, byte(len(e.In)))
	for _, c := range e.In {
		d = le.AppendUint16(d, c)
	}
	d = append(d, byte(len(e.Out)))
	for _, c := range e.Out {
		d = le.AppendUint16(d, c)
	}
	return append([]byte{byte(len(d))}, d...)
}

func (n *Node) zcl(m Message, e *Endpoint, broadcast bool) []Message {
	p := m.Payload
	if len(p) < 3 {
		return nil
	}
	control := p[0]
	var mfg []byte
	if control&0x04 != 0 {
		if len(p) < 5 {
			return nil
		}
		mfg, p = p[1:3], p[2:]
	}
	seq, cmd, body := p[1], p[2], p[3:]
	answer := func(cmd byte, body ...byte) []Message {
		// Global, the other direction, no default response to this.
		c := control&0x08 ^ 0x08 | 0x10 | control&0x04
		r := append([]byte{c}, mfg...)
		r = append(append(r, seq, cmd), body...)
		return []Message{{APS{
			Profile: m.Profile, Cluster: m.Cluster,
			SourceEndpoint: e.ID, DestEndpoint: m.SourceEndpoint,
		}, r}}
	}
	if control&0x03 == 0 {
		switch cmd {
		case 0x00: // read attributes
			return answer(0x01, e.read(m.Cluster, body)...)
		case 0x02: // write attributes: everything succeeds and changes nothing
			return answer(0x04, zclOK)
		case 0x06: // configure reporting
			return answer(0x07, zclOK)
		case 0x0B: // default response
			return nil
		case 0x01, 0x04, 0x07, 0x09, 0x0A:
			return nil // answers and reports
		}
	}
	if broadcast || control&0x10 != 0 {
		return nil
	}
	return answer(0x0B, cmd, zclUnsupported)
}

func (e *Endpoint) read(cluster uint16, ids []byte) []byte {
	var r []byte
	for ; len(ids) >= 2; ids = ids[2:] {
		r = append(r, ids[0], ids[1])
		v, ok := e.Attributes[Attr{cluster, binary.LittleEndian.Uint16(ids)}]
		if !ok {
			r = append(r, zclUnsupAttr)
			continue
		}
		r = append(append(r, zclOK, v.Type), v.Data...)
	}
	return r
}
