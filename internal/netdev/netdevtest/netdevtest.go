// Package netdevtest is a kernel for tests: interfaces that appear, lose their
// cable and refuse things when a test says so.
package netdevtest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"gwinit/internal/netdev"
)

// Kernel implements netdev.Kernel.
type Kernel struct {
	mu      sync.Mutex // guards everything below
	links   map[string]*iface
	fail    map[string]error
	calls   []string
	watch   []chan struct{}
	dns     chan netdev.RouterDNS // nil: not watched
	routes6 int
	nextID  int
}

type iface struct {
	netdev.Link
	plugged bool
	addrs   []netdev.Addr
	routes  []netdev.Route
}

// New returns a kernel with lo, which is down.
func New() *Kernel {
	k := &Kernel{links: map[string]*iface{}, fail: map[string]error{}, nextID: 1}
	k.Add("lo", netdev.MAC{})
	return k
}

// Add makes an interface, down, with a cable plugged in.
func (k *Kernel) Add(name string, mac netdev.MAC) {
	k.change(func() {
		k.links[name] = &iface{Link: netdev.Link{Index: k.nextID, Name: name, MAC: mac, MTU: 1500}, plugged: true}
		k.nextID++
	})
}

// Remove takes an interface away.
func (k *Kernel) Remove(name string) { k.change(func() { delete(k.links, name) }) }

// Plug puts the cable in or pulls it.
func (k *Kernel) Plug(name string, in bool) {
	k.change(func() { k.links[name].plug(in) })
}

// Flap pulls the cable and puts it back before anybody can look.
func (k *Kernel) Flap(name string) {
	k.change(func() { k.links[name].plug(false); k.links[name].plug(true) })
}

// Fail makes the method of that name fail with err, until it is nil.
func (k *Kernel) Fail(method string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail[method] = err
}

// Calls returns what was called since the last Calls, without the calls that
// only read.
func (k *Kernel) Calls() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.calls
	k.calls = nil
	return c
}

// Routes returns the routes that were set.
func (k *Kernel) Routes(name string) []netdev.Route {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.links[name].routes)
}

func (i *iface) plug(in bool) {
	i.plugged = in
	i.carrier()
}

func (i *iface) carrier() {
	if now := i.Up && i.plugged; now != i.Carrier {
		i.Carrier = now
		i.Changes++
	}
}

// change does f and notifies.
func (k *Kernel) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
	for _, ch := range k.watch {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// set is the frame of every method that changes an interface.
func (k *Kernel) set(index int, method, call string, f func(*iface) error) error {
	k.mu.Lock()
	k.calls = append(k.calls, call)
	err := k.fail[method]
	k.mu.Unlock()
	if err != nil {
		return err
	}
	k.change(func() {
		for _, i := range k.links {
			if i.Index == index {
				err = f(i)
				return
			}
		}
		err = fmt.Errorf("%w: %d", netdev.ErrNoLink, index)
	})
	return err
}

// Link implements netdev.Kernel.
func (k *Kernel) Link(name string) (netdev.Link, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["Link"]; err != nil {
		return netdev.Link{}, err
	}
	i, ok := k.links[name]
	if !ok {
		return netdev.Link{}, fmt.Errorf("%w: %s", netdev.ErrNoLink, name)
	}
	return i.Link, nil
}

// SetUp implements netdev.Kernel. Going down drops the routes, as Linux does.
func (k *Kernel) SetUp(index int, up bool) error {
	return k.set(index, "SetUp", fmt.Sprint("up ", up), func(i *iface) error {
		i.Up = up
		if !up {
			i.routes = nil
		}
		i.carrier()
		return nil
	})
}

// SetMAC implements netdev.Kernel. It refuses while the link is up, as the
// gateway's driver does.
func (k *Kernel) SetMAC(index int, mac netdev.MAC) error {
	return k.set(index, "SetMAC", fmt.Sprint("mac ", mac), func(i *iface) error {
		if i.Up {
			return fmt.Errorf("set MAC %v: device or resource busy", mac)
		}
		i.MAC = mac
		return nil
	})
}

// SetMTU implements netdev.Kernel.
func (k *Kernel) SetMTU(index, mtu int) error {
	return k.set(index, "SetMTU", fmt.Sprint("mtu ", mtu), func(i *iface) error {
		i.MTU = mtu
		return nil
	})
}

// Addrs implements netdev.Kernel.
func (k *Kernel) Addrs(index int) ([]netdev.Addr, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["Addrs"]; err != nil {
		return nil, err
	}
	for _, i := range k.links {
		if i.Index == index {
			return slices.Clone(i.addrs), nil
		}
	}
	return nil, fmt.Errorf("%w: %d", netdev.ErrNoLink, index)
}

// SetAddr implements netdev.Kernel.
func (k *Kernel) SetAddr(index int, a netdev.Addr) error {
	return k.set(index, "SetAddr", fmt.Sprint("addr ", a.Prefix), func(i *iface) error {
		i.remove(a.Prefix)
		i.addrs = append(i.addrs, a)
		return nil
	})
}

// DelAddr implements netdev.Kernel.
func (k *Kernel) DelAddr(index int, p netip.Prefix) error {
	return k.set(index, "DelAddr", fmt.Sprint("del ", p), func(i *iface) error {
		i.remove(p)
		return nil
	})
}

func (i *iface) remove(p netip.Prefix) {
	i.addrs = slices.DeleteFunc(i.addrs, func(a netdev.Addr) bool { return a.Prefix == p })
}

// SetRoutes implements netdev.Kernel.
func (k *Kernel) SetRoutes(index int, routes []netdev.Route) error {
	return k.set(index, "SetRoutes", fmt.Sprint("routes ", routes), func(i *iface) error {
		i.routes = slices.Clone(routes)
		return nil
	})
}

// Watch implements netdev.Kernel.
func (k *Kernel) Watch(ctx context.Context) (<-chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["Watch"]; err != nil {
		return nil, err
	}
	ch := make(chan struct{}, 1)
	k.watch = append(k.watch, ch)
	context.AfterFunc(ctx, func() { k.Unwatch(ch) })
	return ch, nil
}

// WatchAddrs is Watch: that signals changes of addresses as well.
func (k *Kernel) WatchAddrs(ctx context.Context) (<-chan struct{}, error) { return k.Watch(ctx) }

// WatchDNS implements netdev.Kernel, for one at a time.
func (k *Kernel) WatchDNS(ctx context.Context) (<-chan netdev.RouterDNS, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail["WatchDNS"]; err != nil {
		return nil, err
	}
	ch := make(chan netdev.RouterDNS, 8)
	k.dns = ch
	context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.dns = nil
		close(ch)
	})
	return ch, nil
}

// Advertise has a router on the cable of an interface say which name servers
// there are.
func (k *Kernel) Advertise(name string, lifetime time.Duration, servers ...netip.Addr) {
	k.advertise(name, netdev.RouterDNS{Servers: servers, Lifetime: lifetime})
}

// AdvertiseSearch is Advertise for domains.
func (k *Kernel) AdvertiseSearch(name string, lifetime time.Duration, domains ...string) {
	k.advertise(name, netdev.RouterDNS{Search: domains, Lifetime: lifetime})
}

func (k *Kernel) advertise(name string, d netdev.RouterDNS) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dns != nil {
		d.Index = k.links[name].Index
		k.dns <- d
	}
}

// SetRoutes6 makes n the count of IPv6 routes.
func (k *Kernel) SetRoutes6(n int) { k.change(func() { k.routes6 = n }) }

// Routes6 implements netdev.Kernel.
func (k *Kernel) Routes6() (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.routes6, k.fail["Routes6"]
}

// SolicitRouters implements netdev.Kernel.
func (k *Kernel) SolicitRouters(index int) error {
	return k.set(index, "SolicitRouters", "solicit", func(*iface) error { return nil })
}

// AddAddr gives an interface an address, as the kernel does by itself.
func (k *Kernel) AddAddr(name string, a netdev.Addr) {
	k.change(func() { k.links[name].addrs = append(k.links[name].addrs, a) })
}

// Unwatch ends one watch, or all of them if ch is nil, as a kernel out of
// memory would.
func (k *Kernel) Unwatch(ch <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watch = slices.DeleteFunc(k.watch, func(w chan struct{}) bool {
		if ch == nil || ch == (<-chan struct{})(w) {
			close(w)
			return true
		}
		return false
	})
}
