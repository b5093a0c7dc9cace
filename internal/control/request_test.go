package control

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gwinit/internal/api"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, line string
		want       request
		code       string // of the error, empty: none
		says       string // part of its message
	}{
		{name: "status", line: `{"v":1,"op":"status"}`, want: request{op: "status"}},
		{name: "carriage return", line: "{\"v\":1,\"op\":\"status\"}\r", want: request{op: "status"}},
		{name: "unknown member", line: `{"v":1,"op":"status","id":7}`, want: request{op: "status"}},
		{name: "null args", line: `{"v":1,"op":"status","args":null}`, want: request{op: "status"}},
		{name: "logs", line: `{"v":1,"op":"logs"}`, want: request{op: "logs"}},
		{
			name: "logs of one, following", line: `{"v":1,"op":"logs","args":{"service":"core","lines":5,"follow":true}}`,
			want: request{op: "logs", logs: api.LogsArgs{Service: "core", Lines: 5, Follow: true}},
		},
		{
			name: "restart", line: `{"v":1,"op":"service","args":{"name":"core","action":"restart"}}`,
			want: request{op: "service", service: api.ServiceArgs{Name: "core", Action: "restart"}},
		},
		{
			name: "restart of one that runs", line: `{"v":1,"op":"service","args":{"name":"core","action":"try-restart"}}`,
			want: request{op: "service", service: api.ServiceArgs{Name: "core", Action: "try-restart"}},
		},
		{
			name: "safe", line: `{"v":1,"op":"shutdown","args":{"action":"reboot","mode":"safe"}}`,
			want: request{op: "shutdown", shutdown: api.ShutdownArgs{Action: "reboot", Mode: "safe"}},
		},
		{
			name: "halt", line: `{"v":1,"op":"shutdown","args":{"action":"halt"}}`,
			want: request{op: "shutdown", shutdown: api.ShutdownArgs{Action: "halt"}},
		},
		{
			name: "call", line: `{"v":1,"op":"call","args":{"service":"core","method":"status","params":{"a":1}}}`,
			want: request{op: "call", call: api.CallArgs{Service: "core", Method: "status", Params: json.RawMessage(`{"a":1}`)}},
		},
		{
			name: "call, following", line: `{"v":1,"op":"call","args":{"service":"bridge","method":"tap","follow":true}}`,
			want: request{op: "call", call: api.CallArgs{Service: "bridge", Method: "tap", Follow: true}},
		},

		{name: "empty", line: ``, code: "bad-request", says: example},
		{name: "words", line: `status`, code: "bad-request", says: example},
		{name: "array", line: `[]`, code: "bad-request", says: example},
		{name: "two objects", line: `{"v":1,"op":"status"}{"v":1,"op":"status"}`, code: "bad-request", says: "one JSON object a line"},
		{name: "wrong type", line: `{"v":"1","op":"status"}`, code: "bad-request", says: "v"},
		{name: "no version", line: `{"op":"status"}`, code: "bad-request", says: `"v":1`},
		{name: "negative version", line: `{"v":-1,"op":"status"}`, code: "bad-request", says: `"v":1`},
		{name: "newer version", line: `{"v":2,"op":"status"}`, code: "version", says: "up to 1"},
		{name: "newer version, unknown op", line: `{"v":9,"op":"dance"}`, code: "version", says: "version 9"},
		{name: "no op", line: `{"v":1}`, code: "bad-request", says: example},
		{name: "unknown op", line: `{"v":1,"op":"dance"}`, code: "unknown-op", says: "dance"},
		{name: "op in capitals", line: `{"v":1,"op":"STATUS"}`, code: "unknown-op", says: "STATUS"},
		{name: "args for status", line: `{"v":1,"op":"status","args":{"x":1}}`, code: "bad-request", says: "x"},
		{name: "unknown argument", line: `{"v":1,"op":"shutdown","args":{"action":"reboot","mod":"safe"}}`, code: "bad-request", says: "mod"},
		{name: "args of the wrong type", line: `{"v":1,"op":"logs","args":"core"}`, code: "bad-request", says: "logs"},
		{name: "negative lines", line: `{"v":1,"op":"logs","args":{"lines":-1}}`, code: "bad-request", says: "-1"},
		{name: "no name", line: `{"v":1,"op":"service","args":{"action":"stop"}}`, code: "bad-request", says: "name"},
		{name: "no action", line: `{"v":1,"op":"service","args":{"name":"core"}}`, code: "bad-request", says: "start, stop, restart or try-restart"},
		{name: "wrong action", line: `{"v":1,"op":"service","args":{"name":"core","action":"kill"}}`, code: "bad-request", says: "kill"},
		{name: "shutdown without args", line: `{"v":1,"op":"shutdown"}`, code: "bad-request", says: "reboot, poweroff or halt"},
		{name: "wrong shutdown", line: `{"v":1,"op":"shutdown","args":{"action":"sleep"}}`, code: "bad-request", says: "sleep"},
		{name: "wrong mode", line: `{"v":1,"op":"shutdown","args":{"action":"reboot","mode":"fast"}}`, code: "bad-request", says: "fast"},
		{name: "mode without reboot", line: `{"v":1,"op":"shutdown","args":{"action":"halt","mode":"safe"}}`, code: "bad-request", says: "reboot only"},
		{name: "call without method", line: `{"v":1,"op":"call","args":{"service":"core"}}`, code: "bad-request", says: "method"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse([]byte(tt.line))
			if tt.code != "" {
				if err == nil {
					t.Fatalf("parse = %+v, want %s", got, tt.code)
				}
				if err.Code != tt.code || !strings.Contains(err.Message, tt.says) {
					t.Errorf("error %s %q, want %s with %q", err.Code, err.Message, tt.code, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("parse = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"op":"status"}`, `{"v":1,"op":"logs","args":{"service":"core","lines":5,"follow":true}}`,
		`{"v":1,"op":"service","args":{"name":"core","action":"stop"}}`, `{"v":1,"op":"shutdown","args":{"action":"reboot","mode":"safe"}}`,
		`{"v":1,"op":"call","args":{"service":"core","method":"status","params":[{}]}}`, `{"v":2,"op":""}`, `[[[[`, `{"v":1e0,"op":"status"}`, "\x00\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parse(line)
		if err != nil {
			if err.Code == "" || err.Message == "" {
				t.Fatalf("an error without words: %+v", err)
			}
			// A long line must not come back as a long reply.
			if len(err.Message) > 2*len(line)*len(`\x00`)+300 {
				t.Fatalf("message of %d bytes for a line of %d", len(err.Message), len(line))
			}
			return
		}
		switch r.op {
		case api.OpService:
			if r.service.Name == "" {
				t.Fatal("a service without a name")
			}
		case api.OpShutdown:
			if r.shutdown.Mode != "" && r.shutdown.Action != "reboot" {
				t.Fatalf("%+v", r.shutdown)
			}
		case api.OpStatus, api.OpLogs, api.OpCall:
		default:
			t.Fatalf("op %q passed", r.op)
		}
		if !json.Valid(line) {
			t.Fatalf("%q is not JSON", line)
		}
	})
}
