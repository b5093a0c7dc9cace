// Package emu interprets the user mode of an RLX4181 and the part of Linux
// that Go programs need, so that what was built for that core can be run and
// counted on a development machine.
//
// The core is a big-endian MIPS-I with LL/SC, MOVZ/MOVN and LWL/LWR/SWL/SWR and
// without a load interlock: the instruction after a load sees the register's
// old value. Ordinary emulators model a later MIPS and hide exactly that. This
// one shows it, reports it, or stops at it (see [Mode]), and it runs a program
// the same way each time: scheduler, clock and random bytes follow from
// [Config.Seed] and the instructions executed.
//
// It is for tests. It does not model caches, the TLB, the cost of memory or of
// traps, the kernel's own instructions, MIPS16, or cycle counts. A guest is one
// process: it can start programs, each in an interpreter of its own, but a plain
// fork fails. And it is no sandbox: file and socket calls, and programs that it
// starts, reach the host as the calling user.
package emu
