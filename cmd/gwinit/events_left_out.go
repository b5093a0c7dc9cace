//go:build no_events && !no_gwctl

package main

import "gwinit/internal/gwctl"

func eventCommands() []gwctl.Local { return nil }
