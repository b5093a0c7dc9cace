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
// write (watch.go): 26 instructions a byte.
//
// Every descriptor is non-blocking, poll(2) is the only place that waits, and
// polling is level-triggered, so one read per event is enough. An echoed frame
// is poll, read, write, poll, read, send: 6.0 system calls, counted by strace
// over 2,000 frames, which is what a C loop needs (make bench-bridge). The steady state
// allocates nothing and reads the clock for one read in 17 (gauge.go).
//
// # Past the scheduler
//
// A thread that waits in a system call as Go has it loses its P to the monitor
// thread within a tick, and takes an idle one when it returns: locks, a wake of
// the monitor, thread switches. One that waits in RawSyscall keeps its P: no
// other goroutine runs on a CPU with one core, and every 10 ms a signal ends the
// wait. Both were measured here and are too dear for what a frame is.
//
// So the state in which only plain bytes pass (steady.go) is one system call as
// the scheduler sees it, from entersyscall to exitsyscall, with many inside:
// poll, read, write, poll again. The P is free for whoever wants it, and a
// frame costs no instruction of the runtime. It ends with everything that is
// not a plain byte: another descriptor (a post is one), an error, an end, bytes
// that the other side does not take, a tap. Frames are counted and reads are
// timed within it, for each end costs a wake of the monitor thread, and some
// thread switches until that sleeps again. Code in
// between may not grow the stack, allocate, write a pointer or panic: it is
// marked nosplit, and the linker refuses what is too deep (so a build of all
// packages with -N -l does not link).
//
// Instructions per echoed frame of 8 / 24 / 128 bytes on the emulated board beside
// a C loop's: 1.15 / 1.15 / 1.19 when it ended for one read in 17, 1.15 / 1.07 /
// 1.02 so (make bench-bridge).
//
// # Extending it
//
// newcomer.next is the whole policy of who gets in, without a clock or a
// socket of its own. sniff judges first bytes by peeking, so a connection can
// be handed to another process with all of them. Options.Open is all that
// the loop knows of a UART.
package bridge
