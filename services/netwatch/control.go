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

// socket is the box's Box: the path of the control socket.
type socket string

// Bridge implements Box.
func (s socket) Bridge(ctx context.Context) (*api.Bridge, error) {
	b := new(api.Bridge)
	err := s.ask(ctx, api.OpCall, &api.CallArgs{Service: "bridge", Method: "status"}, b)
	return b, err
}

// Log implements Box.
func (s socket) Log(ctx context.Context, lines int) (l []api.LogLine, err error) {
	err = s.ask(ctx, api.OpLogs, &api.LogsArgs{Lines: lines}, &l)
	return l, err
}

// Reboot implements Box.
func (s socket) Reboot(ctx context.Context) error {
	return s.ask(ctx, api.OpShutdown, &api.ShutdownArgs{Action: "reboot"}, nil)
}

// ask sends one request and decodes its data into to, unless that is nil.
func (s socket) ask(ctx context.Context, op string, args, to any) error {
	ctx, cancel := context.WithTimeout(ctx, controlWait)
	defer cancel()
	conn, err := client.Dial(ctx, string(s))
	if err != nil {
		return err
	}
	defer conn.Close()
	data, err := conn.Do(ctx, op, args)
	if err != nil || to == nil {
		return err
	}
	return json.Unmarshal(data, to)
}
