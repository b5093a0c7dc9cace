// Package dhcp is a DHCPv4 client for one interface: the states of RFC 2131
// and nothing else.
//
// It decides when to ask whom for what, and tells a [Handler] about leases.
// It sets no address and no route and knows no configuration file; the
// messages are encoded and decoded by github.com/insomniacslk/dhcp/dhcpv4.
//
// # States
//
// INIT asks everybody (DISCOVER), REQUESTING one server; BOUND is silent until
// T1, RENEWING asks the lease's server by unicast until T2, REBINDING asks
// everybody until the lease ends. A link that comes back, and a process that
// starts with the lease of the one before, go through REBOOTING: "may I keep
// this address here?", answered within [rebootWait] or followed by INIT, while
// the address stays in use until its lease ends (RFC 2131 section 3.2).
//
// An address that was granted is used once nobody else answers for it
// (CHECKING); else it is declined, and INIT comes after [declinePause].
//
// The client asks for ever, with a delay that doubles up to [askMax].
//
// # Several servers
//
// The one that granted the last lease is preferred for [strangerWait]: another
// one's offer, grant or refusal waits so long. While one server is asked, no other
// one grants or refuses anything.
//
// # What every message has in common
//
// Client identifier (01 and the MAC, what udhcpc sent, so that a server which
// knew the box gives it the same address), host name, parameter list and
// maximum message size are identical in every message: servers and their
// reservations match on them. A DECLINE has the identifier only (RFC 2131 table
// 5 forbids the rest).
//
// # Sockets
//
// Without an address messages travel over a packet socket, with one over UDP,
// and while a lease needs no attention no socket is open at all.
package dhcp
