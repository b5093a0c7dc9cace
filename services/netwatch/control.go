package netwatch

import (
	"context"
	"encoding/json"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/control/client"
)

// controlSocket is where PID 1 answers (docs/control.md).
const controlSocket = "/run/gwinit.sock"

// controlWait bounds a question: PID 1 gives its services less.
const controlWait = 5 * time.Second

// control is the box's Box.
type control struct{}

// Bridge implements Box.
func (control) Bridge(ctx context.Context) (b api.Bridge, err error) {
	return b, ask(ctx, api.OpCall, api.CallArgs{Service: "bridge", Method: "status"}, &b)
}

// Log implements Box.
func (control) Log(ctx context.Context, lines int) (l []api.LogLine, err error) {
	return l, ask(ctx, api.OpLogs, api.LogsArgs{Lines: lines}, &l)
}

// Reboot implements Box.
func (control) Reboot(ctx context.Context) error {
	return ask(ctx, api.OpShutdown, api.ShutdownArgs{Action: "reboot"}, nil)
}

// ask sends one request and decodes its data into to, unless that is nil.
func ask(ctx context.Context, op string, args, to any) error {
	ctx, cancel := context.WithTimeout(ctx, controlWait)
	defer cancel()
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
