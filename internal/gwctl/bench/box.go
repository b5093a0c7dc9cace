package bench

import (
	"context"
	"errors"
)

var (
	// errRestarted is a gateway that was not the same boot at the end of a run.
	errRestarted = errors.New("the gateway was restarted meanwhile")
	// errLost is a control connection that ended.
	errLost = errors.New("the connection to the gateway was lost")
)

// Box is the gateway that is measured. Its methods wait until they are done, or ctx
// ends.
type Box interface {
	// Facts tells what it is, but for the kernel, which is in Counters.
	Facts(ctx context.Context) (Facts, error)
	// Enter puts it into bench mode, and returns when runs count. It is entered
	// again after a Leave only.
	Enter(ctx context.Context) (Mode, error)
	// Leave ends that, and returns when the gateway is as it was before. Without
	// bench mode it does nothing.
	Leave(ctx context.Context) error
	// Counters looks at them. Nothing else asks the gateway during a run.
	Counters(ctx context.Context) (Counters, error)
}

// Facts are of the gateway.
type Facts struct {
	Version   string `json:"version"` // of the firmware
	Board     string `json:"board"`
	Hostname  string `json:"hostname,omitempty"`
	Emulated  bool   `json:"emulated,omitempty"`
	Interface string `json:"interface"`
	SpeedMbit int    `json:"speedMbit,omitempty"`
	Kernel    string `json:"kernel"` // release; of several points that of the first
	Driver    string `json:"driver,omitempty"`
}

// Mode is a gateway in bench mode.
type Mode struct {
	Port    int      `json:"port"` // of its iperf3 server
	Profile string   `json:"profile,omitempty"`
	Door    string   `json:"door,omitempty"` // how it is closed to others
	Stopped []string `json:"stopped,omitempty"`
	// Load is what its own programs did once it had settled; absent: not
	// measured.
	Load  *Load    `json:"load,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// Load is that of a gateway on which nothing runs.
type Load struct {
	Seconds float64  `json:"seconds"`
	CPU     float64  `json:"cpuPercent"` // of user space
	Wakeups float64  `json:"wakeupsPerSecond"`
	Rx      float64  `json:"rxPacketsPerSecond"`
	Tx      float64  `json:"txPacketsPerSecond"`
	Quiet   bool     `json:"quiet"`
	By      []string `json:"by,omitempty"`
}
