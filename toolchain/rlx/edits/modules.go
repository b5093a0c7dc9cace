package edits

// Module is a module that is edited beside Go itself. The files of its edits
// are below its folder.
type Module struct {
	Path     string
	Subjects []Subject
}

// Modules are all of them.
func Modules() []Module {
	return []Module{
		{"golang.org/x/crypto", []Subject{{Name: "an SSH server's part", Edits: sshEdits}, {Name: "bounds of an SSH session", Edits: sshBounds}}},
		{"golang.zx2c4.com/wireguard", []Subject{{Name: "bounds of a tunnel", Edits: wireguardEdits}}},
	}
}

// SelectModules is Select for the subjects of the modules.
func SelectModules(without []string) []Module {
	all := Modules()
	for i := range all {
		all[i].Subjects, _ = selectFrom(all[i].Subjects, 0, without)
	}
	return all
}
