//go:build no_sshd

package main

// verifyPassword is there with SSH only.
var verifyPassword func(stored, password string) (bool, error)
