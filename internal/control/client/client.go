// Package client is the client side of the control protocol (docs/control.md).
// It runs on the box and on a workstation, over any stream that ends at the
// control socket. It does not print anything.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gwinit/internal/api"
	"gwinit/internal/control/wire"
)

// ErrClosed is a connection that ended before the last reply of a request.
var ErrClosed = errors.New("the gateway closed the connection before it had answered")

// Client is one connection. It carries one request at a time; it is not for
// use by several goroutines at once.
type Client struct {
	c  io.ReadWriteCloser
	in wire.Reader
}

// New returns a client on a stream whose other end is a control socket. Its
// Close must end a Read and a Write that wait.
func New(c io.ReadWriteCloser) *Client {
	return &Client{c: c, in: wire.Reader{R: c}}
}

// Close ends the connection.
func (c *Client) Close() error { return c.c.Close() }

// Do sends a request and returns the data of its answer; of an answer in
// several replies, that of the last one. A refusal is an *api.Error. When ctx
// ends, the connection is closed and the error is that of ctx.
func (c *Client) Do(ctx context.Context, op string, args any) (json.RawMessage, error) {
	var data json.RawMessage
	err := c.Stream(ctx, op, args, func(r api.Reply) error {
		data = r.Data
		return nil
	})
	return data, err
}

// Stream sends a request and calls each for every reply, including the last
// one. It returns when that has come, when each returns an error (the
// connection is of no use then), or when ctx ends, which closes the connection.
func (c *Client) Stream(ctx context.Context, op string, args any, each func(api.Reply) error) error {
	req := api.Request{V: api.Version, Op: op}
	if args != nil {
		raw, err := wire.Marshal(args)
		if err != nil {
			return fmt.Errorf("%s: arguments: %w", op, err)
		}
		req.Args = raw
	}
	line, err := wire.Line(req)
	if err != nil {
		return fmt.Errorf("%s: request: %w", op, err)
	}
	unhook := context.AfterFunc(ctx, func() { _ = c.c.Close() })
	defer unhook()

	// A server that has no place for us answers and closes before it reads,
	// so a failed write is only told if there is no answer either.
	_, sent := c.c.Write(line)
	for {
		line, err := c.in.ReadLine()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && sent != nil:
			return fmt.Errorf("send %s: %w", op, sent)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%s: %w", op, ErrClosed)
		case err != nil:
			return fmt.Errorf("read the answer to %s: %w", op, err)
		}
		var r api.Reply
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%s: what answers is not gwinit: %w", op, err)
		}
		if !r.OK {
			if r.Error == nil {
				return fmt.Errorf("%s: refused without a reason", op)
			}
			return r.Error
		}
		if err := each(r); err != nil {
			return err
		}
		if !r.More {
			return nil
		}
	}
}
