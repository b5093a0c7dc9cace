// Package wire is the framing of the control protocol: JSON values, one a
// line, none longer than api.MaxLine. Server and client share it. It knows no
// socket and no operation.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"gwinit/internal/api"
)

// ErrTooLong is a line of more than api.MaxLine bytes. What follows on the
// connection cannot be told from the rest of that line.
var ErrTooLong = errors.New("line longer than 64 KiB")

// chunk is how much is read at once. Requests and most replies fit; PID 1
// keeps one such buffer per client.
const chunk = 1 << 10

// A Reader splits a stream into lines. The zero value with R set is ready.
type Reader struct {
	R io.Reader

	buf  []byte // read and not yet returned; buf[:scan] holds no newline
	scan int
	line int // length of the line returned last, still at the front of buf
}

// ReadLine returns the next line without its newline; it is valid until the
// next call. It blocks as R does. A last line without a newline is no line:
// whoever sent it did not finish, so the error is io.ErrUnexpectedEOF.
func (r *Reader) ReadLine() ([]byte, error) {
	if r.line > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.line:])]
		r.line = 0
	}
	// One long line must not be paid for as long as the client stays.
	if len(r.buf) == 0 && cap(r.buf) > 4*chunk {
		r.buf = nil
	}
	for {
		if i := bytes.IndexByte(r.buf[r.scan:], '\n'); i >= 0 {
			end := r.scan + i
			r.scan, r.line = 0, end+1
			if r.line > api.MaxLine {
				return nil, ErrTooLong
			}
			return r.buf[:end], nil
		}
		r.scan = len(r.buf)
		if len(r.buf) >= api.MaxLine {
			return nil, ErrTooLong
		}
		if cap(r.buf)-len(r.buf) < chunk {
			grown := make([]byte, len(r.buf), 2*cap(r.buf)+chunk)
			copy(grown, r.buf)
			r.buf = grown
		}
		n, err := r.R.Read(r.buf[len(r.buf) : len(r.buf)+chunk])
		r.buf = r.buf[:len(r.buf)+n]
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) && len(r.buf) > 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// Marshal returns v as compact JSON without a newline. It leaves <, > and &
// as they are: people read these lines.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Line returns v as one line with its newline, or ErrTooLong.
func Line(v any) ([]byte, error) {
	b, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b)+1 > api.MaxLine {
		return nil, ErrTooLong
	}
	return append(b, '\n'), nil
}

// Answer returns the line of the only reply of a request that went well, with
// data in it, or ErrTooLong. It is what Line makes of such a reply, and goes
// through the data once: the larger part of these lines are answers of
// services that are JSON already.
func Answer(data any) ([]byte, error) {
	raw, is := data.(json.RawMessage)
	if !is || bytes.IndexByte(raw, '\n') >= 0 || !json.Valid(raw) {
		var err error
		if raw, err = Marshal(data); err != nil {
			return nil, err
		}
	}
	const head, tail = `{"ok":true,"data":`, "}\n"
	if len(head)+len(raw)+len(tail) > api.MaxLine {
		return nil, ErrTooLong
	}
	return append(append(append(make([]byte, 0, len(head)+len(raw)+len(tail)), head...), raw...), tail...), nil
}
