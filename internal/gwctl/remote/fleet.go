package remote

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"gwinit/internal/api"
	"gwinit/internal/gwctl/ddi"
	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/gwctl/rollout"
	"gwinit/internal/gwctl/update"
)

// stateTime bounds the question what a gateway runs: a login on a slow CPU, and its
// gwctl.
const stateTime = time.Minute

// updater is a gateway as who updates many sees it.
type updater struct {
	box   update.Box
	force bool
}

// State implements fleet.Updater.
func (u updater) State(ctx context.Context) (fleet.State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stateTime, errLate)
	defer cancel()
	s, err := update.Status(ctx, u.box)
	if err != nil {
		return fleet.State{}, err
	}
	st := fleet.State{Version: s.Version, Failed: s.Failed, Reason: plain(s.Reason), Board: s.Board, Kernel: s.Kernel}
	for _, slot := range s.Slots {
		if slot.Name == s.Running {
			st.SHA256 = slot.SHA256
		}
		if slot.Name == s.Try {
			st.Trying = slot.Version
		}
	}
	return st, nil
}

// Send implements fleet.Updater.
func (u updater) Send(ctx context.Context, bundle io.Reader, size int64) error {
	err := update.Send(ctx, u.box, bundle, size, update.Options{Force: u.force})
	var said *api.Error
	if errors.As(err, &said) && said.Code != api.CodeBusy {
		return fleet.Refused{Err: errors.New(plain(said.Error()))}
	}
	return err
}

// Wait implements fleet.Updater.
func (u updater) Wait(ctx context.Context, version string) (fleet.Outcome, error) {
	o, err := update.Wait(ctx, u.box, version)
	return fleet.Outcome{Committed: o.Committed, Reason: plain(o.Reason)}, err
}

// gateways are the targets as a fleet.
func (r *runner) gateways(targets []target, force bool) (all []fleet.Gateway) {
	for _, t := range targets {
		all = append(all, fleet.Gateway{Name: t.name, Updater: updater{updateBox{r, t}, force}})
	}
	return all
}

// rollsOut tells whether args are an update that goes to a fleet.
func rollsOut(targets []target, args []string) bool {
	if firstWord(args) != updateName || help(args) || slices.Contains(words(args), "status") {
		return false
	}
	return len(targets) > 1 || slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		return strings.HasPrefix(a, "-") && (name == "max-unavailable" || name == "canary" || name == "except")
	})
}

// rollout brings an update to several gateways.
func (r *runner) rollout(ctx context.Context, targets []target, args []string) error {
	e := rollout.Env{
		Gateways: func(force bool) []fleet.Gateway { return r.gateways(targets, force) },
		Plan:     rollout.Plan{Each: r.each}, Out: r.std.Out, Err: r.std.Err,
	}
	if f, ok := r.std.Err.(*os.File); ok {
		e.Bar = term.IsTerminal(int(f.Fd()))
	}
	return rollout.Command(ctx, e, without(args, updateName))
}

// agent has an update server drive the updates of the targets.
func (r *runner) agent(ctx context.Context, targets []target, args []string) error {
	r.ask = nobody{io.Discard}
	return ddi.Command(ctx, r.gateways(targets, false), r.std, without(args, ddi.Name))
}
