//go:build no_tools

package main

import "gwinit/internal/applet"

func toolApplets() applet.Table { return nil }
