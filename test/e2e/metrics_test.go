//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/metrics/metricstest"
	"gwinit/test/board"
)

// figures reads Prometheus text.
func figures(t *testing.T, text string) map[string]float64 {
	t.Helper()
	families, err := metricstest.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	all := map[string]float64{}
	for _, f := range families {
		for series, v := range f.Samples {
			all[series] = v
		}
	}
	return all
}

// metricsPort is where METRICS=on has the gateway serve its figures.
const metricsPort = 9100

// scrape asks for the figures as Prometheus does, again while the gateway has no time:
// its host may have none for it.
func scrape(t *testing.T, m *board.Machine) string {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		r, err := http.Get("http://" + m.Addr(metricsPort) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err == nil && r.StatusCode == http.StatusOK {
			return string(body)
		}
		if err != nil || r.StatusCode != http.StatusServiceUnavailable || time.Now().After(end) {
			t.Fatalf("%v, %v: %s", r.Status, err, body)
		}
	}
}

// What the gateway tells to Prometheus, and that it tells nothing until it is set.
func TestMetrics(t *testing.T) {
	t.Parallel()
	m := start(t, func(c *board.Config) { c.Forward[metricsPort] = 0 })
	shell(t, m)
	await(t, m, "everything running", settled)
	if open := run(t, m, "netstat -tln"); strings.Contains(open, fmt.Sprintf(":%d ", metricsPort)) {
		t.Errorf("open without being set:\n%s", open)
	}
	local := figures(t, run(t, m, "gwctl metrics")+"\n")
	run(t, m, "gwctl config set METRICS=on")
	awaitLog(t, m, "metrics at http://")
	begin := time.Now()
	body := scrape(t, m)
	t.Logf("%d bytes in %v", len(body), time.Since(begin))
	got := figures(t, body)
	for series := range local {
		if _, there := got[series]; !there && !strings.Contains(series, "_state{") { // which may have changed
			t.Errorf("gwctl metrics has %s, and HTTP has not", series)
		}
	}
	for series, want := range map[string]float64{
		`gateway_bridge_uart_open`: 1, `gateway_bridge_client_connected`: 0, `gateway_network_up{interface="eth0"}`: 1, `gateway_userdata_mounted`: 1,
		`gateway_service_state{service="bridge",state="running"}`: 1, `gateway_ssh_connections`: 0, `gateway_bridge_latency_seconds_count{direction="rx"}`: 0,
	} {
		if v, there := got[series]; !there || v != want {
			t.Errorf("%s is %v (%v), want %v", series, v, there, want)
		}
	}
	if got["gateway_network_rx_bytes_total{interface=\"eth0\"}"] == 0 || got["gateway_memory_available_bytes"] < 1<<20 {
		t.Errorf("no traffic, or no memory:\n%s", body)
	}
	// What many scrapes cost core, PID 1 and the bridge.
	cpu := func(s api.Status) float64 { return service(t, s, "core").CPU + service(t, s, "bridge").CPU }
	before := cpu(status(t, m))
	const scrapes = 20
	for range scrapes {
		wait(1100 * time.Millisecond) // fresh ones
		scrape(t, m)
	}
	t.Logf("%.1f ms of CPU of core and bridge for each scrape", (cpu(status(t, m))-before)*1000/scrapes)
	run(t, m, "gwctl config unset METRICS")
	for end := time.Now().Add(time.Minute); strings.Contains(run(t, m, "netstat -tln"), fmt.Sprintf(":%d ", metricsPort)); wait(time.Second) {
		if time.Now().After(end) {
			t.Fatal("the port stays open")
		}
	}
}

// message is one of RFC 5424, as the gateway makes them.
var message = regexp.MustCompile(`^<\d+>1 (\S+) (\S+) (\S+) - - \[meta sequenceId="(\d+)" sysUpTime="\d+"\] (.*)$`)

// The log goes to a server, from the boot's first line on, and after a reboot
// again without anybody's doing.
func TestSyslog(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	run(t, m, "gwctl config set SYSLOG=tcp://10.0.2.2:"+port)
	next := int64(1)
	until := func(in *bufio.Reader, text string) {
		t.Helper()
		for {
			n, err := in.ReadString(' ')
			if err != nil {
				t.Fatal(err)
			}
			length, err := strconv.Atoi(strings.TrimSuffix(n, " "))
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, length)
			if _, err := io.ReadFull(in, b); err != nil {
				t.Fatal(err)
			}
			f := message.FindSubmatch(b)
			if f == nil {
				t.Fatalf("%q", b)
			}
			if got, _ := strconv.ParseInt(string(f[4]), 10, 64); got != next {
				t.Fatalf("line %d, want %d: %s", got, next, b)
			}
			next++
			if bytes.Contains(f[5], []byte(text)) {
				return
			}
		}
	}
	accept := func() *bufio.Reader {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil { // passed by a hang only
			t.Fatal(err)
		}
		return bufio.NewReader(c)
	}
	in := accept()
	until(in, "the log is sent to tcp://10.0.2.2:"+port)
	run(t, m, "gwctl restart bridge")
	until(in, "listening on ")
	reboot(t, m, "gwctl reboot")
	next = 1
	until(accept(), "the log is sent to")
}
