//go:build linux

package radioctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/gpio/gpiotest"
	"gwinit/internal/radiochip"
	"gwinit/internal/radiolock"
	"gwinit/test/radio"
	"gwinit/test/radio/gecko"
	simline "gwinit/test/radio/line"
)

// rig is a gateway in a folder: PID 1 and its services as far as the radio goes, a
// pseudo terminal for its UART, and the simulated radio behind that.
type rig struct {
	t    *testing.T
	box  *Box
	sim  *radio.Sim
	root string

	mu     sync.Mutex
	states map[string]string // of services
	lock   *radiolock.Lock   // of the service that has the radio
	owner  string
	lent   bool
	said   []string
	asked  []string
	broken string // that service does not start
}

func newRig(t *testing.T, mode string, app gecko.App) *rig {
	t.Helper()
	r := &rig{t: t, root: t.TempDir(), states: map[string]string{core: "running", bridge: "running", thread: "done"}}
	for _, dir := range []string{"run", "userdata/etc"} {
		if err := os.MkdirAll(filepath.Join(r.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.conf("# mine\nFIRMWARE=ncp\nFIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=none\nMODE=" + mode + "\n")
	master, keep, path, err := simline.OpenPTY()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keep.Close() })
	opt := radio.DefaultOptions()
	opt.Line.PeerFIFO = 4096
	if r.sim, err = radio.New(opt); err != nil {
		t.Fatal(err)
	}
	r.sim.Line().FollowPeer(func() int {
		tio, err := unix.IoctlGetTermios(int(keep.Fd()), unix.TCGETS2)
		if err != nil {
			return 0
		}
		return int(tio.Ospeed)
	})
	port, err := simline.NewPort(master, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.sim.Run(ctx) })
	wg.Go(func() { _ = r.sim.Attach(ctx, port) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if t.Failed() {
			t.Logf("it says:\n%s", strings.Join(r.said, "\n"))
		}
	})
	r.chip(func(f *gecko.Flash, _ *gecko.Loader) { f.App = &app })
	r.do("reset 2")
	board, _ := rtl8196e.ByID(rtl8196e.Lidl)
	board.Radio.Device = path
	if mode == config.ModeOTBR {
		r.states[thread] = "running"
	}
	r.hold()
	t.Cleanup(func() { r.lock.Release() })
	r.box = &Box{Root: r.root, Board: board, Kernel: gpiotest.New("/dev/gpiochip0"), Ask: r.ask, Say: func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = append(r.said, text)
	}}
	return r
}

func (r *rig) conf(text string) {
	if err := os.WriteFile(filepath.Join(r.root, "userdata/etc/radio.conf"), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read() string {
	b, err := os.ReadFile(filepath.Join(r.root, "userdata/etc/radio.conf"))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

func (r *rig) do(command string) any {
	r.t.Helper()
	answer, err := r.sim.Do(context.Background(), command)
	if err != nil {
		r.t.Fatalf("%s: %v", command, err)
	}
	return answer
}

func (r *rig) chip(f func(*gecko.Flash, *gecko.Loader)) {
	r.t.Helper()
	if err := r.sim.Peek(context.Background(), f); err != nil {
		r.t.Fatal(err)
	}
}

// hold gives the lock to the service that has the radio now, if one does. The mutex
// is held, or nobody else is there.
func (r *rig) hold() {
	want := ""
	radio, _ := config.LoadRadio(r.root, rtl8196e.Board{})
	switch {
	case radio.Mode == config.ModeOTBR && r.states[thread] == "running":
		want = thread
	case radio.Mode == config.ModeZigbee && r.states[bridge] == "running" && !r.lent:
		want = bridge
	}
	if want == r.owner {
		return
	}
	if r.lock != nil {
		if err := r.lock.Release(); err != nil {
			r.t.Error(err)
		}
		r.lock, r.owner = nil, ""
	}
	if want == "" {
		return
	}
	lock, err := radiolock.Acquire(r.root, want)
	if err == nil {
		r.lock, r.owner = lock, want
	} else if !errors.Is(err, radiolock.ErrHeld) {
		r.t.Error(err)
	}
}

// ask is PID 1.
func (r *rig) ask(_ context.Context, op string, args any) (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := func(text string) (json.RawMessage, error) {
		return nil, &api.Error{Code: api.CodeFailed, Message: text}
	}
	switch a := args.(type) {
	case nil:
		r.hold()
		h, err := radiolock.Look(r.root)
		if err != nil {
			return nil, err
		}
		st := api.Status{Radio: api.Radio{Owner: h.Name}}
		for name, state := range r.states {
			st.Services = append(st.Services, api.Service{Name: name, State: state})
		}
		return json.Marshal(st)
	case api.CallArgs:
		r.asked = append(r.asked, a.Service+" "+a.Method)
		switch {
		case a.Service == bridge && a.Method == "release":
			radio, _ := config.LoadRadio(r.root, rtl8196e.Board{})
			if radio.Mode == config.ModeOTBR {
				return refused("the bridge does not have the radio")
			}
			r.lent = true
		case a.Service == bridge && a.Method == "take":
			r.lent = false
		}
	case api.ServiceArgs:
		r.asked = append(r.asked, a.Action+" "+a.Name)
		if a.Action != "stop" && a.Name == r.broken {
			r.states[a.Name] = "failed"
			return refused("start " + a.Name + ": it is in state failed")
		}
		radio, _ := config.LoadRadio(r.root, rtl8196e.Board{})
		switch state := r.states[a.Name]; {
		case a.Action == "try-restart" && a.Name == thread && radio.Mode == config.ModeOTBR:
			r.states[a.Name] = "running"
		case a.Action == "try-restart" && a.Name == thread:
			r.states[a.Name] = "stopped"
		case a.Action == "stop":
			r.states[a.Name] = "stopped"
		case a.Action == "start", a.Action == "try-restart" && state == "running":
			r.states[a.Name] = "running"
		}
	default:
		return nil, fmt.Errorf("unexpected %s %+v", op, args)
	}
	r.hold()
	return json.RawMessage(`{}`), nil
}

// owner waits for who has the radio: the rig's services look for it when they are
// asked for.
func (r *rig) wantOwner(want string) {
	r.t.Helper()
	if _, err := r.ask(context.Background(), api.OpStatus, nil); err != nil {
		r.t.Fatal(err)
	}
	if h, err := radiolock.Look(r.root); err != nil || h.Name != want {
		r.t.Errorf("%q has the radio, %v; want %q", h.Name, err, want)
	}
}

var (
	zigbee = gecko.App{Kind: "ncp", Baud: 115200, Flow: "none"}
	matter = gecko.App{Kind: "otrcp", Baud: 460800, Flow: "none"}
)

func image(app gecko.App) []byte {
	return gecko.Build(gecko.Image{App: &app, Bytes: 1200, Metadata: fmt.Sprintf(`{"metadata_version":1,"baudrate":%d,"fw_type":"x"}`, app.Baud)})
}

// The radio is switched to Thread and back, over a pseudo terminal, and each time
// radio.conf says so and the right service has it.
func TestFlashThereAndBack(t *testing.T) {
	r := newRig(t, config.ModeZigbee, zigbee)
	r.wantOwner(bridge)
	point := 0
	done, err := r.box.Flash(t.Context(), Flash{File: image(matter), Point: func() { point++ }})
	if err != nil || done.Kind != "spinel" || done.Firmware != "otrcp" || done.Mode != config.ModeOTBR || done.Bootloader != "2.4.2" || point != 1 {
		t.Fatalf("%+v, %v, point %d", done, err, point)
	}
	want := "# mine\nFIRMWARE=otrcp\nFIRMWARE_BAUD=460800\nFIRMWARE_FLOW_CTRL=hw\nMODE=otbr\nBOOTLOADER_VERSION=2.4.2\nFIRMWARE_VERSION=2.4.4\nOTBR_REST_BIND=127.0.0.1\n"
	if got := r.read(); got != want {
		t.Errorf("radio.conf is\n%swant\n%s", got, want)
	}
	r.wantOwner(thread)
	done, err = r.box.Flash(t.Context(), Flash{File: image(zigbee), Flow: "none"})
	if err != nil || done.Kind != "ezsp" || done.Protocol != 13 || done.Mode != config.ModeZigbee {
		t.Fatalf("%+v, %v", done, err)
	}
	want = "# mine\nFIRMWARE=ncp\nFIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=none\nMODE=zigbee\nBOOTLOADER_VERSION=2.4.2\nFIRMWARE_VERSION=7.5.1\nOTBR_REST_BIND=127.0.0.1\n"
	if got := r.read(); got != want {
		t.Errorf("radio.conf is\n%swant\n%s", got, want)
	}
	r.wantOwner(bridge)
	if state := r.states[thread]; state == "running" {
		t.Errorf("the border router is %s with a Zigbee radio", state)
	}
	if said := strings.Join(r.said, "\n"); !strings.Contains(said, "sent 100 %") || !strings.Contains(said, "otbr has the radio") || !strings.Contains(said, "bridge has the radio") {
		t.Errorf("it says:\n%s", said)
	}
}

// A border router that cannot run is no failure of the flash: the radio is flashed and
// written down.
func TestFlashForARouterThatFails(t *testing.T) {
	r := newRig(t, config.ModeZigbee, zigbee)
	r.broken = thread
	done, err := r.box.Flash(t.Context(), Flash{File: image(matter)})
	if err != nil || done.Kind != "spinel" || done.Mode != config.ModeOTBR {
		t.Errorf("%+v, %v", done, err)
	}
	if got := r.read(); !strings.Contains(got, "FIRMWARE=otrcp\n") || !strings.Contains(got, "MODE=otbr\n") {
		t.Errorf("radio.conf is\n%s", got)
	}
	r.wantOwner("")
	if said := strings.Join(r.said, "\n"); !strings.Contains(said, "start otbr: it is in state failed") || !strings.Contains(said, "gwctl logs otbr") {
		t.Errorf("it says:\n%s", said)
	}
}

// A failure leaves radio.conf alone, gives the radio back, and says the way back,
// which works.
func TestFlashThatFails(t *testing.T) {
	r := newRig(t, config.ModeZigbee, zigbee)
	before := r.read()
	r.do("loader cancel 4")
	r.do("loader refuse 100")
	_, err := r.box.Flash(t.Context(), Flash{File: image(matter)})
	if err == nil || !strings.Contains(err.Error(), "The radio is in its bootloader and waits: gwctl radio flash FILE with the same image") {
		t.Errorf("got %v", err)
	}
	if got := r.read(); got != before {
		t.Errorf("radio.conf is\n%s", got)
	}
	r.wantOwner(bridge)
	r.do("loader refuse 0")
	if done, err := r.box.Flash(t.Context(), Flash{File: image(matter)}); err != nil || done.Kind != "spinel" {
		t.Errorf("the second run: %+v, %v", done, err)
	}
}

// What is refused before anything happens.
func TestFlashRefuses(t *testing.T) {
	r := newRig(t, config.ModeZigbee, zigbee)
	before := r.read()
	for _, tt := range []struct {
		name string
		file []byte
		word string
	}{
		{"no image", []byte("PK\x03\x04 an archive"), "unpack it"},
		{"damaged", image(matter)[:1000], "cut off"},
		{"another chip's, behind the flash", gecko.Build(gecko.Image{App: &matter, Address: 0x3FF00, Bytes: 600}), "EFR32MG1B"},
		{"another chip's, on the bootloader", gecko.Build(gecko.Image{App: &matter, Address: 0x0800, Bytes: 600}), "EFR32MG1B"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.box.Flash(t.Context(), Flash{File: tt.file})
			if err == nil || !strings.Contains(err.Error(), tt.word) || !strings.HasSuffix(err.Error(), "Nothing was changed") {
				t.Errorf("got %v", err)
			}
			if len(r.asked) != 0 {
				t.Errorf("asked %q", r.asked)
			}
		})
	}
	_, err := r.box.Flash(t.Context(), Flash{File: gecko.Build(gecko.Image{Bootloader: 0x02040002})})
	if !errors.Is(err, radiochip.ErrNotNewer) || !strings.Contains(err.Error(), "the radio runs what it ran") {
		t.Errorf("an old bootloader: %v", err)
	}
	if r.do("mode") != "ncp" || r.read() != before {
		t.Errorf("%v runs, radio.conf is\n%s", r.do("mode"), r.read())
	}
	r.wantOwner(bridge)
	if _, err := r.box.Flash(t.Context(), Flash{File: gecko.Build(gecko.Image{App: &zigbee, Address: 0x3FF00, Bytes: 600}), Force: true}); err != nil {
		t.Errorf("with force: %v", err)
	}
}

// The radio of somebody else is left alone.
func TestInUse(t *testing.T) {
	r := newRig(t, config.ModeZigbee, zigbee)
	r.states[bridge] = "stopped"
	r.mu.Lock()
	r.hold()
	r.mu.Unlock()
	lock, err := radiolock.Acquire(r.root, "somebody")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := r.box.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, radiolock.ErrHeld) {
		t.Errorf("got %v", err)
	}
	if h, err := radiolock.Look(r.root); err != nil || h.Name != "somebody" {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestProbeAndBootloader(t *testing.T) {
	r := newRig(t, config.ModeOTBR, matter)
	a, err := r.box.Probe(t.Context())
	if err != nil || a.Kind != "spinel" || a.Baud != 460800 {
		t.Fatalf("%+v, %v", a, err)
	}
	r.wantOwner(thread)
	if a, err = r.box.Bootloader(t.Context()); err != nil || a.Kind != "bootloader" || a.Version != "2.4.2" || r.do("mode") != "bootloader" {
		t.Errorf("%+v, %v", a, err)
	}
	r.wantOwner(thread)
}

func TestPassthrough(t *testing.T) {
	for _, tt := range []struct {
		mode  string
		owner string
		asked string
	}{
		{config.ModeZigbee, bridge, "stop bridge start bridge"},
		{config.ModeOTBR, thread, "stop bridge stop otbr start bridge try-restart otbr"},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			r := newRig(t, tt.mode, zigbee)
			served := false
			ctx, cancel := context.WithCancel(t.Context())
			err := r.box.Passthrough(ctx, Passthrough{Baud: 115200, Flow: "none", For: time.Hour, Serve: func(ctx context.Context, baud int, flow string) error {
				r.wantOwner("")
				served = baud == 115200 && flow == "none"
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}})
			if err != nil || !served {
				t.Errorf("%v, served %v", err, served)
			}
			r.wantOwner(tt.owner)
			if got := strings.Join(r.asked, " "); got != tt.asked {
				t.Errorf("asked %q, want %q", got, tt.asked)
			}
		})
	}
	// A bridge that ends by itself is an error, and everything is as it was.
	r := newRig(t, config.ModeZigbee, zigbee)
	err := r.box.Passthrough(t.Context(), Passthrough{For: time.Hour, Serve: func(context.Context, int, string) error { return nil }})
	if err == nil {
		t.Error("no error")
	}
	r.wantOwner(bridge)
}
