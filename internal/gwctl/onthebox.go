package gwctl

import (
	"slices"
	"strings"
)

// OnTheBox are the commands that only a gateway's own gwctl has, since they work
// on its files: without what carries them out. A workstation has them run there,
// and lists them.
func OnTheBox() []Local {
	return []Local{
		{Name: "config", Args: "VERB ...", Summary: "settings: list, get, set, unset, check, export, import"},
		{Name: "doctor", Summary: "what is wrong with this gateway, and what to do"},
		{Name: "backup", Args: "[FILE]", Summary: "settings, keys, passwords and the Thread network, in an archive"},
		{Name: "restore", Args: "[-n] [-mac] FILE", Summary: "take all of that from a backup"},
		{Name: "report", Args: "[FILE]", Summary: "all that helps to find a fault, without secrets, in an archive"},
		{Name: "events", Args: "[-a] [TYPE ...]", Summary: "what happens, as it happens, in JSON for scripts"},
		{Name: "wg", Args: "VERB", Summary: "the WireGuard tunnel: show, up, down, genkey, pubkey"},
		{Name: "thread", Args: "[VERB]", Summary: "the Thread border router: its network, devices; backup, restore, join"},
		{Name: "radio probe", Summary: "what answers on the radio, and how"},
		{Name: "radio reset", Summary: "restart the radio"},
		{Name: "radio bootloader", Summary: "bring the radio into its bootloader"},
		{Name: "radio recover", Summary: "reset the radio until it answers"},
		{Name: "radio flash", Args: "[OPTIONS] FILE", Summary: "install firmware on the radio, from a .gbl image"},
		{Name: "radio passthrough", Args: "[OPTIONS]", Summary: "port 8888 at another rate for a time, for flashers elsewhere"},
		{Name: "factory-reset", Args: "[-y]", Summary: "take all settings and keys away, and restart"},
	}
}

// OnlyBoxed tells whether args are a command that only a gateway's own gwctl has:
// one of OnTheBox, or one that gwctl does not have anywhere.
func OnlyBoxed(args []string) bool {
	for i, a := range args {
		if a == "-socket" || a == "--socket" {
			return OnlyBoxed(args[min(len(args), i+2):])
		}
		if !strings.HasPrefix(a, "-") {
			args = args[i:]
			break
		}
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return false
	}
	return !Has(args[0]) || slices.ContainsFunc(OnTheBox(), func(l Local) bool {
		_, ok := l.of(args)
		return ok
	})
}

// Boxed is the one of OnTheBox with that name, for its carrying out to be added.
func Boxed(name string) Local {
	for _, l := range OnTheBox() {
		if l.Name == name {
			return l
		}
	}
	panic("gwctl: no such command on the box: " + name)
}

// Synopsis is how the command is called.
func (l Local) Synopsis() string { return strings.TrimSpace(l.Name + " " + l.Args) }
