package radio

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/test/radio/ash"
	"gwinit/test/radio/ezsp"
	"gwinit/test/radio/line/linetest"
)

// host is a small EZSP client on the far end of the line: it acknowledges,
// asks again for what is broken, and sends one command at a time.
type host struct {
	t    *testing.T
	sim  *Sim
	port *linetest.Port
	dec  ash.Decoder
	seq  uint8 // EZSP
	tx   uint8 // next frame number to give
	rx   uint8 // next one expected
	nak  bool

	rstacks   []uint8
	errors    []uint8
	responses []ezsp.Frame
	callbacks []ezsp.Frame
	stop      func()
}

// rig starts a radio with a host; it runs in a synctest bubble.
func rig(t *testing.T, opt Options) *host {
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, sim: s, port: linetest.New()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- s.Attach(ctx, h.port) }()
	stopped := false
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(h.stop)
	return h
}

// wait lets d pass, reading and acknowledging what arrives.
func (h *host) wait(d time.Duration) {
	h.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		owed := false
		for _, b := range h.port.Take() {
			f, done, err := h.dec.Write(b)
			switch {
			case !done:
			case err != nil:
				if !h.nak {
					h.nak = true
					h.feed(ash.Frame{Kind: ash.Nak, AckNum: h.rx})
				}
			case f.Kind == ash.RstAck:
				h.rstacks = append(h.rstacks, f.Code)
				h.tx, h.rx, h.nak = 0, 0, false
			case f.Kind == ash.Error:
				h.errors = append(h.errors, f.Code)
			case f.Kind == ash.Data && f.FrmNum == h.rx:
				h.rx = (h.rx + 1) & 7
				h.nak, owed = false, true
				fr, err := ezsp.Parse(f.Payload)
				if err != nil {
					h.t.Fatal(err)
				}
				if fr.Control&0x10 != 0 {
					h.callbacks = append(h.callbacks, fr)
				} else {
					h.responses = append(h.responses, fr)
				}
			case f.Kind == ash.Data:
				owed = true // a duplicate
			}
		}
		if owed && !h.nak {
			h.feed(ash.Frame{Kind: ash.Ack, AckNum: h.rx})
		}
	}
}

func (h *host) feed(f ash.Frame) { h.port.Feed(f.Append(nil)) }

func (h *host) connect() {
	h.t.Helper()
	h.port.Feed([]byte{ash.Cancel})
	h.feed(ash.Frame{Kind: ash.Rst})
	h.wait(200 * time.Millisecond)
	if len(h.rstacks) == 0 || h.rstacks[len(h.rstacks)-1] != ash.ResetSoftware {
		h.t.Fatalf("RSTACK codes % X after RST", h.rstacks)
	}
	h.cmd(0x0000, 13)
	h.cmd(0x0017, 0, 0)
	h.wait(50 * time.Millisecond)
}

func (h *host) cmd(id uint16, params ...byte) []byte {
	h.t.Helper()
	h.seq++
	h.responses = nil
	f := ezsp.Frame{Sequence: h.seq, ID: id, Params: params}
	h.feed(ash.Frame{Kind: ash.Data, FrmNum: h.tx, AckNum: h.rx, Payload: f.Append(nil)})
	h.tx = (h.tx + 1) & 7
	h.wait(50 * time.Millisecond)
	if len(h.responses) != 1 || h.responses[0].Sequence != h.seq || h.responses[0].ID != id {
		h.t.Fatalf("command %#04x: responses %+v", id, h.responses)
	}
	return h.responses[0].Params
}

func (h *host) do(command string) any {
	h.t.Helper()
	v, err := h.sim.Do(context.Background(), command)
	if err != nil {
		h.t.Fatalf("%s: %v", command, err)
	}
	return v
}

func (h *host) stats() Stats { return h.do("stats").(Stats) }

// reports counts the incoming messages since the last call.
func (h *host) reports() int {
	n := 0
	for _, c := range h.callbacks {
		if c.ID == 0x0045 {
			n++
		}
	}
	h.callbacks = nil
	return n
}

// joined is a radio whose network is up and whose device has joined.
func joined(t *testing.T) *host {
	opt := DefaultOptions()
	opt.Form = true
	h := rig(t, opt)
	h.wait(150 * time.Millisecond)
	h.connect()
	h.cmd(0x0022, 255)
	h.do("join")
	h.wait(300 * time.Millisecond)
	if n := h.reports(); n != 1 { // the announcement
		t.Fatalf("%d messages after the join, want 1", n)
	}
	return h
}

func TestPowerOnAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := joined(t)
		h.do("reset 6")
		h.wait(150 * time.Millisecond)
		if want := []uint8{ash.ResetPowerOn, ash.ResetSoftware, ash.ResetAssert}; !slices.Equal(h.rstacks, want) {
			t.Errorf("RSTACK codes % X, want % X", h.rstacks, want)
		}
		if s := h.stats(); s.Network || s.Link != "waiting" || s.Devices != 1 {
			t.Errorf("after a reset %+v", s)
		}
	})
}

func TestReportsArriveDespiteFaults(t *testing.T) {
	for _, fault := range []string{"fault noise 3", "fault flip 5", "fault rxflip 5", "fault drop 3", "fault ack 3", "silence 1s", "stall 1s", "xoff 50ms"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := joined(t)
				h.do("report 200 2ms")
				h.wait(100 * time.Millisecond)
				h.do(fault)
				h.wait(20 * time.Second)
				if n := h.reports(); n != 200 {
					t.Errorf("%d reports, want 200; %+v", n, h.stats())
				}
				s := h.stats()
				if want := []Session{{First: 1, Last: 200, Acked: 200}}; !slices.Equal(s.Reports, want) {
					t.Errorf("the radio counts %+v, want %+v", s.Reports, want)
				}
				switch {
				case strings.HasPrefix(fault, "fault flip"), strings.HasPrefix(fault, "silence"):
					if s.ASH.TxReTx == 0 {
						t.Error("nothing was sent again: the fault did not happen")
					}
				case strings.HasPrefix(fault, "stall"):
					if s.ASH.Timeouts == 0 {
						t.Error("no timeout: the fault did not happen")
					}
				}
			})
		})
	}
}

func TestSilentHostFailsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := joined(t)
		h.do("report 100")
		time.Sleep(30 * time.Second) // nobody acknowledges
		synctest.Wait()
		s := h.stats()
		if s.Link != "failed" || !s.Paused {
			t.Fatalf("link %s, paused %v", s.Link, s.Paused)
		}
		a := s.Reports[0]
		if a.Acked != 0 || a.Unacked != a.Last-a.First+1 || a.Unacked != 5+32 {
			t.Errorf("reports %+v, want a full window and queue unacknowledged", a)
		}
		h.port.Take()
		h.connect()
		h.reports()
		h.wait(time.Second)
		if n := h.reports(); n != 0 {
			t.Errorf("%d reports before resume", n)
		}
		h.do("resume")
		h.wait(5 * time.Second)
		if n := h.reports(); n != 100-a.Last {
			t.Errorf("%d reports after resume, want %d", n, 100-a.Last)
		}
	})
}

// The radio's output takes the time of its baud rate.
func TestReportsAtLineRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := joined(t)
		before := h.stats().Line.ToHost
		h.do("report 100000")
		h.wait(2 * time.Second)
		got := h.stats().Line.ToHost - before
		if limit := uint64(2 * 11520); got > limit || got < limit*8/10 {
			t.Errorf("%d bytes in 2 s at 115200 baud, want up to %d", got, limit)
		}
	})
}

func TestStateFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.json")
	opt := DefaultOptions()
	opt.StateFile = file
	opt.Form = true
	synctest.Test(t, func(t *testing.T) {
		h := rig(t, opt)
		h.wait(150 * time.Millisecond)
		h.connect()
		h.cmd(0x0022, 255)
		h.do("join")
		h.stop()
	})
	opt.Form = false
	synctest.Test(t, func(t *testing.T) {
		h := rig(t, opt)
		h.wait(150 * time.Millisecond)
		h.connect()
		if s := h.stats(); !s.Network || s.Devices != 1 {
			t.Errorf("after a power cut %+v", s)
		}
		h.do("wipe")
		h.stop()
	})
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got ezsp.State
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Network != nil || len(got.Devices) != 0 || got.EUI64 != ChipEUI64 {
		t.Errorf("after wipe %s", b)
	}
	if err := os.WriteFile(file, []byte(`{"eui64":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(opt); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("torn state file: %v", err)
	}
}

func TestCommandErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := rig(t, DefaultOptions())
		for command, want := range map[string]string{
			"":              "try help",
			"dance":         "try help",
			"join":          "network is down",
			"report 5":      "has not joined",
			"report 0":      "number of reports",
			"fault sun 3":   `no fault "sun"`,
			"fault flip x":  "not a count",
			"silence":       "try help",
			"silence long":  "invalid duration",
			"reset 300":     "out of range",
			"baud 7":        "not a rate",
			"mode nonsense": `no firmware "nonsense"`,
		} {
			if _, err := h.sim.Do(context.Background(), command); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", command, err, want)
			}
		}
		if got := h.do("mode"); got != "ncp" {
			t.Errorf("mode %v", got)
		}
		h.stop()
		if _, err := h.sim.Do(context.Background(), "stats"); err == nil {
			t.Error("a radio that has stopped answers")
		}
	})
}

// FuzzControl: no command line harms the radio.
func FuzzControl(f *testing.F) {
	for _, l := range strings.Split(Help, "\n") {
		f.Add(strings.Fields(l)[0] + " 3 4")
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := New(DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.command(strings.Fields(text))
		if _, jerr := json.Marshal(v); err == nil && jerr != nil {
			t.Fatal(jerr)
		}
	})
}
