// Package ddi is gwctl's subcommand agent: it speaks hawkBit's Direct Device
// Integration API for gateways, so that an update server drives the updates of
// package bundle (docs/fleet.md). Only cmd/gwctl has it.
//
// For each gateway it polls as a device of its own would, with jitter, downloads
// an update once for all of them, and has it sent and tried (package fleet). What
// was begun is written down: an agent that was restarted goes on where it was.
//
// The API is that of https://eclipse.dev/hawkbit/apis/ddi_api, version 1, with
// JSON; user consent (confirmationBase) is the server's business and not answered.
package ddi
