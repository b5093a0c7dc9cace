package pid1

import (
	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
)

// Boot modes, as `gwctl status` shows them.
const (
	modeNormal  = "normal"
	modeSafe    = api.BootSafe
	modeFactory = "factory" // the copy in the rootfs, never an update
)

// modeFlash is none of a boot: a restart that replaces the root file system first.
const modeFlash = "flash"

// modeByParameter says which boot the kernel's parameters gw.safe and
// gw.factory ask for.
func modeByParameter(root string) string {
	for _, mode := range []string{modeSafe, modeFactory} {
		if v := rtl8196e.KernelParameter(root, "gw."+mode); v != "" && v != "0" {
			return mode
		}
	}
	return modeNormal
}
