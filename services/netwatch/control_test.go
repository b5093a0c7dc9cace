package netwatch

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/controltest"
)

// What is asked of PID 1, by its real server.
func TestControl(t *testing.T) {
	b := &controltest.Backend{OnCall: func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
		if a.Service != "bridge" || a.Method != "status" {
			t.Errorf("asked for %+v", a)
		}
		return json.RawMessage(`{"rxBytes":7,"client":{"addr":"192.168.1.10:5000"}}`), nil
	}}
	b.Append("core", "eth0: link up")
	b.Append("bridge", "listening")
	pid1 := socket(controltest.Start(t, b, control.Options{}))
	ctx := t.Context()
	if bridge, err := pid1.Bridge(ctx); err != nil || bridge.RxBytes != 7 || bridge.Client == nil || bridge.Client.Addr != "192.168.1.10:5000" {
		t.Errorf("bridge %+v, %v", bridge, err)
	}
	if lines, err := pid1.Log(ctx, 1); err != nil || len(lines) != 1 || lines[0].Text != "listening" {
		t.Errorf("log %+v, %v", lines, err)
	}
	if err := pid1.Reboot(ctx); err != nil || !slices.Equal(b.Shutdowns(), []api.ShutdownArgs{{Action: "reboot"}}) {
		t.Errorf("reboot: %v, %v", err, b.Shutdowns())
	}

	// A refusal, and nobody who answers.
	b.OnShutdown = func(api.ShutdownArgs) error {
		return &api.Error{Code: api.CodeBusy, Message: "the box is shutting down already"}
	}
	var told *api.Error
	if err := pid1.Reboot(ctx); !errors.As(err, &told) || told.Code != api.CodeBusy {
		t.Errorf("reboot: %v", err)
	}
	if err := socket(filepath.Join(t.TempDir(), "none")).Reboot(ctx); err == nil {
		t.Error("a reboot by nobody")
	}
}
