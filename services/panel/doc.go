//go:build linux

// Package panel is what somebody who stands before the gateway has: its button
// and its two LEDs.
//
// The button's meaning is a state machine without clock or device (button.go):
// samples in, events out, decided when the button is let go. The LEDs show one
// pattern at a time (light.go), by the kernel's triggers where it has them. The
// Service takes samples, carries events out and tells what is wrong.
package panel
