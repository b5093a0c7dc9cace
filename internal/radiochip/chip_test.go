package radiochip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/radioproto/gbl"
	"gwinit/test/radio"
	"gwinit/test/radio/gecko"
	"gwinit/test/radio/line"
	"gwinit/test/radio/line/linetest"
)

// wire is a Line to the simulated radio, in virtual time.
type wire struct {
	sim   *radio.Sim
	port  *linetest.Port
	have  []byte
	baud  int
	flow  string
	stuck string // writes are with this flow control
	sent  []byte // everything
	left  time.Time
}

func (w *wire) Read(p []byte, d time.Duration) (int, error) {
	for end := time.Now().Add(d); ; time.Sleep(4 * time.Millisecond) {
		w.have = append(w.have, w.port.Take()...)
		if len(w.have) > 0 || !time.Now().Before(end) {
			n := copy(p, w.have)
			w.have = w.have[n:]
			return n, nil
		}
	}
}

func (w *wire) Write(p []byte) error {
	if w.flow == w.stuck {
		return ErrStuck
	}
	w.sent = append(w.sent, p...)
	if now := time.Now(); w.left.Before(now) {
		w.left = now
	}
	w.left = w.left.Add(time.Duration(len(p)) * 10 * time.Second / time.Duration(w.baud))
	w.port.Feed(p)
	return nil
}

func (w *wire) Set(baud int, flow string) error {
	if !w.left.IsZero() {
		time.Sleep(time.Until(w.left) + 5*time.Millisecond) // the line moves bytes a millisecond's worth at a time
	}
	w.baud, w.flow, w.have = baud, flow, nil
	w.port.Take()
	w.sim.Line().SetPeerBaud(baud)
	return nil
}

// rig is a chip, the simulated radio behind it, and its pins.
type rig struct {
	*Chip
	t    *testing.T
	wire *wire
	log  []string
	pin  bool // for the bootloader
	dead bool // the reset line is not wired
}

func (r *rig) do(command string) any {
	r.t.Helper()
	answer, err := r.wire.sim.Do(context.Background(), command)
	if err != nil {
		r.t.Fatalf("%s: %v", command, err)
	}
	return answer
}

func (r *rig) Reset(context.Context) error {
	if !r.dead {
		r.do("reset 1")
	}
	return nil
}

func (r *rig) Bootloader(context.Context) error {
	if !r.pin {
		return ErrNoPin
	}
	r.do("bootloader")
	return nil
}

func (r *rig) mode() string { return r.do("mode").(string) }

// flash is what the chip's flash holds.
func (r *rig) flash() (f gecko.Flash) {
	if err := r.wire.sim.Peek(r.t.Context(), func(g *gecko.Flash, _ *gecko.Loader) { f = *g }); err != nil {
		r.t.Fatal(err)
	}
	return f
}

// loader changes the bootloader.
func (r *rig) loader(change func(*gecko.Loader)) {
	if err := r.wire.sim.Peek(r.t.Context(), func(_ *gecko.Flash, l *gecko.Loader) { change(l) }); err != nil {
		r.t.Fatal(err)
	}
}

// bubble runs a test in virtual time with a rig. app is what the chip holds.
func bubble(t *testing.T, app *gecko.App, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opt := radio.DefaultOptions()
		opt.Line = line.DefaultConfig()
		sim, err := radio.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, wire: &wire{sim: sim, port: linetest.New(), stuck: "-"}}
		r.Chip = New(r.wire, func(text string) { r.log = append(r.log, text) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- sim.Run(ctx) }()
		go func() { ended <- sim.Attach(ctx, r.wire.port) }()
		defer func() {
			cancel()
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if t.Failed() {
				t.Logf("it says:\n%s", strings.Join(r.log, "\n"))
			}
		}()
		if err := sim.Peek(ctx, func(f *gecko.Flash, _ *gecko.Loader) { f.App = app }); err != nil {
			t.Fatal(err)
		}
		r.do("reset 2")
		time.Sleep(time.Second)
		test(t, r)
	})
}

var (
	ncp    = gecko.App{Kind: "ncp", Baud: 115200, Flow: "none"}
	otrcp  = gecko.App{Kind: "otrcp", Baud: 460800, Flow: "none"}
	rcp    = gecko.App{Kind: "rcp", Baud: 460800, Flow: "none", Version: "4.4.4-app"}
	router = gecko.App{Kind: "router", Baud: 115200, Flow: "none"}
	silent = gecko.App{Kind: "something else", Baud: 115200, Flow: "none"}
)

// settings are every rate, the likeliest first.
func settings(first ...int) (all []Setting) {
	for _, b := range append(first, Bauds()...) {
		all = append(all, Setting{b, "none"})
	}
	return all
}

func TestProbe(t *testing.T) {
	at := func(a gecko.App, baud int) *gecko.App { a.Baud = baud; return &a }
	for _, tt := range []struct {
		name string
		app  *gecko.App
		want Found
	}{
		{"Zigbee", &ncp, Found{EZSP, "7.5.1.0", 13, Setting{115200, "none"}}},
		{"Zigbee, fast", at(ncp, 892857), Found{EZSP, "7.5.1.0", 13, Setting{892857, "none"}}},
		{"Thread", &otrcp, Found{Spinel, "SL-OPENTHREAD/2.4.4.0_GitHub-7074a43e4; EFR32; Sep 12 2024 09:30:11", 0, Setting{460800, "none"}}},
		{"Thread at 230400", at(otrcp, 230400), Found{Spinel, "SL-OPENTHREAD/2.4.4.0_GitHub-7074a43e4; EFR32; Sep 12 2024 09:30:11", 0, Setting{230400, "none"}}},
		{"CPC", &rcp, Found{CPC, "4.4.4-app", 0, Setting{460800, "none"}}},
		{"CPC without a version", at(gecko.App{Kind: "rcp", Flow: "none"}, 115200), Found{CPC, "4.4.4", 0, Setting{115200, "none"}}},
		{"router", &router, Found{Router, "7.5.1.0", 0, Setting{115200, "none"}}},
		{"bootloader", nil, Found{Bootloader, "2.4.2", 0, Setting{115200, "none"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, tt.app, func(t *testing.T, r *rig) {
				f, err := r.Probe(t.Context(), settings())
				if err != nil || f != tt.want {
					t.Errorf("found %+v, %v; want %+v", f, err, tt.want)
				}
				if r.flash().App != tt.app {
					t.Errorf("the flash holds %+v", r.flash().App)
				}
			})
		})
	}
}

// What is sent to find out chooses nothing in a bootloader's menu that does not
// answer in time: 1 begins an upload and 2 starts the application.
func TestProbeSendsNoChoice(t *testing.T) {
	bubble(t, &silent, func(t *testing.T, r *rig) {
		if _, err := r.Probe(t.Context(), settings()); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("got %v", err)
		}
		if strings.ContainsAny(string(r.wire.sent), "12") {
			t.Errorf("sent % x", r.wire.sent)
		}
	})
}

// Noise, lost and damaged frames before and in answers.
func TestProbeWithFaults(t *testing.T) {
	for _, app := range []*gecko.App{&ncp, &otrcp, &rcp, &router, nil} {
		for _, fault := range []string{"fault noise 300", "fault drop 1", "fault flip 1", "fault rxflip 1"} {
			kind := "bootloader"
			if app != nil {
				kind = app.Kind
			}
			t.Run(kind+" "+fault, func(t *testing.T) {
				bubble(t, app, func(t *testing.T, r *rig) {
					r.do(fault)
					f, err := r.Probe(t.Context(), append(settings(460800), settings(115200)...))
					if err != nil || f.Kind.Firmware() != strings.TrimPrefix(kind, "bootloader") {
						t.Errorf("found %+v, %v", f, err)
					}
				})
			})
		}
	}
}

func TestFlowOf(t *testing.T) {
	bubble(t, &ncp, func(t *testing.T, r *rig) {
		f := Found{Kind: EZSP, Setting: Setting{115200, "none"}}
		if g, err := r.FlowOf(t.Context(), f, "sw"); err != nil || g.Flow != "sw" {
			t.Errorf("%+v, %v; want sw", g, err)
		}
		r.wire.stuck = "hw" // nobody drives CTS
		if g, err := r.FlowOf(t.Context(), f, "hw"); err != nil || g.Flow != "none" {
			t.Errorf("%+v, %v; want none", g, err)
		}
	})
}

func TestEnter(t *testing.T) {
	for _, tt := range []struct {
		name      string
		app       *gecko.App
		pin, dead bool
		ok        bool
	}{
		{"Zigbee", &ncp, false, true, true},
		{"Thread", &otrcp, false, true, true},
		{"CPC", &rcp, false, true, true},
		{"router", &router, false, true, true},
		{"bootloader", nil, false, true, true},
		{"by the pin", &silent, true, true, true},
		{"one that says nothing, without a pin", &silent, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, tt.app, func(t *testing.T, r *rig) {
				r.pin, r.dead = tt.pin, tt.dead
				v, err := r.Enter(t.Context(), r, settings())
				if !tt.ok {
					if !errors.Is(err, ErrNoAnswer) {
						t.Errorf("got %v", err)
					}
					return
				}
				if err != nil || v.String() != "2.4.2" || r.mode() != "bootloader" {
					t.Errorf("version %v, %v, in %s", v, err, r.mode())
				}
				if r.flash().App != tt.app {
					t.Errorf("the flash holds %+v", r.flash().App)
				}
			})
		})
	}
	// A firmware that hangs is one that a reset brings back.
	t.Run("hangs", func(t *testing.T) {
		bubble(t, &ncp, func(t *testing.T, r *rig) {
			r.do("stall 1h")
			reset := false
			pins := pinsFunc(func() { reset = true; r.do("stall 0s"); r.do("reset 1") })
			if _, err := r.Enter(t.Context(), pins, settings()); err != nil || !reset {
				t.Errorf("%v, reset %v", err, reset)
			}
		})
	})
}

type pinsFunc func()

func (f pinsFunc) Reset(context.Context) error    { f(); return nil }
func (pinsFunc) Bootloader(context.Context) error { return ErrNoPin }

// image builds one and reads it.
func image(t *testing.T, m gecko.Image) (*gbl.Image, []byte) {
	t.Helper()
	file := gecko.Build(m)
	img, err := gbl.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	return img, file
}

const blocks = 12

// target is an image of that many blocks.
func target(app gecko.App) gecko.Image {
	return gecko.Image{App: &app, Bytes: blocks*128 - 150}
}

func (r *rig) install(t *testing.T, m gecko.Image) (Installed, error) {
	t.Helper()
	img, file := image(t, m)
	last := -1
	in, err := r.Install(t.Context(), r, img, file, settings(), func(done, total int) {
		if done == 0 {
			last = -1
		}
		if done <= last || total != img.Bytes || done > total {
			t.Errorf("progress %d of %d, after %d", done, total, last)
		}
		last = done
	})
	return in, err
}

// From every firmware to every other.
func TestInstall(t *testing.T) {
	apps := []gecko.App{ncp, otrcp, rcp, router}
	kinds := []Kind{EZSP, Spinel, CPC, Router}
	for i, from := range apps {
		for j, to := range apps {
			t.Run(from.Kind+" to "+to.Kind, func(t *testing.T) {
				bubble(t, &apps[i], func(t *testing.T, r *rig) {
					in, err := r.install(t, target(to))
					if err != nil || in.App.Kind != kinds[j] || in.App.Baud != to.Baud || in.Bootloader.String() != "2.4.2" || !in.Erased {
						t.Errorf("%+v, %v", in, err)
					}
					if r.mode() != to.Kind {
						t.Errorf("%s runs", r.mode())
					}
				})
			})
		}
	}
}

// Faults at every block: whatever happens, the image is installed, or the chip is in
// its bootloader and the next try installs it. None of it is ever unrecoverable,
// without any pin.
func TestInstallWithFaultsAtEveryBlock(t *testing.T) {
	_, file := image(t, target(otrcp))
	n := (len(file) + 127) / 128
	type fault struct {
		name   string
		inject func(r *rig, at int)
	}
	atBlock := func(at int, r *rig, then func(l *gecko.Loader)) {
		r.loader(func(l *gecko.Loader) { l.AtBlock(at, then) })
	}
	faults := []fault{
		{"power loss", func(r *rig, at int) { atBlock(at, r, func(l *gecko.Loader) { l.Faults.Power = at }) }},
		{"cancelled", func(r *rig, at int) { atBlock(at, r, func(l *gecko.Loader) { l.Faults.Cancel = at }) }},
		{"asked again", func(r *rig, at int) { atBlock(at, r, func(l *gecko.Loader) { l.Faults.Nak = 3 }) }},
		{"asked again and again", func(r *rig, at int) { atBlock(at, r, func(l *gecko.Loader) { l.Faults.Nak = 200 }) }},
		{"acknowledgement lost", func(r *rig, at int) { atBlock(at, r, func(l *gecko.Loader) { l.Faults.NoAck = 1 }) }},
		{"silence", func(r *rig, at int) {
			atBlock(at, r, func(*gecko.Loader) { r.wire.sim.Line().Silence(time.Now().Add(40 * time.Second)) })
		}},
		{"noise", func(r *rig, at int) {
			atBlock(at, r, func(l *gecko.Loader) { l.Out([]byte("\x00\xff\x55noise C\x80")) })
		}},
		{"garbage that acknowledges", func(r *rig, at int) { atBlock(at, r, func(l *gecko.Loader) { l.Out([]byte{0x06, 0x06, 0x15, 0x18}) }) }},
		{"wrong rate for a while", func(r *rig, at int) {
			atBlock(at, r, func(*gecko.Loader) {
				r.wire.sim.Line().SetBaud(9600)
				time.AfterFunc(20*time.Second, func() { r.wire.sim.Line().SetBaud(115200) })
			})
		}},
	}
	installed, again := 0, 0
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			for at := 1; at <= n; at++ {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					bubble(t, &ncp, func(t *testing.T, r *rig) {
						r.dead = true
						f.inject(r, at)
						in, err := r.install(t, target(otrcp))
						if err == nil {
							installed++
						} else {
							again++
							// The fault is over: a power cut, or somebody who tries again.
							r.loader(func(l *gecko.Loader) { l.Faults = gecko.Faults{} })
							time.Sleep(time.Minute)
							if !in.Erased && r.flash().App == nil {
								t.Errorf("nothing is erased, it says, and the flash is empty (%v)", err)
							}
							if in, err = r.install(t, target(otrcp)); err != nil {
								t.Fatalf("the second run: %v", err)
							}
						}
						if in.App.Kind != Spinel || r.mode() != "otrcp" {
							t.Errorf("%+v, and %s runs", in, r.mode())
						}
					})
				})
			}
		})
	}
	t.Logf("%d faults over which it was installed at once, %d by a second run", installed, again)
	if installed == 0 || again == 0 {
		t.Error("the faults are all of one kind")
	}
}

// Whoever uploads may be killed at any byte of any block, and the next one finds the
// bootloader in the middle of it.
func TestInstallAfterOneThatWasKilled(t *testing.T) {
	for _, at := range []int{0, 1, 2, 3, 4, 50, 132, 133, 134, 133*3 + 1, 133*5 + 66} {
		for _, wait := range []time.Duration{0, 2 * time.Second, 10 * time.Second} {
			t.Run(fmt.Sprint(at, " bytes, ", wait), func(t *testing.T) {
				bubble(t, &ncp, func(t *testing.T, r *rig) {
					r.dead = true
					ctx, kill := context.WithCancelCause(t.Context())
					img, file := image(t, target(otrcp))
					r.Chip = New(&killed{wire: r.wire, left: at, kill: func() { kill(errors.New("killed")) }}, func(string) {})
					if _, err := r.Install(ctx, r, img, file, settings(), func(int, int) {}); err == nil {
						t.Fatal("it was not killed")
					}
					time.Sleep(wait)
					r.Chip = New(r.wire, func(text string) { r.log = append(r.log, text) })
					in, err := r.install(t, target(otrcp))
					if err != nil || in.App.Kind != Spinel || r.mode() != "otrcp" {
						t.Errorf("%+v, %v, and %s runs", in, err, r.mode())
					}
				})
			})
		}
	}
}

// killed is a wire whose sender dies after so many bytes of an upload, without
// another word.
type killed struct {
	*wire
	left      int
	uploading bool
	dead      bool
	kill      func()
}

func (k *killed) Write(p []byte) error {
	switch {
	case k.dead:
		return errors.New("killed")
	case !k.uploading:
		k.uploading = len(p) == 1 && p[0] == '1'
		return k.wire.Write(p)
	case len(p) <= k.left:
		k.left -= len(p)
		return k.wire.Write(p)
	}
	k.dead = true
	k.kill()
	if k.left > 0 {
		return k.wire.Write(p[:k.left])
	}
	return errors.New("killed")
}

// The bootloader's own updates.
func TestBootloaderUpdates(t *testing.T) {
	both := gecko.Image{App: &otrcp, Bytes: 500, Bootloader: 0x02050000}
	for _, tt := range []struct {
		name    string
		m       gecko.Image
		err     error
		version string
		runs    string
		erased  bool
	}{
		{"older", gecko.Image{Bootloader: 0x02030000}, ErrNotNewer, "2.4.2", "ncp", false},
		{"the same", gecko.Image{Bootloader: 0x02040002}, ErrNotNewer, "2.4.2", "ncp", false},
		{"newer", gecko.Image{Bootloader: 0x02050000}, nil, "2.5.0", "bootloader", true},
		{"newer, with an application", both, nil, "2.5.0", "otrcp", true},
		{"older, with an application", gecko.Image{App: &otrcp, Bytes: 500, Bootloader: 0x02010000}, nil, "2.4.2", "otrcp", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, &ncp, func(t *testing.T, r *rig) {
				in, err := r.install(t, tt.m)
				if !errors.Is(err, tt.err) || in.Bootloader.String() != tt.version || in.Erased != tt.erased {
					t.Errorf("%+v, %v", in, err)
				}
				if r.mode() != tt.runs {
					t.Errorf("%s runs", r.mode())
				}
				if gone := r.flash().App == nil; gone != (tt.runs == "bootloader") {
					t.Errorf("the application is gone: %v", gone)
				}
			})
		})
	}
}

// What the bootloader refuses is not tried three times.
func TestRefusedImages(t *testing.T) {
	bubble(t, &ncp, func(t *testing.T, r *rig) {
		r.loader(func(l *gecko.Loader) { l.Flash.Signed = true })
		in, err := r.install(t, target(otrcp))
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "signature") || !in.Erased {
			t.Errorf("%+v, %v", in, err)
		}
		r.loader(func(l *gecko.Loader) {
			if l.Uploads != 1 {
				t.Errorf("%d uploads", l.Uploads)
			}
		})
		if r.mode() != "bootloader" {
			t.Errorf("%s runs", r.mode())
		}
		// The way back: one that it takes.
		m := target(ncp)
		m.Signed = true
		if in, err = r.install(t, m); err != nil || in.App.Kind != EZSP {
			t.Errorf("%+v, %v", in, err)
		}
	})
	// The file's reader would refuse a part that the bootloader does not know; here the
	// bootloader does.
	bubble(t, &ncp, func(t *testing.T, r *rig) {
		img, _ := image(t, target(otrcp))
		m := target(otrcp)
		m.Unknown = true
		file := gecko.Build(m)
		img.Bytes = len(file)
		in, err := r.Install(t.Context(), r, img, file, settings(), func(int, int) {})
		// How far it came cannot be known, so that nothing is started which may be
		// half of two applications.
		if !errors.Is(err, ErrRefused) || !in.Erased || r.flash().App != &ncp || r.mode() != "bootloader" {
			t.Errorf("%+v, %v, in flash %+v, %s runs", in, err, r.flash().App, r.mode())
		}
		r.do("reset 1")
		if r.mode() != "ncp" {
			t.Errorf("after a reset %s runs", r.mode())
		}
	})
}

func TestApplicationThatSaysNothing(t *testing.T) {
	bubble(t, &ncp, func(t *testing.T, r *rig) {
		in, err := r.install(t, target(silent))
		if !errors.Is(err, ErrNoAnswer) || !in.Erased {
			t.Errorf("%+v, %v", in, err)
		}
		// With the pin there is a way back.
		r.pin = true
		if in, err = r.install(t, target(ncp)); err != nil || in.App.Kind != EZSP {
			t.Errorf("%+v, %v", in, err)
		}
	})
}

func TestEndOfTheContext(t *testing.T) {
	bubble(t, &silent, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := r.Probe(ctx, settings()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(start); d > 3*time.Second+slice {
			t.Errorf("after %v", d)
		}
	})
}

func TestShort(t *testing.T) {
	for v, want := range map[string]string{
		"7.5.1.0": "7.5.1", "6.10.3.1": "6.10.3.1", "4.4.4": "4.4.4", "4.4.4-app": "4.4.4", "": "", "none": "",
		"SL-OPENTHREAD/2.4.4.0_GitHub-7074a43e4; EFR32; Sep 12 2024 09:30:11": "2.4.4",
		"OPENTHREAD/thread-reference-20230706; EFR32; a/b":                    "",
		strings.Repeat("1", 50): "",
	} {
		if got := Short(v); got != want {
			t.Errorf("%q: %q, want %q", v, got, want)
		}
	}
}
