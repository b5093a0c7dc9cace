package edits

// cryptoSizeEdits leave out of crypto what a gateway's SSH server never uses
// and the linker cannot know to be unused. Nothing that computes is made
// weaker: what is left out answers with an error, and what stays is the code
// that was there, constant in time as before. docs/size.md has what they bring.
var cryptoSizeEdits = []Edit{
	{
		Name: "FIPS 140-3 mode is a constant", File: "crypto/internal/fips140/fips140.go",
		Why: `The mode is not supported here (see above), and never on. As a constant, the
self-tests, the integrity check and the random bit generator that only it runs are
not compiled.`,
		Old: `var Enabled bool

var debug bool
`,
		New: `const Enabled = false

const debug = false
`,
	},
	{
		Name: "FIPS 140-3 mode is refused at the start", File: "crypto/internal/fips140/fips140.go",
		Why: "As above: package check refused it before.",
		Old: `	case "on", "only":
		Enabled = true
	case "debug":
		Enabled = true
		debug = true
`,
		New: `	case "on", "only", "debug":
		panic("fips140: " + Supported().Error())
`,
	},
	{
		Name: "no self-tests", File: "crypto/internal/fips140/cast.go",
		Why: "As above. In front, so that the test's function is not referred to.",
		Old: `func CAST(name string, f func() error) {
`,
		New: `func CAST(name string, f func() error) {
	if !Enabled {
		return
	}
`,
	},
	{
		Name: "no tests of key pairs", File: "crypto/internal/fips140/cast.go",
		Why: "As above.",
		Old: `func PCT(name string, f func() error) {
`,
		New: `func PCT(name string, f func() error) {
	if !Enabled {
		return
	}
`,
	},
	{
		Name: "no table of P-256's multiples", File: "crypto/internal/fips140/nistec/p256.go",
		Why: `86 KiB that do not compress, to make multiples of the generator four times as fast
as those of any point. A login with such a key does it once or twice; the general
multiplication, which is constant in time as well, will do.`,
		Old: `	// This function works like ScalarMult above, but the table is fixed and
`,
		Upto: `// Negate sets p to -p, if cond == 1, and to p if cond == 0.
func (p *p256AffinePoint) Negate`,
		New: `	return p.ScalarMult(NewP256Point().SetGenerator(), scalar)
}

`,
	},
	{
		Name: "no table of P-256's multiples: its start", File: "crypto/internal/fips140/nistec/p256.go",
		Why:  "As above.",
		Old:  "// p256GeneratorTables is a series of",
		Upto: "// ScalarBaseMult sets p = scalar * generator, where",
		New:  "",
	},
	{
		Name: "no table of P-256's multiples: imports", File: "crypto/internal/fips140/nistec/p256.go",
		Why: "As above.",
		Old: `	"crypto/internal/fips140deps/cpu"
	"errors"
	"math/bits"
	"sync"
	"unsafe"
`,
		New: `	"errors"
	"math/bits"
	"sync"
`,
	},
	{
		Name: "P-256: a square is a product", File: "crypto/internal/fips140/nistec/fiat/p256_fiat64.go",
		Why: `Squaring, and going into and out of the Montgomery domain, are special cases of
the multiplication, whose straight-line code is 7 KiB; each has as much of its own.`,
		Old: `func p256Square(out1 *p256MontgomeryDomainFieldElement, arg1 *p256MontgomeryDomainFieldElement) {
`,
		Upto: "// p256Add adds",
		New: `func p256Square(out1 *p256MontgomeryDomainFieldElement, arg1 *p256MontgomeryDomainFieldElement) {
	p256Mul(out1, arg1, arg1)
}

`,
	},
	{
		Name: "P-256: out of the domain by a product with 1", File: "crypto/internal/fips140/nistec/fiat/p256_fiat64.go",
		Why: "As above.",
		Old: `func p256FromMontgomery(out1 *p256NonMontgomeryDomainFieldElement, arg1 *p256MontgomeryDomainFieldElement) {
`,
		Upto: "// p256ToMontgomery translates",
		New: `func p256FromMontgomery(out1 *p256NonMontgomeryDomainFieldElement, arg1 *p256MontgomeryDomainFieldElement) {
	p256Mul((*p256MontgomeryDomainFieldElement)(out1), arg1, &p256MontgomeryDomainFieldElement{1})
}

`,
	},
	{
		Name: "P-256: into the domain by a product with R²", File: "crypto/internal/fips140/nistec/fiat/p256_fiat64.go",
		Why: "As above. R is 2²⁵⁶.",
		Old: `func p256ToMontgomery(out1 *p256MontgomeryDomainFieldElement, arg1 *p256NonMontgomeryDomainFieldElement) {
`,
		Upto: "// p256Selectznz is",
		New: `func p256ToMontgomery(out1 *p256MontgomeryDomainFieldElement, arg1 *p256NonMontgomeryDomainFieldElement) {
	p256Mul(out1, (*p256MontgomeryDomainFieldElement)(arg1), &p256MontgomeryDomainFieldElement{3, 0xfffffffbffffffff, 0xfffffffffffffffe, 0x4fffffffd})
}

`,
	},
	{
		Name: "ECDSA with P-256: public keys", File: "crypto/ecdsa/ecdsa.go",
		Why: `The other curves' arithmetic takes 170 KiB, for keys that nearly nobody has.
ssh-keygen makes P-256 where it is asked for ECDSA, security keys know no other.`,
		Old: `	switch curve {
	case elliptic.P224():
		return parseUncompressedPublicKey(ecdsa.P224(), curve, data)
	case elliptic.P256():
		return parseUncompressedPublicKey(ecdsa.P256(), curve, data)
	case elliptic.P384():
		return parseUncompressedPublicKey(ecdsa.P384(), curve, data)
	case elliptic.P521():
		return parseUncompressedPublicKey(ecdsa.P521(), curve, data)
`,
		New: `	switch curve {
	case elliptic.P256():
		return parseUncompressedPublicKey(ecdsa.P256(), curve, data)
`,
	},
	{
		Name: "ECDSA with P-256: public keys' bytes", File: "crypto/ecdsa/ecdsa.go",
		Why: "As above.",
		Old: `	case elliptic.P224():
		return publicKeyBytes(ecdsa.P224(), pub)
	case elliptic.P256():
		return publicKeyBytes(ecdsa.P256(), pub)
	case elliptic.P384():
		return publicKeyBytes(ecdsa.P384(), pub)
	case elliptic.P521():
		return publicKeyBytes(ecdsa.P521(), pub)
`,
		New: `	case elliptic.P256():
		return publicKeyBytes(ecdsa.P256(), pub)
`,
	},
	{
		Name: "ECDSA with P-256: key exchange", File: "crypto/ecdsa/ecdsa.go",
		Why: "As above.",
		Old: `	case elliptic.P256():
		return ecdh.P256()
	case elliptic.P384():
		return ecdh.P384()
	case elliptic.P521():
		return ecdh.P521()
`,
		New: `	case elliptic.P256():
		return ecdh.P256()
`,
	},
	{
		Name: "ECDSA with P-256: private keys", File: "crypto/ecdsa/ecdsa.go",
		Why: "As above.",
		Old: `	case elliptic.P224():
		return parseRawPrivateKey(ecdsa.P224(), nistec.NewP224Point, curve, data)
	case elliptic.P256():
		return parseRawPrivateKey(ecdsa.P256(), nistec.NewP256Point, curve, data)
	case elliptic.P384():
		return parseRawPrivateKey(ecdsa.P384(), nistec.NewP384Point, curve, data)
	case elliptic.P521():
		return parseRawPrivateKey(ecdsa.P521(), nistec.NewP521Point, curve, data)
`,
		New: `	case elliptic.P256():
		return parseRawPrivateKey(ecdsa.P256(), nistec.NewP256Point, curve, data)
`,
	},
	{
		Name: "ECDSA with P-256: private keys' bytes", File: "crypto/ecdsa/ecdsa.go",
		Why: "As above.",
		Old: `	case elliptic.P224():
		return privateKeyBytes(ecdsa.P224(), priv)
	case elliptic.P256():
		return privateKeyBytes(ecdsa.P256(), priv)
	case elliptic.P384():
		return privateKeyBytes(ecdsa.P384(), priv)
	case elliptic.P521():
		return privateKeyBytes(ecdsa.P521(), priv)
`,
		New: `	case elliptic.P256():
		return privateKeyBytes(ecdsa.P256(), priv)
`,
	},
	{
		Name: "ECDSA with P-256: new keys", File: "crypto/ecdsa/ecdsa.go",
		Why: "As above. Curves of a program's own, which were deprecated, are left out, too.",
		Old: `	case elliptic.P224().Params():
		return generateFIPS(c, ecdsa.P224(), r)
	case elliptic.P256().Params():
		return generateFIPS(c, ecdsa.P256(), r)
	case elliptic.P384().Params():
		return generateFIPS(c, ecdsa.P384(), r)
	case elliptic.P521().Params():
		return generateFIPS(c, ecdsa.P521(), r)
	default:
		return generateLegacy(c, r)
`,
		New: `	case elliptic.P256().Params():
		return generateFIPS(c, ecdsa.P256(), r)
	default:
		return nil, errCurve
`,
	},
	{
		Name: "ECDSA with P-256: signing", File: "crypto/ecdsa/ecdsa.go",
		Why: "As above.",
		Old: `	case elliptic.P224().Params():
		return signFIPS(ecdsa.P224(), priv, r, hash)
	case elliptic.P256().Params():
		return signFIPS(ecdsa.P256(), priv, r, hash)
	case elliptic.P384().Params():
		return signFIPS(ecdsa.P384(), priv, r, hash)
	case elliptic.P521().Params():
		return signFIPS(ecdsa.P521(), priv, r, hash)
	default:
		return signLegacy(priv, r, hash)
	}
}
`,
		New: `	case elliptic.P256().Params():
		return signFIPS(ecdsa.P256(), priv, r, hash)
	default:
		return nil, errCurve
	}
}

var errCurve = errors.New("ecdsa: this Go knows P-256 only")
`,
	},
	{
		Name: "ECDSA with P-256: signing without random numbers", File: "crypto/ecdsa/ecdsa.go",
		Why: "As above.",
		Old: `	case elliptic.P224().Params():
		return signFIPSDeterministic(ecdsa.P224(), h, priv, hash)
	case elliptic.P256().Params():
		return signFIPSDeterministic(ecdsa.P256(), h, priv, hash)
	case elliptic.P384().Params():
		return signFIPSDeterministic(ecdsa.P384(), h, priv, hash)
	case elliptic.P521().Params():
		return signFIPSDeterministic(ecdsa.P521(), h, priv, hash)
`,
		New: `	case elliptic.P256().Params():
		return signFIPSDeterministic(ecdsa.P256(), h, priv, hash)
`,
	},
	{
		Name: "ECDSA with P-256: verifying", File: "crypto/ecdsa/ecdsa.go",
		Why: "As above.",
		Old: `	case elliptic.P224().Params():
		return verifyFIPS(ecdsa.P224(), pub, hash, sig)
	case elliptic.P256().Params():
		return verifyFIPS(ecdsa.P256(), pub, hash, sig)
	case elliptic.P384().Params():
		return verifyFIPS(ecdsa.P384(), pub, hash, sig)
	case elliptic.P521().Params():
		return verifyFIPS(ecdsa.P521(), pub, hash, sig)
	default:
		return verifyLegacy(pub, hash, sig)
`,
		New: `	case elliptic.P256().Params():
		return verifyFIPS(ecdsa.P256(), pub, hash, sig)
	default:
		return false
`,
	},
	{
		Name: "RSA without PSS by the general interface", File: "crypto/rsa/rsa.go",
		Why: `SSH signs with PKCS #1 v1.5 (RFC 8332). A key that is used as a crypto.Signer has
both; SignPSS is there for who calls it.`,
		Old: `	if pssOpts, ok := opts.(*PSSOptions); ok {
		return SignPSS(rand, priv, pssOpts.Hash, digest, pssOpts)
	}
`,
		New: `	if _, ok := opts.(*PSSOptions); ok {
		return nil, errors.New("crypto/rsa: this Go signs with PSS by SignPSS only")
	}
`,
	},
	{
		Name: "RSA keys of three primes are refused", File: "crypto/rsa/rsa.go",
		Why:  "They are deprecated, and need long division.",
		Old:  "	// Ensure the Mod and ModInverse calls below don't panic.\n",
		Upto: "func fipsPublicKey(",
		New: `	return precomputed, errors.New("crypto/rsa: this Go knows keys of two primes only")
}

`,
	},
	{
		Name: "ECDSA signatures of P-256's length", File: "crypto/ecdsa/ecdsa.go",
		Why: `Two integers of 33 bytes at most, which DER has with lengths of one byte: the
general builder is not needed.`,
		Old: `	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
`,
		Upto: "// VerifyASN1 verifies",
		New: `	sig := []byte{0x30, 0}
	for _, n := range [][]byte{r, s} {
		for len(n) > 0 && n[0] == 0 {
			n = n[1:]
		}
		if len(n) == 0 || len(n) > 32 {
			return nil, errors.New("invalid integer")
		}
		if n[0]&0x80 != 0 {
			sig = append(sig, 2, byte(len(n)+1), 0)
		} else {
			sig = append(sig, 2, byte(len(n)))
		}
		sig = append(sig, n...)
	}
	sig[1] = byte(len(sig) - 2)
	return sig, nil
}

`,
	},
	{
		Name: "ECDSA signatures of two numbers are not encoded to be decoded", File: "crypto/ecdsa/ecdsa_legacy.go",
		Why: "So that SSH, which has two numbers, needs no ASN.1.",
		Old: `	sig, err := encodeSignature(r.Bytes(), s.Bytes())
	if err != nil {
		return false
	}
	return VerifyASN1(pub, hash, sig)
}
`,
		New: `	if pub.Curve.Params() != elliptic.P256().Params() {
		return false
	}
	k, err := publicKeyToFIPS(ecdsa.P256(), pub)
	if err != nil {
		return false
	}
	return ecdsa.Verify(ecdsa.P256(), k, hash, &ecdsa.Signature{R: r.Bytes(), S: s.Bytes()}) == nil
}
`,
	},
	{
		Name: "ECDSA signatures of two numbers: import", File: "crypto/ecdsa/ecdsa_legacy.go",
		Why: "As above.",
		Old: `	"crypto/elliptic"
	"crypto/internal/fips140only"
`,
		New: `	"crypto/elliptic"
	"crypto/internal/fips140/ecdsa"
	"crypto/internal/fips140only"
`,
	},
	{
		Name: "each curve's parameters when it is asked for", File: "crypto/elliptic/elliptic.go",
		Why: "So that asking for P-256 does not link the others.",
		Old: `func initAll() {
	initP224()
	initP256()
	initP384()
	initP521()
}
`,
		New: `func initAll() {
	onceP256.Do(initP256)
	initP224()
	initP384()
	initP521()
}

var onceP256 sync.Once
`,
	},
	{
		Name: "P-256's parameters", File: "crypto/elliptic/elliptic.go",
		Why: "As above.",
		Old: `	initonce.Do(initAll)
	return p256
`,
		New: `	onceP256.Do(initP256)
	return p256
`,
	},
	{
		Name: "private keys are not kept expanded", File: "crypto/internal/fips140cache/cache.go",
		Why: `Without FIPS 140-3 mode it is a hash, or copies, that are saved at each signature; a
handshake makes one.`,
		Old: `	p := weak.Make(k)
	if cached, ok := c.m.Load(p); ok {
		v := cached.(*V)
		if check(v) {
			return v, nil
		}
	}
	v, err := new()
	if err != nil {
		return nil, err
	}
	if _, present := c.m.Swap(p, v); !present {
		runtime.AddCleanup(k, c.evict, p)
	}
	return v, nil
}

func (c *Cache[K, V]) evict(p weak.Pointer[K]) {
	c.m.Delete(p)
}
`,
		New: `	return new()
}
`,
	},
	{
		Name: "private keys are not kept expanded: where", File: "crypto/internal/fips140cache/cache.go",
		Why: "As above.",
		Old: `import (
	"runtime"
	"sync"
	"weak"
)

type Cache[K, V any] struct {
	m sync.Map
}
`,
		New: `type Cache[K, V any] struct{}
`,
	},
	{
		Name: "SHA-3 where it is asked for", File: "crypto/internal/fips140hash/hash.go",
		Why: "What unwraps SHA-3's hashes for HMAC and RSA links them, and nobody uses them there.",
		Old: `import (
	fsha3 "crypto/internal/fips140/sha3"
	"crypto/sha3"
	"hash"
	_ "unsafe"
)

//go:linkname sha3Unwrap
func sha3Unwrap(*sha3.SHA3) *fsha3.Digest
`,
		New: `import "hash"
`,
	},
	{
		Name: "SHA-3 where it is asked for: unwrapping", File: "crypto/internal/fips140hash/hash.go",
		Why: "As above.",
		Old: `	if sha3, ok := h.(*sha3.SHA3); ok {
		return sha3Unwrap(sha3)
	}
`,
		New: "",
	},
	{
		Name: "big numbers are printed digit by digit", File: "math/big/natconv.go",
		Why: `Numbers of thousands of digits are printed faster by splitting them, which needs
long division and powers: 30 KiB that every program has which links this package.`,
		Old: `		table := divisors(stk, len(x), b, ndigits, bb)
`,
		New: `		var table []divisor // not split
`,
	},
	{
		Name: "big numbers are printed digit by digit: how", File: "math/big/natconv.go",
		Why:  "As above.",
		Old:  "	// split larger blocks recursively\n",
		Upto: "	// having split any large blocks now",
		New:  "",
	},
}
