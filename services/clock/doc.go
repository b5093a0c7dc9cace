// Package clock keeps the box's wall clock by the network's time servers: an
// SNTP client (RFC 4330, RFC 5905 where it matters) that asks up to four of
// them at once, believes their majority, steps the clock at first and has the
// kernel slew it from then on.
//
// It also looks after what a clean end leaves for the next boot: the saved time
// and the random seed. Everything that it waits for is counted on the monotonic
// clock (INV 13), and it never gives up: without a network, a server or
// /userdata it goes on trying (INV 10).
//
// It serves nobody the time, and knows nothing of leap seconds: one shows as an
// error of 1 s and is stepped away at the next answer. It is written out because
// the library for it (github.com/beevik/ntp) takes crypto/* along, for a kind of
// authentication that public servers do not offer: 73 KiB of flash.
package clock
