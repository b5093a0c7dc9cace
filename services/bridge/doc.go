//go:build linux

// Package bridge carries bytes between the radio's UART and one TCP client,
// and decides who that client is.
//
// UART -> rx queue -> client, client -> tx queue -> UART. Of the radios'
// protocols it knows how they begin, it answers no SSH (a connection that
// begins so is handed over), and touches no radio pin. Package tty has the serial port, radiolock its
// ownership, kernelbridge the driver that may hold both port and UART.
//
// # One thread, one poll
//
// Run's goroutine is locked to its thread and owns everything: listening
// socket, UART, client, newcomers, ended connections, queues, counters. So a
// takeover needs no arbitration and nothing is guarded by a lock. Opening and
// closing the UART can block and is done by one other goroutine, which hands
// the open port over. Other goroutines ask for things by posting a function
// and a byte in a pipe (Status does): the data path pays nothing for being
// observed, but for the counting of frames behind the
// write (watch.go): 32 instructions a byte.
//
// Every descriptor is non-blocking, poll(2) is the only place that waits, and
// polling is level-triggered, so one read per event is enough. An echoed frame
// is poll, read, write, poll, read, send: 6.0 system calls, counted by strace
// over 2,000 frames, which is what a C loop needs. The steady state
// allocates nothing and reads the clock for one read in 17 (gauge.go).
//
// # Past entersyscall, or not
//
// Calls that cannot block go through RawSyscall: entersyscall is two
// compare-and-swaps, and a wake of the runtime's monitor thread when that
// sleeps. Poll is another matter:
//
//   - A thread in RawSyscall keeps its P. On one core no other goroutine runs
//     meanwhile (an answer to Status is up to 8 ms late while a streak lasts),
//     and a stop of the world waits for it; after 10 ms the monitor
//     sends SIGURG, poll ends with EINTR, and the next function call yields. So
//     it is not for ever, but a wait for hours would be a signal every 10 ms.
//   - A thread in Syscall loses its P to the monitor within 20-40 us, takes an
//     idle one when it returns, and wakes the monitor then.
//   - During a raw wait the monitor does not sleep: it looks every 20 us, 50
//     times, before it slows down.
//
// Context switches of all threads per echoed 8-byte frame, GOMAXPROCS=1 on a
// pinned amd64 core, Go 1.26 (2 is the least, one for each wait):
//
//	                           back to back   every 5 ms   every 20 ms
//	always Syscall                 4.7           9.0          10.9
//	always RawSyscall for 8 ms     2.1           3.6          55
//	this package                   2.2           4.9          10.6
//
// So waits go past entersyscall only within a streak of events that come close
// upon each other (rawStreak), and for 8 ms at a time (rawWindow). The times
// of the monitor are the runtime's; a toolchain that calms it makes the
// streak unnecessary.
//
// # Extending it
//
// newcomer.next is the whole policy of who gets in, without a clock or a
// socket of its own. sniff judges first bytes by peeking, so a connection can
// be handed to another process with all of them. Options.Open is all that
// the loop knows of a UART.
package bridge
