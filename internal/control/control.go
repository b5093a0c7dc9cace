// Package control is the server behind gwctl: one unix stream socket in PID 1
// on which root asks for the state of the box and changes it. The protocol is
// in docs/control.md, its types in internal/api, its client in the
// sub-package client.
//
// # What it promises PID 1
//
// A client costs one goroutine and a few KiB. There are at most MaxClients,
// each has a time limit for its request and for reading each reply, and no
// lock of the server is held while it is served, so a client that sends
// nothing, garbage or half a line, or that does not read, takes one of the
// places for a while and nothing else (INV 1). A panic under a request is
// logged and costs that connection.
//
// # What it does not do
//
// It knows no service and no log: a Backend does. It opens no network socket;
// requests from other hosts come through sshd, which is a client like gwctl.
// It does not import net, which PID 1 has no other use for.
package control

import (
	"context"
	"encoding/json"

	"gwinit/internal/api"
)

// SocketPath is where the server listens on the box.
const SocketPath = "/run/gwinit.sock"

// Backend carries requests out. Its methods are called from several
// goroutines at once, with arguments that are already checked. They return
// when ctx ends. An *api.Error is passed to the client as it is; any other
// error is sent with api.CodeFailed and should say what to do.
type Backend interface {
	// Status describes the box. What does not answer in time is left out.
	Status(ctx context.Context, args api.StatusArgs) api.Status
	// Logs returns the newest args.Lines lines of args.Service (all of them
	// if 0), oldest first. An unknown service is api.CodeNotFound.
	Logs(args api.LogsArgs) ([]api.LogLine, error)
	// Follow returns a follower that begins with what Logs returns.
	Follow(args api.LogsArgs) (Follower, error)
	// Service carries out args.Action and returns the service afterwards.
	Service(ctx context.Context, args api.ServiceArgs) (api.Service, error)
	// Shutdown begins to end this boot and returns at once, or says why not.
	// The server goes on answering until its own context ends.
	Shutdown(args api.ShutdownArgs) error
	// Call forwards to a service and returns its answer.
	Call(ctx context.Context, args api.CallArgs) (json.RawMessage, error)
	// Bench carries out args.Action and returns what it is answered with, JSON
	// or something that becomes it. With tell, which args.Stay brings, it tells
	// of each change first and returns when bench mode has ended, or ctx, as the
	// client is gone.
	Bench(ctx context.Context, args api.BenchArgs, tell func(*api.Bench) error) (any, error)
}

// Follower is one reader's place in the log.
type Follower interface {
	// Next blocks until there are lines after the last one it returned, or
	// ctx ends. It returns some of them, oldest first, and how many lines
	// before them, of all services, were overwritten before they were read.
	// io.EOF ends the reply without an error. Next never blocks who writes
	// the log.
	Next(ctx context.Context) (lines []api.LogLine, missed uint64, err error)
	// Close releases the follower; Next is not called again.
	Close()
}
