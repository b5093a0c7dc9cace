package api

// BridgeWatch is what the bridge answers to the method "watch": its status,
// and what it counts of the bytes that pass. Counters are since the process
// started.
type BridgeWatch struct {
	Bridge
	At float64 `json:"at"` // seconds on a monotonic clock, for rates
	// Protocol is what the present or last client spoke: ash, spinel, unknown
	// (looked for and not found, or lost), or empty (not seen enough yet).
	Protocol  string     `json:"protocol,omitempty"`
	FromRadio BridgeFlow `json:"fromRadio"`
	ToRadio   BridgeFlow `json:"toRadio"`
	// Reset is the last RSTACK or ERROR of the radio.
	Reset *ASHReset `json:"reset,omitempty"`
}

// LatencyBuckets is how many buckets a latency histogram has.
const LatencyBuckets = 26

// BridgeFlow is one direction.
type BridgeFlow struct {
	Bytes     uint64 `json:"bytes"`          // read, from the radio or from clients
	Queued    int    `json:"queueBytes"`     // of queues and latency the kernel's engine tells nothing
	QueueMost int    `json:"queueMostBytes"` // since the process started
	QueueSize int    `json:"queueSizeBytes"`
	// Held counts the times that the other side did not take all at once.
	Held        uint64  `json:"held"`
	HeldSeconds float64 `json:"heldSeconds"`        // together
	HeldLongest float64 `json:"heldLongestSeconds"` // the longest
	HeldNow     float64 `json:"heldNowSeconds,omitempty"`
	// Latency counts samples, one in 17 reads: from ready to be read, to
	// written to the other side. Member i is those below 2^i us that are in no
	// member before; the last of LatencyBuckets takes all that are longer.
	// Zeros at the end are left out.
	Latency []uint32 `json:"latency"`
	// LatencySeconds is the sum of all samples.
	LatencySeconds float64    `json:"latencySeconds,omitempty"`
	ASH            ASHCounter `json:"ash"`
}

// ASHCounter counts the frames of one direction while the protocol is ash.
type ASHCounter struct {
	Data    uint64 `json:"data"`
	Resent  uint64 `json:"resent"` // of them, with the reTx bit
	Ack     uint64 `json:"ack"`
	Nak     uint64 `json:"nak"`
	Rst     uint64 `json:"rst"`
	RstAck  uint64 `json:"rstack"`
	Error   uint64 `json:"error"`
	CRC     uint64 `json:"crcErrors"`
	Invalid uint64 `json:"invalid"` // wrong length, unknown type, a byte that the sender knows to be lost
}

// ASHReset is why the radio started anew or gave the link up.
type ASHReset struct {
	Frame  string  `json:"frame"` // RSTACK, ERROR
	Code   int     `json:"code"`
	Reason string  `json:"reason"`
	Ago    float64 `json:"secondsAgo"`
}

// BridgeTapArgs are the parameters of the method "tap", the first time {}, then
// what the answer before gave as next.
type BridgeTapArgs struct {
	Bridge int64  `json:"bridge"` // the process that After belongs to
	After  uint64 `json:"after"`  // bytes passed, of both directions
}

// BridgeTap is the data of an answer to the method "tap": a copy of what
// passed, in its order.
type BridgeTap struct {
	Now    int64      `json:"now"`              // us, on the clock of At
	Wall   int64      `json:"wall,omitempty"`   // the same moment in Unix us, absent while the clock is not known
	Missed uint64     `json:"missed,omitempty"` // bytes before Pieces that were overwritten
	Pieces []TapPiece `json:"pieces"`
}

// TapPiece is what one read of the bridge gave.
type TapPiece struct {
	At   int64  `json:"at"`   // us
	From string `json:"from"` // radio, client
	Data []byte `json:"data"` // base64
}

// Followed is a service's answer to a call with Follow.
type Followed struct {
	// Data is sent to the client, unless it is absent.
	Data any `json:"data,omitempty"`
	// Next are the parameters of the next call; absent: this was the last.
	Next any `json:"next,omitempty"`
	// Pause is when to call again, in ms.
	Pause int `json:"pauseMs,omitempty"`
}
