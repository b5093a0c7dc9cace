//go:build no_selftest

package main

import "gwinit/internal/applet"

func selftestApplets() applet.Table { return nil }
