package pid1

import "strings"

// Boot modes, as `gwctl status` shows them.
const (
	modeNormal  = "normal"
	modeSafe    = "safe"    // console, network and ssh only
	modeFactory = "factory" // the copy in the rootfs, never an update
)

// kernelParams are the gw.* parameters of the kernel command line: "gw.safe=1"
// becomes params["safe"] == "1", a bare "gw.safe" counts as "1". The last one
// wins. They are honoured on the emulated board only: the real boards' command
// line is in their device tree.
func kernelParams(cmdline string) map[string]string {
	params := map[string]string{}
	for _, f := range strings.Fields(cmdline) {
		kv, ok := strings.CutPrefix(f, "gw.")
		if !ok {
			continue
		}
		k, v, found := strings.Cut(kv, "=")
		if !found {
			v = "1"
		}
		params[k] = v
	}
	return params
}

// modeOf says which boot the parameters ask for.
func modeOf(params map[string]string) string {
	on := func(k string) bool { v := params[k]; return v != "" && v != "0" }
	switch {
	case on(modeSafe):
		return modeSafe
	case on(modeFactory):
		return modeFactory
	}
	return modeNormal
}
