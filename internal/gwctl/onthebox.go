package gwctl

import "strings"

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
		{Name: "factory-reset", Args: "[-y]", Summary: "take all settings and keys away, and restart"},
	}
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
