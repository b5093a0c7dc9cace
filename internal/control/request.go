package control

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"

	"gwinit/internal/api"
)

// request is a checked api.Request: the arguments of op, the others zero.
type request struct {
	op       string
	status   api.StatusArgs
	logs     api.LogsArgs
	service  api.ServiceArgs
	shutdown api.ShutdownArgs
	call     api.CallArgs
	bench    api.BenchArgs
}

// parse checks one line from a client: its form, version, operation and
// arguments, but not whether a service exists.
//
// Unknown members of the request are ignored, unknown arguments are not: a
// newer client's "reboot, but ..." must not become a plain reboot.
func parse(line []byte) (request, *api.Error) {
	var in api.Request
	if err := json.Unmarshal(line, &in); err != nil {
		return request{}, bad("not a request: %v; send one JSON object a line, as in %s", err, example)
	}
	r := request{op: in.Op}
	switch {
	case in.V < 1:
		return r, bad(`no protocol version: add "v":%d`, api.Version)
	case in.V > api.Version:
		return r, &api.Error{
			Code:    api.CodeVersion,
			Message: fmt.Sprintf("protocol version %d is newer than this gwinit, which speaks up to %d: use a gwctl of its version", in.V, api.Version),
		}
	}
	switch in.Op {
	case api.OpStatus:
		return r, arguments(in, &r.status)
	case api.OpLogs:
		if err := arguments(in, &r.logs); err != nil {
			return r, err
		}
		if r.logs.Lines < 0 {
			return r, bad(`logs: "lines" is %d; give the number of lines, or 0 for all`, r.logs.Lines)
		}
	case api.OpService:
		if err := arguments(in, &r.service); err != nil {
			return r, err
		}
		if r.service.Name == "" {
			return r, bad(`service: no "name"; status lists the services`)
		}
		switch r.service.Action {
		case "start", "stop", "restart", "try-restart":
		default:
			return r, bad(`service: "action" is %.32q; it can be start, stop, restart or try-restart`, r.service.Action)
		}
	case api.OpShutdown:
		if err := arguments(in, &r.shutdown); err != nil {
			return r, err
		}
		switch r.shutdown.Action {
		case "reboot", "poweroff", "halt":
		default:
			return r, bad(`shutdown: "action" is %.32q; it can be reboot, poweroff or halt`, r.shutdown.Action)
		}
		switch r.shutdown.Mode {
		case "":
		case "safe", "factory", "flash":
			if r.shutdown.Action != "reboot" {
				return r, bad(`shutdown: "mode" goes with reboot only`)
			}
		default:
			return r, bad(`shutdown: "mode" is %.32q; it can be safe, factory, flash or absent`, r.shutdown.Mode)
		}
	case api.OpCall:
		if err := arguments(in, &r.call); err != nil {
			return r, err
		}
		if r.call.Service == "" || r.call.Method == "" {
			return r, bad(`call: needs "service" and "method"`)
		}
	case api.OpBench:
		if err := arguments(in, &r.bench); err != nil {
			return r, err
		}
		return r, checkBench(&r.bench)
	case "":
		return r, bad(`no "op": send a request such as %s`, example)
	default:
		return r, &api.Error{
			Code:    api.CodeUnknownOp,
			Message: fmt.Sprintf("this gwinit has no operation %.32q; it knows status, logs, service, shutdown, call and bench", in.Op),
		}
	}
	return r, nil
}

// checkBench checks the arguments of bench, and puts the defaults in.
func checkBench(a *api.BenchArgs) *api.Error {
	least, most := 0, 0
	switch a.Action {
	case api.BenchOn:
		least, most = api.BenchMinSeconds, api.BenchMaxSeconds
		a.Seconds = cmp.Or(a.Seconds, api.BenchSeconds)
		a.Port = cmp.Or(a.Port, api.BenchPort)
		a.Profile = cmp.Or(a.Profile, "bench")
	case api.BenchVerify:
		least, most = 1, api.BenchMaxVerify
		a.Seconds = cmp.Or(a.Seconds, api.BenchVerifySeconds)
	case api.BenchOff, api.BenchStatus, api.BenchCounters:
	default:
		return bad(`bench: "action" is %.32q; it can be on, off, status, verify or counters`, a.Action)
	}
	switch peer, err := netip.ParseAddr(a.Peer); {
	case a.Seconds < least || a.Seconds > most:
		return bad(`bench: "seconds" is %d; it can be %d to %d`, a.Seconds, least, most)
	case a.Port < 0 || a.Port > 65535:
		return bad(`bench: "port" is %d; it can be 1 to 65535`, a.Port)
	case a.Peer != "" && err != nil:
		return bad(`bench: "peer" is %.64q, which is no address`, a.Peer)
	case err == nil:
		a.Peer = peer.Unmap().WithZone("").String()
	}
	if a.Action != api.BenchOn && (a.Peer != "" || a.Port != 0 || a.Profile != "" || a.Drop || a.Stay) {
		return bad(`bench: "peer", "port", "profile", "drop" and "stay" go with on only`)
	}
	return nil
}

const example = `{"v":1,"op":"status"}`

// arguments decodes the arguments of in into to.
func arguments(in api.Request, to any) *api.Error {
	if len(in.Args) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(in.Args))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return bad("%s: wrong args: %v", in.Op, err)
	}
	return nil
}

func bad(format string, a ...any) *api.Error {
	return &api.Error{Code: api.CodeBadRequest, Message: fmt.Sprintf(format, a...)}
}
