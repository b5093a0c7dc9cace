package board

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gwinit/internal/mtdimage"
)

// The emulated flash. The first part is malta's NOR chip, which cannot be made
// larger; jffs2-fs is RAM above the memory that the kernel is given, kept in
// the file that backs the machine's RAM.
const (
	norSize      = 4 << 20
	rootfsOffset = 0x200000 // in the NOR, and on the gateway
	userdataSize = mtdimage.UserdataSize
	// flashRAM is how much RAM QEMU has beyond the gateway's. Malta takes
	// sizes that DIMMs have; 12 MiB alone is none.
	flashRAM = 16 << 20

	norFile = "nor.img"
	ramFile = "ram.img" // RAM, then jffs2-fs
)

// bootWord is how the loader in boot+cfg starts.
var bootWord = []byte{0x0b, 0xf0, 0x00, 0x04}

// writeFlash makes the two flash files of cfg in its Dir. What cfg.Keep keeps
// of an earlier run is left alone.
func writeFlash(cfg Config) error {
	nor := filepath.Join(cfg.Dir, norFile)
	if cfg.Flash != nil {
		if len(cfg.Flash) != mtdimage.FlashSize {
			return fmt.Errorf("%d bytes, a gateway has %d", len(cfg.Flash), mtdimage.FlashSize)
		}
		if err := os.WriteFile(nor, cfg.Flash[:norSize], 0o644); err != nil {
			return err
		}
		return writeRAM(cfg, cfg.Flash[norSize:])
	}
	if _, err := os.Stat(nor); err != nil || !cfg.Keep || cfg.Rootfs != "" {
		rootfs, err := payload(cfg.Rootfs, norSize-rootfsOffset)
		if err != nil {
			return fmt.Errorf("rootfs: %w", err)
		}
		b := erased(norSize)
		copy(b, bootWord)
		copy(b[rootfsOffset:], rootfs)
		if err := os.WriteFile(nor, b, 0o644); err != nil {
			return err
		}
	}

	if st, err := os.Stat(filepath.Join(cfg.Dir, ramFile)); err == nil && cfg.Keep && st.Size() == ramBytes(cfg) {
		return nil
	}
	userdata, err := payload(cfg.Userdata, userdataSize)
	if err != nil {
		return fmt.Errorf("userdata: %w", err)
	}
	b := erased(userdataSize)
	copy(b, userdata)
	return writeRAM(cfg, b)
}

// ramBytes is the size of the file of RAM and jffs2-fs.
func ramBytes(cfg Config) int64 { return int64(cfg.RAMMiB)<<20 + flashRAM }

// writeRAM makes that file with b in jffs2-fs.
func writeRAM(cfg Config, b []byte) error {
	f, err := os.OpenFile(filepath.Join(cfg.Dir, ramFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(ramBytes(cfg)); err != nil {
		return err
	}
	if _, err := f.WriteAt(b, int64(cfg.RAMMiB)<<20); err != nil {
		return err
	}
	return f.Close()
}

// payload reads an image as the loader writes it: without its header, where it
// has one. No path is no bytes.
func payload(path string, room int) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if _, flash, err := mtdimage.Parse(b); err == nil {
		b = flash
	}
	if len(b) > room {
		return nil, fmt.Errorf("%s: %d bytes, %d more than the partition has", path, len(b), len(b)-room)
	}
	return b, nil
}

func erased(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xff
	}
	return b
}

// loseRAM does to the RAM file what a power cut does to DRAM; the flash behind
// it stays.
func loseRAM(dir string, ramMiB int) error {
	f, err := os.OpenFile(filepath.Join(dir, ramFile), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	zero := make([]byte, 1<<20)
	for i := range ramMiB {
		if _, err := f.WriteAt(zero, int64(i)<<20); err != nil {
			return err
		}
	}
	return f.Close()
}

// readFlash copies jffs2-fs out of the RAM file.
func readFlash(dir string, ramMiB int, w io.Writer) error {
	f, err := os.Open(filepath.Join(dir, ramFile))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, io.NewSectionReader(f, int64(ramMiB)<<20, userdataSize))
	return err
}

// readNOR returns what the NOR chip holds.
func readNOR(dir string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, norFile)) }

// readRAM copies what is at an address of RAM to b.
func readRAM(dir string, addr int64, b []byte) error {
	f, err := os.Open(filepath.Join(dir, ramFile))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(b, addr)
	return err
}
