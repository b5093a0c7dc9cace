package notify

import (
	"bytes"
	"fmt"
	"strconv"
)

// Message is one packet from a service.
type Message struct {
	Ready     bool
	Watchdog  bool
	Stopping  bool
	HasStatus bool
	Status    string // at most MaxStatus bytes
	Store     bool   // FDSTORE
	Remove    bool   // FDSTOREREMOVE
	FDName    string // valid where Store or Remove is set

	// Answer is set for REPLY and ERROR. Body shares the packet's memory.
	Answer bool
	Failed bool // ERROR
	ID     uint32
	Body   []byte
}

// Parse reads a packet from a service. Unknown keys are ignored, as a newer
// service may send them.
func Parse(packet []byte) (Message, error) {
	if len(packet) > MaxMessage {
		return Message{}, ErrTooLong
	}
	head, rest, _ := bytes.Cut(packet, []byte{'\n'})
	key, value, _ := bytes.Cut(head, []byte{'='})
	switch string(key) {
	case "REPLY", "ERROR":
		id, err := strconv.ParseUint(string(value), 10, 32)
		if err != nil {
			return Message{}, fmt.Errorf("number of a call: %w", ErrMalformed)
		}
		return Message{Answer: true, Failed: string(key) == "ERROR", ID: uint32(id), Body: rest}, nil
	}
	var m Message
	for line := range bytes.SplitSeq(packet, []byte{'\n'}) {
		if len(line) == 0 {
			continue
		}
		key, value, ok := bytes.Cut(line, []byte{'='})
		if !ok {
			return Message{}, fmt.Errorf("line without '=': %w", ErrMalformed)
		}
		on := string(value) == "1"
		switch string(key) {
		case "READY":
			m.Ready = on
		case "WATCHDOG":
			m.Watchdog = on
		case "STOPPING":
			m.Stopping = on
		case "STATUS":
			m.HasStatus, m.Status = true, oneLine(string(value[:min(len(value), MaxStatus)]))
		case "FDSTORE":
			m.Store = on
		case "FDSTOREREMOVE":
			m.Remove = on
		case "FDNAME":
			m.FDName = string(value[:min(len(value), MaxName+1)])
		}
	}
	switch {
	case m.Store && m.Remove:
		return Message{}, fmt.Errorf("both FDSTORE and FDSTOREREMOVE: %w", ErrMalformed)
	case (m.Store || m.Remove) && !ValidName(m.FDName):
		return Message{}, fmt.Errorf("FDNAME: %w", ErrName)
	}
	return m, nil
}

// ParseCall reads a packet from PID 1. params shares the packet's memory.
func ParseCall(packet []byte) (id uint32, method string, params []byte, err error) {
	head, params, _ := bytes.Cut(packet, []byte{'\n'})
	head, ok := bytes.CutPrefix(head, []byte("CALL="))
	number, name, _ := bytes.Cut(head, []byte{' '})
	n, err := strconv.ParseUint(string(number), 10, 32)
	if !ok || err != nil {
		return 0, "", nil, ErrMalformed
	}
	if len(name) > MaxName || !ValidName(string(name)) {
		return 0, "", nil, fmt.Errorf("method: %w", ErrName)
	}
	return uint32(n), string(name), params, nil
}

// AppendCall appends to b the packet that calls method.
func AppendCall(b []byte, id uint32, method string, params []byte) ([]byte, error) {
	if !ValidName(method) {
		return nil, fmt.Errorf("method %q: %w", method, ErrName)
	}
	start := len(b)
	b = strconv.AppendUint(append(b, "CALL="...), uint64(id), 10)
	b = append(append(append(b, ' '), method...), '\n')
	b = append(b, params...)
	if len(b)-start > MaxMessage {
		return nil, fmt.Errorf("call %s with %d bytes: %w", method, len(params), ErrTooLong)
	}
	return b, nil
}
