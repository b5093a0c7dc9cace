package threaddata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Keys of records, as openthread/platform/settings.h has them.
const (
	KeyActiveDataset  = 0x0001
	KeyPendingDataset = 0x0002
	KeyNetworkInfo    = 0x0003
	KeyParentInfo     = 0x0004
	KeyChildInfo      = 0x0005
)

// MaxFile is the largest settings file in bytes: OpenThread copies with 16-bit
// lengths.
const MaxFile = 64<<10 - 1

// Errors of this package.
var (
	ErrDamaged = errors.New("the Thread settings are damaged")
	ErrVersion = errors.New("the Thread network record is of an unknown kind")
)

// Native is the byte order in which an agent on this CPU writes keys and
// lengths. Their values are little-endian on every CPU.
var Native binary.ByteOrder = binary.NativeEndian

// Record is one key with its value. A key may occur several times.
type Record struct {
	Key   uint16
	Value []byte
}

// Settings are the records of one file, in their order.
type Settings []Record

// Parse reads a settings file: records of key, length, 2 bytes each, and value.
// Values share b's memory. An agent empties a file that it cannot read, and the
// network is gone then: so it must never be given one that this refuses.
func Parse(b []byte, order binary.ByteOrder) (s Settings, err error) {
	if len(b) > MaxFile {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(b))
	}
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, fmt.Errorf("%w: they end within a record", ErrDamaged)
		}
		n := 4 + int(order.Uint16(b[2:]))
		if n > len(b) {
			return nil, fmt.Errorf("%w: they end within a record", ErrDamaged)
		}
		s = append(s, Record{order.Uint16(b), b[4:n:n]})
		b = b[n:]
	}
	return s, nil
}

// Append appends the file of the records to b.
func (s Settings) Append(b []byte, order binary.ByteOrder) []byte {
	for _, r := range s {
		var head [4]byte
		order.PutUint16(head[:], r.Key)
		order.PutUint16(head[2:], uint16(len(r.Value)))
		b = append(append(b, head[:]...), r.Value...)
	}
	return b
}

// Get returns the first value of a key, nil when there is none.
func (s Settings) Get(key uint16) []byte {
	for _, r := range s {
		if r.Key == key {
			return r.Value
		}
	}
	return nil
}

// Offsets in the value of KeyNetworkInfo (class NetworkInfo of OpenThread's
// settings.hpp, packed): role, device mode, RLOC16, key sequence, MLE frame
// counter, MAC frame counter, previous partition, extended address, mesh-local
// IID, and since Thread 1.2 the version. Fields are only ever appended, as the
// rules in that file say.
const (
	offSequence   = 4
	offMLE        = 8
	offMAC        = 12
	offExtAddress = 20
	offVersion    = 36
	infoBytes     = 36 // without the version
)

// Versions as OpenThread counts them: 2 is Thread 1.1, 5 is 1.4.
const (
	oldestVersion = 2
	newestVersion = 5
)

// Info is what is of interest in a KeyNetworkInfo.
type Info struct {
	// KeySequence counts the keys that are derived from the network key; the
	// counters start over with each.
	KeySequence uint32
	// MLE and MAC are frame counters, ahead of those in use.
	MLE, MAC   uint32
	ExtAddress [8]byte
	Version    uint16 // as OpenThread counts
}

// Newer tells whether the record was written by a newer OpenThread than is known
// here. Its counters are where they were, by the rules that it follows.
func (i Info) Newer() bool { return i.Version > newestVersion }

// Info reads the network record. ok is false when there is none, as on a node
// that has never attached.
func (s Settings) Info() (i Info, ok bool, err error) {
	v := s.Get(KeyNetworkInfo)
	if v == nil {
		return i, false, nil
	}
	if len(v) < infoBytes {
		return i, false, fmt.Errorf("%w: %d bytes", ErrVersion, len(v))
	}
	i = Info{
		KeySequence: binary.LittleEndian.Uint32(v[offSequence:]),
		MLE:         binary.LittleEndian.Uint32(v[offMLE:]),
		MAC:         binary.LittleEndian.Uint32(v[offMAC:]),
		ExtAddress:  [8]byte(v[offExtAddress:]),
		Version:     oldestVersion,
	}
	if len(v) >= offVersion+2 {
		i.Version = binary.LittleEndian.Uint16(v[offVersion:])
	}
	if i.Version < oldestVersion {
		return i, false, fmt.Errorf("%w: version %d", ErrVersion, i.Version)
	}
	return i, true, nil
}

// withInfo returns the records with key sequence and counters of i.
func (s Settings) withInfo(i Info) Settings {
	out := append(Settings(nil), s...)
	for n, r := range out {
		if r.Key == KeyNetworkInfo {
			v := bytes.Clone(r.Value)
			binary.LittleEndian.PutUint32(v[offSequence:], i.KeySequence)
			binary.LittleEndian.PutUint32(v[offMLE:], i.MLE)
			binary.LittleEndian.PutUint32(v[offMAC:], i.MAC)
			out[n].Value = v
			break
		}
	}
	return out
}

// ceiling is where advancing stops: a counter that has come to its end would
// silence the node until the next key.
const ceiling = 0xFFF0_0000

func advance(counter, by uint32) uint32 {
	return uint32(max(uint64(counter), min(uint64(counter)+uint64(by), ceiling)))
}

// Types of a dataset's TLVs (Thread specification, MeshCoP).
const (
	TLVChannel     = 0
	TLVPANID       = 1
	TLVExtPANID    = 2
	TLVNetworkName = 3
	TLVNetworkKey  = 5
)

// TLV returns the value of a type in an operational dataset, nil when it is not
// there or the dataset ends before.
func TLV(dataset []byte, kind byte) []byte {
	for len(dataset) >= 2 {
		n := 2 + int(dataset[1])
		if n > len(dataset) || dataset[1] == 0xFF { // no extended TLV is in a dataset
			return nil
		}
		if dataset[0] == kind {
			return dataset[2:n:n]
		}
		dataset = dataset[n:]
	}
	return nil
}

// networkKey is that of the active dataset, nil without one.
func (s Settings) networkKey() []byte { return TLV(s.Get(KeyActiveDataset), TLVNetworkKey) }
