// Package crypt checks passwords against the stored forms of crypt(3): the
// traditional one of DES, $1$ (MD5), $5$ (SHA-256) and $6$ (SHA-512), and makes
// $6$. Others are ErrForm: $y$ and $2b$ take more memory or time than a gateway
// has to give to whoever connects.
//
// It imports crypto/*, so that only what belongs to SSH may import it.
package crypt

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"errors"
	"hash"
	"strconv"
	"strings"
)

// ErrForm is a stored password that this package cannot check.
var ErrForm = errors.New("the stored password has a form that is not supported here (DES, $1$, $5$ and $6$ are)")

// MaxPassword is the longest password, in bytes: the time of $5$ and $6$ grows
// with its square.
const MaxPassword = 128

// maxRounds bounds what somebody's rounds= may cost: some 10 s on the
// gateway's CPU.
const maxRounds = 250_000

// alphabet is crypt's base 64.
const alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Verify tells whether password is the one that is stored. A password longer
// than MaxPassword is not.
func Verify(stored, password string) (bool, error) {
	again, err := hashAs(stored, password)
	if err != nil || len(password) > MaxPassword {
		return false, err
	}
	return subtle.ConstantTimeCompare([]byte(again), []byte(stored)) == 1, nil
}

// NewSHA256 returns a hash for files, for packages that may not import crypto
// themselves.
func NewSHA256() hash.Hash { return sha256.New() }

// Supported tells whether Verify can check what is stored.
func Supported(stored string) bool {
	_, err := parse(stored)
	return err == nil
}

// Cheap tells whether a check takes milliseconds on the gateway, and not a
// good part of a second.
func Cheap(stored string) bool {
	p, err := parse(stored)
	return err == nil && (p.id == "" || p.id == "1")
}

// SHA512 makes the form $6$ with the usual 5000 rounds. salt is 8 to 16
// characters of ./0-9A-Za-z.
func SHA512(password, salt string) (string, error) {
	if len(password) > MaxPassword {
		return "", errors.New("the password is longer than " + strconv.Itoa(MaxPassword) + " bytes")
	}
	if len(salt) < 8 {
		return "", errors.New("the salt is too short")
	}
	return hashAs("$6$"+salt, password)
}

// Salt turns 12 random bytes into a salt.
func Salt(random [12]byte) string {
	var b []byte
	for i := 0; i < len(random); i += 3 {
		b = encode(b, random[i], random[i+1], random[i+2], 4)
	}
	return string(b)
}

// settings is what stands in front of a hash.
type settings struct {
	id     string // empty: DES
	salt   string
	rounds int  // of 5 and 6
	given  bool // rounds stand in the text
}

func parse(stored string) (settings, error) {
	rest, ok := strings.CutPrefix(stored, "$")
	if !ok {
		if len(stored) != 13 || !encoded(stored) {
			return settings{}, ErrForm
		}
		return settings{salt: stored[:2]}, nil
	}
	id, rest, _ := strings.Cut(rest, "$")
	s := settings{id: id, rounds: 5000}
	most := 16
	switch id {
	case "1":
		most = 8
	case "5", "6":
		if number, after, ok := strings.Cut(rest, "$"); ok && strings.HasPrefix(number, "rounds=") {
			n, err := strconv.ParseUint(number[len("rounds="):], 10, 31)
			if err != nil || n < 1000 || n > maxRounds {
				return settings{}, ErrForm
			}
			s.rounds, s.given, rest = int(n), true, after
		}
	default:
		return settings{}, ErrForm
	}
	s.salt, _, _ = strings.Cut(rest, "$")
	if len(s.salt) > most {
		s.salt = s.salt[:most]
	}
	if strings.ContainsAny(s.salt, ":\n") {
		return settings{}, ErrForm
	}
	return s, nil
}

func encoded(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(alphabet, r) }) < 0
}

// hashAs is password in the form, and with the salt, of stored.
func hashAs(stored, password string) (string, error) {
	s, err := parse(stored)
	if err != nil || len(password) > MaxPassword {
		return "", err
	}
	head := "$" + s.id + "$"
	if s.given {
		head += "rounds=" + strconv.Itoa(s.rounds) + "$"
	}
	switch s.id {
	case "1":
		return head + s.salt + "$" + md5Crypt(password, s.salt), nil
	case "5":
		return head + s.salt + "$" + shaCrypt(sha256.New, password, s.salt, s.rounds, order256[:]), nil
	case "6":
		return head + s.salt + "$" + shaCrypt(sha512.New, password, s.salt, s.rounds, order512[:]), nil
	}
	return desCrypt(password, s.salt), nil
}

// encode appends n characters with the 24 bits of three bytes, the last one's
// lowest bits first.
func encode(b []byte, high, middle, low byte, n int) []byte {
	v := uint(high)<<16 | uint(middle)<<8 | uint(low)
	for range n {
		b = append(b, alphabet[v&63])
		v >>= 6
	}
	return b
}

// encodeAll encodes the bytes of sum in the order that the form has, three of
// them at a time; what is left of 16, 32 or 64 bytes comes last.
func encodeAll(sum []byte, order []byte) string {
	var b []byte
	i := 0
	for ; i+3 <= len(order); i += 3 {
		b = encode(b, sum[order[i]], sum[order[i+1]], sum[order[i+2]], 4)
	}
	switch len(order) - i {
	case 1:
		b = encode(b, 0, 0, sum[order[i]], 2)
	case 2:
		b = encode(b, 0, sum[order[i]], sum[order[i+1]], 3)
	}
	return string(b)
}

var orderMD5 = [...]byte{0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 4, 10, 5, 11}

// md5Crypt is Poul-Henning Kamp's, of FreeBSD.
func md5Crypt(password, salt string) string {
	h := md5.New()
	write := func(parts ...string) {
		for _, p := range parts {
			h.Write([]byte(p))
		}
	}
	write(password, salt, password)
	second := h.Sum(nil)
	h.Reset()
	write(password, "$1$", salt)
	writeRepeated(h, second, len(password))
	for n := len(password); n > 0; n >>= 1 {
		if n&1 != 0 {
			h.Write([]byte{0})
		} else {
			write(password[:1])
		}
	}
	sum := h.Sum(nil)
	for i := range 1000 {
		h.Reset()
		if i&1 != 0 {
			write(password)
		} else {
			h.Write(sum)
		}
		if i%3 != 0 {
			write(salt)
		}
		if i%7 != 0 {
			write(password)
		}
		if i&1 != 0 {
			h.Write(sum)
		} else {
			write(password)
		}
		sum = h.Sum(sum[:0])
	}
	return encodeAll(sum, orderMD5[:])
}

var order256 = [...]byte{
	0, 10, 20, 21, 1, 11, 12, 22, 2, 3, 13, 23, 24, 4, 14, 15, 25, 5,
	6, 16, 26, 27, 7, 17, 18, 28, 8, 9, 19, 29, 31, 30,
}

var order512 = [...]byte{
	0, 21, 42, 22, 43, 1, 44, 2, 23, 3, 24, 45, 25, 46, 4, 47, 5, 26,
	6, 27, 48, 28, 49, 7, 50, 8, 29, 9, 30, 51, 31, 52, 10, 53, 11, 32,
	12, 33, 54, 34, 55, 13, 56, 14, 35, 15, 36, 57, 37, 58, 16, 59, 17, 38,
	18, 39, 60, 40, 61, 19, 62, 20, 41, 63,
}

// shaCrypt is "Unix crypt using SHA-256 and SHA-512", Ulrich Drepper, 0.6.
func shaCrypt(newHash func() hash.Hash, password, salt string, rounds int, order []byte) string {
	key, seasoning := []byte(password), []byte(salt)
	h := newHash()
	sumOf := func(parts ...[]byte) []byte {
		h.Reset()
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	b := sumOf(key, seasoning, key)
	h.Reset()
	h.Write(key)
	h.Write(seasoning)
	writeRepeated(h, b, len(key))
	for n := len(key); n > 0; n >>= 1 {
		if n&1 != 0 {
			h.Write(b)
		} else {
			h.Write(key)
		}
	}
	a := h.Sum(nil)

	h.Reset()
	for range key {
		h.Write(key)
	}
	p := repeated(h.Sum(nil), len(key))
	h.Reset()
	for range 16 + int(a[0]) {
		h.Write(seasoning)
	}
	s := repeated(h.Sum(nil), len(seasoning))

	for i := range rounds {
		h.Reset()
		if i&1 != 0 {
			h.Write(p)
		} else {
			h.Write(a)
		}
		if i%3 != 0 {
			h.Write(s)
		}
		if i%7 != 0 {
			h.Write(p)
		}
		if i&1 != 0 {
			h.Write(a)
		} else {
			h.Write(p)
		}
		a = h.Sum(a[:0])
	}
	return encodeAll(a, order)
}

// writeRepeated writes n bytes: sum again and again.
func writeRepeated(h hash.Hash, sum []byte, n int) {
	for ; n > len(sum); n -= len(sum) {
		h.Write(sum)
	}
	h.Write(sum[:n])
}

func repeated(sum []byte, n int) []byte {
	out := make([]byte, 0, n+len(sum))
	for len(out) < n {
		out = append(out, sum...)
	}
	return out[:n]
}
