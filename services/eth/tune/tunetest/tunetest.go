// Package tunetest is an Ethernet driver and its queue for tests of the tuner:
// the files that a kernel has of them, a driver that counts and refuses what a
// test says, and queueing disciplines that a kernel has or has not.
package tunetest

import (
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gwinit/services/eth/ethtool"
	"gwinit/services/eth/qdisc"
)

// Files are those that every kernel has of eth0, with their defaults.
func Files() map[string]string {
	const device = "sys/class/net/eth0/"
	m := map[string]string{
		device + "gro_flush_timeout":                  "0",
		device + "napi_defer_hard_irqs":               "0",
		device + "tx_queue_len":                       "1000",
		"proc/sys/net/ipv4/tcp_slow_start_after_idle": "1",
		"proc/sys/net/ipv4/tcp_no_metrics_save":       "0",
		"run/.keep":                                   "",
		"userdata/etc/gateway.conf":                   "",
	}
	for name, value := range map[string]string{"limit": "2568", "limit_min": "0", "limit_max": "1879048192", "inflight": "1514", "stall_cnt": "0"} {
		m[device+"queues/tx-0/byte_queue_limits/"+name] = value
	}
	for name, value := range map[string]string{"rx_bytes": "1000", "tx_bytes": "2000", "rx_packets": "10", "tx_packets": "20", "rx_dropped": "7"} {
		m[device+"statistics/"+name] = value
	}
	return m
}

// Gateway are Files and those of the RTL8196E's driver.
func Gateway() map[string]string {
	m := Files()
	maps.Copy(m, map[string]string{
		"sys/class/net/eth0/gro_flush_timeout":                        "2000000",
		"sys/class/net/eth0/napi_defer_hard_irqs":                     "1",
		"sys/class/net/eth0/kick_threshold":                           "4",
		"sys/module/rtl8196e_eth/parameters/rtl8196e_rx_stall_thresh": "32",
	})
	return m
}

// Root makes a file system root with those files, a newline behind each value.
func Root(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, value := range files {
		Write(t, root, name, value)
	}
	return root
}

// Write makes or changes one file.
func Write(t testing.TB, root, name, value string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Card is a driver by ethtool. The zero value is one without offloads.
type Card struct {
	mu      sync.Mutex // guards what follows
	stats   []ethtool.Stat
	offload map[ethtool.Flag]bool // those that it has
}

// Offload gives the driver an offload.
func (c *Card) Offload(f ethtool.Flag, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offload == nil {
		c.offload = map[ethtool.Flag]bool{}
	}
	c.offload[f] = on
}

// Count sets the driver's counters.
func (c *Card) Count(stats ...ethtool.Stat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats = stats
}

// Driver implements tune.Card.
func (c *Card) Driver() (ethtool.Driver, error) {
	return ethtool.Driver{Name: "rtl8196e-eth", Version: "2.24"}, nil
}

// Stats implements tune.Card.
func (c *Card) Stats() ([]ethtool.Stat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats, nil
}

// Flag implements tune.Card. As with the kernel, an offload that the driver has
// not got is off.
func (c *Card) Flag(f ethtool.Flag) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offload[f], nil
}

// SetFlag implements tune.Card.
func (c *Card) SetFlag(f ethtool.Flag, on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.offload[f]; !ok {
		return unix.EOPNOTSUPP
	}
	c.offload[f] = on
	return nil
}

// Queue is the disciplines of a kernel. The zero value has fq_codel and a
// default of pfifo_fast.
type Queue struct {
	mu sync.Mutex // guards what follows
	// Err is what the kernel says to everything: qdisc.ErrNone.
	Err error
	// SetErr is what it says to Set: qdisc.ErrKind.
	SetErr error
	// Change is what the kernel makes of parameters; nil: itself.
	Change func(*qdisc.FQCodel)
	state  qdisc.State
	calls  []string
}

// Put has the root be something that somebody else set.
func (q *Queue) Put(s qdisc.State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state = s
}

// Calls returns what was set and cleared since the last Calls.
func (q *Queue) Calls() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.calls
	q.calls = nil
	return c
}

// Root implements tune.Queue.
func (q *Queue) Root(int) (qdisc.State, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Err == nil && q.state.Kind == "" {
		return qdisc.State{Kind: "pfifo_fast"}, nil
	}
	return q.state, q.Err
}

// Set implements tune.Queue.
func (q *Queue) Set(_ int, p qdisc.FQCodel) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, "set")
	if q.SetErr != nil {
		return q.SetErr
	}
	if q.Change != nil {
		q.Change(&p)
	}
	q.state = qdisc.State{Kind: qdisc.Kind, Handle: qdisc.Handle, FQCodel: p}
	return nil
}

// Clear implements tune.Queue.
func (q *Queue) Clear(int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, "clear")
	q.state = qdisc.State{}
	return nil
}
