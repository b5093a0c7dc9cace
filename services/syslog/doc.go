// Package syslog sends the gateway's log to a server, where SYSLOG in
// gateway.conf names one (docs/metrics.md): RFC 5424 in datagrams (RFC 5426) or
// over TCP with counted octets (RFC 6587).
//
// It follows the log as `gwctl logs -f` does, and keeps nothing but its place
// in it: while the server is away, or slow, nobody waits for it, lines stay in the log's
// ring, and those that the ring loses meanwhile are counted in the stream. It
// encrypts nothing, and cannot know that a server keeps what it took.
package syslog
