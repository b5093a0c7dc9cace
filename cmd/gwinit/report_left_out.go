//go:build no_report && !no_gwctl

package main

import "gwinit/internal/gwctl"

func reportCommands() []gwctl.Local { return nil }
