package network

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/netdev/netlab"
)

func TestPing(t *testing.T) {
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	for _, host := range []string{"127.0.0.1", "::1"} {
		out := must(t, "ping", "-c", "3", "-i", "0.05", host)
		want := `^PING HOST \(HOST\): 56 data bytes
64 bytes from HOST: seq=0 time=\d+\.\d{3} ms
64 bytes from HOST: seq=1 time=\d+\.\d{3} ms
64 bytes from HOST: seq=2 time=\d+\.\d{3} ms

--- HOST ---
3 sent, 3 received, 0% lost
round trip min/avg/max = [\d./]+ ms
$`
		if !regexp.MustCompile(strings.ReplaceAll(want, "HOST", regexp.QuoteMeta(host))).MatchString(out) {
			t.Errorf("%s", out)
		}
	}
	if out := must(t, "ping", "-q", "-c", "1", "-s", "3000", "127.0.0.1"); strings.Contains(out, "seq") || !strings.Contains(out, "1 received") {
		t.Errorf("%s", out)
	}
}

func TestPingNobody(t *testing.T) {
	netlab.Cable(t, "eth0", "other0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	netlab.Run(t, "ip", "addr", "add", "10.4.0.2/24", "dev", "eth0")
	began := time.Now()
	out, _, status := call(t, "", "ping", "-c", "2", "-i", "0.1", "-W", "0.3", "10.4.0.1")
	if status != 1 || !strings.Contains(out, "2 sent, 0 received, 100% lost") {
		t.Errorf("status %d\n%s", status, out)
	}
	if took := time.Since(began); took < 400*time.Millisecond || took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if out, _, status = call(t, "", "ping", "-w", "0.2", "10.4.0.1"); status != 1 || !strings.Contains(out, "1 sent") {
		t.Errorf("-w: status %d\n%s", status, out)
	}
	if _, errs, status := call(t, "", "ping", "-c", "1", "-W", "0.1", "10.5.0.1"); status != 1 || !strings.Contains(errs, "unreachable") {
		t.Errorf("no route: status %d %q", status, errs)
	}
}

// ctrl-C ends it with the summary.
func TestPingInterrupted(t *testing.T) {
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	ctx, cancel := context.WithCancel(context.Background())
	a, _ := applet.Table(Applets()).Find("ping")
	out := &cancelOn{part: "seq=1", cancel: cancel}
	if status := a.Execute(ctx, applet.IO{Out: out, Err: out}, []string{"-i", "0.05", "127.0.0.1"}); status != 0 {
		t.Errorf("status %d", status)
	}
	if !strings.Contains(out.String(), "2 sent, 2 received") {
		t.Errorf("%s", out)
	}
}

// cancelOn cancels when part is written.
type cancelOn struct {
	bytes.Buffer
	part   string
	cancel func()
}

func (c *cancelOn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.part) {
		c.cancel()
	}
	return c.Buffer.Write(p)
}
