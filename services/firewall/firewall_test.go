package firewall

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/services/firewall/nft"
	"gwinit/services/firewall/nft/nfttest"
)

// box is a gateway whose firewall has not started.
type box struct {
	t      *testing.T
	root   string
	kernel nfttest.Kernel
	tunnel Tunnel
	safe   bool
	log    []string
	s      *Service
	stop   func()
}

func newBox(t *testing.T, gatewayConf string) *box {
	t.Helper()
	b := &box{t: t, root: t.TempDir()}
	b.write("gateway.conf", gatewayConf)
	return b
}

func (b *box) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.root, config.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) settings() string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, config.Dir, "gateway.conf"))
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// start begins a process of core, in a bubble.
func (b *box) start() {
	b.s = New(Options{
		Root: b.root, Kernel: &b.kernel, Safe: b.safe, Tunnel: func() Tunnel { return b.tunnel },
		Log: func(line string) { b.log = append(b.log, line) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	s := b.s
	go func() { ended <- s.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	}
	synctest.Wait()
}

func (b *box) call(method, params string) api.Firewall {
	b.t.Helper()
	data, err := b.s.Call(method, []byte(params))
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, params, err)
	}
	var f api.Firewall
	if err := json.Unmarshal(data, &f); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
	return f
}

// at looks at the kernel, or changes it, while the service does not.
func (b *box) at(f func(k *nfttest.Kernel)) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	f(&b.kernel)
}

// state is what there is in a word, for the tables below.
func (b *box) state() string {
	b.t.Helper()
	f := b.call("firewall", "")
	s := f.State
	if f.Confirm > 0 {
		s += " on trial"
	}
	if f.Allow != "" {
		s += " " + f.Allow
	}
	b.at(func(k *nfttest.Kernel) {
		if (k.Rules != nil) != strings.HasPrefix(s, "on") && k.Err == nil && !k.Lies {
			b.t.Errorf("it says %s, and the kernel holds %d rules", s, len(k.Rules))
		}
	})
	return s
}

func (b *box) want(what, state, settings string) {
	b.t.Helper()
	if got := b.state(); got != state {
		b.t.Errorf("%s: %s, want %s", what, got, state)
	}
	if got := b.settings(); got != settings {
		b.t.Errorf("%s: settings %q, want %q", what, got, settings)
	}
}

func TestConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "GW_LOG_KIB=64\n")
		b.start()
		const before = "GW_LOG_KIB=64"
		b.want("at first", "off", before)
		if w := b.s.Warnings(); len(w) != 0 {
			t.Errorf("warnings %q", w)
		}
		if f := b.call("firewall-set", `{"on":true}`); f.State != "on" || f.Confirm != 60 || len(f.Rules) < 15 {
			t.Errorf("%+v", f)
		}
		b.want("set", "on on trial", before)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		b.want("not yet over", "on on trial", before)
		if w := b.s.Warnings(); len(w) != 1 || w[0] != "the firewall's change ends in 1 s, unless: gwctl firewall confirm" {
			t.Errorf("warnings %q", w)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		b.want("nobody confirmed", "off", before)
		if _, err := b.s.Call("firewall-confirm", nil); !errors.Is(err, errNoTrial) {
			t.Errorf("confirmed too late: %v", err)
		}

		b.call("firewall-set", `{"on":true,"allow":"udp/69"}`)
		b.call("firewall-confirm", "")
		const after = before + ` FIREWALL=1 FIREWALL_ALLOW=udp/69`
		time.Sleep(time.Hour)
		synctest.Wait()
		b.want("confirmed", "on udp/69", after)

		// One change more, which begins the minute anew, and both are undone.
		b.call("firewall-set", `{"allow":"tcp/8081"}`)
		time.Sleep(40 * time.Second)
		b.call("firewall-set", `{"on":false}`)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		b.want("two changes", "off on trial tcp/8081", after)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		b.want("both undone", "on udp/69", after)

		b.call("firewall-set", `{"on":false}`)
		b.call("firewall-undo", "")
		b.want("undone by hand", "on udp/69", after)
		if _, err := b.s.Call("firewall-undo", nil); !errors.Is(err, errNoTrial) {
			t.Errorf("undone twice: %v", err)
		}

		// What is so already needs no trial.
		b.call("firewall-set", `{"on":true,"allow":" udp/69 "}`)
		b.want("set as it is", "on udp/69", after)

		b.call("firewall-set", `{"on":false,"allow":""}`)
		b.call("firewall-confirm", "")
		b.want("off", "off", before+" FIREWALL=0")
		b.stop()
	})
}

// What is on trial does not survive core, however that ends; what is kept does,
// and its counters.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conf = "FIREWALL=1"
		b := newBox(t, conf)
		b.start()
		b.want("from the settings", "on", conf)
		b.call("firewall-set", `{"allow":"tcp/23"}`)
		b.stop()
		open := func() bool {
			return slices.ContainsFunc(b.kernel.Rules, func(r nft.Rule) bool { return r.Text == "tcp/23" })
		}
		if open() || b.kernel.Rules == nil {
			t.Errorf("after the end the kernel holds %+v", b.kernel.Rules)
		}

		b.start()
		b.call("firewall-set", `{"allow":"tcp/23"}`)
		if !open() {
			t.Error("it is not on trial")
		}
		killed := b.stop
		n := b.kernel.Replaced
		b.start() // beside the one that is dead
		b.want("after a crash", "on", conf)
		if open() || b.kernel.Replaced != n+1 {
			t.Errorf("replaced %d times, and the kernel holds %+v", b.kernel.Replaced-n, b.kernel.Rules)
		}
		b.stop()
		b.start()
		if b.kernel.Replaced != n+1 {
			t.Error("rules that were there were made anew")
		}
		b.stop()
		killed()
	})
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "")
		b.start()
		b.write("gateway.conf", "FIREWALL=1\nFIREWALL_ALLOW=tcp/5201@bridge\n")
		b.s.Reload()
		b.want("set by hand", "on tcp/5201@bridge", "FIREWALL=1 FIREWALL_ALLOW=tcp/5201@bridge")
		froms := func() (all []string) {
			for _, r := range b.kernel.Rules {
				if strings.HasPrefix(r.Text, "tcp/5201") {
					all = append(all, r.From.String())
				}
			}
			return all
		}
		if got := strings.Join(froms(), " "); got != "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 169.254.0.0/16 fc00::/7 fe80::/10" {
			t.Errorf("who may have the radio without a list: %s", got)
		}
		// The bridge's list is this one's, too, and a trial goes on meanwhile.
		b.call("firewall-set", `{"allow":"tcp/5201@bridge tcp/80"}`)
		b.write("radio.conf", "BRIDGE_ALLOW=192.168.1.20,fd00::/8\n")
		b.s.Reload()
		if got := froms(); !slices.Equal(got, []string{"192.168.1.20/32", "fd00::/8"}) {
			t.Errorf("from %q", got)
		}
		if got := b.state(); got != "on on trial tcp/5201@bridge tcp/80" {
			t.Error(got)
		}
		b.write("gateway.conf", "FIREWALL=0\n")
		b.s.Reload()
		b.want("switched off in the file", "off", "FIREWALL=0")
		b.stop()
	})
}

// INV 11: a kernel without nftables is told of, and nothing else.
func TestKernelWithout(t *testing.T) {
	for _, tt := range []struct {
		name, conf string
		err        error
		state      string
		warnings   []string
	}{
		{"absent", "", nft.ErrNone, "absent", nil},
		{"absent, and wanted", "FIREWALL=1", nft.ErrNone, "absent", []string{"there is no firewall, although FIREWALL is set: " + nft.ErrNone.Error()}},
		{"without a part", "FIREWALL=1", nft.ErrPart, "failed", []string{"there is no firewall, although FIREWALL is set: " + nft.ErrPart.Error()}},
		{"broken, and off", "", errors.New("no memory"), "failed", []string{"the firewall is not off: no memory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t, tt.conf)
				b.kernel.Err = tt.err
				b.start()
				if got := b.state(); got != tt.state {
					t.Errorf("state %s, want %s", got, tt.state)
				}
				if got := b.s.Warnings(); !slices.Equal(got, tt.warnings) {
					t.Errorf("warnings %q, want %q", got, tt.warnings)
				}
				if _, err := b.s.Call("firewall-set", []byte(`{"on":true}`)); !errors.Is(err, tt.err) {
					t.Errorf("set: %v", err)
				}
				if got := b.state(); strings.Contains(got, "trial") {
					t.Error(got)
				}
				b.stop()
			})
		})
	}
}

// What fails for want of memory is tried again.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "FIREWALL=1")
		b.kernel.Err = errors.New("no memory")
		b.start()
		if got := b.state(); got != "failed" {
			t.Error(got)
		}
		b.at(func(k *nfttest.Kernel) { k.Err = nil })
		time.Sleep(retryEvery)
		synctest.Wait()
		b.want("a minute later", "on", "FIREWALL=1")
		if w := b.s.Warnings(); len(w) != 0 {
			t.Errorf("warnings %q", w)
		}
		b.at(func(k *nfttest.Kernel) { k.Lies = true })
		if got := b.state(); got != "changed" {
			t.Errorf("rules of somebody else: %s", got)
		}
		if _, err := b.s.Call("firewall-set", []byte(`{"allow":"tcp/1"}`)); err == nil || !strings.Contains(err.Error(), "does not hold") {
			t.Errorf("a kernel that does not hold what it took: %v", err)
		}
		b.stop()
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "FIREWALL=1")
		b.start()
		for params, want := range map[string]string{
			`{"allow":"tcp/0"}`: `"tcp/0" is no port`,
			`[]`:                "wrong parameters",
			``:                  "wrong parameters",
		} {
			if _, err := b.s.Call("firewall-set", []byte(params)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", params, err)
			}
		}
		b.want("as before", "on", "FIREWALL=1")
		b.stop()

		b.safe, b.kernel.Rules = true, nil
		b.start()
		if f := b.call("firewall", ""); f.State != "off" || f.Problem != "this is a safe boot" || b.kernel.Rules != nil {
			t.Errorf("in a safe boot: %+v", f)
		}
		if _, err := b.s.Call("firewall-set", []byte(`{"on":true}`)); err == nil || !strings.Contains(err.Error(), "safe boot") {
			t.Errorf("set in a safe boot: %v", err)
		}
		b.stop()
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "FIREWALL=1")
		b.kernel.Ports = []nft.Port{
			{Protocol: nft.TCP, Number: 445, Count: nft.Count{Packets: 2}},
			{Protocol: nft.UDP, Number: 1900, Count: nft.Count{Packets: 30}},
			{Protocol: nft.TCP, Number: 23, Count: nft.Count{Packets: 2}},
		}
		b.start()
		f := b.call("firewall", "")
		if want := []api.FirewallPort{{Port: "udp/1900", Packets: 30}, {Port: "tcp/23", Packets: 2}, {Port: "tcp/445", Packets: 2}}; !slices.Equal(f.Dropped, want) {
			t.Errorf("dropped %+v, want %+v", f.Dropped, want)
		}
		if want := (api.FirewallRule{Text: "answers", Packets: 1, Bytes: 100}); f.Rules[1] != want {
			t.Errorf("%+v", f.Rules)
		}
		if last := f.Rules[len(f.Rules)-1]; !last.Drop || last.Text != "anything else" {
			t.Errorf("the last is %+v", last)
		}
		b.stop()
	})
}

// Every rule that lets in says to whom or to what, and what is needed is there.
func TestRules(t *testing.T) {
	rules := Rules(config.Firewall{On: true, Allow: []config.Opening{
		{First: 8081, Last: 8081}, {UDP: true, First: 5, Last: 7, From: netip.MustParsePrefix("fd00::/8")}, {First: 9, Last: 9, Bridge: true},
	}}, []netip.Prefix{}, Tunnel{Interface: "wg0", Port: 51820})
	var texts []string
	for _, r := range rules {
		texts = append(texts, r.Text)
		if r.Accept && r.Interface == "" && !r.Answers && (r.Protocol == 0 || r.Span == nft.Span{} && r.Protocol != nft.IGMP) {
			t.Errorf("%q lets everything in", r.Text)
		}
	}
	want := []string{
		"the gateway itself (lo)", "answers", "ping", "IGMP", "errors of the path (ICMPv6 1-4)", "ping (ICMPv6)",
		"groups, routers, neighbours (ICMPv6 130-136)", "groups (ICMPv6 143)", "DHCP, udp/68", "DHCPv6, udp/546", "mDNS, udp/5353",
		"SSH, tcp/22", "radio and SSH, tcp/8888", "the Thread network (wpan0)", "WireGuard, udp/51820", "WireGuard's peers (wg0)",
		"tcp/8081", "udp/5-7@fd00::/8", "other TCP", "other UDP", "anything else",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
	if r := rules[14]; r.Protocol != nft.UDP || r.Span != (nft.Span{First: 51820, Last: 51820}) {
		t.Errorf("%+v", r)
	}
}
