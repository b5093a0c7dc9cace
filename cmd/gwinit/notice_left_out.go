//go:build !no_shell && !ssh

package main

func notice() string { return "" }
