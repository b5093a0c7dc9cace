//go:build no_doctor && !no_gwctl

package main

import "gwinit/internal/gwctl"

func doctorCommands() []gwctl.Local { return nil }
