// Package firewall has the kernel drop what the gateway has no use for, where it
// has nftables and FIREWALL is set.
//
// A change is on trial at first: the rules are in force at once, all of them in
// one step, and the settings get them only when somebody confirms that the
// gateway can still be reached. Without that, or when this process ends, the
// rules are those of the settings again. What the rules are is in Rules, how the
// kernel gets them in package nft. The package forwards nothing and filters
// nothing that the gateway sends.
package firewall

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/services/firewall/nft"
)

const (
	// trialFor is how long a change waits to be confirmed.
	trialFor = time.Minute
	// retryEvery is for a kernel that did not take the rules: it may have been
	// short of memory.
	retryEvery = time.Minute
	never      = time.Duration(1<<63 - 1)
)

// Kernel keeps the table; nft.System is one.
type Kernel interface {
	Replace(rules []nft.Rule) error
	Remove() error
	Read(rules []nft.Rule) (nft.State, error)
}

// Options is what a Service works on. The zero value is the box.
type Options struct {
	Root string // file system root; "" is /
	// Safe leaves every port open whatever the settings say: a box that they
	// have cut off is reached in safe mode.
	Safe   bool
	Kernel Kernel
	// Tunnel is the WireGuard interface, as it is set.
	Tunnel func() Tunnel
	Log    func(string) // takes a line without its end
}

// Service is the firewall.
type Service struct {
	opt  Options
	kick chan struct{}

	mu    sync.Mutex // guards what follows, and is held while the kernel is asked
	kept  config.Firewall
	want  config.Firewall // in force, or to be
	rules []nft.Rule      // of want; nil: off
	trial time.Time       // until then want waits to be confirmed; zero: it is kept
	err   error           // why it is not as wanted
}

// New returns the service; nothing happens before Run.
func New(opt Options) *Service {
	if opt.Kernel == nil {
		opt.Kernel = nft.System{}
	}
	if opt.Tunnel == nil {
		opt.Tunnel = func() Tunnel { return Tunnel{} }
	}
	if opt.Log == nil {
		opt.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	return &Service{opt: opt, kick: make(chan struct{}, 1)}
}

// Run keeps the rules until ctx ends, and returns nil then. Those of the settings
// stay in the kernel; those on trial do not.
func (s *Service) Run(ctx context.Context) error {
	s.Reload()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.undo("core ends")
			return nil
		case <-s.kick:
		case <-timer.C:
		}
		timer.Reset(s.step())
	}
}

// wake has Run look at what there is to do.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it will
	}
}

// Reload takes the settings over. Those that are in the files need no
// confirmation.
func (s *Service) Reload() {
	g, _ := config.LoadGateway(s.opt.Root) // what is wrong in it is among core's warnings
	s.mu.Lock()
	defer s.mu.Unlock()
	same := equal(s.kept, g.Firewall)
	s.kept = g.Firewall
	if !same || s.trial.IsZero() {
		s.want, s.trial = s.kept, time.Time{}
	}
	if err := s.apply(); err != nil && !same {
		s.opt.Log("firewall: " + err.Error())
	}
	s.wake()
}

func equal(a, b config.Firewall) bool { return a.On == b.On && slices.Equal(a.Allow, b.Allow) }

// step does what is due, and returns in how long it wants to be called again.
func (s *Service) step() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.trial.IsZero() {
		left := time.Until(s.trial)
		if left > 0 {
			return left
		}
		s.undo("nobody has confirmed it")
	} else if s.err != nil && !errors.Is(s.err, nft.ErrNone) && !errors.Is(s.err, nft.ErrPart) {
		_ = s.apply() // it is kept in s.err
	}
	if s.err != nil {
		return retryEvery
	}
	return never
}

// apply has the kernel hold the rules of s.want, and tells how they differ from
// what it holds afterwards. What is there already stays, with its counters.
func (s *Service) apply() (err error) {
	defer func() { s.err = err }()
	s.rules = nil
	if s.want.On && !s.opt.Safe {
		radio, _ := config.LoadRadio(s.opt.Root, rtl8196e.Detect(s.opt.Root))
		s.rules = Rules(s.want, radio.Door.Allow, s.opt.Tunnel())
	}
	st, err := s.opt.Kernel.Read(s.rules)
	switch {
	case s.rules == nil && errors.Is(err, nft.ErrNone):
		return nil
	case err != nil:
		return err
	case s.rules == nil && st.Present:
		if err := s.opt.Kernel.Remove(); err != nil {
			return err
		}
		s.opt.Log("firewall: off, every port is open")
		return nil
	case s.rules == nil, st.Same:
		return nil
	}
	if err := s.opt.Kernel.Replace(s.rules); err != nil {
		return err
	}
	if st, err = s.opt.Kernel.Read(s.rules); err == nil && !st.Same {
		err = errors.New("the kernel does not hold the firewall's rules as they were given to it")
	}
	if err == nil {
		s.opt.Log("firewall: on, " + strconv.Itoa(len(s.rules)) + " rules")
	}
	return err
}

// undo ends a trial, if there is one.
func (s *Service) undo(why string) {
	if s.trial.IsZero() {
		return
	}
	s.want, s.trial = s.kept, time.Time{}
	s.opt.Log("firewall: " + why + ": as it was before")
	if err := s.apply(); err != nil {
		s.opt.Log("firewall: " + err.Error())
	}
}

// Call answers the methods firewall, firewall-set, firewall-confirm and
// firewall-undo with an api.Firewall.
func (s *Service) Call(method string, params []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	var err error
	switch method {
	case "firewall-set":
		err = s.set(params)
	case "firewall-confirm":
		err = s.confirm()
	case "firewall-undo":
		if s.trial.IsZero() {
			err = errNoTrial
		}
		s.undo("undone")
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(s.status())
}

var errNoTrial = errors.New("no change of the firewall waits to be confirmed: it took longer than a minute, or the firewall is as it is set")

// set puts a change on trial.
func (s *Service) set(params []byte) error {
	var p api.FirewallSet
	if err := json.Unmarshal(params, &p); err != nil {
		return fmt.Errorf("firewall-set: wrong parameters: %w", err)
	}
	want := s.want
	if p.On != nil {
		want.On = *p.On
	}
	if p.Allow != nil {
		all, problem := config.ParseOpenings(*p.Allow)
		if problem != "" {
			return errors.New("FIREWALL_ALLOW: " + problem)
		}
		want.Allow = all
	}
	if s.opt.Safe {
		return errors.New("this is a safe boot, in which there is no firewall: gwctl reboot, or gwctl config set gateway.FIREWALL for the next boot")
	}
	s.want, s.trial = want, time.Now().Add(trialFor)
	if err := s.apply(); err != nil {
		s.undo("it could not be changed")
		return err
	}
	if equal(want, s.kept) {
		s.trial = time.Time{}
	}
	return nil
}

// confirm keeps what is on trial.
func (s *Service) confirm() error {
	if s.trial.IsZero() {
		return errNoTrial
	}
	board := rtl8196e.Detect(s.opt.Root)
	on, text := "0", ""
	if s.want.On {
		on = "1"
	}
	for _, o := range s.want.Allow {
		text += " " + o.String()
	}
	const nameAllow = "gateway.FIREWALL_ALLOW"
	all := []config.Assignment{{Name: "gateway.FIREWALL", Value: on}}
	if text != "" {
		all = append(all, config.Assignment{Name: nameAllow, Value: text[1:]})
	}
	_, err := config.Set(s.opt.Root, board, all)
	if err == nil && text == "" && len(s.kept.Allow) > 0 {
		_, err = config.Unset(s.opt.Root, board, []string{nameAllow})
	}
	if err != nil {
		return fmt.Errorf("it cannot be kept, and ends in %.0f s: %w", time.Until(s.trial).Seconds(), err)
	}
	s.kept, s.trial = s.want, time.Time{}
	s.opt.Log("firewall: confirmed")
	return nil
}

// status asks the kernel for what it counted.
func (s *Service) status() api.Firewall {
	st := api.Firewall{State: "off", Set: s.want.On}
	for _, o := range s.want.Allow {
		st.Allow += " " + o.String()
	}
	st.Allow = st.Allow[min(1, len(st.Allow)):]
	if !s.trial.IsZero() {
		st.Confirm = max(0, time.Until(s.trial).Seconds())
	}
	held, err := s.opt.Kernel.Read(s.rules)
	switch err = cmp.Or(s.err, err); {
	case errors.Is(err, nft.ErrNone):
		st.State = "absent"
	case err != nil:
		st.State = "failed"
	case s.rules == nil && s.want.On:
		st.Problem = "this is a safe boot"
	case s.rules != nil && held.Same:
		st.State = "on"
	case s.rules != nil:
		st.State = "changed"
	}
	if err != nil {
		st.Problem = err.Error()
	}
	if held.Same {
		for i, r := range s.rules {
			st.Rules = append(st.Rules, api.FirewallRule{Text: r.Text, Drop: !r.Accept, Packets: held.Rules[i].Packets, Bytes: held.Rules[i].Bytes})
		}
	}
	// At most 64 of them: slices.SortFunc of them would take 4 KiB of flash.
	for i := range held.Ports {
		for j := i; j > 0 && more(held.Ports[j], held.Ports[j-1]); j-- {
			held.Ports[j], held.Ports[j-1] = held.Ports[j-1], held.Ports[j]
		}
	}
	for _, p := range held.Ports {
		name := "tcp/"
		if p.Protocol == nft.UDP {
			name = "udp/"
		}
		st.Dropped = append(st.Dropped, api.FirewallPort{Port: name + strconv.Itoa(int(p.Number)), Packets: p.Packets})
	}
	return st
}

// more is the order of ports: the most packets first.
func more(a, b nft.Port) bool {
	if a.Packets != b.Packets {
		return a.Packets > b.Packets
	}
	return a.Number < b.Number || a.Number == b.Number && a.Protocol < b.Protocol
}

// Warnings are what the status of the box has to say.
func (s *Service) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.trial.IsZero():
		left := strconv.Itoa(int(max(0, time.Until(s.trial).Seconds()) + 0.5))
		return []string{"the firewall's change ends in " + left + " s, unless: gwctl firewall confirm"}
	case s.err != nil && s.want.On:
		return []string{"there is no firewall, although FIREWALL is set: " + s.err.Error()}
	case s.err != nil:
		return []string{"the firewall is not off: " + s.err.Error()}
	}
	return nil
}
