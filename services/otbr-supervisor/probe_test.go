//go:build linux

package otbr

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gwinit/internal/radioproto/hdlc"
	"gwinit/internal/radioproto/spinel"
	"gwinit/internal/tty/ptytest"
)

func TestProbeRadio(t *testing.T) {
	t.Parallel()
	answer := func(tid uint8, text string) []byte {
		return hdlc.Append(nil, spinel.Frame{TID: tid, Command: spinel.PropIs, Property: spinel.NCPVersion, Payload: []byte(text + "\x00")}.Append(nil))
	}
	hello := hdlc.Append(nil, spinel.Frame{Command: spinel.PropIs, Property: spinel.LastStatus, Payload: []byte{spinel.StatusResetFirst}}.Append(nil))
	for _, tt := range []struct {
		name string
		skip int // requests without an answer
		say  []byte
		want string
		err  string
	}{
		{"an RCP", 0, answer(probeTID, "OPENTHREAD/1"), "OPENTHREAD/1", ""},
		{"one that has just started", 1, append(append([]byte("boot noise~"), hello...), answer(probeTID, "OPENTHREAD/2")...), "OPENTHREAD/2", ""},
		{"the answer to another", 0, answer(probeTID+1, "x"), "", "no answer, but"},
		{"an NCP", 0, []byte("\x1a\xc1\x02\x0b\x0a\x52\x7e"), "", "no answer, but"},
		{"nobody", 99, nil, "", "no answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			radio, device := ptytest.Open(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				var in hdlc.Receiver
				buf := make([]byte, 256)
				for asked := 0; ; {
					n, err := radio.Read(buf)
					if err != nil {
						return
					}
					for b := buf[:n]; len(b) > 0; {
						took, frame := in.Next(b)
						b = b[took:]
						s, ok := spinel.Parse(frame)
						if !ok || s.Command != spinel.PropGet || s.Property != spinel.NCPVersion {
							continue
						}
						if asked++; asked > tt.skip {
							if _, err := radio.Write(tt.say); err != nil {
								return
							}
						}
					}
				}
			}()
			got, err := probeRadio(t.Context(), device, 115200, "none", 0)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%q, %v", got, err)
			}
			radio.Close()
			<-done
		})
	}
	_, device := ptytest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := probeRadio(ctx, device, 115200, "none", 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with an end: %v", err)
	}
	if _, err := probeRadio(t.Context(), device+"x", 115200, "none", 0); err == nil {
		t.Error("no device")
	}
	if _, err := probeRadio(t.Context(), device, 115200, "odd", 0); err == nil {
		t.Error("no such flow control")
	}
}
