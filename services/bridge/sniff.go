//go:build linux

package bridge

import "strings"

// verdict is what a connection's first bytes say.
type verdict uint8

const (
	undecided verdict = iota // nothing yet, or a beginning of "SSH-"
	isRadio                  // as a radio's protocol begins
	isOther                  // anything else: a boot loader's menu, a command line
	isSSH
	isForeign // what is certainly not for a radio
)

// raw tells whether the bytes are the radio's, if it is to be had.
func (v verdict) raw() bool { return v == isRadio || v == isOther }

// sshPrefix is how an SSH client begins (RFC 4253, 4.2). No radio protocol does.
const sshPrefix = "SSH-"

// radioFirst are the bytes with which the protocols of radios begin: ASH with a
// cancel, XON, XOFF or its RST frame, HDLC and Spinel with a flag, CPC with its own.
const radioFirst = "\x1a\x11\x13\xc0\x7e\x14"

// foreign are beginnings of what web browsers, scanners and the like say,
// and no radio's client. Left out is what may be a command for a boot loader or
// a command line ("\r\n", digits, words in small letters). They are the
// openings of nmap's version scan as it is by default, shortened.
var foreign = [...]string{
	"\r\n\r\n", "GET ", "HEAD ", "POST ", "PUT ", "OPTIONS ", "CONNECT ", "PRI * ",
	"HELP", "HELO", "EHLO",
	"\x16\x03",                             // TLS
	"\x80\x00\x00\x28",                     // SunRPC
	"\x00\x1e\x00\x06", "\x00\x0c\x00\x00", // DNS
	"\x00\x00\x00\x71", "\x00\x00\x00\xa4", // Kerberos, SMB
	"\x00Z\x00\x00", "\x00\x03\x00\x01", // Oracle, AFP
	"\x03\x00\x00",                   // RDP
	"l\x00\x0b\x00",                  // X11
	"\x01default",                    // LPD
	"0\x84\x00\x00", "0\x0c\x02\x01", // LDAP
	"\x01\x00\x00\xfd", // WMS
	"\x12\x01\x00",     // MS SQL
	":\x00\x00\x00",    // Notes
	"TNMP", "DmdT", "JRMI", "GIOP",
}

// sniffBytes is how much is looked at: as much as the longest of them.
const sniffBytes = 8

// sniff judges the first bytes of a connection. Only what may become "SSH-" is
// waited for; a foreign opening comes in one piece.
func sniff(first []byte) verdict {
	if len(first) == 0 {
		return undecided
	}
	s := string(first[:min(len(first), sniffBytes)])
	switch {
	case strings.HasPrefix(s, sshPrefix):
		return isSSH
	case strings.HasPrefix(sshPrefix, s):
		return undecided
	case strings.IndexByte(radioFirst, s[0]) >= 0:
		return isRadio
	}
	for _, f := range foreign {
		if strings.HasPrefix(s, f) {
			return isForeign
		}
	}
	return isOther
}
