//go:build linux

package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"
)

// A private key of dropbear is a sequence of the SSH protocol's own data types
// (RFC 4251, 5): the name of the key's type, then
//
//	ssh-ed25519          string of 64 bytes: seed, public key
//	ecdsa-sha2-nistp256  string curve, string point, mpint scalar
//	ssh-rsa              mpint e, n, d, p, q
//
// as dropbear's signkey.c, ed25519.c, ecdsa.c and rsa.c write them.

var errKeyForm = errors.New("not a private key in dropbear's form")

// maxRSABits bounds what a signature costs: 4096 bits take the gateway's CPU
// some seconds as it is.
const maxRSABits = 4096

// parseDropbear reads a private key that dropbearkey made. Of ECDSA, P-256 is
// what dropbear makes unless told otherwise, and all that the gateway's Go has.
func parseDropbear(file []byte) (ssh.Signer, error) {
	r := wireReader{b: file}
	switch name := string(r.string()); name {
	case ssh.KeyAlgoED25519:
		pair := r.string()
		if !r.ended() || len(pair) != ed25519.PrivateKeySize {
			return nil, errKeyForm
		}
		key := ed25519.NewKeyFromSeed(pair[:ed25519.SeedSize])
		if !bytes.Equal(key, pair) {
			return nil, fmt.Errorf("%w: its two halves are of different keys", errKeyForm)
		}
		return ssh.NewSignerFromKey(key)
	case ssh.KeyAlgoECDSA256:
		curve, point, scalar := string(r.string()), r.string(), r.mpint()
		if !r.ended() || curve != "nistp256" || scalar.BitLen() > 256 {
			return nil, errKeyForm
		}
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar.FillBytes(make([]byte, 32)))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errKeyForm, err)
		}
		if public, err := key.PublicKey.Bytes(); err != nil || !bytes.Equal(public, point) {
			return nil, fmt.Errorf("%w: its two halves are of different keys", errKeyForm)
		}
		return ssh.NewSignerFromKey(key)
	case ssh.KeyAlgoRSA:
		e, n, d, p, q := r.mpint(), r.mpint(), r.mpint(), r.mpint(), r.mpint()
		if !r.ended() || !e.IsInt64() || e.Int64() > 1<<31-1 || n.BitLen() > maxRSABits {
			return nil, errKeyForm
		}
		if new(big.Int).Mul(p, q).Cmp(n) != 0 {
			return nil, fmt.Errorf("%w: its parts are of different keys", errKeyForm)
		}
		key := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: n, E: int(e.Int64())}, D: d, Primes: []*big.Int{p, q}}
		public, err := ssh.NewPublicKey(&key.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errKeyForm, err)
		}
		return &rsaSigner{public: public, key: key}, nil
	case "":
		return nil, errKeyForm
	default:
		return nil, fmt.Errorf("%w, or of a type that is not used here: %.32q", errKeyForm, name)
	}
}

// rsaSigner makes a key ready when it signs for the first time: that takes the
// gateway's CPU 370 million instructions, a second and more, and hardly any
// client asks for this key where there is another.
type rsaSigner struct {
	public ssh.PublicKey
	key    *rsa.PrivateKey

	once   sync.Once
	signer ssh.AlgorithmSigner
	err    error
}

func (r *rsaSigner) PublicKey() ssh.PublicKey { return r.public }

// Algorithms are those that the key is offered for: never SHA-1, which the
// plain name ssh-rsa stands for.
func (r *rsaSigner) Algorithms() []string {
	return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
}

func (r *rsaSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return r.SignWithAlgorithm(rand, data, ssh.KeyAlgoRSASHA512)
}

func (r *rsaSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	r.once.Do(func() {
		// In this order: the other way round, both compute the same.
		r.key.Precompute()
		if r.err = r.key.Validate(); r.err != nil {
			return
		}
		s, err := ssh.NewSignerFromKey(r.key)
		r.err = err
		r.signer, _ = s.(ssh.AlgorithmSigner)
	})
	if r.err != nil || r.signer == nil || !slices.Contains(r.Algorithms(), algorithm) {
		return nil, fmt.Errorf("host key of type RSA cannot be used for %s: %w", algorithm, errors.Join(errKeyForm, r.err))
	}
	return r.signer.SignWithAlgorithm(rand, data, algorithm)
}

// dropbearED25519 is key as dropbear keeps it.
func dropbearED25519(key ed25519.PrivateKey) []byte {
	b := appendString(nil, []byte(ssh.KeyAlgoED25519))
	return appendString(b, key)
}

func appendString(b, s []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// wireReader reads data types of RFC 4251, 5. After a fault it returns nothing
// but zeros, and ended is false.
type wireReader struct {
	b   []byte
	bad bool
}

func (r *wireReader) string() []byte {
	if len(r.b) < 4 || uint64(binary.BigEndian.Uint32(r.b)) > uint64(len(r.b)-4) {
		r.bad, r.b = true, nil
		return nil
	}
	n := binary.BigEndian.Uint32(r.b)
	s := r.b[4 : 4+n]
	r.b = r.b[4+n:]
	return s
}

// mpint reads a number that is not negative.
func (r *wireReader) mpint() *big.Int {
	s := r.string()
	if len(s) > 0 && s[0]&0x80 != 0 {
		r.bad = true
	}
	return new(big.Int).SetBytes(s)
}

func (r *wireReader) ended() bool { return !r.bad && len(r.b) == 0 }
