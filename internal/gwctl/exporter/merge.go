package exporter

import (
	"strconv"
	"strings"
)

// merger puts the texts of gateways together: each family once, with all its
// samples, which get the label gateway.
type merger struct {
	families []*family
	byName   map[string]*family
}

type family struct {
	head    string // HELP and TYPE
	samples strings.Builder
}

func (m *merger) family(name, head string) *family {
	f := m.byName[name]
	if f == nil {
		if m.byName == nil {
			m.byName = map[string]*family{}
		}
		f = &family{head: head}
		m.byName[name] = f
		m.families = append(m.families, f)
	}
	return f
}

// own writes a sample of the exporter itself.
func (m *merger) own(name, help, label, value string) {
	f := m.family(name, "# HELP "+name+" "+help+"\n# TYPE "+name+" gauge\n")
	f.samples.WriteString(name + "{" + label + "} " + value + "\n")
}

// escape is a label's value as the format wants it.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// add takes the text of internal/metrics, where HELP and TYPE of a family come
// before its samples.
func (m *merger) add(gateway string, r result) {
	label := `gateway="` + escape.Replace(gateway) + `"`
	up := "1"
	if r.text == nil {
		up = "0"
	}
	m.own("gateway_up", "Whether the gateway answered.", label, up)
	m.own("gateway_scrape_seconds", "How long the gateway took to answer, or not to.", label, strconv.FormatFloat(r.seconds, 'g', 6, 64))
	var f *family
	help := ""
	for line := range strings.Lines(string(r.text)) {
		if rest, is := strings.CutPrefix(line, "# "); is {
			if strings.HasPrefix(rest, "HELP ") {
				help = line
				continue
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(rest, "TYPE "), " ")
			f = m.family(name, help+line)
			continue
		}
		if f == nil {
			continue
		}
		name, rest, labelled := strings.Cut(line, "{")
		if labelled {
			f.samples.WriteString(name + "{" + label + "," + rest)
		} else {
			name, rest, _ = strings.Cut(line, " ")
			f.samples.WriteString(name + "{" + label + "} " + rest)
		}
	}
}

func (m *merger) text() []byte {
	var b []byte
	for _, f := range m.families {
		b = append(append(b, f.head...), f.samples.String()...)
	}
	return b
}
