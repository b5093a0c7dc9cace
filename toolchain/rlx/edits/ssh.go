package edits

// sshEdits leave of x/crypto/ssh what a server with algorithms of today needs.
// The rest is in the package's tables, where the linker must keep it. What is
// left out is not offered and cannot be negotiated; what stays is unchanged.
var sshEdits = []Edit{
	{
		Name: "key exchanges: Curve25519, alone and with ML-KEM", File: "ssh/kex.go",
		Why: `Groups of big numbers and NIST's curves take 60 KiB, and seconds on this CPU.
OpenSSH has had Curve25519 since 6.5, PuTTY since 0.68, Dropbear since 2013.62.`,
		Old: `	kexAlgoMap[KeyExchangeECDHP521] = &ecdh{elliptic.P521()}
	kexAlgoMap[KeyExchangeECDHP384] = &ecdh{elliptic.P384()}
	kexAlgoMap[KeyExchangeECDHP256] = &ecdh{elliptic.P256()}
`,
		New: "",
	},
	{
		Name: "key exchanges: no groups of big numbers", File: "ssh/kex.go",
		Why:  "As above.",
		Old:  "	p, _ := new(big.Int).SetString(oakleyGroup2, 16)\n",
		Upto: "	kexAlgoMap[KeyExchangeCurve25519] =",
		New:  "",
	},
	{
		Name: "key exchanges: no groups of the client's choice", File: "ssh/kex.go",
		Why: "As above.",
		Old: `	kexAlgoMap[InsecureKeyExchangeDHGEXSHA1] = &dhGEXSHA{hashFunc: crypto.SHA1}
	kexAlgoMap[KeyExchangeDHGEXSHA256] = &dhGEXSHA{hashFunc: crypto.SHA256}
`,
		New: "",
	},
	{
		Name: "ciphers: no RC4, no CBC", File: "ssh/cipher.go",
		Why:  "Broken or weak, and never offered here.",
		Old:  "	// Insecure ciphers not included in the default configuration.\n",
		Upto: "}\n\n// prefixLen is",
		New:  "",
	},
	{
		Name: "ciphers: no GCM", File: "ssh/cipher.go",
		Why: `Without instructions for it, it is slower than ChaCha20-Poly1305, which every client
that has GCM has as well. AES-CTR stays, for those that have nothing newer.`,
		Old: `	//  Use of GCM with arbitrary IVs is not allowed in FIPS 140-only mode,
	// we'll wire it up to NewGCMForSSH in Go 1.26.
	//
	// For now it means we'll work with fips140=on but not fips140=only.
	cipherModes[CipherAES128GCM] = &cipherMode{16, 12, newGCMCipher}
	cipherModes[CipherAES256GCM] = &cipherMode{32, 12, newGCMCipher}
`,
		New: "",
	},
	{
		Name: "ciphers: imports", File: "ssh/cipher.go",
		Why: "As above.",
		Old: `	"crypto/des"
	"crypto/fips140"
	"crypto/rc4"
`,
		New: `	"crypto/fips140"
`,
	},
	{
		Name: "ciphers: RC4's function", File: "ssh/cipher.go",
		Why:  "As above.",
		Old:  "func newRC4(",
		Upto: "type cipherMode struct",
		New:  "",
	},
	{
		Name: "ciphers: triple DES's function", File: "ssh/cipher.go",
		Why:  "As above.",
		Old:  "func newTripleDESCBCCipher(",
		Upto: "const (\n	cbcMinPacketSizeMultiple",
		New:  "",
	},
	{
		Name: "MACs: no SHA-1", File: "ssh/mac.go",
		Why: "Weak, and never offered here.",
		Old: `	macModes[HMACSHA1] = &macMode{20, false, func(key []byte) hash.Hash {
		return hmac.New(sha1.New, key)
	}}
	macModes[InsecureHMACSHA196] = &macMode{20, false, func(key []byte) hash.Hash {
		return truncatingMAC{12, hmac.New(sha1.New, key)}
	}}
`,
		New: "",
	},
	{
		Name: "MACs: import", File: "ssh/mac.go",
		Why: "As above.",
		Old: `	"crypto/sha1"
`,
		New: "",
	},
	{
		Name: "no SHA-1", File: "ssh/common.go",
		Why: "As above.",
		Old: `	_ "crypto/sha1"
`,
		New: "",
	},
	{
		Name: "no signatures with SHA-1", File: "ssh/common.go",
		Why: "As above. The hash is not linked.",
		Old: `		if fips140.Enabled() {
			return 0, fmt.Errorf("ssh: hash algorithm for format %q not allowed in FIPS 140 mode", format)
		}
		return crypto.SHA1, nil
`,
		New: `		return 0, fmt.Errorf("ssh: signatures of format %q (SHA-1) are not supported", format)
`,
	},
	{
		Name: "no signatures with SHA-1: of an RSA key", File: "ssh/common.go",
		Why: "As above.",
		Old: `		return []string{KeyAlgoRSASHA256, KeyAlgoRSASHA512, KeyAlgoRSA}
`,
		New: `		return []string{KeyAlgoRSASHA256, KeyAlgoRSASHA512}
`,
	},
	{
		Name: "keys of users: those that can be verified", File: "ssh/common.go",
		Why: "This list is what a client is told.",
		Old: `		KeyAlgoSKECDSA256,
		KeyAlgoECDSA256,
		KeyAlgoECDSA384,
		KeyAlgoECDSA521,
		KeyAlgoRSASHA256,
		KeyAlgoRSASHA512,
		KeyAlgoRSA,
	}
`,
		New: `		KeyAlgoSKECDSA256,
		KeyAlgoECDSA256,
		KeyAlgoRSASHA256,
		KeyAlgoRSASHA512,
	}
`,
	},
	{
		Name: "no client's side of a key exchange", File: "ssh/handshake.go",
		Why: "A server never is one; without this call each exchange has a half.",
		Old: `		result, err = t.client(kex, algs.HostKey, &magics)
`,
		New: `		err = errors.New("ssh: this build is a server")
`,
	},
	{
		Name: "no GSSAPI", File: "ssh/server.go",
		Why:  "A gateway is in no Kerberos realm.",
		Old:  "		case \"gssapi-with-mic\":\n",
		Upto: "		default:\n			authErr = fmt.Errorf(\"ssh: unknown method %q\"",
		New:  "",
	},
	{
		Name: "GSSAPI's mechanism as it is encoded", File: "ssh/ssh_gss.go",
		Why: "It is a constant, and was encoded at the start of every program.",
		Old: `var krb5OID []byte

func init() {
	krb5OID, _ = asn1.Marshal(krb5Mesh)
}
`,
		New: `var krb5OID = []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2}
`,
	},
	{
		Name: "no certificates", File: "ssh/keys.go",
		Why: "Nobody can say on a gateway which authority to trust.",
		Old: `		cert, err := parseCert(in, certKeyAlgoNames[algo])
		if err != nil {
			return nil, nil, err
		}
		return cert, nil, nil
`,
		New: `		return nil, nil, fmt.Errorf("ssh: certificates are not supported: %q", algo)
`,
	},
	{
		Name: "ECDSA keys: P-256", File: "ssh/keys.go",
		Why: "As in crypto/ecdsa. Its parser checks that the point is on the curve.",
		Old: `	key := new(ecdsa.PublicKey)

	switch w.Curve {
	case "nistp256":
		key.Curve = elliptic.P256()
	case "nistp384":
		key.Curve = elliptic.P384()
	case "nistp521":
		key.Curve = elliptic.P521()
	default:
		return nil, nil, errors.New("ssh: unsupported curve")
	}

	key.X, key.Y = elliptic.Unmarshal(key.Curve, w.KeyBytes)
	if key.X == nil || key.Y == nil {
		return nil, nil, errors.New("ssh: invalid curve point")
	}
`,
		New: `	if w.Curve != "nistp256" {
		return nil, nil, fmt.Errorf("ssh: unsupported curve %q: only nistp256 is known here", w.Curve)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), w.KeyBytes)
	if err != nil {
		return nil, nil, errors.New("ssh: invalid curve point")
	}
`,
	},
	{
		Name: "ECDSA keys: bytes", File: "ssh/keys.go",
		Why: "As above.",
		Old: `	keyBytes := elliptic.Marshal(k.Curve, k.X, k.Y)
	// ECDSA publickey struct layout should match the struct used by
`,
		New: `	keyBytes, err := (*ecdsa.PublicKey)(k).Bytes()
	if err != nil {
		panic("ssh: " + err.Error())
	}
	// ECDSA publickey struct layout should match the struct used by
`,
	},
	{
		Name: "ECDSA keys in hardware", File: "ssh/keys.go",
		Why: "As above.",
		Old: `	key.Curve = elliptic.P256()

	key.X, key.Y = elliptic.Unmarshal(key.Curve, w.KeyBytes)
	if key.X == nil || key.Y == nil {
		return nil, nil, errors.New("ssh: invalid curve point")
	}
`,
		New: `	pub, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), w.KeyBytes)
	if err != nil {
		return nil, nil, errors.New("ssh: invalid curve point")
	}
	key.PublicKey = *pub
`,
	},
	{
		Name: "ECDSA keys in hardware: bytes", File: "ssh/keys.go",
		Why: "As above.",
		Old: `	keyBytes := elliptic.Marshal(k.Curve, k.X, k.Y)
	w := struct {
`,
		New: `	keyBytes, err := k.PublicKey.Bytes()
	if err != nil {
		panic("ssh: " + err.Error())
	}
	w := struct {
`,
	},
	{
		Name: "ECDSA keys: supported curves", File: "ssh/keys.go",
		Why: "As above.",
		Old: `	return curve == elliptic.P256() || curve == elliptic.P384() || curve == elliptic.P521()
`,
		New: `	return curve == elliptic.P256()
`,
	},
	{
		Name: "ECDSA signatures: from DER to SSH", File: "ssh/keys.go",
		Why: `The contents of a DER integer are those of an SSH one (RFC 4251, 5), so they only
change frames; the general decoder is 50 KiB.`,
		Old: `		type asn1Signature struct {
			R, S *big.Int
		}
		asn1Sig := new(asn1Signature)
		_, err := asn1.Unmarshal(signature, asn1Sig)
		if err != nil {
			return nil, err
		}
		signature = Marshal(asn1Sig)
`,
		New: `		signature, err = ecdsaBlob(signature)
		if err != nil {
			return nil, err
		}
`,
	},
	{
		Name: "ECDSA signatures: from DER to SSH: how", File: "ssh/keys.go",
		Why: "As above.",
		Old: `// NewPublicKey takes an *rsa.PublicKey,`,
		New: `// ecdsaBlob turns a DER sequence of two integers, with lengths of one byte,
// into two mpints.
func ecdsaBlob(der []byte) (blob []byte, err error) {
	bad := errors.New("ssh: malformed ECDSA signature")
	if len(der) < 2 || der[0] != 0x30 || int(der[1]) != len(der)-2 {
		return nil, bad
	}
	der = der[2:]
	for range 2 {
		if len(der) < 3 || der[0] != 2 || der[1] == 0 || int(der[1]) > len(der)-2 {
			return nil, bad
		}
		n := int(der[1])
		blob = appendString(blob, string(der[2:2+n]))
		der = der[2+n:]
	}
	if len(der) != 0 {
		return nil, bad
	}
	return blob, nil
}

// NewPublicKey takes an *rsa.PublicKey,`,
	},
	{
		Name: "private keys in OpenSSH's format", File: "ssh/keys.go",
		Why: "The other formats need ASN.1 and X.509.",
		Old: `	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	// RFC5208 - https://tools.ietf.org/html/rfc5208
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "OPENSSH PRIVATE KEY":
`,
		New: `	case "OPENSSH PRIVATE KEY":
`,
	},
	{
		Name: "private keys in OpenSSH's format: encrypted ones", File: "ssh/keys.go",
		Why:  "As above.",
		Old:  "	if !encryptedBlock(block) || !x509.IsEncryptedPEMBlock(block) {\n",
		Upto: "// ParseDSAPrivateKey always",
		New: `	return nil, fmt.Errorf("ssh: unsupported key type %q", block.Type)
}

// errPassword is the decryption's, with the text of x509.IncorrectPasswordError.
var errPassword = errors.New("x509: decryption password incorrect")

`,
	},
	{
		Name: "private keys in OpenSSH's format: wrong passwords", File: "ssh/keys.go",
		Why: "As above.",
		Old: `			return nil, x509.IncorrectPasswordError
		}
		return nil, errors.New("ssh: malformed OpenSSH key")
`,
		New: `			return nil, errPassword
		}
		return nil, errors.New("ssh: malformed OpenSSH key")
`,
	},
	{
		Name: "private keys in OpenSSH's format: ECDSA", File: "ssh/keys.go",
		Why: "As for public ones.",
		Old: `		var curve elliptic.Curve
		switch key.Curve {
		case "nistp256":
`,
		Upto: "	default:\n		return nil, errors.New(\"ssh: unhandled key type\")\n",
		New: `		if key.Curve != "nistp256" {
			return nil, errors.New("ssh: unhandled elliptic curve: " + key.Curve)
		}
		if key.D.Sign() < 0 || key.D.BitLen() > 256 {
			return nil, errors.New("ssh: scalar is out of range")
		}
		k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), key.D.FillBytes(make([]byte, 32)))
		if err != nil {
			return nil, errors.New("ssh: scalar is out of range")
		}
		if pub, err := k.PublicKey.Bytes(); err != nil || !bytes.Equal(pub, key.Pub) {
			return nil, errors.New("ssh: public key does not match private key")
		}
		return k, nil
`,
	},
	{
		Name: "no MD5", File: "ssh/keys.go",
		Why:  "The fingerprints of before 2014.",
		Old:  "// FingerprintLegacyMD5 returns",
		Upto: "// FingerprintSHA256 returns",
		New:  "",
	},
	{
		Name: "no keys of other formats: imports", File: "ssh/keys.go",
		Why: "As above.",
		Old: `	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
`,
		New: `	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
`,
	},
	{
		Name: "no certificates: of keys in hardware", File: "ssh/server.go",
		Why: "As above.",
		Old: `	cert, isCert := pubKey.(*Certificate)
	target := pubKey
	if isCert {
		target = cert.Key
	}
	var cloned PublicKey
	switch k := target.(type) {
`,
		New: `	var cloned PublicKey
	switch k := pubKey.(type) {
`,
	},
	{
		Name: "no certificates: of keys in hardware, their copies", File: "ssh/server.go",
		Why: "As above.",
		Old: `	if !isCert {
		return cloned
	}
	c := *cert
	c.Key = cloned
	return &c
`,
		New: `	return cloned
`,
	},
}
