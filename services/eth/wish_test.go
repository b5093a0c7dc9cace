package eth

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gwinit/services/eth/dhcp/dhcptest"
)

// kinds are the messages that were sent since the last Take.
func kinds(n *dhcptest.Net) (all []string) {
	for _, s := range n.Take() {
		all = append(all, s.String())
	}
	return all
}

func TestRenew(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.net.Take()
		l.Renew()
		l.after(2 * time.Second)
		if got, want := kinds(l.net), []string{"REQUEST packet 255.255.255.255 want 10.0.0.50"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		l.bound()
		if n := l.count("10.0.0.50/24 from"); n != 1 {
			t.Errorf("the address was new %d times, want once", n)
		}

		// Nobody is asked without a cable.
		l.kernel.Plug("eth0", false)
		l.after(time.Second)
		l.Renew()
		l.after(time.Minute)
		if got := kinds(l.net); len(got) != 0 {
			t.Errorf("sent %q without a cable", got)
		}
	})
}

func TestBounce(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.kernel.Calls()
		l.net.Take()
		l.Bounce()
		if n := l.after(bounceFor / 2); n.Carrier || n.State != "down" || !slices.Equal(n.Addresses, []string{"10.0.0.50/24"}) {
			t.Errorf("within it: %+v", n)
		}
		l.after(bounceFor)
		l.bound()
		calls := l.kernel.Calls()
		if len(calls) < 3 || calls[0] != "up false" || calls[1] != "up true" {
			t.Errorf("calls %q", calls)
		}
		if r := l.kernel.Routes("eth0"); len(r) != 1 || r[0].Via != server.ID {
			t.Errorf("routes %v", r)
		}
		if got, want := kinds(l.net), []string{"REQUEST packet 255.255.255.255 want 10.0.0.50"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
	})
}

// A link that does not come up again is tried until it does.
func TestBounceThatFails(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.Bounce()
		l.after(bounceFor / 2)
		l.kernel.Fail("SetUp", errors.New("set link 2 up: out of memory"))
		if n := l.after(time.Minute); n.Carrier {
			t.Errorf("it has a link: %+v", n)
		}
		l.kernel.Fail("SetUp", nil)
		l.after(2 * retryEvery)
		l.bound()
	})
}

// What is asked when there is no interface is not kept for one.
func TestWishWithoutInterface(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.kernel.Remove("eth0")
		l.after(time.Second)
		l.Bounce()
		l.after(time.Second)
		l.kernel.Add("eth0", [6]byte{2, 0, 0, 0, 0, 9})
		l.kernel.Calls()
		l.after(time.Minute)
		if calls := l.kernel.Calls(); slices.Contains(calls, "up false") {
			t.Errorf("calls %q", calls)
		}
		l.bound()
	})
}
