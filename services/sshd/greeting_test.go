//go:build linux

package sshd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"
)

const (
	// greetingLimit is how long a session may take, its end included.
	greetingLimit = 10 * time.Second
	// maxIdentification is the longest identification line, with its end, in
	// bytes (RFC 4253, 4.2).
	maxIdentification = 255
	// ours is the identification line.
	ours = "SSH-2.0-gwinit\r\n"
)

var errIdentification = errors.New("it sent no SSH identification line")

// greetings is how many of them there are at a time.
const greetings = 8

// Greeting is the Sessions of these tests: it says who is here and
// ends.
func Greeting(_, noise func(string)) (func(ctx context.Context, c net.Conn), int, error) {
	return greeting(noise), greetings, nil
}

// greeting is a session that says who is here and ends.
func greeting(log func(string)) func(ctx context.Context, c net.Conn) {
	return func(ctx context.Context, c net.Conn) {
		defer c.Close()
		stop := context.AfterFunc(ctx, func() { c.Close() })
		defer stop()
		_ = c.SetDeadline(time.Now().Add(greetingLimit)) // of a socket that is open
		peer, err := greet(c)
		said := "ssh connection from " + c.RemoteAddr().String()
		if peer != "" {
			said += ", " + strconv.Quote(peer)
		}
		if err != nil {
			log(said + ", closed: " + err.Error())
			return
		}
		log(said + ", closed: that was all")
	}
}

// greet exchanges the identification lines and ends the connection in the
// orderly way: FIN, and then it waits for the peer's, because a close with
// bytes unread would be a RST.
func greet(c net.Conn) (peer string, err error) {
	peer, err = identification(c)
	if err == nil {
		_, err = io.WriteString(c, ours)
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && (err == nil || errors.Is(err, errIdentification)) {
		if end := half.CloseWrite(); err == nil {
			err = end
		}
		if _, end := io.Copy(io.Discard, c); err == nil {
			err = end
		}
	}
	return peer, err
}

// identification reads a peer's first line, without its end. Nothing behind it
// is lost: what came with it is not read.
func identification(r io.Reader) (string, error) {
	var line [maxIdentification]byte
	for n := range line {
		// A byte at a time: this is once a session.
		if _, err := io.ReadFull(r, line[n:n+1]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
		if line[n] == '\n' {
			text := bytes.TrimSuffix(line[:n], []byte{'\r'})
			if !bytes.HasPrefix(text, []byte("SSH-")) {
				break
			}
			return string(text), nil
		}
	}
	return "", errIdentification
}
