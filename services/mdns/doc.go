// Package mdns announces the gateway on its network and answers who looks for
// it, by multicast DNS (RFC 6762) and DNS-SD (RFC 6763): its host name, SSH in
// every mode, and the Zigbee coordinator while the bridge serves one.
//
// It holds up nothing and needs nothing (INV 1, 10): without a link it waits for
// one, without IPv6 it does with IPv4 and the other way round. It learns about
// links and addresses from the kernel and about the radio from radio.conf, and
// knows no other service. It browses for nothing and keeps no cache: whom it
// hears it only compares with its own records.
//
// # What is where
//
// zone.go makes the records once, whenever what they say has changed.
// responder.go is the protocol, with clock, chance and network as arguments.
// socket.go and mdns.go are the sockets and the process's side.
//
// Nothing runs between queries: the timer is armed only while something is due.
//
// # Kernels without IGMP
//
// Linux without CONFIG_IP_MULTICAST joins groups as any other and sets the
// card's filter (net/ipv4/igmp.c); it only sends no membership reports, which
// 224.0.0.x does not need: switches forward it everywhere (RFC 4541 section
// 2.1.2). Should a join fail nevertheless, queries of that family arrive by
// unicast only, and the log says so. Taking all multicast off the wire would not
// help: the kernel drops what no socket has joined.
package mdns
