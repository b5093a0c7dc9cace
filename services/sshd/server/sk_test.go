//go:build linux

package server

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"testing"

	"golang.org/x/crypto/ssh"
)

// securityKey is a FIDO key as OpenSSH's PROTOCOL.u2f has it.
type securityKey struct {
	public ssh.PublicKey
	flags  byte // 1: it was touched
	sign   func(message []byte) ([]byte, error)
}

const application = "ssh:"

func (k *securityKey) PublicKey() ssh.PublicKey { return k.public }

func (k *securityKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	app, sum := sha256.Sum256([]byte(application)), sha256.Sum256(data)
	tail := binary.BigEndian.AppendUint32([]byte{k.flags}, 7) // and a counter
	message := append(append(append([]byte{}, app[:]...), tail...), sum[:]...)
	sig, err := k.sign(message)
	return &ssh.Signature{Format: k.public.Type(), Blob: sig, Rest: tail}, err
}

func securityKeys(t *testing.T) map[string]*securityKey {
	t.Helper()
	public := func(fields ...[]byte) ssh.PublicKey {
		var blob []byte
		for _, f := range fields {
			blob = appendString(blob, f)
		}
		k, err := ssh.ParsePublicKey(blob)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := ec.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*securityKey{
		"ed25519": {
			public: public([]byte(ssh.KeyAlgoSKED25519), edPublic, []byte(application)), flags: 1,
			sign: func(m []byte) ([]byte, error) { return ed25519.Sign(ed, m), nil },
		},
		"ecdsa": {
			public: public([]byte(ssh.KeyAlgoSKECDSA256), []byte("nistp256"), point, []byte(application)), flags: 1,
			sign: func(m []byte) ([]byte, error) {
				sum := sha256.Sum256(m)
				der, err := ec.Sign(rand.Reader, sum[:], nil)
				if err != nil {
					return nil, err
				}
				var rs struct{ R, S *big.Int }
				if rest, err := asn1.Unmarshal(der, &rs); err != nil || len(rest) > 0 {
					return nil, errors.New("not a signature")
				}
				return ssh.Marshal(rs), nil
			},
		},
	}
}

// Security keys log in when they were touched, or need not be.
func TestSecurityKeys(t *testing.T) {
	for name, k := range securityKeys(t) {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.put("userdata/ssh/authorized_keys", line(k))
			if got, _ := run(t, b.mustDial("root", ssh.PublicKeys(k)), "echo touched"); got != "touched\n" {
				t.Errorf("%q", got)
			}
			untouched := *k
			untouched.flags = 0
			if _, _, err := b.dial("root", ssh.PublicKeys(&untouched)); err == nil {
				t.Error("without a touch")
			}
			b.put("userdata/ssh/authorized_keys", "no-touch-required "+line(k))
			b.mustDial("root", ssh.PublicKeys(&untouched))
		})
	}
}
