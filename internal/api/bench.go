package api

// OpBench is bench mode: BenchArgs; Data is a Bench, or a BenchCounters. With
// Stay, "on" is answered with a Bench at each change, and the last of them comes
// when bench mode ends.
const OpBench = "bench"

// Actions of BenchArgs.
const (
	BenchOn       = "on"
	BenchOff      = "off" // also answered where it is off already
	BenchStatus   = "status"
	BenchVerify   = "verify"   // measure for Seconds; the result is Load of a status after that
	BenchCounters = "counters" // Data is BenchCount
)

// Limits of BenchArgs.
const (
	BenchPort       = 5201 // iperf3's
	BenchSeconds    = 30 * 60
	BenchMinSeconds = 30
	BenchMaxSeconds = 24 * 3600
	// BenchLostSeconds is how long bench mode stays without its control
	// connection and without a run.
	BenchLostSeconds = 300
	// BenchVerifySeconds is how long a measurement takes that does not say, and
	// BenchMaxVerify how long one may take.
	BenchVerifySeconds = 60
	BenchMaxVerify     = 600
)

// BenchLeave is the Profile that leaves the driver as it is.
const BenchLeave = "leave"

// BenchArgs turns bench mode on and off, and asks for it.
type BenchArgs struct {
	Action  string `json:"action"`
	Seconds int    `json:"seconds,omitempty"` // on: after which it ends, 0 is BenchSeconds; verify: 0 is BenchVerifySeconds
	Peer    string `json:"peer,omitempty"`    // who may use the bench's port; absent: everybody
	Port    int    `json:"port,omitempty"`    // 0 is BenchPort
	Profile string `json:"profile,omitempty"` // of the Ethernet driver, absent: bench; BenchLeave: none
	Drop    bool   `json:"drop,omitempty"`    // although a radio client is connected
	// Stay makes this connection the control connection: without it bench mode
	// lasts until Seconds are over.
	Stay bool `json:"stay,omitempty"`
}

// States of Bench.
const (
	BenchIsOff     = "off"
	BenchStopping  = "stopping"  // services end
	BenchSettling  = "settling"  // they are gone; the box comes to rest
	BenchIsOn      = "on"        // runs count
	BenchRestoring = "restoring" // services are started again
)

// Bench is bench mode.
type Bench struct {
	State   string    `json:"state"`
	Left    float64   `json:"leftSeconds,omitempty"` // until it ends by itself
	Peer    string    `json:"peer,omitempty"`
	Port    int       `json:"port,omitempty"`
	Profile string    `json:"profile,omitempty"` // of the Ethernet driver; leave: as it was
	Stopped []string  `json:"stopped,omitempty"` // processes and what they hold, started again at the end
	Door    string    `json:"door,omitempty"`    // how it is closed
	Run     *BenchRun `json:"run,omitempty"`     // that goes on
	Runs    int       `json:"runs,omitempty"`    // that have ended
	Refused int       `json:"refused,omitempty"` // connections to the bench's port that were sent away
	// Lost is for how long the control connection is gone.
	Lost float64 `json:"lostSeconds,omitempty"`
	// Measuring is for how long a measurement still takes.
	Measuring float64    `json:"measuringSeconds,omitempty"`
	Load      *BenchLoad `json:"load,omitempty"` // the last measurement
	Notes     []string   `json:"notes,omitempty"`
	Why       string     `json:"why,omitempty"` // off: why the last one ended
}

// BenchRun is a run of iperf3.
type BenchRun struct {
	Peer  string  `json:"peer"`
	Since float64 `json:"sinceSeconds"`
}

// Limits of a quiet box.
const (
	BenchQuietCPU     = 0.05 // percent
	BenchQuietWakeups = 2.0  // a second
)

// BenchLoad is what the box did in a time without a run.
type BenchLoad struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpuPercent"`       // of all processes of user space together
	Wakeups float64 `json:"wakeupsPerSecond"` // of their threads
	Busy    float64 `json:"busyPercent"`      // of the processor, the kernel's work with it, as /proc/stat has it
	Rx      float64 `json:"rxPacketsPerSecond"`
	Tx      float64 `json:"txPacketsPerSecond"`
	// Quiet: CPU and Wakeups are at most BenchQuietCPU and BenchQuietWakeups.
	Quiet bool `json:"quiet"`
	// By are the processes that did most of it, in words.
	By []string `json:"by,omitempty"`
}

// BenchCount is what runs are judged by. Counters are since the boot.
type BenchCount struct {
	At int64 `json:"at"` // CLOCK_MONOTONIC, ns
	// Device and SNMP are the kernel's text of /proc/net/dev and /proc/net/snmp.
	Device string `json:"device"`
	SNMP   string `json:"snmp"`
	// Busy and Total are the processor's time, in ticks of /proc/stat.
	Busy  uint64 `json:"busyTicks"`
	Total uint64 `json:"totalTicks"`
	// Driver has every counter of the Ethernet driver.
	Driver []EthCounter `json:"driver,omitempty"`
	// Kernel is the kernel's release, and Faults are lines of its log that make
	// a measurement worthless, at most 16.
	Kernel string   `json:"kernel"`
	Faults []string `json:"faults,omitempty"`
}

// BenchFile is what BenchPath holds while bench mode lasts: what PID 1 tells the
// process that carries it out.
type BenchFile struct {
	Args    BenchArgs `json:"args"`
	Stopped []string  `json:"stopped"`
	Kept    []int     `json:"kept"` // processes that stay, with their descendants
}

// BenchEnded begins the status line by which that process says why it ends.
const BenchEnded = "bench mode ended: "
