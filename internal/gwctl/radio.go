package gwctl

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
)

// The names that the radio's owners and the services behind them have.
const (
	ownerBridge = "bridge"
	ownerThread = "otbr"
)

const (
	// handOver is how long the radio may take to change hands: the bridge tries
	// every 5 s at most, and its service may be restarted first.
	handOver = 20 * time.Second
	// handOverPoll is how often that is looked at.
	handOverPoll = 250 * time.Millisecond
)

const radioMore = `  status      who has it, what is noted of it, and what it said when it was asked last
  release     have the bridge leave the radio's UART to another program; its client
              is told by an orderly end, and the UART is locked by nobody then
    -for TIME for that long at most, 1s to 24h (10m); then the bridge takes it back
  take        give the radio back to the bridge
  mode zigbee the bridge has the radio (radio.MODE in radio.conf)
  mode otbr   the Thread border router has it

by the gateway's own gwctl, -h tells more:
  probe, reset, bootloader, recover, flash FILE, passthrough
`

// radio shows the radio and who has it, and moves it.
func radio(e *env, f *flag.FlagSet) func([]string) error {
	var limit time.Duration
	timeFlag(f, &limit, "for")
	return func(args []string) error {
		verb := ""
		if len(args) > 0 {
			verb, args = args[0], args[1:]
		}
		if limit != 0 && verb != "release" {
			return applet.Usagef("radio: -for goes with release only")
		}
		switch {
		case verb == "mode" && len(args) == 1 && (args[0] == "zigbee" || args[0] == ownerThread):
			return e.radioMode(args[0])
		case verb == "mode":
			return applet.Usagef("radio mode is zigbee or otbr")
		case len(args) > 0:
			return applet.Usagef("radio %s takes no argument %q", verb, args[0])
		}
		switch verb {
		case "", "status":
			st, _, err := e.ownership()
			if err != nil {
				return err
			}
			return e.showRadio(st)
		case "release":
			return e.radioRelease(limit)
		case "take":
			return e.radioTake()
		}
		return applet.Usagef("radio has no verb %q: status, release, take, mode, probe, reset, bootloader, recover, flash or passthrough?", verb)
	}
}

// ownership asks for the status and returns who has the radio.
func (e *env) ownership() (st api.Status, owner string, err error) {
	data, err := e.ask(api.OpStatus, nil)
	if err == nil {
		err = decode(e.name, data, &st)
	}
	return st, st.Radio.Owner, err
}

func (e *env) showRadio(st api.Status) error {
	if e.json {
		return e.print(st.Radio)
	}
	return e.write(func(b *bytes.Buffer) { screen{b, e.colour()}.ownership(st) })
}

// ownership writes what gwctl radio shows.
func (s screen) ownership(st api.Status) {
	r := st.Radio
	switch {
	case r.Owner != "":
		text := r.Owner
		if r.OwnerPID > 0 {
			text += fmt.Sprintf(", pid %d, for %s", r.OwnerPID, duration(r.Since))
		}
		s.row("owner", text)
	default:
		s.row("owner", "nobody")
	}
	if r.Released > 0 {
		s.row("released", "by the bridge, for "+duration(r.Released)+" more at most; gwctl radio take ends that")
	}
	if b := st.Bridge; b != nil && !b.UARTOpen && b.UARTErr != "" && r.Mode != ownerThread && r.Released == 0 {
		s.alarm("bridge", b.UARTErr)
	}
	mode := or(r.Mode, "unknown")
	if r.Mode != ownerThread {
		mode += ", engine " + or(r.Engine, "unknown")
		if b := st.Bridge; b != nil && b.Engine != "" && r.Engine != "" && b.Engine != r.Engine {
			mode += ", which cannot be had: " + b.Engine + " is used"
		}
	}
	s.row("mode", mode)
	s.row("device", fmt.Sprintf("%s at %d baud, flow control %s", or(r.Device, "no UART"), r.Baud, flow(r.Flow)))
	firmware := strings.TrimSpace(r.Firmware + " " + r.FirmwareVersion)
	if r.BootloaderVersion != "" {
		firmware = strings.TrimPrefix(firmware+", bootloader "+r.BootloaderVersion, ", ")
	}
	s.row("firmware", or(firmware, "not noted in radio.conf"))
	if a := r.Answer; a != nil {
		s.row("answered", clean(a.String())+", "+duration(a.Age)+" ago")
	}
}

func (e *env) radioRelease(limit time.Duration) error {
	data, err := e.ask(api.OpCall, api.CallArgs{Service: ownerBridge, Method: "release", Params: releaseParams(limit)})
	if err != nil {
		return err
	}
	if e.json {
		return e.print(data)
	}
	var r api.Released
	if err := decode(e.name, data, &r); err != nil {
		return err
	}
	left := time.Duration(r.Seconds * float64(time.Second)).Round(time.Second)
	_, err = fmt.Fprintf(e.std.Out, "the radio is free: the bridge takes it back in %s, or after gwctl radio take\n", duration(left.Seconds()))
	return err
}

// releaseParams leaves a limit of 0 to the bridge.
func releaseParams(limit time.Duration) json.RawMessage {
	if limit == 0 {
		return nil
	}
	return json.RawMessage(fmt.Sprintf(`{"seconds":%g}`, limit.Seconds()))
}

func (e *env) radioTake() error {
	if _, err := e.ask(api.OpCall, api.CallArgs{Service: ownerBridge, Method: "take"}); err != nil {
		return err
	}
	st, err := e.handedOver(ownerBridge)
	if err != nil {
		return err
	}
	if e.json {
		return e.print(st.Radio)
	}
	_, err = fmt.Fprintln(e.std.Out, "the bridge has the radio again")
	return err
}

// radioMode sets radio.MODE, which restarts who reads it, and sees that the
// UART's lock has changed hands.
func (e *env) radioMode(mode string) error {
	i := slices.IndexFunc(e.local, func(l Local) bool { return l.Name == "config" })
	if i < 0 {
		return errors.New("the mode is a setting: use gwctl radio mode on the gateway itself")
	}
	std := e.std
	if e.json {
		std.Out = io.Discard // one answer, which is the radio
	}
	if err := e.local[i].Run(std, []string{"set", "radio.MODE=" + mode}, false, e.takeOver); err != nil {
		return err
	}
	want := ownerBridge
	if mode == ownerThread {
		want = ownerThread
	}
	st, err := e.handedOver(want)
	if err != nil {
		return err
	}
	return e.showRadio(st)
}

// handedOver waits until want has the radio. A service that this gateway does
// not have cannot take it: then it is enough that nobody else has it.
func (e *env) handedOver(want string) (api.Status, error) {
	deadline := time.NewTimer(handOver)
	defer deadline.Stop()
	poll := time.NewTicker(handOverPoll)
	defer poll.Stop()
	for {
		st, owner, err := e.ownership()
		switch {
		case err != nil:
			return st, err
		case owner == want:
			return st, nil
		case owner == "" && !slices.ContainsFunc(st.Services, func(s api.Service) bool { return s.Name == want }):
			if !e.json {
				_, err = fmt.Fprintf(e.std.Out, "the radio is free; this gateway has no service %s that takes it\n", want)
			}
			return st, err
		case slices.ContainsFunc(st.Services, func(s api.Service) bool { return s.Name == want && !coming(s.State) }):
			return st, notHandedOver(st, want)
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			return st, notHandedOver(st, want)
		case <-e.ctx.Done():
			return st, e.ctx.Err()
		}
	}
}

// coming tells whether a service in that state may take the radio by itself.
func coming(state string) bool { return state != "stopped" && state != "failed" && state != "done" }

func notHandedOver(st api.Status, want string) error {
	text := "nobody has it"
	if st.Radio.Owner != "" {
		text = st.Radio.Owner + " has it"
	}
	if b := st.Bridge; want == ownerBridge && b != nil && b.UARTErr != "" {
		text += " (" + b.UARTErr + ")"
	}
	for _, s := range st.Services {
		if s.Name == want && s.State != "running" {
			text += "; the service " + want + " is " + s.State + ": gwctl start " + want
		}
	}
	return &api.Error{
		Code:    api.CodeFailed,
		Message: fmt.Sprintf("%s does not have the radio: %s; gwctl logs %s may say why", want, text, want),
	}
}
