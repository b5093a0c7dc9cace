// Package gecko reads what Silicon Labs' Gecko bootloader says on a UART: its menu
// and how an upload ended (UG489, and UG266 for the older; the texts are those of
// the SDK's btl_comm_xmodem). Legacy Ember serial bootloaders say nearly the same.
package gecko

import (
	"bytes"
	"strconv"
)

// Baud is the rate of the bootloader, which has no flow control, whatever the
// application's are.
const Baud = 115200

// What its menu takes. Any other byte has it print the menu again.
const (
	ChooseUpload = '1'
	ChooseRun    = '2'
	ShowMenu     = '\n' // the legacy one wants a line end
)

// prompt ends the menu.
const prompt = "BL > "

// Version is a bootloader's: major, minor, and a number that its builder counts.
// The menu has four bits of each.
type Version struct{ Major, Minor, Custom uint8 }

// VersionOf reads the version in an image (btl_config.h): major in the highest
// byte, minor in the next, the builder's in the lower half.
func VersionOf(v uint32) Version {
	return Version{uint8(v>>24) & 15, uint8(v>>16) & 15, uint8(v) & 15}
}

// Newer tells whether v is newer than other: only such a one replaces it.
func (v Version) Newer(other Version) bool {
	if v.Major != other.Major {
		return v.Major > other.Major
	}
	if v.Minor != other.Minor {
		return v.Minor > other.Minor
	}
	return v.Custom > other.Custom
}

// String is as radio.conf has it: 2.4.2.
func (v Version) String() string {
	return strconv.Itoa(int(v.Major)) + "." + strconv.Itoa(int(v.Minor)) + "." + strconv.Itoa(int(v.Custom))
}

// Menu looks for the last menu in what was said, and returns the version in it and
// where it ends.
func Menu(said []byte) (v Version, end int, ok bool) {
	end = bytes.LastIndex(said, []byte(prompt))
	if end < 0 {
		return v, 0, false
	}
	const title = "Bootloader v"
	i := bytes.LastIndex(said[:end], []byte(title))
	if i < 0 {
		return v, 0, false
	}
	text := said[i+len(title) : end]
	if i := bytes.IndexAny(text, "\r\n"); i >= 0 {
		text = text[:i]
	}
	// The major number is one hexadecimal digit, the others two decimal ones.
	part := bytes.Split(text, []byte("."))
	if len(part) < 2 {
		return v, 0, false
	}
	for i, to := range []*uint8{&v.Major, &v.Minor, &v.Custom} {
		base := 10
		if i == 0 {
			base = 16
		}
		if i == len(part) {
			break
		}
		n, err := strconv.ParseUint(string(part[i]), base, 8)
		if err != nil {
			return Version{}, 0, false
		}
		*to = uint8(n)
	}
	return v, end + len(prompt), true
}

// Result is how an upload ended.
type Result uint8

// The results.
const (
	Unknown  Result = iota // it has not said it
	Complete               // the image is whole, and it takes it
	Aborted
)

// Outcome looks in what was said since the upload for how it ended. code is what an
// aborted one gives as the reason, 0 if it is not there yet or not understood.
func Outcome(said []byte) (r Result, code uint8) {
	const text = "Serial upload "
	i := bytes.LastIndex(said, []byte(text))
	if i < 0 {
		return Unknown, 0
	}
	rest := said[i+len(text):]
	switch {
	case bytes.HasPrefix(rest, []byte("complete")):
		return Complete, 0
	case !bytes.HasPrefix(rest, []byte("aborted")):
		return Unknown, 0
	}
	const hex = "error 0x"
	if i = bytes.Index(rest, []byte(hex)); i < 0 {
		return Aborted, 0
	}
	// Each of its texts is sent with the zero byte at its end.
	rest = bytes.TrimLeft(rest[i+len(hex):], "\x00")
	if len(rest) < 2 {
		return Aborted, 0
	}
	n, err := strconv.ParseUint(string(rest[:2]), 16, 8)
	if err != nil {
		return Aborted, 0
	}
	return Aborted, uint8(n)
}

// Reason is the code of an aborted upload in words, and whether another attempt
// with the same image may end otherwise.
func Reason(code uint8) (words string, again bool) {
	switch code {
	case 0x21, 0x22, 0x23, 0x24, 0x25, 0x27:
		return "blocks were damaged on the line", true
	case 0x41:
		return "it does not take images of this version", false
	case 0x43:
		return "the image arrived damaged", true
	case 0x44:
		return "the image has a part that it does not know", false
	case 0x45:
		return "the image has no signature that it accepts", false
	case 0x4F:
		return "it does not take what the image is made of: it may be for another chip", false
	case 0x50:
		return "it does not have the key of the image", false
	}
	return "it gave no reason that is known", true
}
