package prefix

import "testing"

func TestHost(t *testing.T) {
	for s, want := range map[string]string{
		"192.168.1.5":         "192.168.1.5/32",
		"192.168.1.5/24":      "192.168.1.5/24",
		"fd00::5":             "fd00::5/128",
		"fd00::5/64":          "fd00::5/64",
		"::ffff:10.0.0.1":     "10.0.0.1/32",
		"::ffff:10.0.0.1/104": "10.0.0.1/8",
		"::ffff:10.0.0.1/95":  "",
		"fe80::1%eth0":        "",
		"192.168.1.5/33":      "",
		"gateway.example":     "",
		"":                    "",
	} {
		got := ""
		p, ok := Host(s)
		if ok {
			got = p.String()
		}
		if got != want {
			t.Errorf("%q is %q, want %q", s, got, want)
		}
	}
}
