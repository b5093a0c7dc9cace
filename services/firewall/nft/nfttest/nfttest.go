// Package nfttest is a kernel with nftables for tests: it holds the rules that
// it was given, and fails as it is told.
package nfttest

import (
	"slices"

	"gwinit/services/firewall/nft"
)

// Kernel implements firewall.Kernel. Its zero value holds no table. It is not
// safe for concurrent use: the service asks one thing at a time.
type Kernel struct {
	Rules    []nft.Rule // nil: no table
	Ports    []nft.Port // what Read gives
	Err      error      // of all methods
	Lies     bool       // Read says that the rules are others
	Replaced int        // times
}

// Replace implements firewall.Kernel.
func (k *Kernel) Replace(rules []nft.Rule) error {
	if k.Err != nil {
		return k.Err
	}
	k.Rules = slices.Clone(rules)
	k.Replaced++
	return nil
}

// Remove implements firewall.Kernel.
func (k *Kernel) Remove() error {
	if k.Err == nil {
		k.Rules = nil
	}
	return k.Err
}

// Read implements firewall.Kernel. The nth rule has met n packets of 100 bytes.
func (k *Kernel) Read(rules []nft.Rule) (s nft.State, err error) {
	if k.Err != nil {
		return s, k.Err
	}
	s.Present = k.Rules != nil
	s.Same = s.Present && !k.Lies && slices.Equal(rules, k.Rules)
	if s.Same {
		for i := range rules {
			s.Rules = append(s.Rules, nft.Count{Packets: uint64(i), Bytes: uint64(i) * 100})
		}
		s.Ports = slices.Clone(k.Ports)
	}
	return s, nil
}
