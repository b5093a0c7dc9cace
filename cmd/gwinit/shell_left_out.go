//go:build no_shell

package main

import "gwinit/internal/applet"

func shellApplets() applet.Table { return nil }
