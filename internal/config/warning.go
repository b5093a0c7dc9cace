package config

import "strconv"

// Warning is one thing in the settings that is not used as it stands.
type Warning struct {
	File    string // path on the box, for example /userdata/etc/radio.conf
	Line    int    // from 1; 0 when it is about the file
	Key     string // "" when it is about the line or the file
	Value   string // as it stands there
	Used    string // the value used instead; "" when there is none
	Problem string
}

// String returns FILE:LINE: KEY=VALUE: PROBLEM; using USED.
func (w Warning) String() string {
	s := w.File
	if w.Line > 0 {
		s += ":" + strconv.Itoa(w.Line)
	}
	s += ": "
	switch {
	case w.Key != "" && w.Value != "":
		s += w.Key + "=" + strconv.Quote(clip(w.Value)) + ": "
	case w.Key != "":
		s += w.Key + ": "
	case w.Value != "":
		s += strconv.Quote(clip(w.Value)) + ": "
	}
	s += w.Problem
	if w.Used != "" {
		s += "; using " + w.Used
	}
	return s
}

// clip keeps a warning to one line of a terminal: a value may be 64 KiB long.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
