//go:build (no_radio || no_bridge) && !no_gwctl

package main

import "gwinit/internal/gwctl"

func radioCommands() []gwctl.Local { return nil }
