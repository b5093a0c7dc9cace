//go:build !no_sshd

package main

import "gwinit/internal/crypt"

// verifyPassword checks a stored password.
var verifyPassword = crypt.Verify
