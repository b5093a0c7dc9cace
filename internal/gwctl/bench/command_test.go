package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
)

// gwctlBench runs gwctl bench without a gateway.
func gwctlBench(t *testing.T, in string, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	a := gwctl.Command("9", nil, Commands("9")...)
	err = a.Run(t.Context(), applet.IO{In: strings.NewReader(in), Out: &b, Err: &b}, append([]string{"bench"}, args...))
	return b.String(), err
}

func TestStatsCommand(t *testing.T) {
	out, err := gwctlBench(t, "68.7 70.1 69.0 68.8 69.0 69.0 69.9 68.8 69.1 68.7\n", "stats", "-")
	const series = `n 10, median 69.00, mean 69.11, 68.70 to 70.10 (spread 1.40)
sample sd (n-1) 0.49, population sd (n) 0.47
95 %: mean [68.76, 69.46], sample sd [0.34, 0.90]
outlier: number 2 (it counts all the same)
`
	if err != nil || out != series {
		t.Errorf("%v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "pairs")
	if err := os.WriteFile(file, []byte("(89.1 91.1)(89.9 90.8)(89.5 90.7)(88.9 90.2)(89.7 90.4)"), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err = gwctlBench(t, "", "stats", file, "-bar", "0.5")
	const pairs = `5 pairs: mean difference +1.22, 95 % (t) [0.60, 1.84], sample sd 0.50
t test 0.00537 (two-sided)
sign test 0.0312 one-sided, 0.0625 two-sided (5 up, 0 down)
permutation test 0.0312 one-sided, 0.0625 two-sided (exact)
so many pairs find a gain of 0.84 with a chance of 80 %
bar +0.50: cleared
`
	if err != nil || out != pairs {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = gwctlBench(t, "0.6 0.5 0.4 1.3", "stats", "-json", "-", "-differences")
	var n Numbers
	if errJSON := json.Unmarshal([]byte(out), &n); err != nil || errJSON != nil || n.Paired.Sign.Greater != 0.0625 || n.Paired.N != 4 || n.Series != nil || n.Verdict != "" {
		t.Errorf("%v, %v\n%s", err, errJSON, out)
	}
	for _, tt := range []struct{ in, args, want string }{
		{"1 x", "-", `-: line 1: "x" is no number`},
		{"", "/nowhere/at/all", "no such file"},
		{"1", "- -differences", "of one pair: too few"},
	} {
		if out, err := gwctlBench(t, tt.in, append([]string{"stats"}, strings.Fields(tt.args)...)...); err == nil || !strings.Contains(err.Error(), tt.want) || out != "" {
			t.Errorf("%s: %v, %q", tt.args, err, out)
		}
	}
}

func TestCompareCommand(t *testing.T) {
	old, _ := measured(t, func(*Release) {})
	other, _ := measured(t, func(r *Release) { r.Host.IPerf3 = "3.7" })
	if out, err := gwctlBench(t, "", "compare", old, old); err != nil || !strings.Contains(out, "TCP TX") || strings.Contains(out, "may not") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := gwctlBench(t, "", "compare", "-json", old, other)
	var c Compared
	if errJSON := json.Unmarshal([]byte(out), &c); !errors.Is(err, applet.Exit(1)) || errJSON != nil || len(c.Obstacles) != 1 || len(c.Rows) == 0 {
		t.Errorf("%v, %v\n%s", err, errJSON, out)
	}
}

// What is wrong with a command line is told before anything is asked or measured.
func TestWrongCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                        "bench takes a verb",
		"other":                   "bench takes a verb",
		"release":                 "takes one LABEL",
		"release -time 1500ms v1": "whole seconds",
		"release -runs 0 -udp-runs 0 -stress 0 v1": "nothing is measured",
		"release -runs -1 v1":                      "0 to 1000",
		"release -nosuch v1":                       "-nosuch",
		"release v1":                               "measures a gateway over the network: gwctl -H HOST bench release",
		"ab a":                                     "takes two points",
		"ab a b c":                                 "takes two points",
		"ab a b":                                   "what makes a of the gateway? -point",
		"ab -point x a b":                          "{} becomes the point's name",
		"ab -point x{} -pairs 5 a b":               "not balanced",
		"ab -point x{} -measure tcp a b":           `not "tcp"`,
		"ab -point x{} -gap -1s a b":               "-gap is 0s to 1h",
		"ab -point x{} -noise /nowhere a b":        "no such file",
		"ab -point x{} a a":                        "must be different",
		"sweep -point x{} a b":                     "three points or more",
		"null":                                     "takes one name",
		"null -pairs 2 a":                          "3 runs at least",
		"resume":                                   "takes one DIR",
		"resume -out x y":                          "they are the plan's",
		"resume /nowhere":                          "holds no plan",
		"compare x":                                "two folders",
		"compare /nowhere /nowhere":                "no such file",
		"stats":                                    "takes one FILE",
		"stats -bar x -":                           "-bar",
	} {
		out, err := gwctlBench(t, "", strings.Fields(line)...)
		said := out
		if err != nil {
			said += err.Error()
		}
		if err == nil || !strings.Contains(said, want) {
			t.Errorf("bench %s: %q, want %q", line, said, want)
		}
	}
	for _, l := range Commands("9") {
		if out, err := gwctlBench(t, "", append(strings.Fields(l.Name)[1:], "-h")...); err != nil || out != l.Usage || !strings.HasSuffix(l.Usage, "\n") {
			t.Errorf("%s -h: %v\n%s", l.Name, err, out)
		}
	}
}

// A point's name is one word of the hook's, whatever is in it.
func TestHook(t *testing.T) {
	var out bytes.Buffer
	const name = `a 'b' $(touch x) "c"; d`
	if err := hook(t.Context(), &out, "printf '<%s>' {} {}", name); err != nil || out.String() != "<"+name+"><"+name+">" {
		t.Errorf("%v, %q", err, out.String())
	}
	if err := hook(t.Context(), &out, "exit 3 # {}", "x"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
}
