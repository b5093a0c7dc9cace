// Package iperf runs this machine's iperf3 as a client and reads its report
// (iperf3 -J; the members are those of iperf 3.12's iperf_api.c). It knows nothing
// of gateways.
package iperf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ErrAbsent says that there is no iperf3 here, and how to get it.
var ErrAbsent = errors.New("there is no iperf3 on this computer: install the package iperf3 (Debian, Fedora, Arch, Homebrew: iperf3), or name the program with -iperf3 PATH")

// Port is where iperf3 listens if nothing else is said.
const Port = 5201

// MaxReport is the largest report that is read, in bytes: five minutes with an
// interval each second are some 300 KiB.
const MaxReport = 16 << 20

// Load is what is sent.
type Load struct {
	UDP bool `json:"udp,omitempty"`
	// Reverse: the server sends, as for a gateway's TX.
	Reverse bool   `json:"reverse,omitempty"`
	Seconds int    `json:"seconds"`
	Bitrate string `json:"bitrate,omitempty"` // as -b takes it, "0" for no limit; "": iperf3's default
	Streams int    `json:"streams,omitempty"` // 0: one
	// Extra are more options of iperf3 (-l, -w, -M, -C, -Z ...).
	Extra []string `json:"extra,omitempty"`
}

// Args is the command line, without the program's name.
func (l Load) Args(host string, port int) []string {
	a := []string{"-c", host, "-p", strconv.Itoa(port), "-J", "-t", strconv.Itoa(l.Seconds)}
	if l.UDP {
		a = append(a, "-u")
	}
	if l.Reverse {
		a = append(a, "-R")
	}
	if l.Bitrate != "" {
		a = append(a, "-b", l.Bitrate)
	}
	if l.Streams > 1 {
		a = append(a, "-P", strconv.Itoa(l.Streams))
	}
	return append(a, l.Extra...)
}

// Report is what a run came to, at the receiver.
type Report struct {
	Version  string
	Protocol string // TCP or UDP
	Reverse  bool
	Seconds  float64
	Mbit     float64 // 10^6 bit/s of payload
	// Retransmits are the sender's: this computer's, or with Reverse the server's.
	// -1: the sender does not say.
	Retransmits int
	Congestion  string // of the sender
	// Of UDP: datagrams sent, and of these those that did not arrive. iperf3's own
	// lost_percent does not know of what was lost behind the last that arrived.
	Packets, Lost int
	LostPercent   float64
	JitterMs      float64
	// HostCPU and RemoteCPU are percent of one processor, by iperf3's process.
	HostCPU, RemoteCPU float64
	// Intervals are Mbit/s of each second, as this side saw it.
	Intervals []float64
}

// sum is one of the report's.
type sum struct {
	Seconds     *float64 `json:"seconds"`
	Bits        float64  `json:"bits_per_second"`
	Retransmits *int     `json:"retransmits"`
	Jitter      float64  `json:"jitter_ms"`
	Lost        int      `json:"lost_packets"`
	Packets     int      `json:"packets"`
}

// Parse reads a report. One that tells of an error is an error, also when
// something was measured before.
func Parse(raw []byte) (Report, error) {
	var j struct {
		Start struct {
			Version string `json:"version"`
			Test    struct {
				Protocol string  `json:"protocol"`
				Reverse  int     `json:"reverse"`
				Duration float64 `json:"duration"`
			} `json:"test_start"`
		} `json:"start"`
		Intervals []struct {
			Sum struct {
				Bits    float64 `json:"bits_per_second"`
				Omitted bool    `json:"omitted"`
			} `json:"sum"`
		} `json:"intervals"`
		End struct {
			Sum      *sum `json:"sum"` // UDP
			Sent     *sum `json:"sum_sent"`
			Received *sum `json:"sum_received"`
			CPU      struct {
				Host   float64 `json:"host_total"`
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
			Congestion string `json:"sender_tcp_congestion"`
		} `json:"end"`
		Error string `json:"error"`
	}
	if len(raw) > MaxReport {
		return Report{}, fmt.Errorf("iperf3's report is larger than %d MiB", MaxReport>>20)
	}
	// Some versions print words before the report.
	start := max(bytes.IndexByte(raw, '{'), 0)
	if err := json.Unmarshal(raw[start:], &j); err != nil {
		return Report{}, fmt.Errorf("iperf3's report: %w", err)
	}
	if j.Error != "" {
		return Report{}, errors.New("iperf3: " + strings.TrimPrefix(j.Error, "error - "))
	}
	r := Report{
		Version: strings.TrimPrefix(j.Start.Version, "iperf "), Protocol: j.Start.Test.Protocol, Reverse: j.Start.Test.Reverse != 0,
		Retransmits: -1, Congestion: j.End.Congestion, HostCPU: j.End.CPU.Host, RemoteCPU: j.End.CPU.Remote,
	}
	received := j.End.Received
	if r.Protocol == "UDP" && received == nil && j.End.Sum != nil {
		// Before 3.10 there is only what was sent, with what was lost of it.
		s := *j.End.Sum
		if s.Packets > 0 {
			s.Bits *= 1 - float64(s.Lost)/float64(s.Packets)
		}
		received = &s
	}
	if received == nil || received.Seconds == nil {
		return Report{}, errors.New("iperf3's report does not say what was received")
	}
	r.Seconds, r.Mbit = *received.Seconds, received.Bits/1e6
	if r.Protocol == "UDP" {
		// A receiver's packets are the highest number that it has seen.
		r.Packets, r.Lost, r.JitterMs = received.Packets, received.Lost, received.Jitter
		if sent := j.End.Sent; sent != nil && sent.Packets > received.Packets {
			r.Packets, r.Lost = sent.Packets, received.Lost+sent.Packets-received.Packets
		}
		if r.Packets > 0 {
			r.LostPercent = 100 * float64(r.Lost) / float64(r.Packets)
		}
	} else if j.End.Sent != nil && j.End.Sent.Retransmits != nil {
		r.Retransmits = *j.End.Sent.Retransmits
	}
	for _, i := range j.Intervals {
		if !i.Sum.Omitted {
			r.Intervals = append(r.Intervals, i.Sum.Bits/1e6)
		}
	}
	switch {
	case r.Protocol != "TCP" && r.Protocol != "UDP":
		return Report{}, fmt.Errorf("iperf3's report is of %.20q, neither TCP nor UDP", r.Protocol)
	case !(r.Mbit > 0) || math.IsInf(r.Mbit, 0):
		return Report{}, errors.New("iperf3 says that nothing arrived")
	case r.Seconds < 0.9*j.Start.Test.Duration:
		return Report{}, fmt.Errorf("iperf3 ended after %.1f of %.0f s", r.Seconds, j.Start.Test.Duration)
	case r.Lost < 0 || r.Packets < r.Lost:
		return Report{}, fmt.Errorf("iperf3 says that %d of %d packets were lost", r.Lost, r.Packets)
	}
	return r, nil
}

// Client runs iperf3. The zero value finds it in PATH.
type Client struct {
	Path string // of the program; "": iperf3
	// Prefix is a command that runs it, such as ip netns exec NAME.
	Prefix []string
}

func (c Client) path() string {
	if c.Path != "" {
		return c.Path
	}
	return "iperf3"
}

// grace is how much longer than its load a run may take.
const grace = 30 * time.Second

// Run is one run. raw is the whole report, also with an error if there is one;
// without iperf3 the error is ErrAbsent.
func (c Client) Run(ctx context.Context, l Load, host string, port int) (r Report, raw []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(l.Seconds)*time.Second+grace)
	defer cancel()
	raw, err = c.output(ctx, l.Args(host, port)...)
	r, parseErr := Parse(raw)
	switch {
	case errors.Is(err, ErrAbsent):
		return Report{}, nil, err
	case ctx.Err() != nil:
		return Report{}, raw, fmt.Errorf("iperf3 did not end: %w", ctx.Err())
	case parseErr == nil && err == nil:
		return r, raw, nil
	case len(bytes.TrimSpace(raw)) > 0 && parseErr != nil:
		return Report{}, raw, parseErr // it tells more
	}
	return Report{}, raw, err
}

// Version asks for the program's, such as 3.12.
func (c Client) Version(ctx context.Context) (string, error) {
	raw, err := c.output(ctx, "--version")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, "iperf "); ok {
			v, _, _ = strings.Cut(strings.TrimSpace(v), " ")
			return v, nil
		}
	}
	return "", fmt.Errorf("%s is no iperf3: its version is %.60q", c.path(), raw)
}

func (c Client) output(ctx context.Context, args ...string) ([]byte, error) {
	argv := append(append(append([]string{}, c.Prefix...), c.path()), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) && c.Path == "" && len(c.Prefix) == 0 {
		return nil, ErrAbsent
	}
	if err != nil {
		err = fmt.Errorf("%s: %w %s", c.path(), err, strings.TrimSpace(words.String()))
	}
	return out, err
}
