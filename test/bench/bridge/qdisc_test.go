package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// turnOf is a turn of 100 trips of that many ms and more.
func turnOf(first int, mbit float64) beside {
	t := beside{mbit: mbit}
	for i := range 100 {
		t.trips = append(t.trips, time.Duration(first+i)*time.Millisecond)
	}
	return t
}

func TestQueueingRows(t *testing.T) {
	turns := map[string][]beside{
		leafNone: {turnOf(1, 0), turnOf(1, 0)},
		leafFIFO: {turnOf(101, 9), turnOf(301, 9)},
		leafFQ:   {turnOf(1, 10), turnOf(51, 8)},
	}
	type row struct{ value, peer, ratio float64 }
	want := map[string]row{
		"qdisc/round-trip-p50 pfifo": {76e3, 251e3, (51./151 + 101./351) / 2},
		"qdisc/round-trip-p50 alone": {76e3, 51e3, (1 + 101./51) / 2},
		"qdisc/round-trip-p99 pfifo": {125e3, 300e3, (.5 + 150./400) / 2},
		"qdisc/round-trip-p99 alone": {125e3, 100e3, 1.25},
		"qdisc/throughput pfifo":     {9, 9, 1},
	}
	rows := queueingRows(turns)
	for _, r := range rows {
		w, ok := want[r.Name+" "+r.Peer]
		if !ok || r.Value != w.value || r.PeerValue != w.peer || math.Abs(r.Ratio-w.ratio) > 1e-9 || r.N != 2 {
			t.Errorf("%+v, want %+v", r, w)
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d rows, want %d", len(rows), len(want))
	}
}

// The picture is XML, has a line for each series that there is, and the places
// of its scale are right.
func TestPicture(t *testing.T) {
	b := picture(map[string][]beside{leafFIFO: {turnOf(101, 9)}, leafFQ: {turnOf(1, 9)}})
	lines := 0
	for d := xml.NewDecoder(strings.NewReader(string(b))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 2 {
		t.Errorf("%d lines, want 2", lines)
	}
	for _, want := range []string{"fq_codel: half below 51 ms", "pfifo: half below 151 ms"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	const span = width - left - right
	for d, want := range map[time.Duration]float64{
		time.Microsecond: left, time.Millisecond: left, time.Duration(math.Sqrt(3000) * 1e6): left + span/2., 3 * time.Second: width - right, time.Minute: width - right,
	} {
		if got := across(d); math.Abs(got-want) > 1e-3 {
			t.Errorf("%v at %v, want %v", d, got, want)
		}
	}
	if down(0) != height-bottom || down(1) != top {
		t.Errorf("shares from %v to %v", down(0), down(1))
	}
}

// The picture in docs is drawn by this program: frame, scale and words are as it
// draws them.
func TestPictureInDocs(t *testing.T) {
	drawn, err := os.ReadFile("../../../docs/qdisc.svg")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(picture(nil))) {
		if !strings.Contains(string(drawn), line) {
			t.Errorf("docs/qdisc.svg lacks %s", line)
		}
	}
	for _, words := range []string{"without it", "fq_codel", "pfifo"} {
		label := regexp.MustCompile(">" + words + ": half below ([0-9]+) ms</text>").FindStringSubmatch(string(drawn))
		if label == nil || label[1] == "0" {
			t.Errorf("docs/qdisc.svg has no label of %q", words)
		}
	}
}
