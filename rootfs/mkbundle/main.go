// Command mkbundle makes a signed update of the gateway's binary (package
// internal/bundle). `make release` runs it. It signs by the program minisign.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/blake2b"

	"gwinit/internal/bundle"
	"gwinit/internal/minisign"
	"gwinit/rootfs/layout"
)

// options are what an update is made of.
type options struct {
	gw, symbolMap, bootOrder string // as rootfs/mkimage has them
	version, boards, kernel  string // of the manifest
	key, out                 string // files
}

func main() {
	var o options
	flag.StringVar(&o.gw, "gw", "build/gw", "the MIPS `binary` that is the userland")
	flag.StringVar(&o.symbolMap, "map", "build/gw.map", "`file` with the map that its linker wrote")
	flag.StringVar(&o.bootOrder, "order", "toolchain/rlx/boot.order", "`file` with what a boot touches")
	flag.StringVar(&o.version, "version", "", "version `text`")
	flag.StringVar(&o.boards, "boards", "any", "`names` of the boards it is for, separated by white space")
	flag.StringVar(&o.kernel, "kernel", "5.10", "the oldest `Linux` it runs on")
	flag.StringVar(&o.key, "key", "", "`file` with minisign's secret key; its public key is beside it, with .pub for its ending")
	flag.StringVar(&o.out, "out", "", "`file` for the update")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mkbundle:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.key == "" || o.out == "" {
		return errors.New("-key and -out are needed; `make release KEY=FILE` gives both, and `minisign -G -p key.pub -s key.sec` makes a key")
	}
	public := strings.TrimSuffix(o.key, filepath.Ext(o.key)) + ".pub"
	text, err := os.ReadFile(public)
	if err != nil {
		return fmt.Errorf("the public key: %w", err)
	}
	key, err := minisign.ParseKey(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", public, err)
	}
	bin, err := layout.File(o.gw, o.symbolMap, o.bootOrder)
	if err != nil {
		return err
	}
	m := &bundle.Manifest{Version: o.version, Boards: strings.Fields(o.boards), Kernel: o.kernel, Size: int64(len(bin)), SHA256: sha256.Sum256(bin)}
	var signed bytes.Buffer
	if err := bundle.Write(&signed, m, bytes.NewReader(bin)); err != nil {
		return err
	}
	signature, err := sign(o.key, signed.Bytes(), "version "+o.version+" for "+o.boards)
	if err != nil {
		return err
	}
	update := append(signature, signed.Bytes()...)
	if err := check(update, key); err != nil {
		return fmt.Errorf("what was made is no update for %s: %w", public, err)
	}
	if err := os.WriteFile(o.out, update, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes, version %s for %s, signed with key %016X\n", o.out, len(update), o.version, o.boards, key.ID)
	return nil
}

// sign has minisign sign, which asks for the key's password on the terminal.
func sign(key string, contents []byte, comment string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "mkbundle")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "signed")
	if err := os.WriteFile(file, contents, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("minisign", "-S", "-H", "-m", file, "-s", key, "-t", comment)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	switch err := cmd.Run(); {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("minisign is not installed: apt-get install minisign")
	case err != nil:
		return nil, fmt.Errorf("minisign: %w", err)
	}
	return os.ReadFile(file + ".minisig")
}

// check reads an update as a gateway does.
func check(update []byte, key minisign.PublicKey) error {
	hash, err := blake2b.New512(nil)
	if err != nil {
		return err
	}
	b, err := bundle.Open(bytes.NewReader(update), hash)
	if err != nil {
		return err
	}
	var bin bytes.Buffer
	return b.Copy(&bin, []minisign.PublicKey{key}, sha256.New())
}
