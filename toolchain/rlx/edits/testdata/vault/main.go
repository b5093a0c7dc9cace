// Vault uses what of crypto a gateway uses.
package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	msg := []byte("abc")
	fmt.Printf("%x\n", sha256.Sum256(msg))
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	sig := ed25519.Sign(priv, msg)
	fmt.Println(ed25519.Verify(pub, msg, sig), ed25519.Verify(pub, msg[1:], sig))
	a, b := must(ecdh.X25519().GenerateKey(rand.Reader)), must(ecdh.X25519().GenerateKey(rand.Reader))
	key := must(a.ECDH(b.PublicKey()))
	fmt.Println(bytes.Equal(key, must(b.ECDH(a.PublicKey()))))
	gcm := must(cipher.NewGCM(must(aes.NewCipher(key[:16]))))
	nonce := make([]byte, gcm.NonceSize())
	_, _ = rand.Read(nonce)
	fmt.Println(string(must(gcm.Open(nil, nonce, gcm.Seal(nil, nonce, msg, nil), nil))))
}
