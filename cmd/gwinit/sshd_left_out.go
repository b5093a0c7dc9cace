//go:build no_sshd

package main

import "gwinit/internal/applet"

func sshdApplets() applet.Table { return nil }
