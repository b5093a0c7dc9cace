package edits_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/goroot"
)

// What is left of the packages that cryptoSizeEdits edit passes their own tests,
// with the vectors in them, on the gateway's instruction set. What is skipped is
// about what was left out.
func TestCryptoVectors(t *testing.T) {
	if os.Getenv("GW_SOAK") == "" {
		t.Skip("takes minutes; run it with GW_SOAK=1")
	}
	qemu, err := exec.LookPath("qemu-mips")
	if err != nil {
		t.Fatal("install qemu-user, as make test does")
	}
	root, dir := ourGo(t), t.TempDir()
	for _, tt := range []struct{ pkg, run, skip string }{
		{pkg: "crypto/ecdsa", run: "/^(P256|P-256)$", skip: "^TestVectors$|/P256/Generic"}, // vectors of all curves in one file
		{pkg: "crypto/ecdh"},
		{pkg: "crypto/ed25519"},
		{pkg: "crypto/elliptic"},
		{pkg: "crypto/hmac"},
		{pkg: "crypto/internal/fips140/bigmod"},
		{pkg: "crypto/internal/fips140test"}, // nistec, edwards25519, mlkem and others
		{pkg: "crypto/mlkem"},
		{pkg: "crypto/rsa", run: "PKCS1v15|^TestWycheproof|^TestPSmallerThanQ$|^TestLargeSizeDifference$|^TestModifiedPrivateKey$"},
		{pkg: "crypto/sha512"},
		{pkg: "math/big", skip: "^TestEscape$"}, // builds with a Go that it looks for
	} {
		t.Run(strings.ReplaceAll(tt.pkg, "/", "_"), func(t *testing.T) {
			bin := filepath.Join(dir, path.Base(tt.pkg)+".test")
			if said, err := goroot.Command(t.Context(), root, "test", "-c", "-vet=off", "-o", bin, tt.pkg).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			run := exec.CommandContext(t.Context(), qemu, bin, "-test.short", "-test.v", "-test.run="+tt.run, "-test.skip="+tt.skip)
			run.Dir = filepath.Join(root, "src", tt.pkg)
			said, err := run.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, said)
			}
			if strings.Count(string(said), "--- PASS") == 0 {
				t.Errorf("nothing ran:\n%s", said)
			}
		})
	}
}
