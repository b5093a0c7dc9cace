// Package rootfsflash replaces the root file system of a gateway while it runs: the
// last resort, where the bootloader cannot be reached and an update does not do
// (docs/recover.md).
//
// Everything that runs comes from that file system, and a page of it that is
// missed once it is erased ends the process. So Stage checks the image and puts it
// into memory; PID 1 ends everything else as for a restart; Exec copies the
// program and the image to a file system in memory and becomes that copy; and Main
// is what it does: every file is open and every page there before the first block
// is erased. While it goes on, the bootloader is told to wait at its next start:
// whatever ends it but a power cut leaves a gateway that takes an image.
package rootfsflash
