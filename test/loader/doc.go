// Package loader emulates the bootloader of a RTL8196E gateway on a network: what
// answers when a gateway waits for an image. It is for tests only, Linux only, and
// needs root: it speaks Ethernet on a tap device, with no kernel's TCP/IP between.
//
// It is written from a description of the loader V3.1 and V3.2, not from its code,
// and shares none with internal/mtdimage, which is tested against it:
//
//   - ARP and ICMP echo for its address (192.168.1.6, or the one that boothold
//     left), whose bytes are bytes 1 to 4 of its MAC; none of it while it writes.
//   - TFTP on port 69 without options, blocks of 512 bytes, one transfer at a
//     time, bound to the client's MAC, address and port; its own port is 2098 for
//     the first transfer since the start and one more for each.
//   - A write request is answered again while block 1 is awaited; another one takes
//     over after 20 s of silence (V3.2: 15 s).
//   - An upload goes to RAM; what does not fit is refused with an error packet. Then,
//     with autoburn, it is checked, written, compared, told in a datagram from port
//     9999 to port 9999 ("OK" or "FAIL", a zero byte), and after OK the board resets.
//   - A download returns what is in that RAM, or nothing at all.
//   - What cannot be known from the description: it ignores error packets, and
//     stays after FAIL.
package loader
