// Package rest asks otbr-agent by its REST: HTTP/1.1 with one request to a
// connection. It is small because net/http is as large as what is left of the
// rootfs; it follows no redirect and knows no TLS, which the agent has not.
package rest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Limits of an answer.
const (
	maxLine  = 1 << 10
	maxLines = 64
	maxBody  = 32 << 10
)

// Port is where agents have their REST.
const Port = 8081

// Content types that the agent knows.
const (
	Text = "text/plain"
	JSON = "application/json"
)

// Errors of this package.
var (
	ErrMalformed = errors.New("the agent's REST does not answer in HTTP")
	ErrTooLong   = errors.New("the answer of the agent's REST is too long")
)

// StatusError is an answer that says no.
type StatusError struct{ Status int }

// Error implements error.
func (e StatusError) Error() string {
	return "the agent's REST answers with status " + strconv.Itoa(e.Status)
}

// Client asks one agent.
type Client struct {
	Addr    netip.AddrPort
	Timeout time.Duration // of one request
}

// Get returns what is at path, in that content type. An answer other than 2xx is
// a StatusError.
func (c Client) Get(ctx context.Context, path, accept string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	body, err := c.get(ctx, path, accept)
	if err == nil {
		return body, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, fmt.Errorf("GET %s: %w", path, err)
}

func (c Client) get(ctx context.Context, path, accept string) ([]byte, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.Addr.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+c.Addr.String()+"\r\nAccept: "+accept+"\r\nConnection: close\r\n\r\n"); err != nil {
		return nil, err
	}
	status, body, err := Parse(conn)
	if err == nil && (status < 200 || status > 299) {
		err = StatusError{status}
	}
	return body, err
}

// String returns the JSON string that is at path, such as a role.
func (c Client) String(ctx context.Context, path string) (string, error) {
	b, err := c.Get(ctx, path, JSON)
	return strings.Trim(strings.TrimSpace(string(b)), `"`), err
}

// Parse reads an answer (RFC 9112): its status and its body, which has a length,
// is in chunks, or goes on until the end.
func Parse(r io.Reader) (status int, body []byte, err error) {
	b := bufio.NewReaderSize(r, maxLine)
	for {
		status, length, chunked, err := head(b)
		switch {
		case err != nil:
			return 0, nil, err
		case status < 200:
			continue // 100 Continue
		case status == 204 || status == 304:
			return status, nil, nil
		case chunked:
			body, err = chunks(b)
		case length >= 0:
			body = make([]byte, length)
			_, err = io.ReadFull(b, body)
		default:
			body, err = io.ReadAll(io.LimitReader(b, maxBody+1))
			if len(body) > maxBody {
				err = ErrTooLong
			}
		}
		if err != nil {
			return 0, nil, short(err)
		}
		return status, body, nil
	}
}

// short is ErrMalformed for an end in the middle.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, bufio.ErrBufferFull) {
		return ErrMalformed
	}
	return err
}

func line(b *bufio.Reader) (string, error) {
	text, err := b.ReadSlice('\n')
	if err != nil {
		return "", short(err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// head reads the first line and the fields. length is -1 without one.
func head(b *bufio.Reader) (status, length int, chunked bool, err error) {
	first, err := line(b)
	if err != nil {
		return 0, 0, false, err
	}
	version, rest, _ := strings.Cut(first, " ")
	number, _, _ := strings.Cut(rest, " ")
	status, err = strconv.Atoi(number)
	if err != nil || status < 100 || status > 999 || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, 0, false, ErrMalformed
	}
	length = -1
	for range maxLines {
		text, err := line(b)
		if err != nil {
			return 0, 0, false, err
		}
		if text == "" {
			return status, length, chunked, nil
		}
		name, value, ok := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		switch {
		case !ok:
			return 0, 0, false, ErrMalformed
		case strings.EqualFold(name, "Transfer-Encoding"):
			chunked = strings.EqualFold(value, "chunked")
		case strings.EqualFold(name, "Content-Length"):
			n, err := strconv.ParseUint(value, 10, 31)
			switch {
			case err != nil:
				return 0, 0, false, ErrMalformed
			case n > maxBody:
				return 0, 0, false, ErrTooLong
			}
			length = int(n)
		}
	}
	return 0, 0, false, ErrTooLong
}

// chunks reads a body in chunks.
func chunks(b *bufio.Reader) (body []byte, err error) {
	for {
		text, err := line(b)
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(text, ";")
		n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 31)
		switch {
		case err != nil:
			return nil, ErrMalformed
		case n == 0:
			return body, nil // what may follow tells nothing
		case len(body)+int(n) > maxBody:
			return nil, ErrTooLong
		}
		at := len(body)
		body = append(body, make([]byte, n)...)
		if _, err := io.ReadFull(b, body[at:]); err != nil {
			return nil, err
		}
		if end, err := line(b); err != nil || end != "" {
			return nil, ErrMalformed
		}
	}
}
