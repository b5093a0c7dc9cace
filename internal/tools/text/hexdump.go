package text

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

func hexdump(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "Cn:s:v")
	if err != nil {
		return err
	}
	if len(names) > 1 {
		return applet.Usagef("one file, not %d", len(names))
	}
	num := func(c byte, def int64) (int64, error) {
		if !o.Has(c) {
			return def, nil
		}
		n, err := strconv.ParseInt(o.Val(c), 0, 64)
		if err != nil || n < 0 {
			return 0, applet.Usagef("-%c takes a number, not %q", c, o.Val(c))
		}
		return n, nil
	}
	length, err := num('n', 1<<62)
	if err != nil {
		return err
	}
	skip, err := num('s', 0)
	if err != nil {
		return err
	}
	return inputs(std, "hexdump", names, func(_ string, r io.Reader) error {
		var err error
		if f, ok := r.(*os.File); ok {
			_, err = f.Seek(skip, io.SeekCurrent)
		} else {
			err = io.ErrNoProgress
		}
		if err != nil && skip > 0 {
			if _, err = io.CopyN(io.Discard, r, skip); err != nil && err != io.EOF {
				return err
			}
		}
		return dump(std.Out, io.LimitReader(r, length), skip, o.Has('C'), o.Has('v'))
	})
}

// dump prints 16 bytes a line, from address at. A line like the one before is
// a single star, however many there are, unless every one is wanted.
func dump(w io.Writer, r io.Reader, at int64, canonical, every bool) error {
	out := bufio.NewWriter(w)
	in := bufio.NewReader(r)
	var line, before [16]byte
	starred, first := false, true
	for {
		n, err := io.ReadFull(in, line[:])
		if n == 0 {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = nil
			}
			if err == nil {
				err = writeAddress(out, at, canonical, "\n")
			}
			if ferr := out.Flush(); err == nil {
				err = ferr
			}
			return err
		}
		if n == 16 && !first && !every && line == before {
			if !starred {
				out.WriteString("*\n")
			}
			starred = true
			at += 16
			continue
		}
		starred, first, before = false, false, line
		if err := writeAddress(out, at, canonical, ""); err != nil {
			return err
		}
		at += int64(n)
		if !canonical {
			for i := 0; i < n; i += 2 {
				pair := []byte{line[i], 0}
				if i+1 < n {
					pair[1] = line[i+1]
				}
				fmt.Fprintf(out, " %04x", binary.NativeEndian.Uint16(pair))
			}
			out.WriteByte('\n')
			continue
		}
		for i := range 16 {
			if i%8 == 0 {
				out.WriteByte(' ')
			}
			if i < n {
				fmt.Fprintf(out, " %02x", line[i])
			} else {
				out.WriteString("   ")
			}
		}
		text := bytes.Map(func(c rune) rune {
			if c < ' ' || c > '~' {
				return '.'
			}
			return c
		}, latin(line[:n]))
		fmt.Fprintf(out, "  |%s|\n", text)
	}
}

// latin makes every byte one rune.
func latin(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		if c >= 0x80 {
			out[i] = 0
		}
	}
	return out
}

func writeAddress(out *bufio.Writer, at int64, canonical bool, end string) error {
	width := 7
	if canonical {
		width = 8
	}
	_, err := fmt.Fprintf(out, "%0*x%s", width, at, end)
	return err
}
