package ezsp

import (
	"time"

	"gwinit/test/radio/zigbee"
)

// Policies and outgoing message types with a meaning here.
const (
	policyMessageContents = 0x04
	contentsInCallback    = 0x01 // EZSP_MESSAGE_TAG_AND_CONTENTS_IN_CALLBACK
	outDirect             = 0x00
	outMulticast          = 0x03
	outBroadcast          = 0x06
)

// Value IDs of getValue and setValue with a meaning of their own; others are
// stored and read back.
const (
	valueVersionInfo  = 0x11
	valueFrameCounter = 0x23
)

// A run function reads the parameters, acts, writes the response's parameters
// and returns what is to follow the response, or nil. It must not act when the
// reader is short: the command is then refused.
type run func(n *NCP, r *reader, w *writer) func()

// command returns what a frame ID does; nil: not known (UG100 section 4 ff.).
func command(id uint16) run {
	switch id {
	// Configuration, UG100 section 4.
	case 0x0001:
		return getLibraryStatus
	case 0x0002:
		return addEndpoint
	case 0x0003:
		return getExtendedValue
	case 0x0052:
		return getConfigurationValue
	case 0x0053:
		return setConfigurationValue
	case 0x0055:
		return setPolicy
	case 0x0056:
		return getPolicy
	case 0x00AA:
		return getValue
	case 0x00AB:
		return setValue
	// Utilities, section 5.
	case 0x0005:
		return nop
	case 0x0006:
		return nop // callback: nothing waits, callbacks are not polled for
	case 0x0009:
		return setToken
	case 0x000A:
		return getToken
	case 0x000B:
		return getMfgToken
	case 0x0026:
		return getEUI64
	case 0x0027:
		return getNodeID
	case 0x0049:
		return getRandomNumber
	case 0x0065:
		return readAndClearCounters
	case 0x0077:
		return tokenFactoryReset
	case 0x0081:
		return echo
	case 0x008F:
		return launchBootloader
	case 0x00F1:
		return readCounters
	case 0x0104:
		return resetNode
	// Networking, section 6.
	case 0x0010, 0x0016, 0x0099, 0x009A, 0x0095:
		return accept // concentrator, power descriptor, radio power, channel, CCA mode
	case 0x0015:
		return setManufacturerCode
	case 0x0017:
		return networkInit
	case 0x0018:
		return networkState
	case 0x001E:
		return formNetwork
	case 0x0020:
		return leaveNetwork
	case 0x0022:
		return permitJoining
	case 0x0028:
		return getNetworkParameters
	case 0x004A:
		return getChildData
	case 0x005A:
		return setSourceRouteDiscoveryMode
	case 0x00CA:
		return getManufacturerCode
	// Messaging, sections 8 and 9.
	case 0x0033:
		return maximumPayloadLength
	case 0x0034:
		return sendUnicast
	case 0x0036:
		return sendBroadcast
	case 0x0038:
		return sendMulticast
	case 0x0060:
		return lookupNodeID
	case 0x0061:
		return lookupEUI64
	case 0x0063:
		return getMulticastEntry
	case 0x0064:
		return setMulticastEntry
	// Security, sections 10 and 11.
	case 0x0068:
		return setInitialSecurityState
	case 0x0069:
		return getCurrentSecurityState
	case 0x006B:
		return nop // clearTransientLinkKeys
	case 0x0076:
		return eraseKeyTableEntry
	case 0x00B1:
		return clearKeyTable
	case 0x010C:
		return getAPSKeyInfo
	case 0x010E:
		return importLinkKey
	case 0x010F:
		return exportLinkKeyByIndex
	case 0x0111:
		return importTransientKey
	case 0x0114:
		return exportKey
	case 0x0116:
		return getNetworkKeyInfo
	}
	return nil
}

func nop(*NCP, *reader, *writer) func() { return nil }

func accept(_ *NCP, _ *reader, w *writer) func() {
	w.u8(ok)
	return nil
}

func getLibraryStatus(_ *NCP, r *reader, w *writer) func() {
	r.u8()
	w.u8(0x80) // present, running
	return nil
}

func addEndpoint(n *NCP, r *reader, w *writer) func() {
	e := zigbee.Endpoint{ID: r.u8(), Profile: r.u16(), Device: r.u16(), Version: r.u8()}
	in, out := int(r.u8()), int(r.u8())
	for range in {
		e.In = append(e.In, r.u16())
	}
	for range out {
		e.Out = append(e.Out, r.u16())
	}
	if r.short {
		return nil
	}
	for _, have := range n.self.Endpoints {
		if have.ID == e.ID {
			w.u8(ezspInvalidCall)
			return nil
		}
	}
	n.self.Endpoints = append(n.self.Endpoints, e)
	w.u8(ok)
	return nil
}

func getExtendedValue(n *NCP, r *reader, w *writer) func() {
	id, which := r.u8(), r.u32()
	if id != 0 { // endpoint flags
		w.u8(ezspInvalidID, 0)
		return nil
	}
	for _, e := range n.self.Endpoints {
		if uint32(e.ID) == which {
			w.u8(ok, 2, 1, 0) // enabled
			return nil
		}
	}
	w.u8(ezspInvalidValue, 2, 0, 0)
	return nil
}

func getConfigurationValue(n *NCP, r *reader, w *writer) func() {
	v, known := n.config[r.u8()]
	if !known {
		w.u8(ezspInvalidID)
		w.u16(0)
		return nil
	}
	w.u8(ok)
	w.u16(v)
	return nil
}

func setConfigurationValue(n *NCP, r *reader, w *writer) func() {
	id, v := r.u8(), r.u16()
	if r.short {
		return nil
	}
	switch _, known := n.config[id]; {
	case !known:
		w.u8(ezspInvalidID)
	case n.up:
		w.u8(ezspInvalidCall) // memory is laid out before the stack starts
	default:
		n.config[id] = v
		w.u8(ok)
	}
	return nil
}

func setPolicy(n *NCP, r *reader, w *writer) func() {
	id, decision := r.u8(), r.u8()
	if r.short {
		return nil
	}
	n.policy[id] = decision
	w.u8(ok)
	return nil
}

func getPolicy(n *NCP, r *reader, w *writer) func() {
	w.u8(ok, n.policy[r.u8()])
	return nil
}

func getValue(n *NCP, r *reader, w *writer) func() {
	switch id := r.u8(); id {
	case valueVersionInfo:
		v := &writer{}
		v.u16(n.cfg.Build)
		v.u8(n.cfg.Major, n.cfg.Minor, n.cfg.Patch, 0, 0xAA) // 0xAA: a general release
		w.u8(ok)
		w.counted(v.p)
	case valueFrameCounter:
		v := &writer{}
		if net := n.State.Network; net != nil {
			v.u32(net.FrameCounter)
		} else {
			v.u32(0)
		}
		w.u8(ok)
		w.counted(v.p)
	default:
		v, known := n.values[id]
		if !known {
			w.u8(ezspInvalidID, 0)
			return nil
		}
		w.u8(ok)
		w.counted(v)
	}
	return nil
}

func setValue(n *NCP, r *reader, w *writer) func() {
	id := r.u8()
	v := append([]byte(nil), r.counted()...)
	if r.short {
		return nil
	}
	if id == valueFrameCounter && (len(v) != 4 || n.up) {
		w.u8(ezspInvalidCall)
		return nil
	}
	n.values[id] = v
	w.u8(ok)
	return nil
}

func setToken(n *NCP, r *reader, w *writer) func() {
	id := r.u8()
	v := ID8(r.bytes(8))
	if r.short {
		return nil
	}
	if id > 7 {
		w.u8(errBadArgument)
		return nil
	}
	if n.State.Tokens == nil {
		n.State.Tokens = map[uint8]ID8{}
	}
	n.State.Tokens[id] = v
	n.Changed()
	w.u8(ok)
	return nil
}

func getToken(n *NCP, r *reader, w *writer) func() {
	id := r.u8()
	v := n.State.Tokens[id]
	status := uint8(ok)
	if id > 7 {
		status = errBadArgument
	}
	w.u8(status)
	w.bytes(v[:])
	return nil
}

// getMfgToken answers as a chip whose manufacturing tokens were never written.
func getMfgToken(_ *NCP, r *reader, w *writer) func() {
	size := 0
	switch r.u8() {
	case 0x00, 0x03, 0x04, 0x0D: // custom version, manufacturer, PHY, crystal
		size = 2
	case 0x07, 0x0C: // EZSP storage, custom EUI-64
		size = 8
	case 0x01, 0x02, 0x05: // string, board name, bootloader key
		size = 16
	case 0x0A: // installation code
		size = 20
	case 0x06: // ASH configuration
		size = 40
	case 0x09: // CBKE
		size = 92
	}
	v := make([]byte, size)
	for i := range v {
		v[i] = 0xFF
	}
	w.counted(v)
	return nil
}

func getEUI64(n *NCP, _ *reader, w *writer) func() {
	w.u64(uint64(n.State.EUI64))
	return nil
}

func getNodeID(n *NCP, _ *reader, w *writer) func() {
	if n.up {
		w.u16(coordinatorAddr)
	} else {
		w.u16(0xFFFE)
	}
	return nil
}

// getRandomNumber is the same in every run, so that runs can be compared.
func getRandomNumber(n *NCP, _ *reader, w *writer) func() {
	w.u8(ok)
	w.u16(uint16(n.lastSeq) * 0x9E37)
	return nil
}

func readCounters(n *NCP, _ *reader, w *writer) func() {
	for _, c := range n.counts {
		w.u16(c)
	}
	return nil
}

func readAndClearCounters(n *NCP, r *reader, w *writer) func() {
	readCounters(n, r, w)
	n.counts = [counters]uint16{}
	return nil
}

func tokenFactoryReset(n *NCP, r *reader, _ *writer) func() {
	r.bytes(2) // keep the frame counter, keep the boot counter
	if r.short {
		return nil
	}
	n.Wipe()
	return nil
}

// Wipe forgets the network, keys, tokens and devices, as a chip does whose
// token area was erased. The EUI-64 stays.
func (n *NCP) Wipe() {
	*n.State = State{EUI64: n.State.EUI64}
	n.Devices = nil
	n.up, n.open = false, false
	n.Changed()
}

func echo(_ *NCP, r *reader, w *writer) func() {
	w.counted(r.counted())
	return nil
}

// launchBootloader answers, and then restarts the chip there.
func launchBootloader(n *NCP, r *reader, w *writer) func() {
	const normalMode = 1
	if mode := r.u8(); r.short {
		return nil
	} else if mode != normalMode || n.Bootloader == nil {
		w.u8(0x01) // EMBER_ERR_FATAL
		return nil
	}
	w.u8(0)
	return func() { n.Later(bootloaderDelay, n.Bootloader) }
}

// bootloaderDelay is how long the response has to leave.
const bootloaderDelay = 20 * time.Millisecond

func resetNode(n *NCP, _ *reader, _ *writer) func() { return n.Reset }

func setManufacturerCode(n *NCP, r *reader, _ *writer) func() {
	if code := r.u16(); !r.short {
		n.self.Manufacturer = code
	}
	return nil
}

func getManufacturerCode(n *NCP, _ *reader, w *writer) func() {
	w.u16(n.self.Manufacturer)
	return nil
}

func networkInit(n *NCP, r *reader, w *writer) func() {
	r.u16()
	switch {
	case n.up:
		w.u8(invalidCall)
	case n.State.Network == nil:
		w.u8(notJoined)
	default:
		w.u8(ok)
		return n.bringUp
	}
	return nil
}

func networkState(n *NCP, _ *reader, w *writer) func() {
	if n.up {
		w.u8(2) // joined
	} else {
		w.u8(0)
	}
	return nil
}

func formNetwork(n *NCP, r *reader, w *writer) func() {
	net := &Network{
		ExtendedPAN: ID8(r.bytes(8)), PANID: r.u16(), Power: r.u8(), Channel: r.u8(),
		JoinMethod: r.u8(), Manager: r.u16(), UpdateID: r.u8(), Channels: r.u32(),
	}
	if r.short {
		return nil
	}
	if n.up || n.initial == nil {
		w.u8(invalidCall)
		return nil
	}
	if net.Channel < 11 || net.Channel > 26 {
		w.u8(errBadArgument)
		return nil
	}
	sec := n.initial
	net.Key, net.KeySequence, net.LinkKey, net.Security = sec.Key, sec.KeySequence, sec.LinkKey, sec.Security
	const noFrameCounterReset = 0x1000
	if v := n.values[valueFrameCounter]; sec.Security&noFrameCounterReset != 0 && v != nil {
		net.FrameCounter = (&reader{p: v}).u32()
	}
	n.State.Network = net
	n.State.Devices, n.Devices = nil, nil
	n.Changed()
	w.u8(ok)
	return n.bringUp
}

func leaveNetwork(n *NCP, _ *reader, w *writer) func() {
	if !n.up {
		w.u8(invalidCall)
		return nil
	}
	w.u8(ok)
	return func() {
		n.up, n.open = false, false
		n.State.Network, n.State.Devices, n.Devices = nil, nil, nil
		n.Changed()
		n.stackStatus(networkDown)
	}
}

func permitJoining(n *NCP, r *reader, w *writer) func() {
	seconds := r.u8()
	if !n.up {
		w.u8(invalidCall)
		return nil
	}
	w.u8(ok)
	return func() { n.setOpen(seconds) }
}

func getNetworkParameters(n *NCP, _ *reader, w *writer) func() {
	if !n.up {
		w.u8(notJoined)
		w.bytes(make([]byte, 21))
		return nil
	}
	net := n.State.Network
	w.u8(ok, 1) // coordinator
	w.bytes(net.ExtendedPAN[:])
	w.u16(net.PANID)
	w.u8(net.Power, net.Channel, net.JoinMethod)
	w.u16(net.Manager)
	w.u8(net.UpdateID)
	w.u32(net.Channels)
	return nil
}

func getChildData(n *NCP, r *reader, w *writer) func() {
	i := int(r.u8())
	if i >= len(n.Devices) {
		w.u8(notJoined)
		w.bytes(make([]byte, 18))
		return nil
	}
	d := n.Devices[i]
	w.u8(ok)
	w.u64(d.EUI64)
	w.u8(3) // end device
	w.u16(d.Addr)
	w.u8(0, 0, 0)
	w.u32(0)
	return nil
}

func setSourceRouteDiscoveryMode(_ *NCP, r *reader, w *writer) func() {
	r.u8()
	w.u32(5000) // ms until the next many-to-one route request
	return nil
}

func maximumPayloadLength(_ *NCP, _ *reader, w *writer) func() {
	w.u8(maxUnicastPayload)
	return nil
}

// transmit is common to the three ways to send.
func (n *NCP) transmit(r *reader, w *writer, kind uint8, to uint16, aps zigbee.APS, tag uint8) func() {
	m := zigbee.Message{APS: aps, Payload: append([]byte(nil), r.counted()...)}
	switch {
	case r.short:
	case !n.up:
		w.u8(networkDown, 0)
	case len(m.Payload) > maxUnicastPayload:
		w.u8(0x74, 0) // message too long
	default:
		seq, then := n.send(kind, to, m, tag)
		w.u8(ok, seq)
		return then
	}
	return nil
}

func sendUnicast(n *NCP, r *reader, w *writer) func() {
	kind, to, aps, tag := r.u8(), r.u16(), r.aps(), r.u8()
	if kind != outDirect {
		w.u8(errBadArgument, 0) // there is no address table and no binding here
		return nil
	}
	return n.transmit(r, w, kind, to, aps, tag)
}

func sendBroadcast(n *NCP, r *reader, w *writer) func() {
	to, aps, _, tag := r.u16(), r.aps(), r.u8(), r.u8()
	return n.transmit(r, w, outBroadcast, to, aps, tag)
}

func sendMulticast(n *NCP, r *reader, w *writer) func() {
	aps := r.aps()
	r.u16() // hops, non-member radius
	tag := r.u8()
	return n.transmit(r, w, outMulticast, aps.Group, aps, tag)
}

func lookupNodeID(n *NCP, r *reader, w *writer) func() {
	eui := r.u64()
	for _, d := range n.Devices {
		if d.EUI64 == eui {
			w.u16(d.Addr)
			return nil
		}
	}
	w.u16(0xFFFF)
	return nil
}

func lookupEUI64(n *NCP, r *reader, w *writer) func() {
	if d := n.node(r.u16()); d != nil {
		w.u8(ok)
		w.u64(d.EUI64)
		return nil
	}
	w.u8(errBadArgument)
	w.u64(0)
	return nil
}

func setMulticastEntry(n *NCP, r *reader, w *writer) func() {
	i := r.u8()
	e := [4]byte(r.bytes(4))
	if r.short {
		return nil
	}
	if uint16(i) >= n.config[0x06] {
		w.u8(indexOutOfRange)
		return nil
	}
	n.multicast[i] = e
	w.u8(ok)
	return nil
}

func getMulticastEntry(n *NCP, r *reader, w *writer) func() {
	i := r.u8()
	e := n.multicast[i]
	if uint16(i) >= n.config[0x06] {
		w.u8(indexOutOfRange)
	} else {
		w.u8(ok)
	}
	w.bytes(e[:])
	return nil
}

func setInitialSecurityState(n *NCP, r *reader, w *writer) func() {
	sec := &Network{Security: r.u16(), LinkKey: r.key(), Key: r.key(), KeySequence: r.u8()}
	r.u64()
	if r.short {
		return nil
	}
	if n.up {
		w.u8(invalidCall)
		return nil
	}
	n.initial = sec
	w.u8(ok)
	return nil
}

func getCurrentSecurityState(n *NCP, _ *reader, w *writer) func() {
	if !n.up {
		w.u8(notJoined)
		w.bytes(make([]byte, 10))
		return nil
	}
	w.u8(ok)
	w.u16(n.State.Network.Security)
	w.u64(uint64(n.State.EUI64))
	return nil
}

func eraseKeyTableEntry(n *NCP, r *reader, w *writer) func() {
	i := r.u8()
	if r.short {
		return nil
	}
	if uint16(i) >= n.config[configKeyTableSize] {
		w.u8(indexOutOfRange)
		return nil
	}
	delete(n.State.LinkKeys, i)
	n.Changed()
	w.u8(ok)
	return nil
}

func clearKeyTable(n *NCP, _ *reader, w *writer) func() {
	n.State.LinkKeys = nil
	n.Changed()
	w.u8(ok)
	return nil
}

// context is the security manager's (UG100 section 11): which key.
func (r *reader) context() (kind, index uint8, eui uint64) {
	kind, index = r.u8(), r.u8()
	r.u16() // derived type
	eui = r.u64()
	r.bytes(6) // network index, flags, algorithm
	return kind, index, eui
}

// Kinds of keys in a security manager context.
const (
	keyNetwork = 1
	keyTCLink  = 2
	keyAppLink = 4
)

func exportKey(n *NCP, r *reader, w *writer) func() {
	kind, index, _ := r.context()
	var k Key
	status := uint32(slNotFound)
	if net := n.State.Network; net != nil {
		switch {
		case kind == keyNetwork && index == 0:
			k, status = net.Key, ok
		case kind == keyTCLink:
			k, status = net.LinkKey, ok
		}
	}
	if e, have := n.State.LinkKeys[index]; kind == keyAppLink && have {
		k, status = e.Key, ok
	}
	w.bytes(k[:])
	w.u32(status)
	return nil
}

// metadataSize is that of an APS key; all zero is no counters, no time-out.
const metadataSize = 12

func getAPSKeyInfo(n *NCP, r *reader, w *writer) func() {
	kind, index, eui := r.context()
	status := uint32(slNotFound)
	switch e, have := n.State.LinkKeys[index]; {
	case kind == keyNetwork:
		status = slInvalidParameter
	case kind == keyTCLink && n.State.Network != nil:
		status = ok
	case kind == keyAppLink && have:
		eui, status = uint64(e.EUI64), ok
	}
	w.u64(eui)
	w.bytes(make([]byte, metadataSize))
	w.u32(status)
	return nil
}

func importLinkKey(n *NCP, r *reader, w *writer) func() {
	i, eui, key := r.u8(), r.u64(), r.key()
	if r.short {
		return nil
	}
	if uint16(i) >= n.config[configKeyTableSize] {
		w.u32(slInvalidParameter)
		return nil
	}
	if n.State.LinkKeys == nil {
		n.State.LinkKeys = map[uint8]LinkKey{}
	}
	n.State.LinkKeys[i] = LinkKey{EUI64(eui), key}
	n.Changed()
	w.u32(ok)
	return nil
}

func exportLinkKeyByIndex(n *NCP, r *reader, w *writer) func() {
	e, have := n.State.LinkKeys[r.u8()]
	status := uint32(ok)
	if !have {
		status = slNotFound
	}
	w.u64(uint64(e.EUI64))
	w.bytes(e.Key[:])
	w.bytes(make([]byte, metadataSize))
	w.u32(status)
	return nil
}

func importTransientKey(_ *NCP, r *reader, w *writer) func() {
	r.u64()
	r.key()
	r.u8()
	w.u32(ok)
	return nil
}

func getNetworkKeyInfo(n *NCP, _ *reader, w *writer) func() {
	w.u32(ok)
	net := n.State.Network
	if net == nil {
		w.bytes(make([]byte, 8))
		return nil
	}
	w.u8(1, 0, net.KeySequence, 0)
	w.u32(net.FrameCounter)
	return nil
}
