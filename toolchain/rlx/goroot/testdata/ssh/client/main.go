// Command client talks to the server beside it with every algorithm that it is
// to have, and with some that it is not to have: client SERVER [ARGUMENT ...].
// It says "ok" or what went wrong, a line each.
package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// try is a session. Empty algorithms are the usual ones, empty keys Ed25519.
type try struct {
	kex, cipher, mac string
	host, user       string // kinds of keys
	hostAlgorithm    string
	fails            string // what the error has to contain
}

var tries = []try{
	{kex: "curve25519-sha256"},
	{kex: "mlkem768x25519-sha256"},
	{cipher: "chacha20-poly1305@openssh.com"},
	{cipher: "aes128-ctr", mac: "hmac-sha2-256-etm@openssh.com"},
	{cipher: "aes256-ctr", mac: "hmac-sha2-256"},
	{cipher: "aes192-ctr", mac: "hmac-sha2-512-etm@openssh.com"},
	{cipher: "aes128-ctr", mac: "hmac-sha2-512"},
	{host: "P-256", user: "P-256"},
	{host: "RSA", user: "RSA", hostAlgorithm: "rsa-sha2-256"},
	{host: "RSA", hostAlgorithm: "rsa-sha2-512"},

	{kex: "diffie-hellman-group14-sha256", fails: "no common algorithm"},
	{kex: "ecdh-sha2-nistp256", fails: "no common algorithm"},
	{kex: "diffie-hellman-group14-sha1", fails: "no common algorithm"},
	{cipher: "aes128-gcm@openssh.com", fails: "no common algorithm"},
	{cipher: "aes128-cbc", mac: "hmac-sha2-256", fails: "no common algorithm"},
	{cipher: "aes128-ctr", mac: "hmac-sha1", fails: "no common algorithm"},
	{host: "RSA", hostAlgorithm: "ssh-rsa", fails: "no common algorithm"},
	{user: "P-384", fails: "server: "},
}

func main() {
	dir, err := os.MkdirTemp("", "ssh")
	if err == nil {
		err = run(dir, os.Args[1:])
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(dir string, server []string) error {
	keys := map[string]crypto.Signer{}
	var err [4]error
	_, keys[""], err[0] = ed25519.GenerateKey(rand.Reader)
	keys["P-256"], err[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	keys["P-384"], err[2] = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	keys["RSA"], err[3] = rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err[:]...); err != nil {
		return err
	}
	for _, t := range tries {
		said := "ok"
		switch err := t.run(dir, server, keys); {
		case err == nil && t.fails != "":
			said = "it succeeded"
		case err != nil && (t.fails == "" || !strings.Contains(err.Error(), t.fails)):
			said = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Printf("%s: %+v\n", said, t)
	}
	return nil
}

func (t try) run(dir string, server []string, keys map[string]crypto.Signer) error {
	block, err := ssh.MarshalPrivateKey(keys[t.host], "")
	if err != nil {
		return err
	}
	user, err := ssh.NewSignerFromSigner(keys[t.user])
	if err != nil {
		return err
	}
	hostFile, userFile := filepath.Join(dir, "host"), filepath.Join(dir, "user")
	if err := os.WriteFile(hostFile, pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(userFile, ssh.MarshalAuthorizedKey(user.PublicKey()), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, server[0], append(server[1:], hostFile, userFile)...)
	var c pipe
	var said bytes.Buffer
	cmd.Stderr = &said
	if c.WriteCloser, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if c.Reader, err = cmd.StdoutPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = t.session(c, user, keys[t.host])
	_ = c.Close()
	if wait := cmd.Wait(); err != nil || wait != nil {
		return fmt.Errorf("%v, %v, %s", err, wait, said.Bytes())
	}
	return nil
}

func (t try) session(c net.Conn, user ssh.Signer, host crypto.Signer) error {
	hostKey, err := ssh.NewPublicKey(host.Public())
	if err != nil {
		return err
	}
	config := &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(user)}, HostKeyCallback: ssh.FixedHostKey(hostKey)}
	for to, name := range map[*[]string]string{
		&config.KeyExchanges: t.kex, &config.Ciphers: t.cipher, &config.MACs: t.mac, &config.HostKeyAlgorithms: t.hostAlgorithm,
	} {
		if name != "" {
			*to = []string{name}
		}
	}
	conn, channels, requests, err := ssh.NewClientConn(c, "", config)
	if err != nil {
		return err
	}
	client := ssh.NewClient(conn, channels, requests)
	defer client.Close()
	s, err := client.NewSession()
	if err != nil {
		return err
	}
	in := bytes.Repeat([]byte("abc 0123456789\n"), 10000) // more than a packet and a window
	s.Stdin = bytes.NewReader(in)
	out, err := s.Output("cat")
	if err == nil && !bytes.Equal(out, bytes.ToUpper(in)) {
		err = fmt.Errorf("%d bytes came back, not what was sent", len(out))
	}
	return err
}

// pipe is a server's standard input and output as a connection.
type pipe struct {
	io.WriteCloser
	io.Reader
}

func (pipe) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (pipe) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (pipe) SetDeadline(time.Time) error      { return nil }
func (pipe) SetReadDeadline(time.Time) error  { return nil }
func (pipe) SetWriteDeadline(time.Time) error { return nil }
