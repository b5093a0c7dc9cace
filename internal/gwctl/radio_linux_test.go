package gwctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/internal/control/controltest"
)

func TestOwnership(t *testing.T) {
	tests := []struct {
		name   string
		change func(*api.Status)
		want   string
	}{
		{"bridge", func(s *api.Status) {
			r := &s.Radio
			r.OwnerPID, r.Since, r.Engine = 51, 7385.2, "user"
			r.Firmware, r.FirmwareVersion, r.BootloaderVersion = "ncp", "7.5.1", "2.4.2"
		}, "" +
			"owner    bridge, pid 51, for 2h3m\n" +
			"mode     zigbee, engine user\n" +
			"device   /dev/ttyS1 at 115200 baud, flow control RTS/CTS\n" +
			"firmware ncp 7.5.1, bootloader 2.4.2\n"},
		{"released", func(s *api.Status) {
			s.Radio = api.Radio{Owner: "flash", Released: 583, Device: "/dev/ttyS1", Mode: "zigbee", Baud: 115200, Flow: "none", Engine: "user", BootloaderVersion: "2.4.2"}
			s.Bridge.UARTOpen, s.Bridge.UARTErr = false, "the radio is released"
		}, "" +
			"owner    flash\n" +
			"released by the bridge, for 9m43s more at most; gwctl radio take ends that\n" +
			"mode     zigbee, engine user\n" +
			"device   /dev/ttyS1 at 115200 baud, flow control none\n" +
			"firmware bootloader 2.4.2\n"},
		{"broken, another engine", func(s *api.Status) {
			s.Radio.Owner, s.Radio.Engine, s.Radio.Firmware = "", "kernel", "ncp"
			s.Bridge.UARTOpen, s.Bridge.UARTErr, s.Bridge.Engine = false, "open /dev/ttyS1: no such device", "user"
		}, "" +
			"owner    nobody\n" +
			"bridge   !! open /dev/ttyS1: no such device\n" +
			"mode     zigbee, engine kernel, which cannot be had: user is used\n" +
			"device   /dev/ttyS1 at 115200 baud, flow control RTS/CTS\n" +
			"firmware ncp\n"},
		{"thread", func(s *api.Status) {
			s.Radio.Owner, s.Radio.Mode = "otbr", "otbr"
			s.Bridge.UARTOpen, s.Bridge.UARTErr = false, "the radio is in Thread (OTBR) mode"
		}, "" +
			"owner    otbr\n" +
			"mode     otbr\n" +
			"device   /dev/ttyS1 at 115200 baud, flow control RTS/CTS\n" +
			"firmware not noted in radio.conf\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := gateway()
			tt.change(&b.Box)
			path := controltest.Start(t, b, control.Options{})
			status, out, errs := call(t.Context(), "-socket", path, "radio")
			if status != 0 || out != tt.want || errs != "" {
				t.Errorf("status %d, %s, output\n%s\nwant\n%s", status, errs, out, tt.want)
			}
			status, out, _ = call(t.Context(), "-socket", path, "radio", "-json")
			var r api.Radio
			if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil || r != b.Box.Radio {
				t.Errorf("status %d, %v, %s", status, err, out)
			}
		})
	}
}

func TestRadioVerbs(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		answer string // of the bridge, or its error
		status int
		call   string // what the bridge was asked, with its params
		out    string
		err    string
	}{
		{
			"release",
			[]string{"release"},
			`{"releasedSeconds":599.9991}`, 0, "release ",
			"the radio is free: the bridge takes it back in 10m, or after gwctl radio take\n", "",
		},
		{"release for a time", []string{"release", "-for", "90s", "-json"}, `{"releasedSeconds":90}`, 0, `release {"seconds":90}`, `{"releasedSeconds":90}` + "\n", ""},
		{"release refused", []string{"release", "-for", "25h"}, "error: want 1 to 86400", 1, `release {"seconds":90000}`, "", "want 1 to 86400"},
		{"take", []string{"take"}, `{"releasedSeconds":0}`, 0, "take ", "the bridge has the radio again\n", ""},
		{"take refused", []string{"take", "-json"}, "error: not running", 1, "take ", `{"error":{"code":"failed","message":"not running"}}` + "\n", ""},
		{"take for a time", []string{"take", "-for", "1m"}, "", 2, "", "", "-for goes with release only"},
		{"release what", []string{"release", "it"}, "", 2, "", "", `no argument "it"`},
		{"no time", []string{"release", "-for", "long"}, "", 2, "", "", "it is no time, such as 30s or 2m; see gwctl radio -h"},
		{"unknown verb", []string{"give"}, "", 2, "", "", `no verb "give"`},
		{"no mode", []string{"mode"}, "", 2, "", "", "zigbee or otbr"},
		{"unknown mode", []string{"mode", "matter"}, "", 2, "", "", "zigbee or otbr"},
		{"mode elsewhere", []string{"mode", "otbr"}, "", 1, "", "", "on the gateway itself"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := gateway()
			asked := ""
			b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
				asked = a.Method + " " + string(a.Params)
				if a.Service != "bridge" {
					t.Errorf("asked %s", a.Service)
				}
				if text, bad := strings.CutPrefix(tt.answer, "error: "); bad {
					return nil, errors.New(text)
				}
				return json.RawMessage(tt.answer), nil
			}
			path := controltest.Start(t, b, control.Options{})
			status, out, errs := call(t.Context(), append([]string{"-socket", path, "radio"}, tt.args...)...)
			if status != tt.status || out != tt.out || !strings.Contains(errs, tt.err) || tt.err == "" && errs != "" || asked != tt.call {
				t.Errorf("status %d, asked %q, output %q, stderr %q; want %d, %q, %q, %q", status, asked, out, errs, tt.status, tt.call, tt.out, tt.err)
			}
		})
	}
}

// withConfig is gwctl on the box, with a config command that notes its
// arguments and has the bridge restarted.
func withConfig(t *testing.T, b *controltest.Backend, asked *[]string, args ...string) (status int, out, errs string) {
	t.Helper()
	path := controltest.Start(t, b, control.Options{})
	var o, e bytes.Buffer
	local := Local{Name: "config", Run: func(std applet.IO, args []string, json bool, restart func(string, bool) (string, error)) error {
		*asked = args
		state, err := restart("bridge", false)
		fmt.Fprintf(std.Out, "bridge %s, json %v\n", state, json)
		return err
	}}
	a := Command("9.9", client.Dial, local)
	status = a.Execute(t.Context(), applet.IO{Out: &o, Err: &e}, append([]string{"radio", "-socket", path}, args...))
	return status, o.String(), e.String()
}

func TestRadioMode(t *testing.T) {
	// The radio changes hands at the third look.
	changes := func(b *controltest.Backend, from, to string) {
		var looks atomic.Int32
		b.OnStatus = func(context.Context) api.Status {
			s := b.Box
			if s.Radio.Owner = from; looks.Add(1) >= 3 {
				s.Radio.Owner = to
			}
			return s
		}
	}
	t.Run("to the bridge", func(t *testing.T) {
		b, asked := gateway(), []string(nil)
		changes(b, "otbr", "bridge")
		status, out, errs := withConfig(t, b, &asked, "mode", "zigbee")
		if status != 0 || !slices.Equal(asked, []string{"set", "radio.MODE=zigbee"}) ||
			!strings.HasPrefix(out, "bridge running, json false\nowner    bridge\n") {
			t.Errorf("status %d, set %q, %s%s", status, asked, out, errs)
		}
	})
	t.Run("to nobody", func(t *testing.T) {
		b, asked := gateway(), []string(nil)
		changes(b, "bridge", "")
		status, out, errs := withConfig(t, b, &asked, "mode", "otbr")
		if status != 0 || !strings.Contains(out, "the radio is free; this gateway has no service otbr that takes it\nowner    nobody\n") {
			t.Errorf("status %d, %s%s", status, out, errs)
		}
	})
	t.Run("to the Thread service, json", func(t *testing.T) {
		b, asked := gateway(), []string(nil)
		b.Box.Services = append(b.Box.Services, api.Service{Name: "otbr", State: "starting"})
		changes(b, "", "otbr")
		status, out, errs := withConfig(t, b, &asked, "mode", "otbr", "-json")
		var r api.Radio
		if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil || r.Owner != "otbr" {
			t.Errorf("status %d, %v, %s%s", status, err, out, errs)
		}
	})
	t.Run("to a service that does not run", func(t *testing.T) {
		b, asked := gateway(), []string(nil)
		b.Box.Services[1].State = "stopped"
		b.Box.Radio.Owner = ""
		b.Box.Bridge = nil
		status, _, errs := withConfig(t, b, &asked, "mode", "zigbee")
		const want = "bridge does not have the radio: nobody has it; the service bridge is stopped: gwctl start bridge; gwctl logs bridge may say why"
		if status != 1 || !strings.Contains(errs, want) {
			t.Errorf("status %d, %q, want %q", status, errs, want)
		}
	})
	t.Run("a setting that is refused", func(t *testing.T) {
		b, asked := gateway(), []string(nil)
		b.OnService = func(context.Context, api.ServiceArgs) (api.Service, error) {
			return api.Service{}, &api.Error{Code: api.CodeBusy, Message: "shutting down"}
		}
		status, out, _ := withConfig(t, b, &asked, "-json", "mode", "otbr")
		if status != 1 || out != `{"error":{"code":"busy","message":"shutting down"}}`+"\n" {
			t.Errorf("status %d, %s", status, out)
		}
	})
}
