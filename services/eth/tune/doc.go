// Package tune sets what the kernel lets be set of an Ethernet driver and of the
// queue in front of it: interrupt coalescing, byte queue limits, the RTL8196E
// driver's own parameters, checksum offloads and TCP's settings, by profiles
// that are one table (profiles.go), and fq_codel as the root queueing discipline.
//
// It looks at the link itself and knows nothing of addresses. Everything is set
// when the link comes up and again after the driver has reset the switch. What
// the kernel has not got or refuses is told and never fatal (INV 11). What a
// knob held before is kept in /run, and put back when no profile wants the knob
// any more; a queueing discipline that somebody else has set is left alone.
package tune
