package wireguard

import (
	"crypto/ecdh"
	"crypto/rand"

	"gwinit/services/wireguard/conf"
)

// NewKey makes a private key, in the form that wg genkey prints: the bits that
// Curve25519 ignores are set as it sets them.
func NewKey() (k conf.Key) {
	rand.Read(k[:]) // it never fails: the process ends instead
	k[0] &= 248
	k[31] = k[31]&127 | 64
	return k
}

// PublicKey is the key that the other side is told.
func PublicKey(private conf.Key) conf.Key {
	k, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		panic(err) // of any other length than 32
	}
	return conf.Key(k.PublicKey().Bytes())
}
