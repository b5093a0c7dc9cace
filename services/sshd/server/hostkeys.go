//go:build linux

package server

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/atomicfile"
)

// Where host keys are. They stay where dropbear has them, and a new one is made
// in its form: neither a gateway that comes from dropbear nor one that goes
// back to it has another identity then.
const (
	hostKeyDir    = "userdata/etc/dropbear"
	hostKeyRunDir = "run/ssh" // without /userdata, until the next boot
)

const ed25519File = "dropbear_ed25519_host_key"

var hostKeyFiles = [...]string{ed25519File, "dropbear_ecdsa_host_key", "dropbear_rsa_host_key"}

// maxKeyFile is more than any key's file has, in bytes.
const maxKeyFile = 16 << 10

// hostKeys reads the host's keys and makes one of type ed25519 where none is.
// It waits for the kernel's entropy then. A key that cannot be used, or not be
// kept, is told in a line, and there is always one at the end.
func hostKeys(root string, random io.Reader, log func(string)) ([]ssh.Signer, error) {
	keys, found := readHostKeys(filepath.Join(root, hostKeyDir), log)
	if !found {
		more, _ := readHostKeys(filepath.Join(root, hostKeyRunDir), log)
		keys = append(keys, more...)
	}
	for _, k := range keys {
		if k.PublicKey().Type() == ssh.KeyAlgoED25519 {
			return keys, nil
		}
	}
	_, key, err := ed25519.GenerateKey(random)
	if err != nil {
		return nil, fmt.Errorf("make a host key: %w", err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a host key: %w", err)
	}
	print := ssh.FingerprintSHA256(s.PublicKey())
	err = keepKey(filepath.Join(root, hostKeyDir), key)
	switch {
	case err == nil:
		log("made the host key " + print)
	default:
		log("made the host key " + print + ", which is another after the next boot: " + err.Error())
		if err := keepKey(filepath.Join(root, hostKeyRunDir), key); err != nil {
			log("the host key is another at the next session: " + err.Error())
		}
	}
	return append(keys, s), nil
}

// readHostKeys reads the keys in dir. found tells that there is one of type
// ed25519, or was: a damaged one is not replaced behind its owner's back.
func readHostKeys(dir string, log func(string)) (keys []ssh.Signer, found bool) {
	for _, name := range hostKeyFiles {
		path := filepath.Join(dir, name)
		b, err := readSmall(path, maxKeyFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var s ssh.Signer
		if err == nil {
			s, err = parseDropbear(b)
		}
		if err != nil {
			log("host key " + path + " is not used: " + err.Error() + "; delete the file, and a new key is made")
			continue
		}
		found = found || name == ed25519File
		keys = append(keys, s)
	}
	return keys, found
}

func keepKey(dir string, key ed25519.PrivateKey) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, ed25519File)
	return atomicfile.Update(path, 0o600, func(old []byte, there bool) ([]byte, error) {
		if there && len(old) > 0 {
			return nil, fmt.Errorf("%s is there and cannot be used", path)
		}
		return dropbearED25519(key), nil
	})
}

// readSmall reads a regular file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	// Not to wait for the other end of a FIFO.
	f, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > limit:
		return nil, fmt.Errorf("it has %d bytes, more than %d", info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// systemRandom is the kernel's, once it has enough entropy.
func systemRandom() io.Reader { return rand.Reader }
