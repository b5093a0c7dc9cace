package api

// Ethernet is what core's tuner answers to the method "eth". Counters are
// since the boot.
type Ethernet struct {
	Interface string `json:"interface"`
	Driver    string `json:"driver,omitempty"`
	Version   string `json:"driverVersion,omitempty"`
	At        int64  `json:"at"` // CLOCK_MONOTONIC, ns, when the counters were read

	Profile string    `json:"profile"`         // in force
	Knobs   string    `json:"knobs,omitempty"` // set beside the profile, as ETH_KNOBS
	Kept    bool      `json:"kept"`            // both, and the queue, are the settings'; false: until the next start
	All     []EthKnob `json:"all"`

	BQL      *EthBQL      `json:"bql,omitempty"` // absent: the driver has no byte queue limits, or sent nothing yet
	Qdisc    EthQdisc     `json:"qdisc"`
	Traffic  EthTraffic   `json:"traffic"`
	Counters []EthCounter `json:"counters,omitempty"` // the driver's own
	Notes    []string     `json:"notes,omitempty"`
}

// EthKnob is one thing that can be set.
type EthKnob struct {
	Name   string `json:"name"`
	Wanted string `json:"wanted,omitempty"` // absent: left alone
	Actual string `json:"actual,omitempty"` // absent: there is none here
	// Why says why Actual is not Wanted, or else what the knob is for.
	Why    string `json:"why"`
	Failed bool   `json:"failed,omitempty"` // Actual is not Wanted
}

// EthBQL is the driver's byte queue limits, over its transmit queues. Bytes.
type EthBQL struct {
	Limit    uint64 `json:"limit"`    // what may be with the driver; the kernel moves it
	Inflight uint64 `json:"inflight"` // what is
	Stalls   uint64 `json:"stalls"`   // 0 as well where the kernel does not count them
}

// EthQdisc is the queue in front of the driver.
type EthQdisc struct {
	Wanted string `json:"wanted"`           // fq_codel, default
	Actual string `json:"actual,omitempty"` // its kind; absent: the kernel does not tell
	Why    string `json:"why,omitempty"`    // why it is not as wanted
	// Parameters of fq_codel, in words.
	Parameters string `json:"parameters,omitempty"`

	Bytes     uint64 `json:"bytes"`
	Packets   uint32 `json:"packets"`
	Drops     uint32 `json:"drops"`
	Requeues  uint32 `json:"requeues"`
	Backlog   uint32 `json:"backlogBytes"`
	Length    uint32 `json:"backlogPackets"`
	Overlimit uint32 `json:"dropsOverLimit"` // of Drops
	Marked    uint32 `json:"marked"`         // ECN
	NewFlows  uint32 `json:"newFlows"`
	Memory    uint32 `json:"memoryBytes"`
}

// EthTraffic is the interface's counters.
type EthTraffic struct {
	RxBytes   uint64 `json:"rxBytes"`
	TxBytes   uint64 `json:"txBytes"`
	RxPackets uint64 `json:"rxPackets"`
	TxPackets uint64 `json:"txPackets"`
	RxErrors  uint64 `json:"rxErrors"`
	TxErrors  uint64 `json:"txErrors"`
	RxDropped uint64 `json:"rxDropped"`
	TxDropped uint64 `json:"txDropped"`
}

// EthCounter is one of the driver's own counters that has counted, or must not.
type EthCounter struct {
	Name    string `json:"name"`
	Value   uint64 `json:"value"`
	Meaning string `json:"meaning,omitempty"` // of the RTL8196E's driver only
	Alarm   bool   `json:"alarm,omitempty"`   // it should be 0 and is not
}

// EthSet goes with core's method "eth-set", whose answer is an Ethernet. What
// is absent stays.
type EthSet struct {
	Profile string  `json:"profile,omitempty"`
	Knobs   *string `json:"knobs,omitempty"`
	Qdisc   string  `json:"qdisc,omitempty"`
	Keep    bool    `json:"keep,omitempty"` // write what is given to the settings, too
}
