//go:build no_bench

package main

import "gwinit/internal/applet"

func benchApplets() applet.Table { return nil }
