package ezsp

import (
	"encoding/hex"
	"fmt"
	"strconv"
)

// Key is an AES-128 key; as text it is 32 hex digits.
type Key [16]byte

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(t []byte) error { return unhex(k[:], t) }

// ID8 is eight bytes in the order in which they travel (an extended PAN ID);
// as text it is 16 hex digits.
type ID8 [8]byte

// MarshalText implements encoding.TextMarshaler.
func (i ID8) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, i[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *ID8) UnmarshalText(t []byte) error { return unhex(i[:], t) }

func unhex(dst, t []byte) error {
	b, err := hex.DecodeString(string(t))
	if err != nil || len(b) != len(dst) {
		return fmt.Errorf("%q is not %d hex digits", t, 2*len(dst))
	}
	copy(dst, b)
	return nil
}

// EUI64 is an IEEE address; as text it is 0x and 16 hex digits.
type EUI64 uint64

// MarshalText implements encoding.TextMarshaler.
func (e EUI64) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "0x%016x", uint64(e)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *EUI64) UnmarshalText(t []byte) error {
	v, err := strconv.ParseUint(string(t), 0, 64)
	*e = EUI64(v)
	return err
}

// State is what the NCP keeps in flash: it survives resets and power cuts.
type State struct {
	EUI64 EUI64 `json:"eui64"`
	// Network is nil while the NCP belongs to none.
	Network *Network `json:"network,omitempty"`
	// LinkKeys is the key table, by index.
	LinkKeys map[uint8]LinkKey `json:"linkKeys,omitempty"`
	// Tokens are the eight application tokens of getToken.
	Tokens map[uint8]ID8 `json:"tokens,omitempty"`
	// Devices have joined.
	Devices []Device `json:"devices,omitempty"`
}

// Network is the network that the NCP is the coordinator of.
type Network struct {
	PANID        uint16 `json:"panID"`
	ExtendedPAN  ID8    `json:"extendedPanID"`
	Channel      uint8  `json:"channel"`
	Power        uint8  `json:"power"` // dBm
	JoinMethod   uint8  `json:"joinMethod"`
	Manager      uint16 `json:"manager"`
	UpdateID     uint8  `json:"updateID"`
	Channels     uint32 `json:"channels"`
	Key          Key    `json:"key"`
	KeySequence  uint8  `json:"keySequence"`
	FrameCounter uint32 `json:"frameCounter"`
	LinkKey      Key    `json:"tcLinkKey"`
	Security     uint16 `json:"security"` // initial security bitmask
}

// LinkKey is an entry of the key table.
type LinkKey struct {
	EUI64 EUI64 `json:"eui64"`
	Key   Key   `json:"key"`
}

// Device is a node that has joined.
type Device struct {
	EUI64 EUI64  `json:"eui64"`
	Addr  uint16 `json:"addr"`
}

// DefaultNetwork is the network of the tests: zigbee-herdsman's default
// channel, PAN IDs and network key, and the well-known link key.
func DefaultNetwork() *Network {
	return &Network{
		PANID:       0x1A62,
		ExtendedPAN: ID8{0xDD, 0xDD, 0xDD, 0xDD, 0xDD, 0xDD, 0xDD, 0xDD},
		Channel:     11,
		Power:       5,
		Channels:    0x07FFF800,
		Key:         Key{1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 13},
		LinkKey:     Key{0x5A, 0x69, 0x67, 0x42, 0x65, 0x65, 0x41, 0x6C, 0x6C, 0x69, 0x61, 0x6E, 0x63, 0x65, 0x30, 0x39},
		Security:    0x0B84,
	}
}
