// Command ssh is an SSH server of one session over its standard input and
// output, for a test of the edited packages: ssh HOSTKEY AUTHORIZED. It answers
// a command with what it read, in capitals.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
)

func main() {
	if err := serve(stdio{}, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func serve(c net.Conn, hostKey, authorized string) error {
	b, err := os.ReadFile(hostKey)
	if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return err
	}
	if b, err = os.ReadFile(authorized); err != nil {
		return err
	}
	known, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		return err
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !bytes.Equal(key.Marshal(), known.Marshal()) {
				return nil, errors.New("not that key")
			}
			return nil, nil
		},
	}
	config.AddHostKey(signer)
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for offer := range channels {
		ch, requests, err := offer.Accept()
		if err != nil {
			return err
		}
		for r := range requests {
			if err := r.Reply(r.Type == "exec", nil); err != nil {
				return err
			}
			if r.Type == "exec" {
				break
			}
		}
		go ssh.DiscardRequests(requests)
		b, err := io.ReadAll(ch)
		if err != nil {
			return err
		}
		if _, err := ch.Write(bytes.ToUpper(b)); err != nil {
			return err
		}
		if _, err := ch.SendRequest("exit-status", false, make([]byte, 4)); err != nil {
			return err
		}
		if err := ch.Close(); err != nil {
			return err
		}
		_ = conn.Wait() // for the client to end it
		return nil
	}
	return errors.New("no session")
}

// stdio is standard input and output as a connection.
type stdio struct{}

func (stdio) Read(b []byte) (int, error)       { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error)      { return os.Stdout.Write(b) }
func (stdio) Close() error                     { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }
func (stdio) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (stdio) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (stdio) SetDeadline(time.Time) error      { return nil }
func (stdio) SetReadDeadline(time.Time) error  { return nil }
func (stdio) SetWriteDeadline(time.Time) error { return nil }
