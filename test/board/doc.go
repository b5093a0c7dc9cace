// Package board is the emulated gateway: QEMU's malta, big-endian, with the
// gateway's memory, flash partitions, console, radio UART and Ethernet.
//
// Start boots one; tests type on its Console, connect to its ports, take its
// power or cable away and boot it again on the same flash. Several machines
// run side by side. README.md says how the board is made and where it differs
// from a real one.
//
// The package knows nothing of the firmware it boots and nothing of the radio:
// a radio simulator connects to RadioPath.
package board
