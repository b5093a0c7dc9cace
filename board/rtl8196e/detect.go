package rtl8196e

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Where Detect looks, below root.
const (
	modelPath      = "proc/device-tree/model"
	compatiblePath = "proc/device-tree/compatible"
	cmdlinePath    = "proc/cmdline"
)

// malta is the machine's entry in the root node's compatible list.
const malta = "mti,malta"

// Detect tells which board this is from the device tree below root ("" or "/"
// on the box), and never fails: a board that nobody knows gets the Lidl's data
// and the ID Unknown. On the emulated board the kernel parameter gw.board=ID
// chooses whose data is used; Emulated stays true. It reads two or three small
// files of proc.
func Detect(root string) Board {
	model := strings.TrimRight(string(readSome(root, modelPath)), "\x00\n ")
	if compatible(root, malta) {
		b := emulated()
		if other, ok := ByID(KernelParameter(root, "gw.board")); ok && other.ID != Emulated {
			b = onMalta(other)
		}
		if model != "" {
			b.Model = model
		}
		return b
	}
	for _, b := range []Board{lidl(), sengled()} {
		if strings.Contains(model, b.modelPart) {
			b.Model = model
			return b
		}
	}
	b := lidl()
	b.ID, b.Model, b.Vendor, b.Product = Unknown, model, "", ""
	return b
}

// compatible tells whether the root node's compatible list has name.
func compatible(root, name string) bool {
	for entry := range bytes.SplitSeq(readSome(root, compatiblePath), []byte{0}) {
		if string(entry) == name {
			return true
		}
	}
	return false
}

// KernelParameter returns the value of the last key=value on the kernel's
// command line below root, "1" for a bare key, "" when there is none. Our keys
// (gw.*) are for the emulated board: the real boards' command line is in their
// device tree.
func KernelParameter(root, key string) (value string) {
	for field := range strings.FieldsSeq(string(readSome(root, cmdlinePath))) {
		if v, ok := strings.CutPrefix(field, key+"="); ok {
			value = v
		} else if field == key {
			value = "1"
		}
	}
	return value
}

// readSome reads up to 4 KiB, more than any of these files holds, and nil when
// there is no such file.
func readSome(root, name string) []byte {
	f, err := os.Open(filepath.Join("/", root, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return nil
	}
	return b
}
