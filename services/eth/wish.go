package eth

import (
	"context"
	"time"

	"gwinit/internal/netdev"
	"gwinit/internal/wait"
	"gwinit/services/eth/dhcp"
)

// bounceFor is how long a bounced link is down: a switch sees it go, and its
// table of addresses with it.
const bounceFor = time.Second

// wish is what somebody asks of the link. Run's goroutine grants it.
type wish int

const (
	wishRenew wish = iota
	wishBounce
)

// Renew has the DHCP server asked now whether the address still holds, and
// everybody if it does not answer, as when a cable comes back. Without DHCP or
// link it is nothing. It does not block; a second wish that comes before the
// first was granted is dropped.
func (s *Service) Renew() { s.ask(wishRenew) }

// Bounce sets the link down and up again. Address and lease stay, routes are
// made again. It does not block, and is dropped like Renew.
func (s *Service) Bounce() { s.ask(wishBounce) }

func (s *Service) ask(w wish) {
	select {
	case s.wishes <- w:
	default:
	}
}

// grant does what was asked. link is what the loop knows from then on; it is
// not ok when the link could not be set up again, and has to be begun anew.
func (s *Service) grant(ctx context.Context, w wish, link netdev.Link, client *dhcp.Client) (_ netdev.Link, ok bool) {
	if w == wishRenew {
		if client != nil && link.Carrier {
			client.Carrier(true)
		}
		return link, true
	}
	s.opt.Log(link.Name + ": set down and up again")
	if err := s.opt.Kernel.SetUp(link.Index, false); err != nil {
		s.opt.Log(err.Error())
		return link, true
	}
	down := link
	down.Up, down.Carrier = false, false
	s.moved(link, down, client)
	wait.For(ctx, bounceFor)
	if err := s.opt.Kernel.SetUp(link.Index, true); err != nil {
		s.opt.Log(err.Error())
		return down, false
	}
	return down, true
}
