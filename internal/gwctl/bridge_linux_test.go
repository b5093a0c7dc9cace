package gwctl

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/internal/control/controltest"
	"gwinit/test/radio/ash"
)

// watched is a bridge that has run for a while, with a link that is not well.
func watched() api.BridgeWatch {
	return api.BridgeWatch{
		Bridge: *settled().Bridge, At: 7400, Protocol: "ash",
		FromRadio: api.BridgeFlow{
			Bytes: 1258291, QueueMost: 212, QueueSize: 65536, Held: 1, HeldSeconds: 0.034, HeldLongest: 0.034,
			Latency: []uint32{0, 0, 0, 0, 0, 0, 0, 60, 39, 0, 0, 1},
			ASH:     api.ASHCounter{Data: 20000, Resent: 41, Ack: 8000, Nak: 3, RstAck: 2, Error: 1, CRC: 7},
		},
		ToRadio: api.BridgeFlow{
			Bytes: 307200, Queued: 40, QueueMost: 4096, QueueSize: 4096, Held: 12, HeldSeconds: 3, HeldLongest: 1.25, HeldNow: 0.5,
			Latency: []uint32{0, 0, 0, 0, 0, 0, 9},
			ASH:     api.ASHCounter{Data: 9000, Ack: 15000, Rst: 2},
		},
		Reset: &api.ASHReset{Frame: "ERROR", Code: 0x51, Reason: "too many acknowledgement time-outs (0x51)", Ago: 3900},
	}
}

func bridgeOf(t *testing.T, w api.BridgeWatch) *controltest.Backend {
	b := gateway()
	b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
		if a.Service != "bridge" || a.Method != "watch" || a.Follow {
			t.Errorf("asked for %+v", a)
		}
		return json.Marshal(w)
	}
	return b
}

func TestBridge(t *testing.T) {
	path := controltest.Start(t, bridgeOf(t, watched()), control.Options{})
	status, out, errs := call(t.Context(), "-socket", path, "bridge")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
	}
	golden(t, "bridge", out)
	status, out, errs = call(t.Context(), "-socket", path, "bridge", "-json")
	var got api.BridgeWatch
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || errs != "" || strings.Count(out, "\n") != 1 {
		t.Fatalf("status %d, %v, %s %s", status, err, out, errs)
	}
	if got.FromRadio.ASH != watched().FromRadio.ASH || got.Client == nil || got.Client.Addr != "192.168.1.10:51234" || *got.Reset != *watched().Reset {
		t.Errorf("%s", out)
	}
}

// A bridge that has seen nothing.
func TestBridgeFresh(t *testing.T) {
	var b bytes.Buffer
	screen{b: &b}.watch(api.BridgeWatch{Bridge: api.Bridge{Listen: "[::]:8888", UART: "/dev/ttyS1", UARTOpen: true, Baud: 460800}}, nil)
	golden(t, "bridge-fresh", b.String())
}

// The kernel's engine counts bytes and nothing else.
func TestBridgeOfKernel(t *testing.T) {
	w := api.BridgeWatch{Bridge: *settled().Bridge, At: 7400, FromRadio: api.BridgeFlow{Bytes: 1258291}, ToRadio: api.BridgeFlow{Bytes: 307200}}
	w.Engine = "kernel"
	var b bytes.Buffer
	screen{b: &b}.watch(w, nil)
	golden(t, "bridge-kernel", b.String())
}

func TestBridgeLive(t *testing.T) {
	path := controltest.Start(t, bridgeOf(t, watched()), control.Options{})
	for arg, want := range map[string]string{
		"-w":    "192.168.1.10:51234  from radio 170 B/s queue 0 held 1   to radio 42 B/s queue 40 held 12  resent 41/0 crc 7/0 nak 3/0\n",
		"-json": `"protocol":"ash"`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		out, done := make(chunks), make(chan int)
		go func() {
			a := Command("9.9", client.Dial)
			done <- a.Execute(ctx, applet.IO{In: strings.NewReader(""), Out: out, Err: io.Discard}, []string{"-socket", path, "bridge", "-w", arg})
		}()
		if got := <-out; !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", arg, got, want)
		}
		cancel()
		if status := <-done; status != 0 {
			t.Errorf("ctrl-c gives status %d", status)
		}
	}
}

func TestRates(t *testing.T) {
	first, second := watched(), watched()
	second.At++
	second.FromRadio.Bytes += 2048
	second.ToRadio.Bytes += 100
	if in, out := rates(second, &first); in != 2048 || out != 100 {
		t.Errorf("%v, %v", in, out)
	}
	if in, out := rates(first, &second); in != -1 || out != -1 { // a new process counts anew
		t.Errorf("after a restart %v, %v", in, out)
	}
	if line := watchLine(second, &first); !strings.Contains(line, "from radio 2.0 KiB/s queue 0") || !strings.Contains(line, "to radio 100 B/s") {
		t.Error(line)
	}
	second.Client = nil
	if line := watchLine(second, nil); line != "no client  from radio - queue 0 held 1   to radio - queue 40 held 12  resent 41/0 crc 7/0 nak 3/0" {
		t.Error(line)
	}
}

func TestPercentile(t *testing.T) {
	for _, tt := range []struct {
		histogram []uint32
		p         uint64
		want      float64
	}{
		{nil, 50, 0},
		{[]uint32{0, 0}, 100, 0},
		{[]uint32{0, 1}, 50, 2e-6},
		{[]uint32{0, 1}, 100, 2e-6},
		{[]uint32{50, 49, 1}, 50, 1e-6},
		{[]uint32{50, 49, 1}, 99, 2e-6},
		{[]uint32{50, 49, 1}, 100, 4e-6},
		{[]uint32{49, 50, 1}, 50, 2e-6},
		{[]uint32{0, 0, 0, 0, 0, 0, 0, 60, 39, 0, 0, 1}, 100, 2048e-6},
		{[]uint32{1<<32 - 1, 1<<32 - 1}, 100, 2e-6},
	} {
		if got := percentile(tt.histogram, tt.p); got != tt.want {
			t.Errorf("%v, %d %%: %v, want %v", tt.histogram, tt.p, got, tt.want)
		}
	}
}

// tapping is a gateway whose tap gives these answers, one a call.
func tapping(t *testing.T, answers ...api.BridgeTap) string {
	b := gateway()
	n := 0
	b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
		if a.Service != "bridge" || a.Method != "tap" || !a.Follow {
			t.Errorf("asked for %+v", a)
		}
		f := api.Followed{Data: answers[n]}
		if n++; n < len(answers) {
			f.Next = api.BridgeTapArgs{Bridge: 1, After: uint64(n)}
		}
		return json.Marshal(f)
	}
	return controltest.Start(t, b, control.Options{})
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTap(t *testing.T) {
	version := ash.Frame{Kind: ash.Data, Payload: []byte{0, 0, 0, 13}}.Append(nil)
	answer := ash.Frame{Kind: ash.Data, AckNum: 1, Payload: []byte{0, 0x80, 0, 13, 2, 0x50, 0x74}}.Append(nil)
	extended := ash.Frame{Kind: ash.Data, FrmNum: 3, AckNum: 1, ReTx: true, Payload: []byte{5, 0x90, 1, 0x45, 0, 7, 0x7E}}.Append(nil)
	broken := bytes.Clone(extended)
	broken[2] ^= 0x40
	piece := func(at int64, from string, data []byte) api.TapPiece {
		return api.TapPiece{At: at, From: from, Data: data}
	}
	answers := []api.BridgeTap{
		{Now: 5_000_000, Wall: 1767366245_000_000, Pieces: []api.TapPiece{}},
		{Now: 5_100_000, Wall: 1767366245_100_000, Pieces: []api.TapPiece{
			piece(5_010_000, "client", unhex(t, "1A C0 38 BC 7E")),
			piece(5_020_000, "radio", unhex(t, "C1 02 0B 0A")),
			piece(5_020_500, "radio", unhex(t, "52 7E")),
			piece(5_030_000, "client", version),
			piece(5_040_000, "radio", append(bytes.Clone(answer), extended...)),
		}},
		{Now: 6_000_000, Wall: 1767366246_000_000, Missed: 12, Pieces: []api.TapPiece{
			piece(5_900_000, "radio", broken),
			piece(5_910_000, "radio", unhex(t, "7E 80 06 00 70 EE 74 7E 31 32 33 34 35 36 37 38 39 6E 90 7E 80 06 00 70 EE 75 7E")),
		}},
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"hex", nil, `    0.010000 client  1a c0 38 bc 7e                                   ..8.~
    0.020000 radio   c1 02 0b 0a                                      ....
    0.020500 radio   52 7e                                            R~
    0.030000 client  00 42 21 a8 59 7c 05 7e                          .B!.Y|.~
`},
		{"ash", []string{"-ash"}, `    0.010000 client  RST
    0.020500 radio   RSTACK software reset (0x0b)
    0.030000 client  DATA frm 0 ack 0 len 4: EZSP command 0, ID 0x00
    0.040000 radio   DATA frm 0 ack 1 len 7: EZSP response 0, ID 0x00
    0.040000 radio   DATA frm 3 ack 1 reTx len 7: EZSP callback 5, ID 0x0045
-- 12 bytes missed --
    0.900000 radio   wrong CRC
`},
		{"spinel", []string{"-spinel"}, `-- 12 bytes missed --
    0.900000 radio   wrong FCS
    0.910000 radio   tid 0 PROP_VALUE_IS LAST_STATUS len 4
    0.910000 radio   no Spinel, 9 bytes
    0.910000 radio   wrong FCS
`},
		{"json", []string{"-json"}, `{"at":0.01,"wall":1767366245010000,"from":"client","data":"1ac038bc7e"}
{"at":0.02,"wall":1767366245020000,"from":"radio","data":"c1020b0a"}
`},
		{"ash in json", []string{"-json", "-ash"}, `{"at":0.01,"wall":1767366245010000,"from":"client","frame":"RST","data":"1ac038bc7e"}
{"at":0.0205,"wall":1767366245020500,"from":"radio","frame":"RSTACK software reset (0x0b)","data":"c1020b0a527e"}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := call(t.Context(), append([]string{"-socket", tapping(t, answers...), "bridge", "tap"}, tt.args...)...)
			if status != 0 || errs != "" {
				t.Fatalf("status %d, %s", status, errs)
			}
			rest := out
			for line := range strings.Lines(tt.want) {
				_, behind, ok := strings.Cut(rest, line)
				if !ok {
					t.Fatalf("no line %q (in this order) in\n%s", line, out)
				}
				rest = behind
			}
			if tt.name == "ash" && strings.Count(out, "\n") < 7 || strings.Contains(tt.name, "json") && !strings.Contains(out, `{"missed":12}`+"\n") {
				t.Errorf("not all is there:\n%s", out)
			}
		})
	}
}

func TestTapFile(t *testing.T) {
	answers := []api.BridgeTap{
		{Now: 5_000_000, Wall: 1767366245_000_000, Missed: 0, Pieces: []api.TapPiece{
			{At: 4_999_000, From: "client", Data: unhex(t, "1A C0 38 BC 7E")},
		}},
		{Now: 5_100_000, Missed: 1, Pieces: []api.TapPiece{{At: 5_000_010, From: "radio", Data: unhex(t, "C1 02 0B 0A 52 7E")}}},
	}
	// Head, two packets with their times, flags and comments: little-endian.
	const first = "06000000" + "34000000" + "00000000" + "69470600" + "589f3805" + "05000000" + "05000000" + "1ac038bc7e000000" + "0200040002000000" + "00000000" + "34000000"
	file := filepath.Join(t.TempDir(), "tap.pcapng")
	if status, out, errs := call(t.Context(), "-socket", tapping(t, answers...), "bridge", "tap", "-pcap", file); status != 0 || out != "" || errs != "" {
		t.Fatalf("status %d, %s%s", status, out, errs)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := hex.EncodeToString(got)
	if !strings.HasPrefix(all, "0a0d0d0a") || !strings.Contains(all, first) {
		t.Errorf("%s does not hold %s", all, first)
	}
	if !bytes.Contains(got, []byte("1 byte missed before this")) || !bytes.Contains(got, []byte("gwctl 9.9")) || bytes.Count(got, []byte{0xC0, 0x38, 0xBC}) != 1 {
		t.Errorf("%q", got)
	}
	status, out, errs := call(t.Context(), "-socket", tapping(t, answers...), "bridge", "tap", "-pcap", "-", "-ash")
	if status != 0 || errs != "" || !strings.Contains(out, "RSTACK software reset (0x0b); 1 byte missed before this") {
		t.Errorf("status %d, %q, %s", status, out, errs)
	}
	status, _, errs = call(t.Context(), "-socket", tapping(t, answers...), "bridge", "tap", "-pcap", filepath.Join(file, "no"))
	if status != 1 || !strings.Contains(errs, "not a directory") {
		t.Errorf("status %d, %s", status, errs)
	}
}

// A slow output loses bytes and is told how many; the gateway is read on.
func TestTapSlowOutput(t *testing.T) {
	var answers []api.BridgeTap
	const n = 40
	for i := range n {
		answers = append(answers, api.BridgeTap{Now: int64(i + 1), Pieces: []api.TapPiece{{At: int64(i), From: "radio", Data: []byte("abcdefghij")}}})
	}
	b := gateway()
	asked := make(chan int, n)
	next := 0
	b.OnCall = func(context.Context, api.CallArgs) (json.RawMessage, error) {
		f := api.Followed{Data: answers[next]}
		if next++; next < n {
			f.Next = api.BridgeTapArgs{}
		}
		asked <- next
		return json.Marshal(f)
	}
	path := controltest.Start(t, b, control.Options{})
	out, done := make(chunks), make(chan int)
	go func() {
		a := Command("9.9", client.Dial)
		done <- a.Execute(t.Context(), applet.IO{In: strings.NewReader(""), Out: out, Err: io.Discard}, []string{"-socket", path, "bridge", "tap"})
	}()
	for range n { // all of them are fetched while nothing is taken from it
		<-asked
	}
	text := ""
	for status := -1; status < 0; {
		select {
		case s := <-out:
			text += s
		case status = <-done:
			if status != 0 {
				t.Errorf("status %d", status)
			}
		}
	}
	shown := strings.Count(text, "abcdefghij")
	missed := 0
	for line := range strings.Lines(text) {
		var m int
		if _, err := fmt.Sscanf(line, "-- %d bytes missed --", &m); err == nil {
			missed += m
		}
	}
	if shown == 0 || missed == 0 || shown*10+missed != n*10 {
		t.Errorf("%d bytes shown, %d missed, of %d:\n%s", shown*10, missed, n*10, text)
	}
}

func TestBridgeUsage(t *testing.T) {
	for args, want := range map[string]string{
		"bridge -hex":                    "go with gwctl bridge tap",
		"bridge dance":                   `not "dance"`,
		"bridge tap tap":                 `not "tap tap"`,
		"bridge tap -w":                  "-w goes without tap",
		"bridge tap -hex -ash":           "exclude each other",
		"bridge tap -ash -spinel":        "exclude each other",
		"bridge tap -pcap x -json":       "exclude each other",
		"bridge tap -for -1s":            "a time such as",
		"bridge tap -for soon":           "it is no time, such as 30s or 2m; see gwctl bridge -h",
		"bridge tap -hex -spinel -for=1": "for",
	} {
		if status, _, errs := call(t.Context(), strings.Fields(args)...); status != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %q, want %q", args, status, errs, want)
		}
	}
}

func TestTapFor(t *testing.T) {
	b := gateway()
	b.OnCall = func(context.Context, api.CallArgs) (json.RawMessage, error) {
		return json.RawMessage(`{"data":{"now":1,"pieces":[]},"next":{},"pauseMs":5000}`), nil
	}
	path := controltest.Start(t, b, control.Options{})
	if status, out, errs := call(t.Context(), "-socket", path, "bridge", "tap", "-for", "50ms"); status != 0 || out+errs != "" {
		t.Errorf("status %d, %s%s", status, out, errs)
	}
}

// What is no frame, no EZSP and no text costs nothing but a line.
func FuzzTap(f *testing.F) {
	f.Add([]byte{0x1A, 0xC0, 0x38, 0xBC, 0x7E, 0x25, 0x42, 0x21, 0xA8, 0x56, 0xA6, 0x09, 0x7E}, uint8(0))
	f.Add([]byte{0x7E, 0x80, 0x06, 0x00, 0x70, 0xEE, 0x74, 0x7E}, uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, kind uint8) {
		var out bytes.Buffer
		s := tapSink{e: &env{std: applet.IO{Out: &out}}, o: tapOptions{ash: kind%3 == 0, spinel: kind%3 == 1}}
		for i := range 3 {
			if err := s.take(api.BridgeTap{Now: int64(i), Pieces: []api.TapPiece{{From: "radio", Data: p}}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range out.Bytes() {
			if b != '\n' && (b < ' ' || b > '~') {
				t.Fatalf("%q", out.String())
			}
		}
	})
}
