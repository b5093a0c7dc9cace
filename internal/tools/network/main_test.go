package network

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/netdev/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// call runs an applet and returns what it printed and its exit status.
func call(t *testing.T, input, name string, args ...string) (out, errs string, status int) {
	t.Helper()
	a, ok := applet.Table(Applets()).Find(name)
	if !ok {
		t.Fatalf("no applet %s", name)
	}
	var o, e bytes.Buffer
	status = a.Execute(context.Background(), applet.IO{In: strings.NewReader(input), Out: &o, Err: &e}, args)
	return o.String(), e.String(), status
}

// must is call of what has to succeed.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, errs, status := call(t, "", name, args...)
	if status != 0 {
		t.Fatalf("%s %s: status %d, %s", name, strings.Join(args, " "), status, errs)
	}
	return out
}

func TestHelp(t *testing.T) {
	for _, a := range Applets() {
		out := must(t, a.Name, "-h")
		if !strings.HasPrefix(a.Usage, a.Name+" ") || !strings.Contains(out, a.Summary) || a.Group != applet.Network {
			t.Errorf("%s: %q", a.Name, out)
		}
	}
}

func TestWrongCalls(t *testing.T) {
	for _, c := range []string{
		"ip", "ip banana", "ip -z a", "ip addr add 1.2.3.4", "ip addr add 1.2.3.4/33 dev lo", "ip link set lo", "ip link set lo mtu x",
		"ip link set lo address banana", "ip route add", "ip route add default via banana", "ip route add 1.0.0.0/8 metric",
		"ip neigh del 1.2.3.4", "ip neigh add 1.2.3.4", "ip link add x", "ip route set 1.0.0.0/8", "ip addr show lo lo",
		"ping", "ping a b", "ping -c x 127.0.0.1", "ping -i -1 127.0.0.1", "ping -s 99999 127.0.0.1",
		"netstat x", "netstat -z", "nslookup", "nslookup a b c", "nc", "nc a", "nc a 0", "nc a 99999", "nc -w x a 1",
	} {
		f := strings.Fields(c)
		if _, errs, status := call(t, "", f[0], f[1:]...); status != 2 || errs == "" {
			t.Errorf("%s: status %d, %q", c, status, errs)
		}
	}
}
