//go:build linux

package panel

import (
	"context"
	"encoding/json"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/control/client"
)

// controlSocket is where PID 1 answers (docs/control.md).
const controlSocket = "/run/gwinit.sock"

// control is the box's Box.
type control struct{}

// Client implements Box.
func (control) Client(ctx context.Context) (bool, error) {
	var b api.Bridge
	err := ask(ctx, api.OpCall, api.CallArgs{Service: "bridge", Method: "status"}, &b)
	return b.Client != nil, err
}

// Release implements Box.
func (control) Release(ctx context.Context, d time.Duration) error {
	params, err := json.Marshal(api.ReleaseParams{Seconds: d.Seconds()})
	if err != nil {
		return err
	}
	return ask(ctx, api.OpCall, api.CallArgs{Service: "bridge", Method: "release", Params: params}, nil)
}

// Take implements Box.
func (control) Take(ctx context.Context) error {
	return ask(ctx, api.OpCall, api.CallArgs{Service: "bridge", Method: "take"}, nil)
}

// Reboot implements Box.
func (control) Reboot(ctx context.Context, mode string) error {
	return ask(ctx, api.OpShutdown, api.ShutdownArgs{Action: "reboot", Mode: mode}, nil)
}

// ask sends one request and decodes its data into to, unless that is nil.
func ask(ctx context.Context, op string, args, to any) error {
	c, err := client.Dial(ctx, controlSocket)
	if err != nil {
		return err
	}
	defer c.Close()
	data, err := c.Do(ctx, op, args)
	if err != nil || to == nil {
		return err
	}
	return json.Unmarshal(data, to)
}
