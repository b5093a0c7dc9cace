//go:build !no_shell && no_sshd

package main

func notice() string { return "" }
