//go:build no_gwctl

package main

import "gwinit/internal/applet"

func gwctlApplets() applet.Table { return nil }
