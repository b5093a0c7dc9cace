// Package rollout brings one update to many gateways from a workstation (gwctl
// update with several hosts, docs/fleet.md): a few at a time, the canaries
// first, and to no other as soon as one of them does not keep it.
//
// What was begun is written down in a journal, so that an interrupted rollout
// goes on where it was. It knows no SSH: an Updater is somebody else's login
// (package remote). The bundle is read from its file for each gateway.
package rollout
