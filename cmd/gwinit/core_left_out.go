//go:build no_core

package main

import "gwinit/internal/applet"

func coreApplets() applet.Table { return nil }
