// Package api holds the types of the control protocol: what travels as JSON
// between gwctl, PID 1 and the services (docs/control.md). It has no code that
// acts; services fill the types in, gwctl prints them.
package api

import "encoding/json"

// Version is the protocol's version; a request carries it as "v".
// A server answers every version up to its own.
const Version = 1

// Request is one line from a client. At most MaxLine bytes.
type Request struct {
	V    int             `json:"v"`
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

// MaxLine is the longest line either side sends, in bytes, newline included.
const MaxLine = 64 << 10

// Reply is one line from the server. The last reply of a request has More
// false; only "logs", and "call" with Follow, send more than one.
type Reply struct {
	OK    bool            `json:"ok"`
	Error *Error          `json:"error,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	More  bool            `json:"more,omitempty"`
	// Missed counts the log lines, of all services, that were overwritten
	// before this connection could read them. They came before Data's.
	Missed uint64 `json:"missed,omitempty"`
}

// Error is a refusal. Code is stable and for programs; Message says in words
// what to do.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Codes of Error.
const (
	CodeBadRequest = "bad-request" // not JSON, no op, wrong args
	CodeVersion    = "version"     // newer protocol than this server's
	CodeUnknownOp  = "unknown-op"
	CodeNotFound   = "not-found" // no such service
	CodeFailed     = "failed"    // tried, did not work
	CodeBusy       = "busy"      // shutting down, or too many clients
	CodeDenied     = "denied"    // the peer is not root
	CodeConfirm    = "confirm"   // it would take something from somebody; the arguments can say that it shall
)

// Operations.
const (
	OpStatus   = "status"   // no args; Data is a Status
	OpLogs     = "logs"     // LogsArgs; Data is a LogLine array, as many replies as it takes, More while following
	OpService  = "service"  // ServiceArgs; Data is the Service afterwards
	OpShutdown = "shutdown" // ShutdownArgs; answered before it is carried out
	OpCall     = "call"     // CallArgs; forwarded to the service, Data is its answer, or with Follow that of each
)

// StatusArgs asks for the Status.
type StatusArgs struct {
	// Own leaves out what services would have to be asked for: Network, Clock,
	// Panel, Bridge, and their warnings.
	Own bool `json:"own,omitempty"`
}

// LogsArgs asks for log lines.
type LogsArgs struct {
	Service string `json:"service,omitempty"` // empty: all
	Lines   int    `json:"lines,omitempty"`   // newest n of what the ring holds; 0: all
	Follow  bool   `json:"follow,omitempty"`
}

// LogLine is one line of the ring.
type LogLine struct {
	Seq     uint64 `json:"seq"`            // counts every line since boot; a gap means lines were overwritten
	Mono    int64  `json:"mono"`           // CLOCK_MONOTONIC, ns since boot
	Wall    int64  `json:"wall,omitempty"` // Unix ns; absent while the clock is not known
	Service string `json:"service"`
	Text    string `json:"text"`
}

// ServiceArgs starts, stops or restarts a service. try-restart is a restart of
// one that runs or is about to (again); one that was stopped, has failed, is
// done or has yet to start is left alone.
type ServiceArgs struct {
	Name   string `json:"name"`
	Action string `json:"action"` // start, stop, restart, try-restart
}

// ShutdownArgs ends this boot.
type ShutdownArgs struct {
	Action string `json:"action"` // reboot, poweroff, halt
	// Mode is for reboot: "", "safe", "factory": the next boot only; "flash": what
	// flash-rootfs has checked is written to the root file system first.
	Mode string `json:"mode,omitempty"`
}

// CallArgs is forwarded to a running service.
type CallArgs struct {
	Service string          `json:"service"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
	// Follow calls again and again, until the service or the client ends it:
	// each answer is a Followed, and its Next are the next Params.
	Follow bool `json:"follow,omitempty"`
}

// Status is the whole box on one screen.
type Status struct {
	Version  string    `json:"version"`
	Board    Board     `json:"board"`
	BootMode string    `json:"bootMode"` // normal, safe, factory
	Uptime   float64   `json:"uptime"`   // seconds
	Wall     int64     `json:"wall,omitempty"`
	Hostname string    `json:"hostname"`
	Memory   Memory    `json:"memory"`
	Userdata Userdata  `json:"userdata"`
	Network  *Network  `json:"network,omitempty"` // absent: core does not answer
	Clock    *Clock    `json:"clock,omitempty"`   // absent: core does not answer
	Radio    Radio     `json:"radio"`
	Panel    *Panel    `json:"panel,omitempty"`  // absent: core does not answer
	Bridge   *Bridge   `json:"bridge,omitempty"` // absent: the bridge does not answer
	Bench    *Bench    `json:"bench,omitempty"`  // absent: bench mode is off
	Services []Service `json:"services"`
	Warnings []string  `json:"warnings,omitempty"` // configuration, missing parts
}

// Board names the hardware.
type Board struct {
	ID       string `json:"id"`    // lidl, sengled-e39-g8c, emulated
	Model    string `json:"model"` // /proc/device-tree/model
	Emulated bool   `json:"emulated"`
}

// Memory is in KiB, from /proc/meminfo.
type Memory struct {
	Total     uint64 `json:"totalKiB"`
	Free      uint64 `json:"freeKiB"`
	Available uint64 `json:"availableKiB"`
}

// Userdata tells what became of the writable partition.
type Userdata struct {
	State  string `json:"state"` // waiting, mounted, absent, unformatted, corrupt, failed, skipped
	Device string `json:"device,omitempty"`
	Reason string `json:"reason,omitempty"`
	// KiB; only when mounted.
	Total uint64 `json:"totalKiB,omitempty"`
	Free  uint64 `json:"freeKiB,omitempty"`
}

// BootSafe is the BootMode with console, network and ssh only.
const BootSafe = "safe"

// EnvBootMode is the variable that tells a service the BootMode.
const EnvBootMode = "GW_BOOT_MODE"

// States of Clock.
const (
	ClockUnknown = "unknown" // it started in 1970 and nobody has set it
	ClockNear    = "near"    // set from the saved time, or by hand: good for logs and certificates
	ClockSynced  = "synced"  // kept by time servers; the kernel says so to every process (adjtimex)
)

// Clock is what core's clock service answers to the method "clock".
type Clock struct {
	State   string  `json:"state"`
	Source  string  `json:"source,omitempty"`        // the server that was believed last
	Stratum int     `json:"stratum,omitempty"`       // its distance from a reference clock, 1 to 15
	Offset  float64 `json:"offsetSeconds,omitempty"` // what the clock was behind by then
	Error   float64 `json:"errorSeconds,omitempty"`  // what it may have been wrong by after that, at most
	Since   float64 `json:"sinceSeconds,omitempty"`  // since then
	Asked   int     `json:"asked,omitempty"`         // servers, in that round
	Agree   int     `json:"agree,omitempty"`         // of them, those that can be right together
	Problem string  `json:"problem,omitempty"`       // why there is nothing newer
}

// Network is what core's eth service answers to the method "status".
type Network struct {
	Interface string   `json:"interface"`
	MAC       string   `json:"mac"`
	Carrier   bool     `json:"carrier"`
	SpeedMbit int      `json:"speedMbit,omitempty"`
	Method    string   `json:"method"` // dhcp, static, fallback, none
	State     string   `json:"state"`  // down, no-carrier, asking, bound, static, fallback
	Addresses []string `json:"addresses"`
	Gateway   string   `json:"gateway,omitempty"`
	DNS       []string `json:"dns,omitempty"`
	Lease     int64    `json:"leaseSeconds,omitempty"` // left
	Server    string   `json:"server,omitempty"`
	// Conflicts are addresses of this box, or that a DHCP server gave it, that
	// another host has.
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// Conflict is an address that two hosts have.
type Conflict struct {
	Address string `json:"address"`
	MAC     string `json:"mac,omitempty"` // of the other one, if it is known
}

// Netwatch is what core's netwatch answers to the method "netwatch". Its seconds
// are whole ones.
type Netwatch struct {
	State     string           `json:"state"`             // starting, reachable, unreachable, unplugged, no-target
	By        string           `json:"by,omitempty"`      // reachable: by target, or client: a radio client's bytes move
	Enabled   bool             `json:"enabled"`           // hard steps are taken
	DryRun    bool             `json:"dryRun,omitempty"`  // no step is taken, only told
	Problem   string           `json:"problem,omitempty"` // why no hard step can be taken
	Poll      int              `json:"pollSeconds"`
	Fail      int              `json:"failSeconds"` // without an answer until the reboot
	Window    int              `json:"windowSeconds"`
	Looked    int              `json:"lookedSeconds,omitempty"` // since the last look
	Failed    int              `json:"failedSeconds,omitempty"` // nobody has answered for so long
	Targets   []NetwatchTarget `json:"targets"`
	Steps     []NetwatchStep   `json:"steps"`               // in their order; those that this box does not have are left out
	Incidents int              `json:"incidents,omitempty"` // kept
}

// NetwatchTarget is one address that is asked.
type NetwatchTarget struct {
	Target  string `json:"target"`                 // as in the settings
	Address string `json:"address,omitempty"`      // absent: a name that is not known, or no gateway
	By      string `json:"by,omitempty"`           // how it answered in the last look: icmp, arp, nd; absent: it did not
	Latency int    `json:"latencyUs,omitempty"`    // of an echo
	Since   int    `json:"sinceSeconds,omitempty"` // since its last answer; absent with By absent, too: none yet
	Problem string `json:"problem,omitempty"`      // why it could not be asked
}

// NetwatchStep is a step of the ladder.
type NetwatchStep struct {
	Step  string `json:"step"`         // renew, link, driver, reboot
	After int    `json:"afterSeconds"` // without an answer
	Next  int    `json:"nextSeconds"`  // until it is due if nobody answers from now on; -1: not in this round of the ladder
	Used  int    `json:"used"`         // within the window
	Most  int    `json:"limit"`        // of it
}

// Incident is a snapshot that netwatch has kept.
type Incident struct {
	Number  int    `json:"number"`
	Summary string `json:"summary"`        // its first line
	Text    string `json:"text,omitempty"` // all of it; only of one that was asked for
}

// IncidentParams go with core's method "incidents".
type IncidentParams struct {
	Number int `json:"number,omitempty"` // one, with its text; 0: all, without
}

// FailedPath holds, while PID 1 has given up services, their names, a line each.
// It is memory.
const FailedPath = "/run/failed"

// RolePath holds the role in its Thread network, a word and a line end, while there
// is one. It counts as long as the border router owns the radio. It is memory.
const RolePath = "/run/thread-role"

// Attached tells whether a Thread node of that role is part of a network.
func Attached(role string) bool { return role == "child" || role == "router" || role == "leader" }

// SSHPath holds the SSH of the SSH service, which is there only while there are
// sessions. It is memory.
const SSHPath = "/run/sshd.json"

// SSH is what core answers to the method "ssh": connections since the boot. What
// a process of the SSH service counted that was killed while it wrote may be missing.
type SSH struct {
	Open    int    `json:"open"`    // have logged in; of use only while the service runs
	Logins  uint64 `json:"logins"`  // all that have
	Failed  uint64 `json:"failed"`  // tried and were not let in, or were too many
	Aborted uint64 `json:"aborted"` // ended before they tried
}

// PreviousPath holds how the boot before ended and the last lines of its log, if
// memory kept them over the reset. Its first line is PreviousRunning where that
// boot had no end of its own, and else what ended it. It is memory.
const (
	PreviousPath    = "/run/previous-boot"
	PreviousRunning = "running"
)

// Files that are there, in memory, while the box is in a state that the status LED
// tells of. Who brings the state about makes the file and removes it; what is in
// it is its own matter.
const (
	TrialPath = "/run/trial-update" // an update runs and is not kept yet
	BenchPath = "/run/bench-mode"   // bench mode
)

// Panel is what core's panel answers to the method "panel".
type Panel struct {
	Button        string   `json:"button,omitempty"`        // the line, and how it is looked at
	ButtonProblem string   `json:"buttonProblem,omitempty"` // why the button does nothing
	LEDs          []string `json:"leds,omitempty"`          // that there are: status, lan
	Missing       []string `json:"missing,omitempty"`       // LEDs of the board that the kernel does not have
	Mode          string   `json:"mode"`                    // off, dim, bright
	// Pattern is what the status LED shows: off, client, button, enrolment,
	// failed service, trial update, bench mode, no address.
	Pattern string  `json:"pattern"`
	Enrol   float64 `json:"enrolSeconds,omitempty"` // for so long a key can be enrolled over SSH
}

// Radio is the UART, who has it (INV 5), and what radio.conf says of the radio.
type Radio struct {
	Owner    string  `json:"owner"`                  // bridge, otbr, a radio operation, or empty
	OwnerPID int     `json:"ownerPid,omitempty"`     // its process
	Since    float64 `json:"ownerSeconds,omitempty"` // for how long it has it
	// Released: for how long at most the bridge still leaves the UART to another program.
	Released float64 `json:"releasedSeconds,omitempty"`
	Device   string  `json:"device"`
	Mode     string  `json:"mode"` // zigbee, otbr
	Baud     int     `json:"baud"`
	Flow     string  `json:"flow"`             // none, sw, hw
	Engine   string  `json:"engine,omitempty"` // the bridge's, as set: user, kernel

	// Notes of whoever flashed the radio.
	Firmware          string `json:"firmware,omitempty"` // ncp, rcp, otrcp, router
	FirmwareVersion   string `json:"firmwareVersion,omitempty"`
	BootloaderVersion string `json:"bootloaderVersion,omitempty"`

	// Answer is what the chip itself said when it was asked last, in this boot.
	Answer *RadioAnswer `json:"answer,omitempty"`
}

// Bridge is what the bridge answers to the method "status". Counters are
// since the process started, in bytes unless they say otherwise.
type Bridge struct {
	Engine   string        `json:"engine,omitempty"` // user, kernel; absent: user
	Listen   string        `json:"listen"`
	UART     string        `json:"uart"`
	UARTOpen bool          `json:"uartOpen"`
	UARTErr  string        `json:"uartError,omitempty"`
	Baud     int           `json:"baud"`
	Flow     string        `json:"flow"`
	Client   *BridgeClient `json:"client,omitempty"`
	Pending  int           `json:"pending"` // newcomers that have not shown what they are

	RxBytes      uint64 `json:"rxBytes"`      // UART -> client
	TxBytes      uint64 `json:"txBytes"`      // client -> UART
	Discarded    uint64 `json:"discarded"`    // from the radio while no client was connected (INV 3)
	TxDropped    uint64 `json:"txDropped"`    // to the radio, when their client ended
	QueueDropped uint64 `json:"queueDropped"` // INV 2: full queue without flow control, the connection was closed
	Connects     uint64 `json:"connects"`
	Takeovers    uint64 `json:"takeovers"`
	Refused      uint64 `json:"refused"`
	NotAllowed   uint64 `json:"notAllowed,omitempty"`  // of them, because of their address
	SSH          uint64 `json:"ssh,omitempty"`         // handed to the SSH service
	Contentions  uint64 `json:"contentions,omitempty"` // takeovers that were one of 3 or more within a minute between the same two hosts

	Stalls uint64 `json:"stalls,omitempty"` // times that the radio took nothing for BRIDGE_STALL_S
	XOFFs  uint64 `json:"xoffs,omitempty"`  // from the radio, undone because they held for more than 1 s

	// From TIOCGICOUNT, since the UART was opened.
	FrameErrors  uint64 `json:"frameErrors"`
	ParityErrors uint64 `json:"parityErrors"`
	Overruns     uint64 `json:"overruns"`    // the UART's FIFO
	BufOverruns  uint64 `json:"bufOverruns"` // the tty's buffer

	LastClose string `json:"lastClose,omitempty"` // the last client's end, in words

	Kernel   *BridgeKernel `json:"kernel,omitempty"`   // engine kernel only
	Warnings []string      `json:"warnings,omitempty"` // they are in the Status's, too
}

// BridgeKernel is what the in-kernel bridge counts beside RxBytes, TxBytes and
// Discarded. It gives no account of its clients.
type BridgeKernel struct {
	DropsErr        uint64 `json:"dropsErr"` // bytes from the radio that the client did not take in time
	DropsTx         uint64 `json:"dropsTx"`  // bytes to the radio that the UART did not take in time
	XOFF            uint64 `json:"xoff"`     // from the radio
	XON             uint64 `json:"xon"`
	TxPauseTimeouts uint64 `json:"txPauseTimeouts"` // an XOFF of more than 1 s, undone
}

// ReleaseParams go with the bridge's method "release": it closes the UART and
// leaves it to another program, for that long at most.
type ReleaseParams struct {
	Seconds float64 `json:"seconds,omitempty"` // 1 to 86400; 0: 600
}

// Released is the answer to the bridge's methods "release" and "take".
type Released struct {
	Seconds float64 `json:"releasedSeconds"` // left; 0: the bridge has the radio again, or tries to
}

// BridgeClient is the one raw client (INV 4).
type BridgeClient struct {
	Addr  string  `json:"addr"`
	Since float64 `json:"sinceSeconds"` // connected for
	Rx    uint64  `json:"rxBytes"`      // UART -> client
	Tx    uint64  `json:"txBytes"`
}

// Service is one supervised process.
type Service struct {
	Name      string  `json:"name"`
	State     string  `json:"state"` // waiting, idle, starting, running, backoff, stopping, stopped, failed, done
	PID       int     `json:"pid,omitempty"`
	Since     float64 `json:"sinceSeconds"` // in this state for
	Restarts  int     `json:"restarts"`     // since boot
	Essential bool    `json:"essential"`
	CPU       float64 `json:"cpuSeconds"` // user+system of the present process
	RSS       uint64  `json:"rssKiB"`
	Anon      uint64  `json:"anonKiB"` // RssAnon
	Status    string  `json:"status,omitempty"`
	LastExit  string  `json:"lastExit,omitempty"` // exit code or signal, and its last words
}
