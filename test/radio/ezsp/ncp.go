package ezsp

import (
	"errors"
	"time"

	"gwinit/test/radio/zigbee"
)

// Status bytes. EmberZNet 7 has two sets in one byte: EzspStatus for what
// concerns the NCP itself, EmberStatus for the stack (UG100 section 2), and
// 32-bit SL status for the security manager.
const (
	ok                 = 0x00
	errBadArgument     = 0x02 // EmberStatus
	deliveryFailed     = 0x66
	invalidCall        = 0x70
	networkUp          = 0x90
	networkDown        = 0x91
	notJoined          = 0x93
	networkOpened      = 0x9C
	networkClosed      = 0x9D
	indexOutOfRange    = 0xB1
	ezspVersionNotSet  = 0x30 // EzspStatus
	ezspInvalidFrameID = 0x31
	ezspTruncated      = 0x33
	ezspInvalidValue   = 0x36
	ezspInvalidID      = 0x37
	ezspInvalidCall    = 0x38
	slNotFound         = 0x1D // SL status
	slInvalidParameter = 0x21
)

// Callback frame IDs.
const (
	cbStackStatus     = 0x0019
	cbChildJoin       = 0x0023
	cbTrustCenterJoin = 0x0024
	cbMessageSent     = 0x003F
	cbIncoming        = 0x0045
	idInvalidCommand  = 0x0058
	idVersion         = 0x0000
)

// coordinatorAddr is the coordinator's network address.
const coordinatorAddr = 0x0000

// counters is how many values readCounters returns (EmberCounterType).
const counters = 41

// Counter indices that the simulator counts.
const (
	countRxUnicast     = 8
	countTxUnicast     = 9
	countTxFailed      = 11
	countTxBroadcast   = 7
	countJoin          = 16
	countNoBuffer      = 27
	maxUnicastPayload  = 82
	stackTypeMesh      = 2
	configKeyTableSize = 0x1E
)

// Config is what the firmware was built as.
type Config struct {
	Major, Minor, Patch uint8
	Build               uint16
}

// DefaultConfig is EmberZNet 7.5.1, the version that the gateways ship.
func DefaultConfig() Config { return Config{Major: 7, Minor: 5, Patch: 1} }

// NCP is the application processor's view of the radio. All methods belong
// to one goroutine.
type NCP struct {
	cfg   Config
	State *State

	// Respond sends the answer to a command.
	Respond func(frame []byte)
	// Callback sends an unsolicited frame; false when there is no room. acked
	// may be nil; it is called once when the frame's fate is known.
	Callback func(frame []byte, acked func(bool)) bool
	// Later runs fn on the owner's goroutine after d, unless the NCP is reset
	// before that.
	Later func(d time.Duration, fn func())
	// Changed is called after State has changed.
	Changed func()
	// Reset is called when the host asks for a reset by command.
	Reset func()
	// Bootloader is called when the host asks for the bootloader.
	Bootloader func()

	// Devices are the virtual nodes in reach that have joined.
	Devices []*zigbee.Node

	self       *zigbee.Node
	versionSet bool
	up         bool
	lastSeq    uint8
	overflow   bool
	permit     int // counts openings; a closing timer of an older one does nothing
	open       bool
	config     map[uint8]uint16
	policy     map[uint8]uint8
	values     map[uint8][]byte
	multicast  map[uint8][4]byte
	initial    *Network // from setInitialSecurityState, not a network yet
	counts     [counters]uint16
	apsSeq     uint8
}

// New returns an NCP; its functions must be set, and Boot called, before use.
func New(cfg Config, s *State) *NCP { return &NCP{cfg: cfg, State: s} }

// Boot starts the firmware: everything that is not in State is forgotten.
func (n *NCP) Boot() {
	n.self = &zigbee.Node{EUI64: uint64(n.State.EUI64), Type: zigbee.Coordinator, Manufacturer: 0x1049}
	n.versionSet, n.up, n.overflow, n.open = false, false, false, false
	n.permit++
	n.lastSeq, n.apsSeq = 0, 0
	n.config = map[uint8]uint16{
		0x01: 0xFFFF, 0x02: 26, 0x03: 20, 0x04: 32, 0x05: 12, 0x06: 16, 0x07: 16, 0x08: 16,
		0x0C: 0, 0x0D: 5, 0x10: 30, 0x11: 32, 0x12: 3000, 0x13: 8, 0x17: 0, 0x18: 0, 0x19: 0,
		0x1A: 100, 0x1C: 1, 0x1D: 0, configKeyTableSize: 12, 0x1F: 1600, 0x20: 10, 0x22: 2, 0x24: 0,
		0x29: 0, 0x2A: 0, 0x2B: 15, 0x2C: 0, 0x2D: 1, 0x2E: 1, 0x2F: 1, 0x30: 0xFF80, 0x33: 0, 0x34: 16,
		0x35: 0, 0x36: 300, 0x37: 255, 0x38: 90, 0x39: 0, 0x40: 2, 0x41: 5, 0x42: 0, 0x43: 0,
	}
	n.policy = map[uint8]uint8{}
	n.values = map[uint8][]byte{}
	n.multicast = map[uint8][4]byte{}
	n.initial = nil
	n.counts = [counters]uint16{}
}

// Up tells whether the network is up.
func (n *NCP) Up() bool { return n.up }

// Open tells whether devices may join.
func (n *NCP) Open() bool { return n.up && n.open }

// Handle takes the payload of a DATA frame.
func (n *NCP) Handle(payload []byte) {
	f, err := Parse(payload)
	if err != nil {
		n.lastSeq = payload[0] // ASH gives three bytes at least
		n.invalid(Frame{Sequence: payload[0]}, ezspTruncated)
		return
	}
	n.lastSeq = f.Sequence
	if f.ID == idVersion {
		n.version(f)
		return
	}
	// UG100 section 2.2: version first, and then extended frames.
	if !n.versionSet || f.Legacy {
		n.invalid(f, ezspVersionNotSet)
		return
	}
	run := command(f.ID)
	if run == nil {
		n.invalid(f, ezspInvalidFrameID)
		return
	}
	r := &reader{p: f.Params}
	w := &writer{}
	then := run(n, r, w)
	if r.short {
		n.invalid(f, ezspTruncated)
		return
	}
	n.respond(f, f.ID, w.p)
	if then != nil {
		then()
	}
}

func (n *NCP) version(f Frame) {
	r := &reader{p: f.Params}
	want := r.u8()
	if r.short {
		n.invalid(f, ezspTruncated)
		return
	}
	if want == ProtocolVersion {
		n.versionSet = true
	}
	w := &writer{}
	w.u8(ProtocolVersion, stackTypeMesh)
	w.u16(uint16(n.cfg.Major)<<12 | uint16(n.cfg.Minor)<<8 | uint16(n.cfg.Patch)<<4)
	n.respond(f, idVersion, w.p)
}

func (n *NCP) invalid(f Frame, status uint8) {
	f.Legacy = f.Legacy && !n.versionSet
	n.respond(f, idInvalidCommand, []byte{status})
}

func (n *NCP) respond(f Frame, id uint16, params []byte) {
	c := uint8(controlResponse)
	if n.overflow {
		c |= controlOverflow
		n.overflow = false
	}
	n.Respond(Frame{Sequence: f.Sequence, Control: c, ID: id, Legacy: f.Legacy, Params: params}.Append(nil))
}

// callback sends an unsolicited frame. One for which there is no room is
// lost, as on the device, and the next frame says so.
func (n *NCP) callback(id uint16, params []byte, acked func(bool)) bool {
	c := uint8(controlResponse | controlAsync)
	if n.overflow {
		c |= controlOverflow
	}
	sent := n.Callback(Frame{Sequence: n.lastSeq, Control: c, ID: id, Params: params}.Append(nil), acked)
	if sent {
		n.overflow = false
	} else {
		n.overflow = true
		n.counts[countNoBuffer]++
	}
	return sent
}

func (n *NCP) stackStatus(status uint8) {
	n.callback(cbStackStatus, []byte{status}, nil)
}

// bringUp is what follows networkInit and formNetwork; the stack needs some
// time for it.
func (n *NCP) bringUp() {
	n.Later(20*time.Millisecond, func() {
		n.up = true
		n.stackStatus(networkUp)
	})
}

func (n *NCP) setOpen(seconds uint8) {
	n.permit++
	was := n.open
	n.open = seconds != 0
	switch {
	case n.open && !was:
		n.stackStatus(networkOpened)
	case was && !n.open:
		n.stackStatus(networkClosed)
	}
	if n.open && seconds != 255 {
		mine := n.permit
		n.Later(time.Duration(seconds)*time.Second, func() {
			if n.permit == mine {
				n.setOpen(0)
			}
		})
	}
}

// Errors of Join and Deliver.
var (
	ErrDown   = errors.New("the network is down")
	ErrClosed = errors.New("the network is closed for joining")
	ErrNoRoom = errors.New("the NCP has no buffer for another message")
)

// Join lets a device join as a child of the coordinator: association, key
// transport and announcement. One that has joined before joins again with
// its address.
func (n *NCP) Join(d *zigbee.Node) error {
	if !n.up {
		return ErrDown
	}
	if !n.open {
		return ErrClosed
	}
	d.Left = false
	known := false
	for _, k := range n.Devices {
		known = known || k == d
	}
	if !known {
		n.Devices = append(n.Devices, d)
		n.State.Devices = append(n.State.Devices, Device{EUI64(d.EUI64), d.Addr})
		n.Changed()
	}
	n.counts[countJoin]++
	w := &writer{}
	w.u8(0, 1) // index, joining
	w.u16(d.Addr)
	w.u64(d.EUI64)
	w.u8(3) // end device that is always awake
	n.callback(cbChildJoin, w.p, nil)
	w = &writer{}
	w.u16(d.Addr)
	w.u64(d.EUI64)
	w.u8(1, 0) // unsecured join; the preconfigured key is used
	w.u16(coordinatorAddr)
	n.callback(cbTrustCenterJoin, w.p, nil)
	n.Later(100*time.Millisecond, func() {
		_ = n.deliver(d.Addr, d.Announce(), incomingBroadcast, nil) // lost if there is no room
	})
	return nil
}

// Incoming message types.
const (
	incomingUnicast   = 0
	incomingBroadcast = 4
)

// Deliver passes a device's message on to the host. ErrNoRoom means that the
// device has to try again, as it would without the coordinator's
// acknowledgement.
func (n *NCP) Deliver(d *zigbee.Node, m zigbee.Message, acked func(bool)) error {
	if !n.up {
		return ErrDown
	}
	return n.deliver(d.Addr, m, incomingUnicast, acked)
}

func (n *NCP) deliver(from uint16, m zigbee.Message, kind uint8, acked func(bool)) error {
	n.apsSeq++
	m.Sequence = n.apsSeq
	w := &writer{}
	w.u8(kind)
	w.aps(m.APS)
	w.u8(200, 0xCE) // link quality, -50 dBm
	w.u16(from)
	w.u8(0xFF, 0xFF) // no binding, not in the address table
	w.counted(m.Payload)
	if !n.callback(cbIncoming, w.p, acked) {
		return ErrNoRoom
	}
	n.counts[countRxUnicast]++
	return nil
}

func (w *writer) aps(a zigbee.APS) {
	w.u16(a.Profile)
	w.u16(a.Cluster)
	w.u8(a.SourceEndpoint, a.DestEndpoint)
	w.u16(a.Options)
	w.u16(a.Group)
	w.u8(a.Sequence)
}

func (r *reader) aps() zigbee.APS {
	return zigbee.APS{
		Profile: r.u16(), Cluster: r.u16(), SourceEndpoint: r.u8(), DestEndpoint: r.u8(),
		Options: r.u16(), Group: r.u16(), Sequence: r.u8(),
	}
}

func (n *NCP) node(addr uint16) *zigbee.Node {
	if addr == coordinatorAddr {
		return n.self
	}
	for _, d := range n.Devices {
		if d.Addr == addr && !d.Left {
			return d
		}
	}
	return nil
}

// send carries a message from the host to its destination, which answers.
// kind is the outgoing message type.
func (n *NCP) send(kind uint8, to uint16, m zigbee.Message, tag uint8) (seq uint8, then func()) {
	n.apsSeq++
	m.Sequence = n.apsSeq
	n.State.Network.FrameCounter++
	sent := func(status uint8) {
		w := &writer{}
		w.u8(kind)
		w.u16(to)
		w.aps(m.APS)
		w.u8(tag, status)
		if n.policy[policyMessageContents] == contentsInCallback {
			w.counted(m.Payload)
		} else {
			w.u8(0)
		}
		n.callback(cbMessageSent, w.p, nil)
	}
	if kind != outDirect {
		n.counts[countTxBroadcast]++
		return m.Sequence, func() {
			sent(ok)
			for _, d := range n.Devices {
				for _, r := range d.Receive(m, true) {
					_ = n.deliver(d.Addr, r, incomingUnicast, nil) // lost if there is no room
				}
			}
		}
	}
	d := n.node(to)
	if d == nil {
		n.counts[countTxFailed]++
		return m.Sequence, func() { sent(deliveryFailed) }
	}
	n.counts[countTxUnicast]++
	return m.Sequence, func() {
		sent(ok)
		for _, r := range d.Receive(m, false) {
			_ = n.deliver(d.Addr, r, incomingUnicast, nil) // lost if there is no room
		}
	}
}
