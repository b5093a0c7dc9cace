// Package threaddata keeps what a Thread node must not forget: the files in
// which OpenThread's POSIX port has its settings (network key, dataset, frame
// counters, children). otbr-agent works on files in memory; this package saves
// them to flash and gives them back.
//
// # Frame counters
//
// A node whose frame counter goes back is not heard by its neighbours until
// the counter has caught up. OpenThread stores a counter ahead of the one that
// it uses, and stores the next one before it gets there. A copy in flash is
// older, so its counters are advanced by Margin when it is written, and it is
// written again when half of that is used up (Compare). A restart from it
// skips numbers and repeats none.
//
// # What is in flash
//
// The files stand in the folder as the agent has them, where the firmware of
// before looks for them. Beside them are two generations of the whole set, each
// one file with a checksum, written in turn and before the single files: a set
// that a power cut tore is never used (INV 6).
//
// # What is newer
//
// The files in memory are newer than those in flash as long as they are whole.
// Single files in flash that are neither of the two generations were written by
// somebody else, a restored backup or the firmware of before, and win; if they
// are of the same network, their counters are lifted to those that were in use
// (Load).
package threaddata
