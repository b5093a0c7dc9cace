// Package minisign verifies signatures in minisign's prehashed form: Ed25519 over
// the BLAKE2b-512 hash of the contents, so that what is signed can be hashed while
// it streams by. The format is that of minisign 0.8 and later (its manual page,
// "Signature format"); signatures over the contents themselves ("Ed") are refused.
//
// The hash is an argument: which package makes it is for who calls.
package minisign

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// HashSize is the size of a hash that is signed, in bytes: BLAKE2b-512.
const HashSize = 64

// MaxSignature is more than any signature file takes, in bytes.
const MaxSignature = 1024

// Errors, with what to do.
var (
	// ErrFormat: the text is no signature, or no key.
	ErrFormat = errors.New("not in minisign's format")
	// ErrKey: it is another key's signature.
	ErrKey = errors.New("signed with a key that is not trusted here")
	// ErrWrong: the contents or the trusted comment are not what was signed.
	ErrWrong = errors.New("the signature does not fit: the file is damaged or was changed; fetch it again")
)

// PublicKey verifies signatures.
type PublicKey struct {
	ID  uint64 // as minisign prints it, in hexadecimal
	key ed25519.PublicKey
}

// The first two bytes of a public key, and of a signature in the prehashed form.
const (
	keyAlgorithm       = "Ed"
	prehashedAlgorithm = "ED"
)

// ParseKey reads a public key: the line that `minisign -G` prints, or its .pub
// file, a line of comment in front.
func ParseKey(text string) (PublicKey, error) {
	text = strings.TrimSpace(text)
	if comment, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(comment, untrusted) {
		text = strings.TrimSpace(rest)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != 2+8+ed25519.PublicKeySize || string(b[:2]) != keyAlgorithm {
		return PublicKey{}, fmt.Errorf("the public key is %w: it is one line that begins with RW", ErrFormat)
	}
	return PublicKey{ID: binary.LittleEndian.Uint64(b[2:]), key: b[10:]}, nil
}

// Signature is a signature file.
type Signature struct {
	KeyID uint64
	// Comment is the trusted comment, which is signed, too: believe it only after
	// Verify.
	Comment string

	signature, global [ed25519.SignatureSize]byte
}

// What the lines of comment begin with.
const (
	untrusted = "untrusted comment:"
	trusted   = "trusted comment: "
)

// ParseSignature reads a signature file, the four lines of a .minisig file.
func ParseSignature(text []byte) (Signature, error) {
	refuse := func(why string) (Signature, error) {
		return Signature{}, fmt.Errorf("the signature is %w: %s", ErrFormat, why)
	}
	if len(text) > MaxSignature {
		return refuse("it is too long")
	}
	lines := bytes.SplitN(text, []byte("\n"), 5)
	if len(lines) != 5 || len(lines[4]) != 0 {
		return refuse("it has four lines")
	}
	for i := range lines {
		lines[i] = bytes.TrimSuffix(lines[i], []byte("\r"))
	}
	if !bytes.HasPrefix(lines[0], []byte(untrusted)) || !bytes.HasPrefix(lines[2], []byte(trusted)) {
		return refuse("its first and third lines are comments")
	}
	var s Signature
	b, err := base64.StdEncoding.Strict().DecodeString(string(lines[1]))
	if err != nil || len(b) != 2+8+ed25519.SignatureSize {
		return refuse("its second line is none")
	}
	switch string(b[:2]) {
	case prehashedAlgorithm:
	case keyAlgorithm:
		return refuse("it is not prehashed; sign with `minisign -SH`")
	default:
		return refuse("its second line is none")
	}
	s.KeyID = binary.LittleEndian.Uint64(b[2:])
	copy(s.signature[:], b[10:])
	s.Comment = string(lines[2][len(trusted):])
	if b, err = base64.StdEncoding.Strict().DecodeString(string(lines[3])); err != nil || len(b) != ed25519.SignatureSize {
		return refuse("its fourth line is none")
	}
	copy(s.global[:], b)
	return s, nil
}

// Verify tells whether one of the keys signed contents with that hash, and the
// trusted comment with it. The error is ErrKey, ErrWrong or nil.
func (s *Signature) Verify(keys []PublicKey, hash [HashSize]byte) error {
	for _, k := range keys {
		if k.ID != s.KeyID {
			continue
		}
		comment := append(s.signature[:len(s.signature):len(s.signature)], s.Comment...)
		if !ed25519.Verify(k.key, hash[:], s.signature[:]) || !ed25519.Verify(k.key, comment, s.global[:]) {
			return ErrWrong
		}
		return nil
	}
	return fmt.Errorf("%w (key %016X)", ErrKey, s.KeyID)
}
