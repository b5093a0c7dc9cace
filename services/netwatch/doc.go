// Package netwatch judges whether the box is reachable, and does something about
// it when it is not: it asks the DHCP server again, sets the link down and up,
// binds the driver anew, and reboots, each later than the one before and each
// within a budget (INV 8).
//
// What is judged is whether anybody answers: echo (ICMP, ICMPv6) or ARP and ND,
// of the default gateway or of the targets that netwatch.conf names. One that
// answers is enough, and so is a radio client whose bytes move. A cable that is
// not there is no failure.
//
// The decision (machine) and the account of what was done (ledger) know neither
// clock nor sockets: they take the time since the start of the box, which no
// clock step changes (INV 13). The Service asks, acts and tells.
package netwatch
