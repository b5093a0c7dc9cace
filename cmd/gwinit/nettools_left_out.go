//go:build no_nettools

package main

import "gwinit/internal/applet"

func netApplets() applet.Table { return nil }
