//go:build linux

package loader

import (
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Console is the loader's serial console at port: it prints what a start prints,
// and gives its prompt when an ESC comes. Without a kernel it gives it at once. It
// ends when port does. Commands: FLR, FLW, IPCONFIG, AUTOBURN, DB, and J, which
// ends it. How it words its question is not known from the description.
func (l *Loader) Console(port io.ReadWriter) {
	in := make([]byte, 1)
	read := func() (byte, bool) {
		n, err := port.Read(in)
		return in[0], err == nil && n == 1
	}
	say := func(format string, a ...any) { fmt.Fprintf(port, format, a...) }
	say("Booting...\r\n")
	for {
		c, ok := read()
		if !ok {
			return
		}
		if c == 0x1B {
			break
		}
	}
	say("\r\n---Escape booting by user\r\n<RealTek>")
	line := ""
	for {
		c, ok := read()
		switch {
		case !ok:
			return
		case c == 0x1B:
			continue
		case c != '\r':
			if line == "" && l.c.Faults.LatePrompt {
				say("\r\n<RealTek>")
			}
			line += string(rune(c))
			say("%c", c) // echo
			continue
		}
		say("\r\n")
		words := strings.Fields(strings.ToUpper(line))
		line = ""
		if len(words) > 0 {
			if words[0] == "J" {
				return
			}
			if words[0] == "FLR" || words[0] == "FLW" {
				say("Flash access, are you sure? (Y)es, (N)o->")
				c, ok := read()
				for rest := c; ok && rest != '\r'; {
					rest, ok = read()
				}
				if !ok {
					return
				}
				say("\r\n")
				if c != 'Y' && c != 'y' || l.aborts(words[0]) {
					say("Abort!\r\n<RealTek>")
					continue
				}
			}
			say("%s\r\n", l.typed(words))
		}
		say("<RealTek>")
	}
}

// aborts is Faults.Aborts.
func (l *Loader) aborts(command string) bool {
	l.did(command)
	return l.c.Faults.Aborts != nil && l.c.Faults.Aborts(command, l.Count(command))
}

// typed carries a command out.
func (l *Loader) typed(words []string) string {
	l.serial.Lock()
	defer l.serial.Unlock()
	num := make([]int64, len(words))
	for i, w := range words[1:] {
		v, err := strconv.ParseUint(w, 16, 32)
		if err != nil && words[0] != "IPCONFIG" {
			return "bad number"
		}
		num[i+1] = int64(v)
	}
	switch {
	case words[0] == "AUTOBURN" && len(words) == 2:
		l.c.NoBurn = num[1] == 0
		return "AutoBurning=" + words[1]
	case words[0] == "IPCONFIG" && len(words) == 2:
		var a [4]byte
		if n, err := fmt.Sscanf(words[1], "%d.%d.%d.%d", &a[0], &a[1], &a[2], &a[3]); err != nil || n != 4 {
			return "bad address"
		}
		l.addr = a
		copy(l.mac[1:5], a[:])
		return "Now your Target IP is " + words[1]
	case words[0] == "FLR" && len(words) == 4 && num[1] == loadAddr && num[2]+num[3] <= int64(len(l.c.Flash)):
		l.loaded = append([]byte(nil), l.c.Flash[num[2]:num[2]+num[3]]...)
		return "Flash Read Succeeded!"
	case words[0] == "FLW" && len(words) == 4 && num[2] == loadAddr && num[1]+num[3] <= int64(len(l.c.Flash)) && num[3] <= int64(len(l.loaded)):
		copy(l.c.Flash[num[1]:], l.loaded[:num[3]])
		if l.c.Faults.WriteFails > 0 {
			l.c.Flash[num[1]+int64(l.c.Faults.WriteFails)] ^= 1
		}
		return "Flash Write Succeeded!"
	case words[0] == "DB" && len(words) == 3 && num[1] >= loadAddr && num[1]-loadAddr+num[2] <= int64(len(l.loaded)):
		return hex.Dump(l.loaded[num[1]-loadAddr:][:num[2]])
	}
	return "Unknown command!"
}
