package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"gwinit/internal/gwctl/bench/iperf"
)

// errDirty is a kernel that has said something after which figures are worth
// nothing.
var errDirty = errors.New("the gateway's kernel log is not clean")

// loader is who makes traffic: iperf.Client.
type loader interface {
	Run(ctx context.Context, l iperf.Load, host string, port int) (iperf.Report, []byte, error)
}

// session is one gateway under test, and what measures it.
type session struct {
	box  Box
	load loader
	host string // as this computer reaches the gateway
	port int    // 0: the one that bench mode says
	dir  string // the results' folder
	say  func(format string, args ...any)
	mode Mode
	last Counters // that were read
}

// Run is one run of iperf3, with what the gateway counted meanwhile.
type Run struct {
	Started time.Time `json:"started"`
	// Error says why there is nothing of the following.
	Error string `json:"error,omitempty"`

	Mbit float64 `json:"mbit"` // 10^6 bit/s of payload, at the receiver
	// Retransmits are the sender's; absent: it does not say.
	Retransmits *int    `json:"retransmits,omitempty"`
	Packets     int     `json:"packets,omitempty"` // of UDP, and so on
	LostPercent float64 `json:"lostPercent,omitempty"`
	JitterMs    float64 `json:"jitterMs,omitempty"`
	// Slowest is the slowest second, as this computer saw it.
	Slowest     float64 `json:"slowestSecond,omitempty"`
	HostCPU     float64 `json:"hostCPUPercent"` // of iperf3 here
	NsPerPacket float64 `json:"nsPerPacket"`    // of the gateway's processor
	Delta       Delta   `json:"delta"`
	Raw         string  `json:"raw,omitempty"` // iperf3's report, in the folder
}

// start puts the gateway into bench mode.
func (s *session) start(ctx context.Context) (err error) {
	if s.mode, err = s.box.Enter(ctx); err != nil {
		return err
	}
	for _, n := range s.mode.Notes {
		s.say("the gateway: %s\n", n)
	}
	if l := s.mode.Load; l != nil {
		s.say("at rest its programs take %.3f %% of the processor and wake %.1f times a second\n", l.CPU, l.Wakeups)
	}
	return nil
}

// stop ends that, also when ctx has ended.
func (s *session) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	return s.box.Leave(ctx)
}

// look reads the counters, and wants the kernel's log clean.
func (s *session) look(ctx context.Context) (Counters, error) {
	c, err := s.box.Counters(ctx)
	if err == nil && len(c.Faults) > 0 {
		err = fmt.Errorf("%w: %s", errDirty, strings.Join(c.Faults, "; "))
	}
	s.last = c
	return c, err
}

// measure is one run. name is that of its report in the folder. The run has its
// Error if iperf3 had one; err is of everything else.
func (s *session) measure(ctx context.Context, l iperf.Load, name string) (r Run, err error) {
	before, err := s.look(ctx)
	if err != nil {
		return r, err
	}
	port := s.mode.Port
	if s.port != 0 {
		port = s.port
	}
	r.Started = time.Now()
	report, raw, runErr := s.load.Run(ctx, l, s.host, port)
	if len(raw) > 0 {
		r.Raw = filepath.ToSlash(filepath.Join("raw", name+".json"))
		if err := os.WriteFile(filepath.Join(s.dir, r.Raw), raw, 0o666); err != nil {
			return r, err
		}
	}
	if errors.Is(runErr, iperf.ErrAbsent) || ctx.Err() != nil {
		return r, errors.Join(ctx.Err(), runErr)
	}
	after, err := s.look(ctx)
	if err != nil {
		return r, err
	}
	if r.Delta, err = between(before, after); err != nil {
		return r, err
	}
	if runErr != nil {
		r.Error = runErr.Error()
		return r, nil
	}
	r.Mbit, r.HostCPU, r.NsPerPacket = report.Mbit, report.HostCPU, r.Delta.nsPerPacket()
	r.Packets, r.LostPercent, r.JitterMs = report.Packets, report.LostPercent, report.JitterMs
	if report.Retransmits >= 0 {
		r.Retransmits = &report.Retransmits
	}
	for i, v := range report.Intervals {
		// The last may be a few ms.
		if i < l.Seconds && (i == 0 || v < r.Slowest) {
			r.Slowest = v
		}
	}
	return r, nil
}

// Host is this computer.
type Host struct {
	OS     string `json:"os"`
	Name   string `json:"name,omitempty"`
	Gwctl  string `json:"gwctl"`
	IPerf3 string `json:"iperf3"`
	Path   Path   `json:"path"`
}

func thisHost(version, iperf3 string, p Path) Host {
	name, _ := os.Hostname() // it is for people
	return Host{OS: runtime.GOOS + "/" + runtime.GOARCH, Name: name, Gwctl: version, IPerf3: iperf3, Path: p}
}
