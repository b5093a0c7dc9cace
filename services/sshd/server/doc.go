//go:build linux

// Package server is what an SSH session of the gateway is: keys, who may log
// in, shells, commands, SFTP, forwarding, and the limits of all that. The
// protocol itself is golang.org/x/crypto/ssh.
//
// # What it does not do
//
// It accepts no connection and does not decide when its process ends: package
// sshd hands connections to Server.Session. There is one user, root. It forwards
// no agent, no X11 and no remote port, and takes no certificates.
//
// # Files
//
// Paths are below Options.Root:
//
//	userdata/ssh/authorized_keys   who may log in, OpenSSH's form
//	etc/ssh/authorized_keys        the same, from the image
//	userdata/etc/dropbear/         the host's keys, in dropbear's files and form
//	userdata/etc/passwd, shadow    root's password, if there is one
//	run/ssh/                       host keys of a box without /userdata
//
// docs/security.md says what this keeps whom from, docs/manage.md how it is used.
package server
